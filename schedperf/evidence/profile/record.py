# SPDX-License-Identifier: GPL-2.0-or-later
"""Define records of profiles: hot symbols, call stacks, and samples of ``schedperf profile``.

Shares are in per cent, changes of them in percentage points (pp).
"""

from collections.abc import Mapping
from statistics import fmean
from typing import Annotated, ClassVar, Literal

from msgspec import Struct, field

from schedperf.model.comparison import FIRST_NEW, BaseNew, MissingSide, SectionData
from schedperf.model.perf_event import PerfEvent
from schedperf.model.schema import UNSET, Unset

# Percentage points of all CPUs: five times the binomial standard error (0.02 pp) of a function
# that has 0.1% of 25,000 samples, which is one run of 5 s on 5 CPUs at 1 kHz.
SMALLEST_CHANGE_PP = 0.1

# Format of the export that https://www.speedscope.app opens.
SPEEDSCOPE_SCHEMA = "https://www.speedscope.app/file-format-schema.json"

Independent = Literal["runs", "boots"]
Measure = Literal["share", "operation"]
Clock = Literal["hrtimer", "pmu"]
# Levels that an event may exclude, as in perf_event_attr: exclude_user ...
Level = Literal["user", "kernel", "hv", "idle", "host", "guest"]
# Of fields that records of older versions lack.
NOT_RECORDED_LEVELS: BaseNew[tuple[Level, ...]] = BaseNew(base=(), new=())
NOT_RECORDED: BaseNew[int | None] = BaseNew(base=None, new=None)
PartKind = Literal["node", "cpu", "comm"]

Share = Annotated[float, "per cent"]
Shares = Mapping[int, Share]
ShareRange = tuple[Share, Share]
# Shares of more nodes than this are reduced to the node with the most and the node with the least.
MOST_NODES = 4
NodeShares = Annotated[Shares, "share of non-idle CPU time per NUMA node, in percent"]
NodeRange = Annotated[
    ShareRange | None,
    "smallest and largest share over the NUMA nodes, in percent; null if the nodes are unknown",
]


class ProfileChange(Struct, frozen=True, kw_only=True):
    """Mean of each side and their difference."""

    base: Annotated[
        float, "mean over the runs of base: a share in percent, or a cost in `cost_unit`"
    ]
    new: Annotated[float, "mean over the runs of new, in the unit of `base`"]
    change: Annotated[float, "new - base, in the unit of `base`"]
    ci_low: Annotated[float | None, "lower bound of the 95% CI of the change; null if not computed"]
    ci_high: Annotated[
        float | None, "upper bound of the 95% CI of the change; null if not computed"
    ]


class ProfileTest(ProfileChange, frozen=True, kw_only=True):
    """A change that was tested together with the other rows of the point."""

    p: Annotated[float | None, "p-value before correction; null if not tested"]
    q: Annotated[
        float | None,
        "p-value after Benjamini-Hochberg correction over the tested rows of the same workload and "
        "parameters; null if not tested (idle time, rarely sampled code, kernel code if the event "
        "may not sample it)",
    ]


class CpuShares(Struct, frozen=True, kw_only=True):
    """How the time of a function is distributed over the CPUs of a side."""

    least: Share
    largest: Share
    cpus: Annotated[int, "number of CPUs with non-idle samples"]


CpuRange = Annotated[
    CpuShares | None,
    "smallest and largest share over the CPUs, each in percent of the non-idle time of that CPU; "
    "null if the CPUs are unknown",
]


class ProfileRow(Struct, frozen=True, kw_only=True):
    """One function."""

    row: Annotated[str, "id of the row; findings refer to it as profile#ROW"]
    symbol: Annotated[
        str,
        "function, as new's symbols name it, or base's if new has none; its compiler-made parts "
        "and copies (.cold, .isra.0) and the function of its former name are included",
    ]
    base_symbol: Annotated[
        str | None, "name of the function in base's kernel if it was renamed; null otherwise"
    ]
    dso: Annotated[str, "[kernel], a module in brackets, or a file name"]
    class_: Annotated[str | None, "function class; null for idle time"]
    scheduler: Annotated[bool, "true if the function is part of kernel/sched"]
    idle: Annotated[bool, "true if the function is part of the idle loop"]
    share: Annotated[ProfileTest, "share of total CPU time, idle included, in percent"]
    changed: Annotated[
        bool, "true if the share changed significantly (q < 0.05), by 0.1 pp or more"
    ]
    cost: Annotated[
        ProfileTest | None,
        "cost per operation, in `cost_unit`; null if a run did not report the number of operations",
    ]
    base_nodes: NodeShares
    base_range: NodeRange
    base_cpus: CpuRange
    new_nodes: NodeShares
    new_range: NodeRange
    new_cpus: CpuRange
    one_node: Annotated[
        int | None, "number of the NUMA node, if the share changed on one node only; null otherwise"
    ]

    @property
    def nodes(self) -> BaseNew[Shares]:
        """The shares by NUMA node on both sides."""
        return BaseNew(base=self.base_nodes, new=self.new_nodes)

    @property
    def cpus(self) -> BaseNew[CpuShares | None]:
        """The range of shares over CPUs on both sides."""
        return BaseNew(base=self.base_cpus, new=self.new_cpus)


def ends_of_nodes(shares: BaseNew[Shares]) -> tuple[int, int] | None:
    """Return the nodes with the largest and the smallest share, by the mean of base and new.

    None if no node is known on both sides.

    >>> ends_of_nodes(BaseNew(base={0: 13.0, 1: 20.0, 2: 2.0}, new={0: 8.0, 1: 12.0, 2: 3.0}))
    (1, 2)
    """
    means = {
        node: fmean((shares.base[node], shares.new[node]))
        for node in shares.base.keys() & shares.new.keys()
    }
    if not means:
        return None
    ranked = sorted(means, key=lambda node: (-means[node], node))
    return ranked[0], ranked[-1]


class MovedFunction(Struct, frozen=True, kw_only=True):
    """A function whose share changed in the direction of its class."""

    symbol: str
    change: Annotated[float, "change in the share, in percentage points"]


class ProfileClassRow(Struct, frozen=True, kw_only=True):
    """All functions of one class."""

    row: Annotated[str, "id of the row; findings refer to it as profile#ROW"]
    class_: str
    share: Annotated[ProfileTest, "share of total CPU time, idle included, in percent"]
    changed: Annotated[
        bool, "true if the share changed significantly (q < 0.05), by 0.1 pp or more"
    ]
    cost: Annotated[
        ProfileTest | None,
        "cost per operation, in `cost_unit`; null if a run did not report the number of operations",
    ]
    base_nodes: NodeShares
    base_range: NodeRange
    new_nodes: NodeShares
    new_range: NodeRange
    functions: Annotated[
        tuple[MovedFunction, ...],
        "functions of the class with the largest changes in the direction of the class total",
    ]

    @property
    def nodes(self) -> BaseNew[Shares]:
        """The shares by NUMA node on both sides."""
        return BaseNew(base=self.base_nodes, new=self.new_nodes)


class ExplainedChange(Struct, frozen=True, kw_only=True):
    """The fraction of the change of CPU time per operation that a few functions account for."""

    symbols: Annotated[
        tuple[str, ...], "functions that account for the change, largest change first"
    ]
    change: Annotated[float, "change in the summed cost of `symbols`, in `cost_unit`"]
    part: Annotated[
        float | None,
        "ratio of `change` to the change in the total non-idle cost (1: the whole change); null "
        "if unknown",
    ]
    ci_low: Annotated[float | None, "lower bound of the 95% CI of `part` (Fieller)"]
    ci_high: Annotated[float | None, "upper bound of the 95% CI of `part`"]
    reason: Annotated[str | None, "reason why `part` is unknown; null if `part` is known"]
    busy_equal: Annotated[
        bool | None,
        "true if CPU utilization is unchanged, so that `part` also applies to the wall time; null "
        "if unknown",
    ]
    busy_reason: str


class OtherCommand(Struct, frozen=True, kw_only=True):
    """A command that is not the workload."""

    command: str
    share: Share


class OtherCommands(Struct, frozen=True, kw_only=True):
    """Samples of commands that are not the workload."""

    share: Annotated[
        float, "share of the event count, idle excluded, in percent; mean over the runs"
    ]
    commands: tuple[OtherCommand, ...]


class ProfileOperations(Struct, frozen=True, kw_only=True):
    """Operations of the benchmark per run, mean of the runs."""

    unit: str
    exact: bool
    base: float
    new: float


class ProfilePoint(Struct, frozen=True, kw_only=True):
    """One event at one point of a workload."""

    workload: str
    point: str
    runs: BaseNew[int]
    independent: Annotated[Independent, "unit of replication"]
    took_turns: Annotated[bool, "false if drift may confound the comparison"]
    cautions: Annotated[tuple[str, ...], "caveats, one sentence each"]
    others: Annotated[
        BaseNew[OtherCommands | None],
        "samples of commands other than the workload, its children and kernel threads; null if the "
        "workload cannot be identified",
    ]
    samples: Annotated[BaseNew[int], "number of samples, all runs together"]
    lost: Annotated[
        BaseNew[int],
        "number of records lost by the kernel, of any type and event, all runs together",
    ]
    lost_samples: Annotated[
        BaseNew[int | None],
        "number of lost samples of the event, all runs together; null if a recording does not "
        "count them by event",
    ] = NOT_RECORDED
    throttled: Annotated[BaseNew[int], "number of times that the kernel throttled the event"]
    losses: Annotated[
        BaseNew[str | None],
        "`lost_samples`, `lost` and `throttled` as a sentence; null if all are 0",
    ]
    busy: Annotated[ProfileChange, "CPU utilization: non-idle share of total CPU time, in percent"]
    operations: ProfileOperations | None
    cost_unit: Annotated[
        str | None,
        "unit of the costs, e.g. ns per message; null if the number of operations is unknown",
    ]
    cost_reason: Annotated[
        str | None, "reason why costs per operation are unknown; null if they are known"
    ]
    busy_cost: ProfileChange | None
    rows: tuple[ProfileRow, ...]
    classes: tuple[ProfileClassRow, ...]
    explained: Annotated[
        ExplainedChange | None,
        "functions that account for the change in cost; null if no function changed significantly "
        "in the direction of the total",
    ]
    symbols: Annotated[int, "number of symbols with samples in base or new"]


class ProfileEvent(Struct, frozen=True, kw_only=True):
    """One event, which code it can sample, and the points at which it was sampled."""

    event: str
    perf_event: Annotated[
        BaseNew[PerfEvent],
        "event as passed to the kernel",
    ]
    unit: Annotated[str, "unit of the sample periods"]
    clock: Annotated[
        BaseNew[Clock | None],
        "trigger of a sample: a timer or the PMU; null for tracepoints and other software events",
    ]
    nmi: Annotated[
        BaseNew[bool | None],
        "true if the event also samples code that runs with interrupts off (NMI); null if unknown",
    ]
    precise: Annotated[
        BaseNew[int], "precise level of the event, 0 (arbitrary skid) to 3 (no skid)"
    ]
    emulated: Annotated[
        BaseNew[bool | None], "true if an emulator provides the counter; null if unknown"
    ]
    blind: Annotated[
        BaseNew[bool | None],
        "true if the event cannot sample code that runs with interrupts off; null if unknown",
    ]
    blind_reason: BaseNew[str]
    remedy: Annotated[
        str | None, "how to measure code with interrupts off; null if the event samples it"
    ]
    excluded: Annotated[
        BaseNew[tuple[Level, ...]],
        "privilege levels that the event does not count; code that runs at these levels has no "
        "samples",
    ] = NOT_RECORDED_LEVELS
    caveats: tuple[str, ...]
    points: tuple[ProfilePoint, ...]

    @property
    def sees_kernel(self) -> bool:
        """Whether both sides sample code that runs with interrupts off."""
        return all(blind is False for blind in self.blind)


class ProfileComparison(Struct, frozen=True, kw_only=True):
    """The profiles of one new side, compared with base."""

    side: str
    events: tuple[ProfileEvent, ...]
    notes: tuple[str, ...]


class Profile(SectionData, frozen=True, kw_only=True):
    """Which functions have a larger or smaller share of CPU time in new than in base."""

    section: ClassVar[str] = "profile"
    version: ClassVar[int] = 2
    collector: ClassVar[str] = "perf_profile"

    comparisons: tuple[ProfileComparison, ...]
    missing: tuple[MissingSide, ...]


Numbers = tuple[float | None, ...]
Frames = tuple[int, ...]
Changed = Annotated[
    Frames,
    "indices of the frames or functions with a significant change (q < 0.05 and, for shares, 0.1 "
    "pp or more)",
]
ChangedFrames = Annotated[
    Frames,
    "indices of the changed frames, which a flame graph colours: either the frame's time with "
    "callees changed significantly, or its function's self time over all call paths changed "
    "significantly and the frame's times with and without callees changed in the same direction; "
    "merged frames and frames of `others` are never listed",
]
Margins = Annotated[
    Numbers,
    "half width of the 95% CI of the change; null if a side has fewer than 2 runs or the variance "
    "is 0",
]


class FlameMeans(Struct, frozen=True, kw_only=True):
    """Times on both sides, one number per frame or function name."""

    base: Annotated[
        Numbers, "mean over the runs of base: percent of total CPU time, or `unit` per operation"
    ]
    new: Annotated[
        Numbers,
        "mean over the runs of new, in the unit of `base`; empty if only one side was given",
    ]


class FlameChanges(FlameMeans, frozen=True, kw_only=True):
    """Times on both sides and their changes; only `base` is set if one side was given."""

    low: Annotated[Numbers, "lower bounds of the 95% CI of new - base; null if not computed"]
    high: Annotated[Numbers, "upper bounds of the 95% CI of new - base; null if not computed"]
    q: Annotated[Numbers, "p-values after Benjamini-Hochberg correction; null if not tested"]
    changed: Changed

    def change(self, index: int) -> float | None:
        """Return new - base; None if either is unknown."""
        base, new = self.base[index], self.new[index]
        return None if base is None or new is None else new - base


class FlameMeasure(Struct, frozen=True, kw_only=True):
    """Times of all frames, as a share of total time or per operation."""

    measure: Measure
    operation: Annotated[str | None, "unit of an operation, e.g. message; null for shares"]
    inclusive: Annotated[FlameChanges, "time of each frame, including its callees"]
    self_: Annotated[FlameChanges, "time of each frame, excluding its callees"]
    functions: Annotated[
        FlameChanges, "time of each function, excluding its callees, summed over all call paths"
    ]
    changed: ChangedFrames


class FlameMargins(Struct, frozen=True, kw_only=True):
    """Uncertainty of changes whose times are not stored; empty if one side was given."""

    margin: Margins
    changed: Changed


class FlamePartFunctions(FlameMeans, frozen=True, kw_only=True):
    """Times of the functions in a part of the samples, and the uncertainty of their changes."""

    margin: Margins
    changed: Changed


class FlamePartMeasure(Struct, frozen=True, kw_only=True):
    """Times of all frames in a part of the samples.

    The inclusive time of a frame is the sum of the self times of the frame and its callees. Times
    have three digits and margins two, one less than those of the whole.
    """

    measure: Measure
    operation: Annotated[str | None, "unit of an operation, e.g. message; null for shares"]
    inclusive: Annotated[FlameMargins, "time of each frame, including its callees"]
    self_: Annotated[FlameMeans, "time of each frame, excluding its callees"]
    functions: Annotated[
        FlamePartFunctions,
        "time of each function, excluding its callees, summed over all call paths",
    ]
    changed: ChangedFrames


class FlamePart(Struct, frozen=True, kw_only=True):
    """The same tree for the samples of one node, CPU or command; shares are of total time."""

    kind: PartKind
    name: str
    measures: tuple[FlamePartMeasure, ...]


class FlameCounts(Struct, frozen=True, kw_only=True):
    """Number of frames of each list before it was shortened."""

    vanished: int
    appeared: int
    changed: int


class FlameSampled(Struct, frozen=True, kw_only=True):
    """Number of runs (or boots) of a side in which each listed frame was sampled."""

    vanished: tuple[int, ...]
    appeared: tuple[int, ...]


class FlameLists(Struct, frozen=True, kw_only=True):
    """The frames that differ between the sides."""

    vanished: Annotated[Frames, "outermost frames sampled only in base, largest first"]
    appeared: Annotated[Frames, "outermost frames sampled only in new, largest first"]
    changed: Annotated[Frames, "changed frames of the first measure, largest change first"]
    counts: FlameCounts
    sampled: FlameSampled


class HottestFrames(Struct, frozen=True, kw_only=True):
    """The frames with the most self time, if only one side was given."""

    hottest: Annotated[Frames, "frames with the most self time, largest first"]


class FlameName(Struct, frozen=True, kw_only=True):
    """A function name that frames refer to."""

    symbol: str
    dso: str
    class_: str | None
    kernel: Annotated[
        bool, "true if the name belongs to code of the kernel, a module or a BPF program"
    ]


class FunctionCall(Struct, frozen=True, kw_only=True):
    """A caller or callee of a function, and the time of the calls, including their callees."""

    symbol: str
    base: Annotated[float, "mean over the runs of base, in percent of total CPU time"]
    new: Annotated[float, "mean over the runs of new, in percent of total CPU time"]


class FunctionCalls(Struct, frozen=True, kw_only=True):
    """The callers and callees of a function over all call paths, largest first.

    Calls of a function by itself are left out.
    """

    symbol: str
    dso: str
    callers: Annotated[tuple[FunctionCall, ...], "at most 8 callers"]
    more_callers: Annotated[int, "number of smaller callers that are not listed"]
    callees: Annotated[tuple[FunctionCall, ...], "at most 8 callees"]
    more_callees: Annotated[int, "number of smaller callees that are not listed"]


class FlameTree(Struct, frozen=True, kw_only=True):
    """The tree of call stacks of one event; a frame comes after its caller, frame 0 is the root."""

    event: str
    place: Annotated[str, "event, workload and parameters; empty if there is only one tree"]
    unit: Annotated[str, "unit of the sample periods"]
    labels: Annotated[tuple[str, ...], "display names of base and new"]
    independent: Annotated[Independent, "unit of replication"]
    counts: Annotated[
        tuple[int, ...], "sample sizes of base and new, in units of replication (`independent`)"
    ]
    took_turns: Annotated[bool, "false if drift may confound the comparison"]
    totals: Annotated[
        Numbers, "sum of the sample periods per run, in `unit`: mean of base, mean of new"
    ]
    least_share: Annotated[
        float,
        "frames with a smaller fraction of total CPU time are merged into one frame per caller, "
        "except changed frames and the functions that findings and class rows name",
    ]
    names: tuple[FlameName, ...]
    parent: Annotated[tuple[int, ...], "index of the calling frame; -1 for the root"]
    name: Annotated[tuple[int, ...], "index into `names`; -1 for the root, -2 for merged frames"]
    hidden: Annotated[
        tuple[int, ...], "number of frames merged into this frame; 0 if none were merged"
    ]
    others: Annotated[
        Frames,
        "outermost frames of commands other than the workload, e.g. the setup and the recorder; "
        "these frames and their callees are excluded from all lists of changes",
    ]
    measures: tuple[FlameMeasure, ...]
    parts: tuple[FlamePart, ...]
    lists: FlameLists | HottestFrames
    calls: Annotated[
        tuple[FunctionCalls, ...],
        "callers and callees of the functions with the largest shares and changes and of the "
        "scheduler's functions; empty if only one side was given",
    ]


def place_of_tree(event: str, workload: str, point: str) -> str:
    """Return what a tree among several is of: ``cycles, hackbench at -g 2``."""
    return f"{event}, {workload}{f' at {point}' if point else ''}"


def explained_anchor(side: str, event: "ProfileEvent", point: "ProfilePoint") -> str:
    """Return what evidence calls the part of a change that a few functions account for."""
    return _anchor(side, f"explained:{event.event}/{point.workload}/{point.point}")


def blind_anchor(side: str, event: "ProfileEvent") -> str:
    """Return what evidence calls the code that an event cannot sample."""
    return _anchor(side, f"blind:{event.event}")


def _anchor(side: str, what: str) -> str:
    # Rows of further new sides have the side in front; so has what is of no row.
    return what if side == FIRST_NEW else f"{side}/{what}"


class FlameComparison(Struct, frozen=True, kw_only=True):
    """The trees of one new side, compared with base."""

    side: str
    events: tuple[FlameTree, ...]
    left_out: Annotated[
        tuple[str, ...],
        "event, workload and parameters of each omitted tree (at most 6 trees are included)",
    ]


class FlameTrees(SectionData, frozen=True, kw_only=True):
    """The call stacks of each new side, compared with base."""

    section: ClassVar[str] = "flames"
    version: ClassVar[int] = 1

    comparisons: tuple[FlameComparison, ...]
    missing: tuple[MissingSide, ...]


# The record of ``schedperf profile``: shares are in per cent of what the event counted (periods),
# changes of them in percentage points.
SortKey = Literal["event", "cpu", "node", "comm", "dso", "symbol"]
SideName = Literal["base", "new"]
# A CPU, node or name; None if not recorded.
Value = int | str | None

BySide = Mapping[SideName, int]
Period = Annotated[int, "sum of the sample periods over the runs, in the unit of the event"]
MeanShare = Annotated[
    float | None,
    "share of the event count, in percent, mean over the runs; null if no run has samples",
]
Interval = Annotated[
    tuple[float, float] | None,
    "95% CI of the change; null if a side has fewer than 2 runs or the variance is 0",
]
CorrectedP = Annotated[
    float | None, "p-value after Benjamini-Hochberg correction; null if not tested"
]


class RowKeys(Struct, frozen=True, kw_only=True):
    """The keys of a row, as selected with ``--sort``."""

    event: str | Unset = UNSET
    cpu: int | Unset | None = UNSET
    node: int | Unset | None = UNSET
    comm: str | Unset | None = UNSET
    symbol: str | Unset = UNSET
    dso: str | Unset = UNSET

    def value(self, key: SortKey) -> Value:
        """Return the value of a key; None if not recorded."""
        value: Value | Unset = getattr(self, key)
        return None if value is UNSET else value


class SampleRow(RowKeys, frozen=True, kw_only=True):
    """One row if only one side was given."""

    samples: int
    period: Period
    share: MeanShare


class SampleCounts(Struct, frozen=True, kw_only=True):
    """Samples of one of two compared sides."""

    samples: int
    period: Period
    share: MeanShare


class SampleCost(Struct, frozen=True, kw_only=True):
    """Cost per operation of the benchmark on both sides, in the unit of the event."""

    base: float | None
    new: float | None
    change: float | None
    interval: Interval
    q: CorrectedP
    changed: Annotated[bool, "true if the cost changed significantly (q < 0.05)"]


class ComparedRow(RowKeys, frozen=True, kw_only=True):
    """One row of a comparison: samples of both sides and the change."""

    base: SampleCounts
    new: SampleCounts
    change: Annotated[float | None, "change in the share, new - base, in percentage points"]
    interval: Interval
    q: CorrectedP
    changed: Annotated[
        bool, "true if the share changed significantly (q < 0.05), by 0.1 percentage points or more"
    ]
    cost: Annotated[
        SampleCost | None, "cost per operation; null if the number of operations is unknown"
    ]


class ProfileSight(Struct, frozen=True, kw_only=True):
    """Which code an event can sample."""

    side: Annotated[SideName | None, "side that the description applies to; null for all sides"]
    clock: Annotated[
        Clock | None,
        "trigger of a sample: a timer or the PMU; null for tracepoints and other software events",
    ]
    unit: Annotated[str, "unit of the sample periods"]
    nmi: Annotated[
        bool | None,
        "true if the event also samples code that runs with interrupts off (NMI); null if unknown",
    ]
    blind: Annotated[
        bool | None,
        "true if the event cannot sample code that runs with interrupts off; null if unknown",
    ]
    reason: str
    precise: Annotated[int, "precise level of the event, 0 (arbitrary skid) to 3 (no skid)"]
    emulated: Annotated[bool | None, "true if an emulator provides the counter; null if unknown"]
    remedy: Annotated[
        str | None, "how to measure code with interrupts off; null if the event samples it"
    ]
    excluded: Annotated[
        tuple[Level, ...],
        "privilege levels that the event does not count; code that runs at these levels has no "
        "samples",
    ] = ()
    caveats: tuple[str, ...]


class SampledEvent(Struct, frozen=True, kw_only=True):
    """An event and the number of its samples and runs."""

    event: Annotated[str, "event with its modifiers, as perf prints it, e.g. cycles:u"]
    perf_event: Annotated[
        Mapping[SideName, PerfEvent],
        "event as passed to the kernel, per side; only base if one side is given",
    ]
    independent: Independent
    n: Annotated[
        BySide,
        "number of runs (or boots) with samples of the event, per side; "
        "only base if one side is given",
    ]
    samples: Annotated[
        BySide, "number of samples in all runs, per side; only base if one side is given"
    ]
    period: Annotated[
        BySide,
        "sum of the sample periods, in the unit of the event, per side; "
        "only base if one side is given",
    ]
    lost: Annotated[
        Mapping[SideName, int | None],
        "number of lost samples in all runs, per side; only base if one side is given; null if a "
        "recording does not count them by event",
    ] = field(default_factory=dict)
    sight: tuple[ProfileSight, ...]


class ProfileLosses(Struct, frozen=True, kw_only=True):
    """Samples and records that a recording lacks."""

    records: Annotated[int, "number of records of any type lost by the kernel"]
    samples: Annotated[int, "number of lost records known to be samples"]
    throttled: Annotated[int, "number of times that the kernel throttled an event"]
    unknown_ids: Annotated[int, "number of samples with an event id that the file does not define"]


class ProfileSide(Struct, frozen=True, kw_only=True):
    """One bundle or perf.data."""

    side: Annotated[SideName | None, "base or new; null if only one source was given"]
    label: str
    path: str
    point: Annotated[str, "workload and parameters; empty for a perf.data file"]
    runs: int
    lost: ProfileLosses
    loss: Annotated[str | None, "`lost` as a sentence; null if all its counts are 0"]
    notes: Annotated[
        tuple[str, ...], "parts of the recording that could not be parsed, one sentence each"
    ]


class ProfileDocument(Struct, frozen=True, kw_only=True):
    """The samples of one source, or of two compared."""

    schema: Literal["schedperf/profile/1"] = "schedperf/profile/1"
    tool_version: str
    sort: tuple[SortKey, ...]
    operation: Annotated[
        str | None,
        "unit of an operation in `cost`, e.g. message; null if unknown or different between runs",
    ]
    took_turns: Annotated[bool, "false if drift may confound the comparison"]
    cautions: Annotated[tuple[str, ...], "caveats, one sentence each"]
    sides: tuple[ProfileSide, ...]
    events: tuple[SampledEvent, ...]
    rows: Annotated[
        tuple[SampleRow, ...] | tuple[ComparedRow, ...],
        "one row per combination of the keys in `sort`, for one side or for a comparison",
    ]
