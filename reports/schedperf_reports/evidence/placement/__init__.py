# SPDX-License-Identifier: GPL-2.0-or-later
"""Task placement and how long tasks waited, as blocks."""
