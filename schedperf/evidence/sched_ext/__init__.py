# SPDX-License-Identifier: GPL-2.0-or-later
"""Report which scheduler each run measured: one of sched_ext (in BPF), or the fair class."""
