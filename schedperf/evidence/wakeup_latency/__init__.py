# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare how long tasks wait from their wakeup until they run.

Histograms per command, CPU and NUMA node, from BPF, perf or the text of other tools: percentiles
with intervals over runs, and the distributions of both sides.
"""
