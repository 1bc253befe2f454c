# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the time went: places of samples, their shares and costs, stacks, and what changed.

Pure functions on what :mod:`schedperf.perf_data` read.
"""
