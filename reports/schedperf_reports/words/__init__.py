# SPDX-License-Identifier: GPL-2.0-or-later
"""Format numbers, units and rows as words, and sanitise untrusted text."""
