# SPDX-License-Identifier: GPL-2.0-or-later
"""Record of the section ``system_counters``: what the system counted around the runs."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from schedperf.model.comparison import SectionData
from schedperf.model.counted import CpuRow, RateRow

# In the order in which a reader wants them.
Group = Literal[
    "cgroup",
    "power",
    "frequency",
    "pressure",
    "idle",
    "cpu",
    "softirqs",
    "interrupts",
    "tasks",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemSide:
    """The runs of one side that have system counters."""

    side: str
    runs: int
    kind: Literal["clean", "instrumented"]
    seconds: Annotated[float | None, "between the looks, over all runs"]
    task_runs: Annotated[int, "in which the workload's tasks were looked at"]
    cpus: Annotated[int, "of the first boot; 0: unknown"]
    accounted: Annotated[
        float | None,
        "share of the wall time of the CPUs that /proc/stat has, of all kinds together; the mean "
        "over runs, null: unknown",
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemRow(RateRow):
    """The rate, share or mean of one counter, of the machine or of one NUMA node."""

    group: Group
    subject: Annotated[str, "what counted: a CPU's idle state, an interrupt, a cgroup"]
    field: str
    node: Annotated[int | None, "null: all nodes together"]
    meaning: str
    function: Annotated[str, "of the kernel that counts it; empty: hardware's"]
    total_base: Annotated[float | None, "counted in a run; null of levels and shares"]
    total_new: float | None
    q: Annotated[
        float | None,
        "p, corrected for all rows of the same basis; those of interrupts and softirqs, and those "
        "of group cpu, apart from all others",
    ]
    changed: Annotated[
        bool | None,
        "is the change significant and beyond the margin, of 1% of the time or 100 events a run "
        "at least? null: unknown",
    ]

    @property
    def statistic(self) -> str:
        """The field."""
        return self.field

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """The counter at the workload and point, and its node."""
        counter = self.group, self.subject, self.field, self.node
        return self.side, self.workload, self.point, *counter


@dataclass(frozen=True, kw_only=True, slots=True)
class SettingRow:
    """A setting of the scheduler's debugfs that differs."""

    side: str
    name: str
    base: Annotated[str | None, "null: no such setting"]
    new: Annotated[str | None, "null: no such setting"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemMissing:
    """What was not captured on a side, and why."""

    side: str
    what: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemRefusal:
    """Counters of one side that have no counterpart, and why."""

    side: str
    group: Group
    what: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemCounters(SectionData):
    """Idle states, power, interrupts, throttling and tasks during the runs."""

    section: ClassVar[str] = "system_counters"
    version: ClassVar[int] = 1

    sides: tuple[SystemSide, ...]
    rows: tuple[SystemRow, ...]
    zeros: Annotated[tuple[str, ...], "what was 0 in all runs, and has no row"]
    cpus: Annotated[tuple[CpuRow, ...], "what each CPU counted"]
    settings: Annotated[tuple[SettingRow, ...], "of the scheduler's debugfs: those that differ"]
    missing: tuple[SystemMissing, ...]
    not_compared: tuple[SystemRefusal, ...]
    notes: tuple[str, ...]
