# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare sides: bundles or tables become one record, with its reasons and next steps."""
