# SPDX-License-Identifier: GPL-2.0-or-later
"""Render cache-line layouts as blocks."""
