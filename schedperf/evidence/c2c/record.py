# SPDX-License-Identifier: GPL-2.0-or-later
"""The record of contended cache lines: which bounce between CPUs, and who touches their bytes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from schedperf.model.comparison import BaseNew, MissingSide, Replication, SectionData
from schedperf.model.perf_event import PerfEvent

# What a machine can see of a line that another CPU modified. They are different observables and
# never compared with each other: "hitm" is a load that hit a modified line (Intel), "ibs" the same
# as AMD's instruction-based sampling reports it, "peer" a load that a peer's cache answered, be the
# line modified or not (Arm SPE).
Observable = Literal["hitm", "ibs", "peer"]

# What is known of a name: "A" the address lies in it and the code's own symbol touches it too,
# "B" the address alone.
Grade = Literal["A", "B"]

Sharing = Literal["true", "false", "mixed"]

CountModel = Literal["Poisson", "negative binomial"]

SourceKind = Literal["a bundle", "perf.data", "text of perf c2c report"]

# Of the two sources that ``schedperf c2c`` compares.
Role = Literal["base", "new"]

SortKey = Literal["rmt", "lcl", "tot", "peer", "records"]

_Rate = Annotated[float | None, "accesses, sampled or not, for each `per` operations"]
_RateEnd = Annotated[float | None, "end of the 95% CI"]
_RatioEnd = Annotated[float | None, "end of the 95% CI; null where nothing bounds it"]
_Samples = Annotated[
    BaseNew[int | None],
    "of all runs together; null on a side that does not say how many",
]


def say_name(name: str) -> str:
    """Return a name as one says it, an atomic_t without its only field.

    >>> say_name("task_group.load_avg.counter")
    'task_group.load_avg'
    """
    return name.removesuffix(".counter")


@dataclass(frozen=True, kw_only=True, slots=True)
class C2cChange:
    """One rate on both sides; nothing but the samples where no rate can be known."""

    samples: _Samples
    base: _Rate = None
    base_low: _RateEnd = None
    base_high: _RateEnd = None
    new: _Rate = None
    new_low: _RateEnd = None
    new_high: _RateEnd = None
    ratio: Annotated[float | None, "new / base; null where base has none"] = None
    ratio_low: _RatioEnd = None
    ratio_high: _RatioEnd = None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    p: Annotated[float | None, "null where nothing was tested"] = None
    q: Annotated[float | None, "p after Benjamini and Hochberg's correction, all lines"] = None
    least_ratio: Annotated[
        float | None, "smallest detectable ratio above 1 with as many runs (80% power)"
    ] = None
    changed: Annotated[bool, "significant: q below 0.05"] = False

    @property
    def rates(self) -> BaseNew[float | None]:
        """The rates of base and of new."""
        return BaseNew(base=self.base, new=self.new)


@dataclass(frozen=True, kw_only=True, slots=True)
class C2cTotals:
    """What was counted over all addresses."""

    remote: C2cChange
    local: C2cChange
    stores: C2cChange


@dataclass(frozen=True, kw_only=True, slots=True)
class C2cNode:
    """What the CPUs of one NUMA node did to some bytes of a line."""

    node: Annotated[int, "-1: the CPU that read or wrote has none"]
    reads: int
    writes: int
    local: int
    remote: int


@dataclass(frozen=True, kw_only=True, slots=True)
class C2cSymbol:
    """A function that touched some bytes of a line."""

    symbol: str
    samples: int
    writes: Annotated[int, "of the samples are stores"]


@dataclass(frozen=True, kw_only=True, slots=True)
class C2cCommand:
    """A task, by name, that was running when some bytes of a line were touched."""

    command: str
    samples: int


@dataclass(frozen=True, kw_only=True, slots=True)
class C2cAccess:
    """Who touched one stretch of bytes of a line, and how."""

    offset: Annotated[int, "of the first byte in the line"]
    size: Annotated[
        int | None,
        "bytes from there to the end of the named field; null: no field of at most 8 bytes is "
        "known. How far an access reached no sample says",
    ]
    name: str | None
    grade: Annotated[
        Grade | None,
        "A: the code that touches it is known to; B: the address alone says so",
    ]
    reads: Annotated[int | None, "null: the source has none by offset"]
    writes: int
    local: Annotated[int, "contended samples of the same node"]
    remote: Annotated[int, "contended samples of another node"]
    readers: Annotated[str | None, "CPUs that read: 0-3,8; null: not said"]
    writers: Annotated[str | None, "CPUs that wrote"]
    nodes: Annotated[
        tuple[C2cNode, ...] | None, "by the node of the CPU that read or wrote; null: not said"
    ]
    symbols: Annotated[tuple[C2cSymbol, ...], "functions, most samples first"]
    commands: Annotated[
        tuple[C2cCommand, ...] | None,
        "names of the tasks that were running, most samples first; null: not said",
    ]

    @property
    def contended(self) -> int:
        """How many samples say that the line moved between caches for these bytes."""
        return self.remote + self.local


@dataclass(frozen=True, kw_only=True, slots=True)
class C2cSeen:
    """A line as one side saw it, all runs together."""

    key: str
    copies: Annotated[int | None, "CPUs whose copy of a per-CPU line was touched; null: unknown"]
    stores: Annotated[int, "samples of stores"]
    records: Annotated[int, "perf's total records, with what it counts twice"]
    loads: Annotated[int | None, "perf's total loads, with what it counts twice; null: unknown"]
    double_counted: Annotated[
        int | None, "how many of the records perf counts twice; null: unknown"
    ]
    sharing: Annotated[Sharing | None, "true: CPUs touch the same bytes; null: one CPU alone"]
    false_share: Annotated[float | None, "part of the contended samples, 0 to 1"]
    accesses: tuple[C2cAccess, ...]

    @property
    def contended(self) -> int:
        """How many contended samples all bytes of the line have together."""
        return sum(access.contended for access in self.accesses)


@dataclass(frozen=True, kw_only=True, slots=True)
class C2cLineRow:
    """One cache line on both sides."""

    row: Annotated[str, "id of the row, for evidence: c2c#ROW"]
    name: Annotated[str | None, "the most sampled that lies on it"]
    names: Annotated[tuple[str, ...], "all that was touched, most contended samples first"]
    unmatched: Annotated[str | None, "why it is not compared"]
    remote: C2cChange
    local: C2cChange
    base: Annotated[C2cSeen | None, "null: not measured on that side"]
    new: Annotated[C2cSeen | None, "null: not measured on that side"]

    @property
    def sides(self) -> BaseNew[C2cSeen | None]:
        """The line as base and as new saw it."""
        return BaseNew(base=self.base, new=self.new)

    @property
    def seen(self) -> tuple[C2cSeen, ...]:
        """The line on the sides that saw it, base first."""
        return tuple(seen for seen in self.sides if seen is not None)

    @property
    def is_changed(self) -> bool:
        """Whether it moves between caches significantly more or less often than before."""
        return self.remote.changed or self.local.changed


@dataclass(frozen=True, kw_only=True, slots=True)
class C2cPoint:
    """One point of a workload: what its samples rest on, and its lines."""

    workload: str
    point: str
    runs: BaseNew[int]
    observable: Annotated[
        BaseNew[Observable],
        "what the machine sees of a line that another CPU had: three different things",
    ]
    events: Annotated[BaseNew[tuple[str, ...]], "as perf prints them"]
    perf_events: Annotated[BaseNew[tuple[PerfEvent, ...]], "the same in parts"]
    period: Annotated[BaseNew[int | None], "loads from one sampled one to the next"]
    ldlat: Annotated[BaseNew[int | None], "least latency of a sampled load, cycles"]
    line_bytes: BaseNew[int]
    store_period: BaseNew[int | None]
    samples: Annotated[BaseNew[int | None], "of all runs together; null: not said"]
    reason: Annotated[str | None, "why no rates are compared"]
    unit: Annotated[str | None, "what an operation is; null: unknown"]
    per: Annotated[int, "rates are for so many operations"]
    model: CountModel | None
    phi: Annotated[float | None, "squared variation of a rate from run to run"]
    replication: Annotated[Replication, "what is independent"]
    least_ratio: Annotated[
        float | None,
        "smallest detectable ratio, on the line with most samples",
    ]
    totals: C2cTotals
    lines: tuple[C2cLineRow, ...]
    seen: Annotated[int, "how many lines there are in all"]
    seen_unmatched: Annotated[BaseNew[int], "how many of them are not compared"]
    notes: Annotated[tuple[str, ...], "what was not measured, one sentence each"]


@dataclass(frozen=True, kw_only=True, slots=True)
class C2cComparison:
    """The points that were sampled on base and on one new side."""

    side: str
    points: tuple[C2cPoint, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class C2c(SectionData):
    """Contended cache lines of each new side against those of base."""

    section: ClassVar[str] = "c2c"
    version: ClassVar[int] = 1

    comparisons: tuple[C2cComparison, ...]
    missing: tuple[MissingSide, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class C2cTimedAccess(C2cAccess):
    """The same of one source alone, with its latency."""

    mean_weight: Annotated[
        float | None, "latency of a contended load, in cycles; null: not recorded"
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class C2cSampledLine(C2cSeen):
    """One cache line of one source alone."""

    name: Annotated[str | None, "of what lies on it; null: unknown"]
    remote: Annotated[int, "contended loads that another node answered, samples"]
    local: Annotated[int, "contended loads of the same node"]
    accesses: tuple[C2cTimedAccess, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class C2cSource:
    """A bundle, a perf.data or the text of a report, and the lines in it."""

    side: Annotated[Role | None, "null of one side alone"]
    kind: SourceKind
    label: str
    path: str
    point: Annotated[str, "workload and point; empty where there is no bundle"]
    runs: int
    observable: Observable
    events: Annotated[tuple[str, ...], "as perf prints them"]
    perf_events: Annotated[tuple[PerfEvent, ...], "the same in parts"]
    period: Annotated[int | None, "loads from one sampled one to the next"]
    ldlat: Annotated[int | None, "least latency of a sampled load, cycles"]
    line_bytes: int
    totals: Annotated[
        Mapping[str, int],
        "samples of all runs under the words of perf c2c report, in snake case",
    ]
    lines: Annotated[tuple[C2cSampledLine, ...], "in the order of `sort`"]
    notes: Annotated[tuple[str, ...], "what was not measured, one sentence each"]


@dataclass(frozen=True, kw_only=True, slots=True)
class C2cDocument:
    """What ``schedperf c2c --json`` prints: one source, or two and their comparison."""

    schema: Literal["schedperf/c2c/1"] = "schedperf/c2c/1"
    tool_version: str
    sort: SortKey
    sides: Annotated[tuple[C2cSource, ...], "one or two"]
    comparison: Annotated[C2cPoint | None, "null of one side alone"]
