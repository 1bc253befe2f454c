# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare bundles or tables, and build the record with its findings and next steps."""
