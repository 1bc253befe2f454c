# SPDX-License-Identifier: GPL-2.0-or-later
"""Render compared rates as cells, tables, maps and histograms."""
