# SPDX-License-Identifier: GPL-2.0-or-later
"""What the whole system counted around each run: idle states, power, interrupts, control groups.

Read ``capture`` (the folder of a run; ``proc_files``, ``sys_tables``, ``cgroup_cpu`` and
``task_sched`` parse its files, ``sums`` adds them up), ``measure``, ``compare`` and ``findings`` in
this order; the record that they fill is in ``record``.
"""
