# SPDX-License-Identifier: GPL-2.0-or-later
"""Statistics of counted evidence: rates, histograms, and values per CPU and node."""
