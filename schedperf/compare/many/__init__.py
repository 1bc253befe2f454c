# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare many pairs of bundles, which a table lists."""
