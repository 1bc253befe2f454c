# SPDX-License-Identifier: GPL-2.0-or-later
"""Blocks as one self-contained HTML page."""
