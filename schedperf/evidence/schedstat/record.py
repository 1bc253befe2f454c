# SPDX-License-Identifier: GPL-2.0-or-later
"""Record of the section ``schedstat``: what the scheduler counted during the runs."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from schedperf.model.comparison import SectionData
from schedperf.model.counted import CpuRow, RateRow

# What the CPUs that balance are; "" of what has no idle type.
Idle = Literal["", "busy", "idle", "newidle"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedstatSide:
    """The runs of one side whose counts are known."""

    side: str
    runs: int
    versions: Annotated[tuple[int, ...], "of /proc/schedstat"]
    seconds: Annotated[float | None, "between the snapshots, over all runs"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LevelRow:
    """One level of the scheduling domains of a side, that with the fewest CPUs first."""

    side: str
    level: str
    cpus: Annotated[int | None, "of its largest domain; null: the captures do not say"]
    domains: int | None
    flags: Annotated[tuple[str, ...] | None, "of the kernel; null: not captured"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedstatRow(RateRow):
    """The rate of one count, or a share of counts, of all CPUs or of a level of the domains."""

    level: Annotated[str, "of the scheduling domains; empty: the CPU itself"]
    idle: Idle
    field: Annotated[str, "the kernel's name of the counter, or a share of counters"]
    meaning: str
    function: Annotated[str, "of the kernel that counts it"]
    total_base: Annotated[float | None, "counts in a run, over all CPUs; times in ns"]
    total_new: float | None

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """The counter at the workload and point, its level and idle type."""
        return self.side, self.workload, self.point, self.level, self.idle, self.field


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadingRow:
    """What a rule says of a row that changed."""

    rule: Annotated[str, "a key of schedperf/evidence/schedstat/rules.toml"]
    row: str
    side: str
    workload: str
    point: str
    level: str
    text: str
    meaning: str
    look_at: Annotated[str, "functions of the kernel"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedstatRefusal:
    """Counts of one side that have no counterpart, and why."""

    side: str
    what: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedstat(SectionData):
    """Wakeups, switches and waits of the CPUs, and what the balancer did at each level."""

    section: ClassVar[str] = "schedstat"
    version: ClassVar[int] = 2

    sides: tuple[SchedstatSide, ...]
    levels: tuple[LevelRow, ...]
    rows: tuple[SchedstatRow, ...]
    zeros: Annotated[tuple[str, ...], "what was 0 in all runs, and has no row"]
    readings: Annotated[tuple[ReadingRow, ...], "in falling order of change"]
    not_compared: tuple[SchedstatRefusal, ...]
    cpus: Annotated[tuple[CpuRow, ...], "what each CPU counted"]
    notes: tuple[str, ...]
