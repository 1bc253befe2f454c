# SPDX-License-Identifier: GPL-2.0-or-later
"""Render blocks as one self-contained HTML page."""
