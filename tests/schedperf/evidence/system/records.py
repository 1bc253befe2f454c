# SPDX-License-Identifier: GPL-2.0-or-later
"""Records of the section ``system_counters`` as tests need them."""

from typing import Any

from msgspec.structs import replace

from schedperf.evidence.system.record import SystemCounters, SystemRow, SystemSide

_THROTTLED = SystemRow(
    row="new-0", side="new", workload="hackbench", point="", group="cgroup", subject="/2cg/a",
    field="throttled_share", node=None, basis="share", unit="", function="sched_cfs_period_timer()",
    meaning="share of quota periods in which the cgroup was throttled", total_base=None,
    total_new=None, n_base=5, n_new=4, replication="runs", base=0.41, new=0.84, ratio=0.84 / 0.41,
    ci_low=1.9, ci_high=2.2, p=1e-6, q=1e-5, changed=True, values_base=(), values_new=(),
)  # fmt: skip
_BASE = SystemSide(
    side="base", runs=5, kind="clean", seconds=9.0, task_runs=0, cpus=4, accounted=1.02
)


def system_row(**changes: Any) -> SystemRow:
    """Return the row of a cgroup that is throttled twice as often."""
    return replace(_THROTTLED, **changes)


def system_side(**changes: Any) -> SystemSide:
    """Return a side of five clean runs."""
    return replace(_BASE, **changes)


def system_counters_of(*rows: SystemRow, **changes: Any) -> SystemCounters:
    """Return what the section says of these rows, and nothing else."""
    data = SystemCounters(
        sides=(system_side(), system_side(side="new", runs=1, task_runs=2)), rows=rows, zeros=(),
        cpus=(), settings=(), missing=(), not_compared=(), notes=(),
    )  # fmt: skip
    return replace(data, **changes)
