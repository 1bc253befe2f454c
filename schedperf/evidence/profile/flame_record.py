# SPDX-License-Identifier: GPL-2.0-or-later
"""Define records of call stacks: flame graphs, and callers and callees of functions.

Shares are in percent, their changes in percentage points (pp).
"""

from typing import Annotated, ClassVar

from msgspec import Struct, field

from schedperf.evidence.profile.record import Independent, Measure, PartKind
from schedperf.model.sections import MissingSide, SectionData

# Format of the export that https://www.speedscope.app opens.
SPEEDSCOPE_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


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
        """Return new - base of a frame or function; None if either is unknown.

        :raises IndexError: only one side was given, or the index is too large
        """
        base, new = self.base[index], self.new[index]
        return None if base is None or new is None else new - base


class FlameMeasure(Struct, frozen=True, kw_only=True):
    """Times of all frames, as a share of total time or per operation."""

    measure: Measure
    operation: Annotated[str | None, "unit of an operation, e.g. message; null for shares"]
    inclusive: Annotated[FlameChanges, "time of each frame, including its callees"]
    self_: Annotated[FlameChanges, "time of each frame, excluding its callees"] = field(name="self")
    functions: Annotated[
        FlameChanges, "time of each function, excluding its callees, summed over all call paths"
    ]
    changed: ChangedFrames


class FlameMargins(Struct, frozen=True, kw_only=True):
    """Uncertainty of the changes of inclusive times; empty if only one side was given.

    The times are not stored, because they are sums of self times.
    """

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
    self_: Annotated[FlameMeans, "time of each frame, excluding its callees"] = field(name="self")
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
    """The frames that differ between the sides; null if only one side was given."""

    vanished: Annotated[Frames, "outermost frames sampled only in base, largest first"]
    appeared: Annotated[Frames, "outermost frames sampled only in new, largest first"]
    changed: Annotated[Frames, "changed frames of the first measure, largest change first"]
    counts: FlameCounts
    sampled: FlameSampled


class FlameName(Struct, frozen=True, kw_only=True):
    """A function name that frames refer to."""

    symbol: Annotated[str, "followed by (interrupts) for code in an interrupt or softirq"]
    dso: str
    class_: str | None = field(name="class")
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
    lists: FlameLists | None
    hottest: Annotated[
        Frames, "frames with the most self time, largest first; empty unless lists is null"
    ]
    calls: Annotated[
        tuple[FunctionCalls, ...],
        "callers and callees of the functions with the largest shares and changes and of the "
        "scheduler's functions; empty if only one side was given",
    ]


def place_of_tree(event: str, workload: str, point: str) -> str:
    """Return the label of a tree: ``cycles, hackbench at -g 2``."""
    return f"{event}, {workload}{f' at {point}' if point else ''}"


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
    table: ClassVar[str] = "comparisons.events"

    comparisons: tuple[FlameComparison, ...]
    missing: tuple[MissingSide, ...]
