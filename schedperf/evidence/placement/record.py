# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the record of section ``placement``: CPUs chosen for tasks, and waits for a CPU."""

from collections.abc import Hashable
from typing import Annotated, ClassVar, Literal, get_args

from msgspec import Struct

from schedperf.model.counted import BinsRow, Places, RateRow
from schedperf.model.sections import SectionData

Event = Literal["fork", "exec", "wakeup", "migration"]
Idle = Literal["idle", "busy", "newidle"]
# Events that one or more programs observe. "cause": migrations by cause; "pinned": load-balancing
# attempts that found pinned tasks, as can_migrate_task() reports.
Part = Literal[
    "fork", "exec", "wakeup", "migration", "cause", "latency", "depth",
    "destination", "source", "attempts", "pinned", "migratable", "group_imbalance", "timers",
]  # fmt: skip
EVENTS: tuple[Event, ...] = get_args(Event)
IDLE_TYPES: tuple[Idle, ...] = get_args(Idle)
PARTS: tuple[Part, ...] = get_args(Part)


class PlacementSide(Struct, frozen=True, kw_only=True):
    """Recorded runs of one side, and the mechanisms used."""

    side: str
    runs: int
    mechanisms: Annotated[tuple[str, ...], "capture mechanisms: `bpf` or `perf`"]
    nodes: Annotated[int, "number of NUMA nodes of the machine"]
    seconds: Annotated[float, "recording time in s, summed over all runs"]


class PlacementRow(RateRow, frozen=True, kw_only=True):
    """One rate, share, mean or quantile: of the machine, a domain level, a node or a cgroup."""

    name: Annotated[str, "description of the row, e.g. `wait on node 0: p99`"]
    part: Part
    field: str
    cause: Annotated[
        str, "cause of the migration or sched_group search; empty for the sum over causes"
    ]
    level: Annotated[str, "scheduling-domain level; empty for the sum over levels"]
    idle: Annotated[
        Literal["", Idle], "idle type of the balancing CPU; empty for the sum over idle types"
    ]
    nodes: Annotated[
        tuple[int, ...], "NUMA node, or source and destination node; empty for the whole machine"
    ]
    groups: Annotated[
        tuple[str, ...], "cgroups of the bandwidth timers; empty unless `part` is `timers`"
    ]
    types: Annotated[
        tuple[str, ...],
        "type of CPU core, or source and destination type; empty for the whole machine",
    ] = ()
    meaning: str
    function: Annotated[
        str, "kernel function that makes the counted decision, or tracepoints that delimit the wait"
    ]
    status: Annotated[Literal["ok", "invalid"], "invalid if base and new are not comparable"]
    reason: Annotated[str | None, "why the row is invalid; null if it is ok"]
    events_base: Annotated[
        float | None,
        "number of events per run that the value is computed from, mean over runs; null if not "
        "counted",
    ]
    events_new: float | None

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """Key of the row: side, workload, point, counter, level, nodes, groups or core types."""
        what = (
            self.part,
            self.field,
            self.cause,
            self.level,
            self.idle,
            self.nodes,
            self.groups,
            self.types,
        )
        return self.side, self.workload, self.point, self.name, *what

    @property
    def mechanism(self) -> str | None:
        """The name; None for single nodes, cgroups and types of core."""
        return None if self.nodes or self.groups or self.types else self.name

    @property
    def statistic(self) -> str:
        """For waits "mean", "max" or the quantile, e.g. "p99"; for other parts the field."""
        return self.field

    @property
    def why_invalid(self) -> str | None:
        """Why the two sides are not comparable; None if they are."""
        return self.reason


class PlacementProgram(Struct, frozen=True, kw_only=True):
    """The mechanism that observed a part on one side, or why it was not measured."""

    side: str
    part: Part
    mechanism: Annotated[str | None, "mechanism that measured `part`; null if not measured"]
    function: Annotated[
        str | None, "kernel function or tracepoint that could not be observed; null if none"
    ]
    reason: Annotated[str | None, "why `part` was not measured; null if it was measured"]


class NotComparedPart(Struct, frozen=True, kw_only=True):
    """A part that both sides measured but that is not comparable, and the reason."""

    side: str
    what: Part
    reason: str


class MeanRow(Struct, frozen=True, kw_only=True):
    """Mean of one side over its runs, with its 95% CI."""

    side: str
    workload: str
    point: str
    replication: Annotated[Literal["runs", "boots"], "unit of n"]
    n: int
    ci_low: Annotated[float | None, "lower bound of the 95% CI of the mean; null with one run"]
    ci_high: float | None


class SeriesRow(MeanRow, frozen=True, kw_only=True):
    """Moves between NUMA nodes over the time of the runs."""

    event: Event
    mean: Annotated[float, "task moves between NUMA nodes per second"]
    rates: Annotated[
        tuple[float, ...],
        "task moves between NUMA nodes per second, in consecutive periods of equal length",
    ]
    rates_low: Annotated[
        tuple[float | None, ...], "lower bound of the 95% CI of each rate; null with one run"
    ]
    rates_high: tuple[float | None, ...]


class DepthRow(MeanRow, frozen=True, kw_only=True):
    """How often the workload's tasks ran in task groups of a given depth."""

    depth: Annotated[int, "depth of the task group; 0 is the root group"]
    share: Annotated[
        float,
        "switches to tasks in task groups of this depth, as a share of all "
        "context switches to workload tasks",
    ]


class TimersRow(Struct, frozen=True, kw_only=True):
    """Phase difference of the bandwidth timers of two cgroups on one side."""

    side: str
    workload: str
    point: str
    groups: Annotated[tuple[str, str], "paths of the two cgroups"]
    period_s: float
    distance_s: Annotated[float, "time in s between the expiries of the two timers, mean over runs"]
    resolution_s: Annotated[float, "resolution of distance_s in s: width of one phase bin"]
    runs: int
    word: Annotated[
        Literal["together", "apart", "mixed"],
        "whether the timers expire together; `mixed` if runs differ",
    ]


class MovesRow(Places, frozen=True, kw_only=True):
    """Moves of tasks for each pair of source and destination node."""

    side: str
    workload: str
    point: str
    event: Event
    cause: Annotated[
        str,
        "cause of the migrations; empty for the sum over causes and for events "
        "other than migrations",
    ]
    unit: str
    pairs: Annotated[tuple[tuple[int, int], ...], "source and destination node of each value"]


class PhasesRow(BinsRow, frozen=True, kw_only=True):
    """Phases of the expiries of one cgroup's bandwidth timer."""

    group: Annotated[str, "path of the cgroup"]
    period_s: float


class Placement(SectionData, frozen=True, kw_only=True):
    """Task placement, waits for a CPU, and load-balancer decisions."""

    section: ClassVar[str] = "placement"
    version: ClassVar[int] = 1
    collector: ClassVar[str] = "bpf_placement"

    sides: tuple[PlacementSide, ...]
    rows: tuple[PlacementRow, ...]
    zeros: Annotated[tuple[str, ...], "counters that were 0 in all runs; not in `rows`"]
    programs: tuple[PlacementProgram, ...]
    not_compared: tuple[NotComparedPart, ...]
    series: tuple[SeriesRow, ...]
    depths: tuple[DepthRow, ...]
    timers: tuple[TimersRow, ...]
    moves: Annotated[
        tuple[MovesRow, ...],
        "numbers of task moves by source node, destination node, event and cause",
    ]
    waits: Annotated[
        tuple[BinsRow, ...],
        "histograms of run-queue wait times, in seconds: share of waits per bin",
    ]
    phases: Annotated[
        tuple[PhasesRow, ...],
        "expiries of bandwidth timers by phase, relative to the mean phase of the first cgroup",
    ]
    notes: tuple[str, ...]
