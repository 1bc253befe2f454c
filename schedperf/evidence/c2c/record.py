# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the record of contended cache lines and of the code that accesses them."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Struct

from schedperf.model.base_new import BaseNew
from schedperf.model.perf_event import PerfEvent
from schedperf.model.rows import Replication
from schedperf.model.sections import MissingSide, SectionData

# What the PMU reports as a contended load: "hitm", a load that hit a modified line (Intel); "ibs",
# the same from AMD's instruction-based sampling; "peer", a load that another core's cache served,
# whether the line was modified or not (Arm SPE); "unknown", a load that hit a modified line, in a
# text that does not name the events. Different kinds are never compared.
Observable = Literal["hitm", "ibs", "peer", "unknown"]

# Evidence for a name: "A" the address lies in it and a function known to access it there was
# sampled; "B" only one of the two.
Grade = Literal["A", "B"]

Sharing = Literal["true", "false", "mixed"]

CountModel = Literal["Poisson", "negative binomial"]

SourceKind = Literal["a bundle", "perf.data", "text of perf c2c report"]

# Names of the two sources that ``schedperf c2c`` compares.
Role = Literal["base", "new"]

SortKey = Literal["rmt", "lcl", "tot", "peer", "records"]

_Rate = Annotated[
    float | None, "accesses per `per` operations, estimated from samples; null if not computed"
]
_RateEnd = Annotated[float | None, "bound of the 95% CI of the rate; null if not computed"]
_RatioEnd = Annotated[
    float | None, "bound of the 95% CI of the ratio; null if infinite or not computed"
]
_Samples = Annotated[
    BaseNew[int | None],
    "number of samples in all runs of the side; null if not recorded",
]


def without_counter(name: str) -> str:
    """Return a name without the field ``counter`` of an atomic_t.

    >>> without_counter("task_group.load_avg.counter")
    'task_group.load_avg'
    """
    return name.removesuffix(".counter")


class C2cChange(Struct, frozen=True, kw_only=True):
    """One rate on both sides; only the sample counts if no rate can be computed."""

    samples: _Samples
    base: _Rate = None
    base_low: _RateEnd = None
    base_high: _RateEnd = None
    new: _Rate = None
    new_low: _RateEnd = None
    new_high: _RateEnd = None
    ratio: Annotated[
        float | None, "rate in new / rate in base; null if the base rate is 0 or unknown"
    ] = None
    ratio_low: _RatioEnd = None
    ratio_high: _RatioEnd = None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    p: Annotated[
        float | None, "p-value before the multiple-testing correction; null if not tested"
    ] = None
    q: Annotated[
        float | None, "p-value after Benjamini-Hochberg correction over all rates tested together"
    ] = None
    least_ratio: Annotated[
        float | None, "smallest detectable ratio above 1 with this many runs (80% power)"
    ] = None
    changed: Annotated[bool, "true if the change is significant (q < 0.05)"] = False

    @property
    def rates(self) -> BaseNew[float | None]:
        """The rates of base and of new; None if not computed."""
        return BaseNew(base=self.base, new=self.new)


class C2cTotals(Struct, frozen=True, kw_only=True):
    """Contended loads and stores, summed over all addresses."""

    remote: C2cChange
    local: C2cChange
    stores: C2cChange


class C2cNode(Struct, frozen=True, kw_only=True):
    """Accesses of one NUMA node's CPUs to a range of bytes of a line."""

    node: Annotated[int, "NUMA node of the accessing CPU; -1 if unknown"]
    reads: int
    writes: int
    local: int
    remote: int


class C2cSymbol(Struct, frozen=True, kw_only=True):
    """A function that accesses a range of bytes of a line."""

    symbol: str
    samples: int
    writes: Annotated[int, "number of stores among `samples`"]


class C2cCommand(Struct, frozen=True, kw_only=True):
    """Tasks of one name that access a range of bytes of a line."""

    command: str
    samples: int


class C2cAccess(Struct, frozen=True, kw_only=True):
    """Accesses to one range of bytes of a line, by CPU, node, function and command."""

    offset: Annotated[int, "offset of the first byte in the cache line, bytes"]
    size: Annotated[
        int | None,
        "number of bytes from `offset` to the end of the named field; null if no field of at most "
        "8 bytes is known at `offset`. Samples do not record the access size",
    ]
    name: str | None
    grade: Annotated[
        Grade | None,
        "confidence in the name: A if both the sampled address and an accessing function match "
        "the name, B if only one of them does",
    ]
    reads: Annotated[
        int | None, "number of sampled loads; null if the source does not count loads per offset"
    ]
    writes: int
    local: Annotated[int, "number of sampled contended loads served by the same node"]
    remote: Annotated[int, "number of sampled contended loads served by another node"]
    readers: Annotated[str | None, "CPUs that read the bytes, e.g. 0-3,8; null if not recorded"]
    writers: Annotated[str | None, "CPUs that wrote the bytes, e.g. 0-3,8; null if not recorded"]
    nodes: Annotated[
        tuple[C2cNode, ...] | None,
        "accesses per NUMA node of the accessing CPU; null if not recorded",
    ]
    symbols: Annotated[tuple[C2cSymbol, ...], "functions that access the bytes, most samples first"]
    commands: Annotated[
        tuple[C2cCommand, ...] | None,
        "names of the tasks that access the bytes, most samples first; null if not recorded",
    ]

    @property
    def contended(self) -> int:
        """Number of sampled contended loads of these bytes."""
        return self.remote + self.local


class C2cSeen(Struct, frozen=True, kw_only=True):
    """A line on one side, all runs together."""

    key: str
    copies: Annotated[int | None, "number of contended copies of a per-CPU line; null if unknown"]
    stores: Annotated[int, "number of sampled stores"]
    records: Annotated[
        int, '"Total records" as perf counts them, including the records that it counts twice'
    ]
    loads: Annotated[
        int | None,
        "number of loads as perf counts them, including those that it counts twice; "
        "null if unknown",
    ]
    double_counted: Annotated[
        int | None, "number of records that perf counts twice; null if unknown"
    ]
    sharing: Annotated[
        Sharing | None,
        "true: CPUs access the same bytes; false: different bytes; mixed: both; null if no write "
        "by another CPU was sampled or recorded",
    ]
    false_share: Annotated[
        float | None, "fraction of contended samples with false sharing, 0 to 1; null if unknown"
    ]
    accesses: tuple[C2cAccess, ...]
    attributed: Annotated[
        float | None,
        "fraction of the contended loads that are attributed to writing functions, 0 to 1: those "
        "with a sampled write by another CPU; null if the source does not record CPUs",
    ] = None

    @property
    def contended(self) -> int:
        """Number of sampled contended loads of the whole line."""
        return sum(access.contended for access in self.accesses)


class C2cPair(Struct, frozen=True, kw_only=True):
    """Two functions that contend for a line: one reads what the other one writes."""

    reader: Annotated[str, "function with the contended loads"]
    writer: Annotated[str, "function that writes to the line on other CPUs"]


class C2cPairRow(C2cPair, frozen=True, kw_only=True):
    """The contended loads of a pair of functions on both sides."""

    row: Annotated[str, "id of the row; evidence refers to it as c2c#ROW"]
    share: Annotated[
        BaseNew[float | None],
        "fraction of the contended loads of the line or lines, 0 to 1; null if not sampled",
    ]
    loads: Annotated[
        C2cChange,
        "remote and local contended loads of `reader`. A sample does not record which write made "
        "it slow: each load is divided among the writes of other CPUs to the line, so the "
        "samples are expected numbers, rounded",
    ]


class C2cSampledPair(C2cPair, frozen=True, kw_only=True):
    """The contended loads of a pair of functions on one line of a single source."""

    share: Annotated[float, "fraction of the contended loads of the line, 0 to 1"]
    samples: Annotated[float, "expected number of contended loads"]


class C2cLineRow(Struct, frozen=True, kw_only=True):
    """One cache line on both sides."""

    row: Annotated[str, "id of the row; evidence refers to it as c2c#ROW"]
    name: Annotated[str | None, "most contended variable or field on the line; null if unknown"]
    names: Annotated[tuple[str, ...], "all accessed variables and fields, most contended first"]
    unmatched: Annotated[str | None, "reason why the line is not compared; null if compared"]
    remote: C2cChange
    local: C2cChange
    base: Annotated[C2cSeen | None, "the line in base; null if not sampled in base"]
    new: Annotated[C2cSeen | None, "the line in new; null if not sampled in new"]
    pairs: Annotated[
        tuple[C2cPairRow, ...],
        "pairs of functions that contend for the line, most contended first; empty if the line is "
        "not compared, if no write by another CPU was sampled, or if a source does not record CPUs",
    ] = ()

    @property
    def sides(self) -> BaseNew[C2cSeen | None]:
        """The line in base and in new; None if the side did not sample it."""
        return BaseNew(base=self.base, new=self.new)

    @property
    def seen(self) -> tuple[C2cSeen, ...]:
        """The line on the sides that sampled it, base first."""
        return tuple(seen for seen in self.sides if seen is not None)

    @property
    def is_changed(self) -> bool:
        """Whether the rate of remote or of local contended loads changed significantly."""
        return self.remote.changed or self.local.changed


class C2cPoint(Struct, frozen=True, kw_only=True):
    """One point of a workload: how memory accesses were sampled, and the contended lines."""

    workload: str
    point: str
    runs: BaseNew[int]
    observable: Annotated[
        BaseNew[Observable],
        "what counts as a contended load: hitm (hit a modified line, Intel), ibs (hit a modified "
        "line, AMD IBS), peer (served by another core's cache, Arm SPE), unknown (hit a modified "
        "line; the events are not recorded). Rates of sides with different values are not compared",
    ]
    events: Annotated[BaseNew[tuple[str, ...]], "event names as perf prints them"]
    perf_events: Annotated[
        BaseNew[tuple[PerfEvent, ...]], "name, PMU and modifiers of each sampled event"
    ]
    period: Annotated[
        BaseNew[int | None], "sampling period: loads per sample; null if not fixed or not recorded"
    ]
    ldlat: Annotated[
        BaseNew[int | None], "minimum latency of sampled loads (ldlat), cycles; null if not set"
    ]
    line_bytes: BaseNew[int]
    store_period: BaseNew[int | None]
    samples: Annotated[BaseNew[int | None], "number of samples in all runs; null if not recorded"]
    reason: Annotated[str | None, "reason why no rates are compared; null if rates are compared"]
    unit: Annotated[str | None, "unit of an operation, e.g. message; null if unknown"]
    per: Annotated[int, "number of operations to which a rate refers"]
    model: CountModel | None
    phi: Annotated[
        float | None,
        "squared run-to-run CV of a rate; null if not estimated",
    ]
    replication: Annotated[Replication, "unit of replication"]
    least_ratio: Annotated[
        float | None,
        "smallest `least_ratio` of all lines; null if no rates are compared",
    ]
    totals: C2cTotals
    lines: tuple[C2cLineRow, ...]
    pairs: Annotated[
        tuple[C2cPairRow, ...],
        "pairs of functions that contend for lines without a match on the other side, of all of "
        "these lines together, most contended first",
    ] = ()
    seen: Annotated[int, "number of cache lines, including lines that are not listed"]
    seen_unmatched: Annotated[BaseNew[int], "number of cache lines that are not compared"]
    notes: Annotated[tuple[str, ...], "what was not measured, one sentence each"]


class C2cComparison(Struct, frozen=True, kw_only=True):
    """The points that were sampled both on base and on one new side."""

    side: str
    points: tuple[C2cPoint, ...]
    notes: tuple[str, ...]


class C2c(SectionData, frozen=True, kw_only=True):
    """Contended cache lines of each new side against those of base."""

    section: ClassVar[str] = "c2c"
    version: ClassVar[int] = 1
    table: ClassVar[str] = "comparisons.points.lines"
    collector: ClassVar[str] = "perf_c2c"

    comparisons: tuple[C2cComparison, ...]
    missing: tuple[MissingSide, ...]


class C2cTimedAccess(C2cAccess, frozen=True, kw_only=True):
    """Accesses to one range of bytes in a single source, with their latency."""

    mean_weight: Annotated[
        float | None, "mean latency of contended loads, cycles; null if not recorded"
    ]


class C2cSampledLine(C2cSeen, frozen=True, kw_only=True):
    """One cache line of a single source."""

    name: Annotated[str | None, "most contended variable or field on the line; null if unknown"]
    remote: Annotated[int, "number of sampled contended loads served by another node"]
    local: Annotated[int, "number of sampled contended loads served by the same node"]
    accesses: tuple[C2cTimedAccess, ...]
    pairs: Annotated[tuple[C2cSampledPair, ...], "as in the comparison, most contended first"] = ()


class C2cSource(Struct, frozen=True, kw_only=True):
    """A bundle, a perf.data or the text of a report, and the lines in it."""

    side: Annotated[Role | None, "base or new; null if only one source was given"]
    kind: SourceKind
    label: str
    path: str
    point: Annotated[
        str, "workload and parameters of the runs, if the source is a bundle; otherwise empty"
    ]
    runs: int
    observable: Observable
    events: Annotated[tuple[str, ...], "event names as perf prints them"]
    perf_events: Annotated[tuple[PerfEvent, ...], "name, PMU and modifiers of each sampled event"]
    period: Annotated[
        int | None, "sampling period: loads per sample; null if not fixed or not recorded"
    ]
    ldlat: Annotated[
        int | None, "minimum latency of sampled loads (ldlat), cycles; null if not set"
    ]
    line_bytes: int
    totals: Annotated[
        Mapping[str, int],
        "number of samples in all runs; the keys are the labels of `perf c2c report` in snake case",
    ]
    lines: Annotated[tuple[C2cSampledLine, ...], "sorted by `sort`"]
    damage: Annotated[
        tuple[str, ...], "omitted parts of a damaged report, one sentence each; empty if none"
    ] = ()
    notes: Annotated[tuple[str, ...], "what was not measured, one sentence each"]


class C2cDocument(Struct, frozen=True, kw_only=True):
    """Output of ``schedperf c2c --json``: one source, or two and their comparison."""

    schema: Literal["schedperf/c2c/1"] = "schedperf/c2c/1"
    tool_version: str
    sort: SortKey
    sides: Annotated[tuple[C2cSource, ...], "one or two"]
    comparison: Annotated[
        C2cPoint | None, "comparison of base and new; null if only one source was given"
    ]
