# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare counters of ``perf stat``."""
