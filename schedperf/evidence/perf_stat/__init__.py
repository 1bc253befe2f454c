# SPDX-License-Identifier: GPL-2.0-or-later
"""Counters of ``perf stat``, new vs base."""
