# SPDX-License-Identifier: GPL-2.0-or-later
"""Benchmark results: their tables, figures and the sections that show them."""
