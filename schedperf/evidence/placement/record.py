# SPDX-License-Identifier: GPL-2.0-or-later
"""Record of the section ``placement``: where tasks went, how long they waited."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, get_args

from schedperf.model.comparison import SectionData
from schedperf.model.counted import BinsRow, Places, RateRow

Event = Literal["fork", "exec", "wakeup", "migration"]
Idle = Literal["idle", "busy", "newidle"]
# What one or more programs see together. "cause" is the migrations by what caused them, "pinned"
# the attempts to balance that met tasks that may not move, which can_migrate_task() tells.
Part = Literal[
    "fork", "exec", "wakeup", "migration", "cause", "latency", "depth",
    "destination", "source", "attempts", "pinned", "migratable", "group_imbalance", "timers",
]  # fmt: skip
EVENTS: tuple[Event, ...] = get_args(Event)
IDLE_TYPES: tuple[Idle, ...] = get_args(Idle)
PARTS: tuple[Part, ...] = get_args(Part)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacementSide:
    """The runs of one side, and how they were watched."""

    side: str
    runs: int
    mechanisms: Annotated[tuple[str, ...], "bpf, perf"]
    nodes: Annotated[int, "of the machine"]
    seconds: Annotated[float, "in which events were counted, over all runs"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacementRow(RateRow):
    """One number of a part, of the machine or of a level, a node or a cgroup."""

    name: Annotated[str, "of the number, in words"]
    part: Part
    field: str
    cause: Annotated[str, "of a migration, or of a search for a destination; empty: all"]
    level: Annotated[str, "of the scheduling domains; empty: all"]
    idle: Literal["", Idle]
    nodes: Annotated[tuple[int, ...], "the node, or from one node to another"]
    groups: Annotated[tuple[str, ...], "cgroups, of bandwidth timers"]
    meaning: str
    function: Annotated[str, "of the kernel that does it"]
    status: Annotated[Literal["ok", "invalid"], "invalid: shown, and not compared"]
    reason: Annotated[str | None, "why it is not compared"]
    events_base: Annotated[float | None, "behind the number, in a run; mean over runs"]
    events_new: float | None

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """What was counted, and where."""
        what = self.part, self.field, self.cause, self.level, self.idle, self.nodes, self.groups
        return self.side, self.workload, self.point, self.name, *what

    @property
    def statistic(self) -> str:
        """The quantile, or "max", of a wait; else what is counted of the part."""
        return self.field

    @property
    def why_invalid(self) -> str | None:
        """Why the two sides were not seen in the same way."""
        return self.reason


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacementProgram:
    """How a part was seen on one side, or why it was not."""

    side: str
    part: Part
    mechanism: Annotated[str | None, "null: not measured"]
    function: Annotated[str | None, "that could not be observed"]
    reason: Annotated[str | None, "why it was not measured"]


@dataclass(frozen=True, kw_only=True, slots=True)
class NotComparedPart:
    """A part that both sides saw and that must not be compared, and why."""

    side: str
    what: Part
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MeanRow:
    """The mean of one side over its runs, with an interval of its own."""

    side: str
    workload: str
    point: str
    replication: Annotated[Literal["runs", "boots"], "what n counts"]
    n: int
    ci_low: Annotated[float | None, "95% CI of the mean; null with one run"]
    ci_high: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesRow(MeanRow):
    """Moves from one node to another over the time of the runs."""

    event: Event
    mean: Annotated[float, "moves from one node to another, 1/s"]
    rates: Annotated[
        tuple[float, ...], "moves from one node to another, 1/s, in equal parts of the runs"
    ]
    rates_low: Annotated[tuple[float | None, ...], "95% CI of each part's mean"]
    rates_high: tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class DepthRow(MeanRow):
    """How often the workload's tasks ran in task groups of one depth."""

    depth: Annotated[int, "of the task group; 0 is the root group"]
    share: Annotated[float, "of the times a task of the workload got a CPU"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TimersRow:
    """When the bandwidth timers of two cgroups expire on one side."""

    side: str
    workload: str
    point: str
    groups: Annotated[tuple[str, str], "two cgroups"]
    period_s: float
    distance_s: Annotated[float, "between their expiries; mean over runs"]
    resolution_s: Annotated[float, "of the phases"]
    runs: int
    word: Annotated[Literal["together", "apart", "mixed"], "mixed: runs differ"]


@dataclass(frozen=True, kw_only=True, slots=True)
class MovesRow(Places):
    """How many tasks went from each node to each."""

    side: str
    workload: str
    point: str
    event: Event
    cause: Annotated[str, "of a migration; empty: all"]
    unit: str
    pairs: Annotated[tuple[tuple[int, int], ...], "from and to, the places"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PhasesRow(BinsRow):
    """When in its period the bandwidth timer of one cgroup expires."""

    group: Annotated[str, "cgroup, by path"]
    period_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement(SectionData):
    """Task placement, how long tasks waited, and results of the load balancer."""

    section: ClassVar[str] = "placement"
    version: ClassVar[int] = 1

    sides: tuple[PlacementSide, ...]
    rows: tuple[PlacementRow, ...]
    zeros: Annotated[tuple[str, ...], "what was 0 in all runs, and has no row"]
    programs: tuple[PlacementProgram, ...]
    not_compared: tuple[NotComparedPart, ...]
    series: tuple[SeriesRow, ...]
    depths: tuple[DepthRow, ...]
    timers: tuple[TimersRow, ...]
    moves: Annotated[tuple[MovesRow, ...], "moves from one node to another, by event and cause"]
    waits: Annotated[tuple[BinsRow, ...], "waits for a CPU in s, their shares side by side"]
    phases: Annotated[
        tuple[PhasesRow, ...],
        "expiries of bandwidth timers in parts of their period, from the mean of the first cgroup",
    ]
    notes: tuple[str, ...]
