# SPDX-License-Identifier: GPL-2.0-or-later
"""Report which quantities changed in a microbenchmark as in production."""
