# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare comparisons: whether the same quantities changed in the same direction."""
