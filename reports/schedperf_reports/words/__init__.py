# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers, units and rows in words, and untrusted text made safe to show."""
