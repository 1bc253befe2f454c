# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare system-wide counters of runs: idle states, power, interrupts, cgroups.

Read ``capture`` (the directory of a run; ``proc_files``, ``sys_tables``, ``cgroup_cpu`` and
``task_sched`` parse its files, ``sums`` adds them up), ``measure``, ``compare`` and ``findings`` in
this order. ``record`` defines the record that they fill.
"""
