# SPDX-License-Identifier: GPL-2.0-or-later
"""Records of the section ``schedstat`` as tests need them."""

from typing import Any

from msgspec.structs import replace

from schedperf.evidence.schedstat.record import (
    CoreTypeRow,
    LevelRow,
    ReadingRow,
    Schedstat,
    SchedstatRow,
    SchedstatSide,
)

_PULLS = SchedstatRow(
    row="new-0", side="new", workload="hackbench", point="groups=4", level="MC", idle="newidle",
    field="lb_gained", basis="operation", unit="1/message", meaning="tasks pulled",
    function="detach_tasks()", total_base=9000.0, total_new=810.0, n_base=5, n_new=5,
    split="",
    replication="runs", base=0.09, new=0.0081, ratio=0.09, ci_low=0.085, ci_high=0.095, p=1e-6,
    q=1e-5, changed=True, values_base=(), values_new=(),
)  # fmt: skip
_READING = ReadingRow(
    rule="newidle-pulls", row="new-0", side="new", workload="hackbench", point="groups=4",
    level="MC", text="newidle pulls at MC -91% per message",
    meaning="CPUs that run out of work take fewer tasks", look_at="sched_balance_newidle()",
)  # fmt: skip
_CORE_TYPE = CoreTypeRow(
    row="new-type-0", side="new", workload="hackbench", point="groups=4", basis="share",
    core_type="cpu_atom", field="rq_cpu_time", meaning="share of the run time of all tasks",
    unit="", n_base=5, n_new=5, replication="runs", base=0.25, new=0.75, ratio=3.0, ci_low=2.9,
    ci_high=3.1, p=1e-6, q=1e-5, changed=True, values_base=(), values_new=(),
)  # fmt: skip
_LEVEL = LevelRow(side="base", level="MC", cpus=2, domains=2, flags=("SD_SHARE_LLC", "X"))


def schedstat_row(**changes: Any) -> SchedstatRow:
    """Return the row of pulls that fell by 91%."""
    return replace(_PULLS, **changes)


def reading_row(**changes: Any) -> ReadingRow:
    """Return what a rule says of the row of the pulls."""
    return replace(_READING, **changes)


def core_type_row(**changes: Any) -> CoreTypeRow:
    """Return the share of run time on E-cores, which grew from 25% to 75%."""
    return replace(_CORE_TYPE, **changes)


def level_row(**changes: Any) -> LevelRow:
    """Return a level of two domains with two CPUs each."""
    return replace(_LEVEL, **changes)


def schedstat_of(*rows: SchedstatRow, **changes: Any) -> Schedstat:
    """Return what the section says of these rows, and nothing else."""
    sides = tuple(
        SchedstatSide(side=side, runs=5, versions=(15, 17), seconds=9.0) for side in ("base", "new")
    )
    data = Schedstat(
        sides=sides, levels=(), rows=rows, zeros=(), readings=(), not_compared=(), cpus=(),
        notes=(),
    )  # fmt: skip
    return replace(data, **changes)
