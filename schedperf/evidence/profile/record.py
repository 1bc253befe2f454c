# SPDX-License-Identifier: GPL-2.0-or-later
"""What the comparison of profiles found: hot symbols (``profile``) and call stacks (``flames``).

Shares are in per cent, changes of them in percentage points (pp).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from schedperf.model.comparison import BaseNew, MissingSide, SectionData
from schedperf.model.perf_event import PerfEvent

Independent = Literal["runs", "boots"]
Measure = Literal["share", "operation"]
Clock = Literal["hrtimer", "pmu"]
PartKind = Literal["node", "cpu", "comm"]

Share = Annotated[float, "per cent"]
Shares = Mapping[int, Share]
ShareRange = tuple[Share, Share]
NodeShares = Annotated[Shares, "by NUMA node: share of what its CPUs did while not idle"]
NodeRange = Annotated[
    ShareRange | None, "least and largest share of a node; null where the nodes are not known"
]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileChange:
    """Means of both sides and their difference."""

    base: Annotated[float, "mean of the runs"]
    new: Annotated[float, "mean of the runs"]
    change: Annotated[float, "new - base, in their unit"]
    ci_low: Annotated[float | None, "lower end of the 95% CI of change"]
    ci_high: Annotated[float | None, "upper end; null without 2 runs per side"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileTest(ProfileChange):
    """A change that was tested together with all others of the point."""

    p: Annotated[float | None, "null where nothing was tested"]
    q: Annotated[
        float | None,
        "p after Benjamini and Hochberg's correction over what was tested of the point: what is "
        "hot, no idle time, no kernel code where the event is blind",
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuShares:
    """How a function is spread over the CPUs of a side."""

    least: Share
    largest: Share
    cpus: Annotated[int, "how many were not idle all the time"]


CpuRange = Annotated[
    CpuShares | None, "least and largest share of a CPU, each of what it did while not idle"
]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileRow:
    """One function."""

    row: Annotated[str, "id of the row, for evidence: profile#ROW"]
    symbol: Annotated[str, "parts and copies folded, under the newest name"]
    dso: Annotated[str, "[kernel], a module in brackets, or a file"]
    class_: Annotated[str | None, "function class; null is idle time"]
    scheduler: Annotated[bool, "a function of kernel/sched"]
    idle: Annotated[bool, "the idle task waits for work in it"]
    share: Annotated[ProfileTest, "per cent of all CPUs, idle time included"]
    changed: Annotated[bool, "the share changed significantly, by 0.1 pp or more"]
    cost: Annotated[
        ProfileTest | None,
        "in cost_unit; null where the operations of a run are not known",
    ]
    base_nodes: NodeShares
    base_range: NodeRange
    base_cpus: CpuRange
    new_nodes: NodeShares
    new_range: NodeRange
    new_cpus: CpuRange
    one_node: Annotated[
        int | None, "the node that alone shows the change; null: several, none, or unknown"
    ]

    @property
    def nodes(self) -> BaseNew[Shares]:
        """The shares by NUMA node of both sides."""
        return BaseNew(base=self.base_nodes, new=self.new_nodes)

    @property
    def ranges(self) -> BaseNew[ShareRange | None]:
        """The least and the largest share of a node of both sides."""
        return BaseNew(base=self.base_range, new=self.new_range)

    @property
    def cpus(self) -> BaseNew[CpuShares | None]:
        """The shares of CPUs of both sides."""
        return BaseNew(base=self.base_cpus, new=self.new_cpus)


@dataclass(frozen=True, kw_only=True, slots=True)
class MovedFunction:
    """A function whose share moved in the direction of its class."""

    symbol: str
    change: Annotated[float, "percentage points"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileClassRow:
    """All functions of one class."""

    row: Annotated[str, "id of the row, for evidence: profile#ROW"]
    class_: str
    share: Annotated[ProfileTest, "per cent of all CPUs, idle time included"]
    changed: Annotated[bool, "the share changed significantly, by 0.1 pp or more"]
    cost: Annotated[
        ProfileTest | None,
        "in cost_unit; null where the operations of a run are not known",
    ]
    base_range: NodeRange
    new_range: NodeRange
    functions: Annotated[
        tuple[MovedFunction, ...], "those whose share moved most in the class's direction"
    ]

    @property
    def ranges(self) -> BaseNew[ShareRange | None]:
        """The least and the largest share of a node of both sides."""
        return BaseNew(base=self.base_range, new=self.new_range)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainedChange:
    """What part of the change of the CPU time per operation a few functions are."""

    symbols: Annotated[tuple[str, ...], "largest change first"]
    change: Annotated[float, "of their cost together, in cost_unit"]
    part: Annotated[float | None, "of the change of all busy time per operation; 1: all"]
    ci_low: Annotated[float | None, "lower end of the 95% CI, by Fieller"]
    ci_high: float | None
    reason: Annotated[str | None, "why there is no share"]
    busy_equal: Annotated[
        bool | None,
        "is the busy share of the time unchanged, so that it holds for the wall time? null: not "
        "known",
    ]
    busy_reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class OtherCommand:
    """A command that is not the workload."""

    command: str
    share: Share


@dataclass(frozen=True, kw_only=True, slots=True)
class OtherCommands:
    """What is of commands that are not the workload."""

    share: Annotated[float, "per cent of the event's count without idle, mean of the runs"]
    commands: tuple[OtherCommand, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileOperations:
    """Operations of the benchmark, mean of the runs."""

    unit: str
    exact: bool
    base: float
    new: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfilePoint:
    """One event at one point of a workload."""

    workload: str
    point: str
    runs: BaseNew[int]
    independent: Annotated[Independent, "what the intervals count"]
    took_turns: Annotated[bool, "false: drift may confound the comparison"]
    cautions: Annotated[tuple[str, ...], "caveats of the numbers"]
    others: Annotated[
        BaseNew[OtherCommands | None],
        "what is of commands that are not the workload, nor started by it, nor threads of the "
        "kernel; the largest by name; null: the workload cannot be identified",
    ]
    samples: Annotated[BaseNew[int], "of all runs together"]
    lost: Annotated[BaseNew[int], "records that the kernel could not deliver"]
    throttled: Annotated[BaseNew[int], "pauses of an event that fired too often"]
    losses: Annotated[BaseNew[str | None], "the two in words; null where nothing is lost"]
    busy: Annotated[ProfileChange, "per cent of all CPUs that was not idle"]
    operations: ProfileOperations | None
    cost_unit: Annotated[str | None, "ns per message; null without operations"]
    cost_reason: Annotated[str | None, "why there is no cost per operation"]
    busy_cost: ProfileChange | None
    rows: tuple[ProfileRow, ...]
    classes: tuple[ProfileClassRow, ...]
    explained: Annotated[
        ExplainedChange | None,
        "null where no cost changed significantly in the direction of the whole",
    ]
    symbols: Annotated[int, "how many symbols were sampled on either side"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileEvent:
    """One event, what it sees, and the points that it was sampled at."""

    event: str
    perf_event: Annotated[
        BaseNew[PerfEvent],
        "as the kernel was asked for it; of several with this name, on hybrid CPUs, the first",
    ]
    unit: Annotated[str, "what the periods of its samples count"]
    clock: Annotated[BaseNew[Clock | None], "what triggers a sample"]
    nmi: Annotated[BaseNew[bool | None], "interrupts where interrupts are off"]
    precise: Annotated[BaseNew[int], "precise level of the event, 0 to 3"]
    emulated: Annotated[BaseNew[bool | None], "the counters of an emulator; null: unknown"]
    blind: Annotated[
        BaseNew[bool | None],
        "code that runs with interrupts off cannot be sampled; null: unknown",
    ]
    blind_reason: BaseNew[str]
    remedy: Annotated[str | None, "what to record instead; null where the event sees all"]
    caveats: tuple[str, ...]
    points: tuple[ProfilePoint, ...]

    @property
    def sees_kernel(self) -> bool:
        """Whether both sides sample code that runs with interrupts off."""
        return all(blind is False for blind in self.blind)


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileComparison:
    """The profiles of one side against those of base."""

    side: str
    events: tuple[ProfileEvent, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile(SectionData):
    """Which functions took a larger or smaller share of the CPUs."""

    section: ClassVar[str] = "profile"
    version: ClassVar[int] = 2

    comparisons: tuple[ProfileComparison, ...]
    missing: tuple[MissingSide, ...]


Numbers = tuple[float | None, ...]
Frames = tuple[int, ...]
Changed = Annotated[Frames, "places in these lists with q < 0.05"]
Margins = Annotated[
    Numbers,
    "half width of the 95% CI of the change; null without 2 runs per side, or where none varies",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class FlameMeans:
    """Times of both sides, a number for each frame or name."""

    base: Annotated[Numbers, "mean of the runs: % of all time, or unit per operation"]
    new: Annotated[Numbers, "the same of the other side; empty where there is one side only"]


@dataclass(frozen=True, kw_only=True, slots=True)
class FlameChanges(FlameMeans):
    """Times of both sides and what changed; all but the times is empty of one side alone."""

    low: Annotated[Numbers, "lower end of the 95% CI of new - base"]
    high: Annotated[Numbers, "upper end; null without 2 runs per side, or where none varies"]
    q: Annotated[Numbers, "p after Benjamini and Hochberg's correction over all that was tested"]
    changed: Changed

    def change(self, index: int) -> float | None:
        """Return new - base; None where one of them is not known."""
        base, new = self.base[index], self.new[index]
        return None if base is None or new is None else new - base


@dataclass(frozen=True, kw_only=True, slots=True)
class FlameMeasure:
    """One measure of the whole tree."""

    measure: Measure
    operation: Annotated[str | None, "message; null of a share"]
    inclusive: Annotated[FlameChanges, "of each frame, with all that it called"]
    self_: Annotated[FlameChanges, "of each frame alone"]
    functions: Annotated[FlameChanges, "of each name alone, on all paths together"]


@dataclass(frozen=True, kw_only=True, slots=True)
class FlameMargins:
    """How certain changes are, where the times follow from others; empty of one side alone."""

    margin: Margins
    changed: Changed


@dataclass(frozen=True, kw_only=True, slots=True)
class FlamePartFunctions(FlameMeans):
    """Times of a part's names, and how certain their changes are."""

    margin: Margins
    changed: Changed


@dataclass(frozen=True, kw_only=True, slots=True)
class FlamePartMeasure:
    """One measure of a part of the samples.

    The time of a frame with all that it called is the sum of the own times of these frames. Times
    have three digits and margins two, one less than those of the whole.
    """

    measure: Measure
    operation: Annotated[str | None, "message; null of a share"]
    inclusive: Annotated[FlameMargins, "of each frame, with all that it called"]
    self_: Annotated[FlameMeans, "of each frame alone"]
    functions: Annotated[FlamePartFunctions, "of each name alone, on all paths together"]


@dataclass(frozen=True, kw_only=True, slots=True)
class FlamePart:
    """The same tree with the samples of a part; shares stay of all time."""

    kind: PartKind
    name: str
    measures: tuple[FlamePartMeasure, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class FlameCounts:
    """How many frames each list would have if none were left out."""

    vanished: int
    appeared: int
    changed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class FlameSampled:
    """In how many runs (or boots) of its side each listed frame was sampled."""

    vanished: tuple[int, ...]
    appeared: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class FlameLists:
    """The frames that tell both sides apart."""

    vanished: Annotated[Frames, "outermost frames that only base has, largest first"]
    appeared: Annotated[Frames, "outermost frames that only new has, largest first"]
    changed: Annotated[Frames, "frames whose own time changed, largest change first"]
    counts: FlameCounts
    sampled: FlameSampled


@dataclass(frozen=True, kw_only=True, slots=True)
class HottestFrames:
    """The frames of one side alone that have the most time of their own."""

    hottest: Annotated[Frames, "largest first"]


@dataclass(frozen=True, kw_only=True, slots=True)
class FlameName:
    """What frames are called."""

    symbol: str
    dso: str
    class_: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class FlameTree:
    """The tree of call stacks of one event; a frame comes after its caller, frame 0 is the root."""

    event: str
    place: Annotated[str, "event, workload and point; empty where there is one only"]
    unit: Annotated[str, "what the periods of its samples count"]
    labels: Annotated[tuple[str, ...], "of base and new"]
    independent: Annotated[Independent, "what the intervals count"]
    counts: Annotated[tuple[int, ...], "how many of them base and new have"]
    took_turns: Annotated[bool, "false: drift may confound the comparison"]
    totals: Annotated[Numbers, "all that was sampled in a run, mean of a side, in unit"]
    least_share: Annotated[
        float, "of all time; smaller frames are together in a remainder of their caller"
    ]
    names: tuple[FlameName, ...]
    parent: Annotated[tuple[int, ...], "-1 is of the root"]
    name: Annotated[tuple[int, ...], "place in names; -1 is the root, -2 a remainder"]
    hidden: Annotated[tuple[int, ...], "how many frames a remainder stands for"]
    measures: tuple[FlameMeasure, ...]
    parts: tuple[FlamePart, ...]
    lists: FlameLists | HottestFrames


@dataclass(frozen=True, kw_only=True, slots=True)
class FlameComparison:
    """The trees of one side against base."""

    side: str
    events: tuple[FlameTree, ...]
    left_out: Annotated[tuple[str, ...], "events and points without a tree"]


@dataclass(frozen=True, kw_only=True, slots=True)
class FlameTrees(SectionData):
    """The call stacks of each side against those of base."""

    section: ClassVar[str] = "flames"
    version: ClassVar[int] = 1

    comparisons: tuple[FlameComparison, ...]
    missing: tuple[MissingSide, ...]
