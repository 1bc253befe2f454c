# SPDX-License-Identifier: GPL-2.0-or-later
"""Compared rates as cells, tables, maps and histograms."""
