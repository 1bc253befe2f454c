# SPDX-License-Identifier: GPL-2.0-or-later
"""Record of the section ``pelt``: calls of PELT's functions, and what they took."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from schedperf.model.comparison import MissingSide, SectionData
from schedperf.model.counted import BinsRow, CpuRow, RateRow

What = Literal["calls", "mean", "p50", "p99", "share"]
Per = Literal["wakeup", "operation", "second", ""]
Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class PeltProbe:
    """What probes cost a call, mean over the runs; the intervals span those of all runs."""

    mechanism: str
    on: Annotated[str, "the function that the cost was measured on"]
    empty_ns: Annotated[float | None, "what an empty pair of programs adds to a call"]
    empty_ci: Interval | None
    pair_ns: Annotated[float | None, "what the pair that takes the time adds to a call"]
    pair_ci: Interval | None
    reads_ns: Annotated[
        float | None, "what the timing pair reads of a function that does next to nothing"
    ]
    reads_ci: Interval | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PeltSide:
    """The traced runs of one side, and how calls were seen in them."""

    side: str
    runs: int
    seconds: Annotated[float, "of all runs together"]
    sampling: Annotated[tuple[int, ...], "one in so many calls was timed"]
    emulated: Annotated[bool | None, "null: unknown"]
    mechanisms: Annotated[Mapping[str, tuple[str, ...]], "by function"]
    markers: Annotated[
        Mapping[str, tuple[str, ...]], "by context, the functions around which it is set"
    ]
    missing: Annotated[Mapping[str, str], "contexts that could not be marked, with the reason"]
    probe: PeltProbe | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PeltRow(RateRow):
    """Calls of one function, or what they took."""

    function: Annotated[str, "of the kernel, or a tracepoint"]
    what: Annotated[What, "share: of the time that the CPUs had"]
    per: Annotated[Per, "what calls are divided by; else empty"]
    node: Annotated[int | None, "null: all CPUs"]
    context: Annotated[str, "what the CPU was doing; empty: all calls"]
    status: Annotated[Literal["ok", "invalid"], "invalid: values that are not comparable"]
    reason: Annotated[str | None, "why it is invalid"]
    remarks: Annotated[tuple[str, ...], "what weakens it"]
    total_base: Annotated[float | None, "calls in a run, mean over runs"]
    total_new: float | None
    read_base: Annotated[
        float | None, "of a mean or share: before the probe overhead was subtracted"
    ]
    read_new: float | None
    resolution_base: Annotated[float | None, "of a quantile: width in s of the bin that it is in"]
    resolution_new: float | None

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """What is said of the function, and where its calls were counted."""
        where = self.side, self.workload, self.point
        return *where, self.function, self.what, self.node, self.context

    @property
    def statistic(self) -> str:
        """The quantile; of means, shares and calls their name."""
        return self.what

    @property
    def why_invalid(self) -> str | None:
        """Why the two sides were not seen in the same way."""
        return self.reason


@dataclass(frozen=True, kw_only=True, slots=True)
class TriedMechanism:
    """A mechanism that cannot see a function, and why."""

    mechanism: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class UnseenFunction:
    """A function that some runs of a side could not see."""

    side: str
    function: str
    runs: int
    tried: tuple[TriedMechanism, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PeltHistogram:
    """Durations of calls of one side."""

    side: str
    workload: str
    point: str
    function: str
    runs: int
    log2_ns: Annotated[tuple[int, ...], "bin i: 2**i <= ns < 2**(i + 1), bin 0 also 0 ns"]
    linear_ns: Annotated[
        tuple[int, ...], "bin i: i * step <= ns < (i + 1) * step; the last is open"
    ]
    linear_step_ns: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PeltBinsRow(BinsRow):
    """Durations of the calls of one function in s, new vs base."""

    function: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CrossCheck:
    """Calls of one function, counted a second time by breakpoints."""

    side: str
    function: str
    runs: int
    calls: int
    breakpoint: int
    agrees: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Pelt(SectionData):
    """How often PELT was updated, from where, and how long that took."""

    section: ClassVar[str] = "pelt"
    version: ClassVar[int] = 1

    sides: tuple[PeltSide, ...]
    rows: tuple[PeltRow, ...]
    unseen: Annotated[
        tuple[UnseenFunction, ...], "what no mechanism could observe, with each reason"
    ]
    histograms: Annotated[tuple[PeltHistogram, ...], "sums over CPUs and runs"]
    bins: Annotated[tuple[PeltBinsRow, ...], "durations of calls in s, their shares side by side"]
    cpus: Annotated[tuple[CpuRow, ...], "what each CPU counted"]
    cross_checks: Annotated[tuple[CrossCheck, ...], "calls counted a second time"]
    missing: tuple[MissingSide, ...]
    notes: tuple[str, ...]
