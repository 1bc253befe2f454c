# SPDX-License-Identifier: GPL-2.0-or-later
"""Cache-line layouts, as blocks."""
