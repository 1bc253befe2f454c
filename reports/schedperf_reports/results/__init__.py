# SPDX-License-Identifier: GPL-2.0-or-later
"""Render benchmark results: tables, charts, and the sections that show them."""
