# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the record of section ``pelt``: calls of the PELT functions, and their durations."""

from collections.abc import Hashable, Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Struct

from schedperf.model.counted import BinsRow, CpuRow, RateRow
from schedperf.model.sections import MissingSide, SectionData

What = Literal["calls", "mean", "trimmed", "p50", "p99", "share"]
Per = Literal["wakeup", "operation", "second", ""]
Interval = tuple[float, float]


class PeltProbe(Struct, frozen=True, kw_only=True):
    """Probe overhead per call: means over runs; each interval spans the intervals of all runs."""

    mechanism: str
    on: Annotated[str, "function on which the overhead was measured"]
    empty_ns: Annotated[
        float | None,
        "time in ns that an empty entry probe and an empty exit probe add to a call; "
        "null if not measured",
    ]
    empty_ci: Interval | None
    pair_ns: Annotated[
        float | None, "time in ns that the timing probes add to a timed call; null if not measured"
    ]
    pair_ci: Interval | None
    reads_ns: Annotated[
        float | None,
        "duration in ns that the timing probes measure for an almost empty function; "
        "null if not measured",
    ]
    reads_ci: Interval | None


class PeltSide(Struct, frozen=True, kw_only=True):
    """Traced runs of one side, and the probe mechanisms used."""

    side: str
    runs: int
    seconds: Annotated[float, "traced time in s, summed over all runs"]
    sampling: Annotated[
        tuple[int, ...], "N if 1 in N calls is timed; more than one value if runs differ"
    ]
    emulated: Annotated[bool | None, "whether an emulator ran the kernel; null if unknown"]
    mechanisms: Annotated[
        Mapping[str, tuple[str, ...]], "mechanisms of the probes, by name of the probed function"
    ]
    markers: Annotated[
        Mapping[str, tuple[str, ...]],
        "kernel functions that mark a context while they run, by name of the context",
    ]
    missing: Annotated[
        Mapping[str, str], "reason why a context could not be marked, by name of the context"
    ]
    probe: PeltProbe | None


class PeltRow(RateRow, frozen=True, kw_only=True):
    """Calls of one function, or their duration."""

    function: Annotated[str, "kernel function or tracepoint"]
    what: Annotated[
        What,
        "calls (count); mean, trimmed (mean of the calls without the slowest 1%), p50 or p99 (call "
        "duration); share (of total CPU time)",
    ]
    per: Annotated[Per, "denominator of the rate of calls; empty for durations and shares"]
    node: Annotated[int | None, "NUMA node; null for all CPUs"]
    context: Annotated[str, "context of the calls, e.g. enqueue; empty for all calls"]
    status: Annotated[Literal["ok", "invalid"], "invalid if base and new are not comparable"]
    reason: Annotated[str | None, "why the row is invalid; null if it is ok"]
    remarks: Annotated[tuple[str, ...], "limitations of the values"]
    total_base: Annotated[
        float | None, "number of calls per run, mean over runs; null for durations and shares"
    ]
    total_new: float | None
    read_base: Annotated[
        float | None,
        "value before probe overhead was subtracted; null unless the row is a mean, a trimmed "
        "mean or a share",
    ]
    read_new: float | None
    resolution_base: Annotated[
        float | None,
        "width in s of the histogram bin that contains the quantile; "
        "null unless the row is a p50 or p99",
    ]
    resolution_new: float | None
    few_calls: Annotated[
        bool,
        "true if the slowest 1% of the calls dominate the mean or the share of CPU time; "
        "`remarks` contains the fraction of the total duration that they take",
    ] = False

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """Key of the row: side, workload, point, function, statistic, node and context."""
        where = self.side, self.workload, self.point
        return *where, self.function, self.what, self.node, self.context

    @property
    def mechanism(self) -> str | None:
        """Function, statistic and context; None for single nodes."""
        return None if self.node is not None else super().mechanism

    @property
    def statistic(self) -> str:
        """Name of the statistic: "calls", "mean", "trimmed", "p50", "p99" or "share"."""
        return self.what

    @property
    def why_invalid(self) -> str | None:
        """Why the two sides are not comparable; None if they are."""
        return self.reason


class TriedMechanism(Struct, frozen=True, kw_only=True):
    """A mechanism that cannot observe a function, and the reason."""

    mechanism: str
    reason: str


class UnseenFunction(Struct, frozen=True, kw_only=True):
    """A function that was not measured in some runs of a side.

    :param runs: number of these runs
    :param tried: the mechanisms that failed in them
    """

    side: str
    function: str
    runs: int
    tried: tuple[TriedMechanism, ...]


class PeltHistogram(Struct, frozen=True, kw_only=True):
    """Durations of the calls of one function on one side."""

    side: str
    workload: str
    point: str
    function: str
    runs: int
    log2_ns: Annotated[
        tuple[int, ...],
        "number of calls per bin; bin i counts durations with 2**i <= ns < 2**(i + 1), bin 0 "
        "also 0 ns",
    ]
    linear_ns: Annotated[
        tuple[int, ...],
        "number of calls per bin; bin i counts durations with i * step <= ns < (i + 1) * step; "
        "the last bin has no upper bound",
    ]
    linear_step_ns: int


class PeltBinsRow(BinsRow, frozen=True, kw_only=True):
    """Durations of the calls of one function in s, new vs base."""

    function: str


class CrossCheck(Struct, frozen=True, kw_only=True):
    """Calls of one function, also counted with execution breakpoints.

    :param runs: number of runs with both counts
    :param calls: counted by probes, summed over these runs
    :param breakpoint: counted by breakpoints, summed over these runs
    :param agrees: True if the counts differ by at most 1%, or by at most two calls per run
    """

    side: str
    function: str
    runs: int
    calls: int
    breakpoint: int
    agrees: bool


class Pelt(SectionData, frozen=True, kw_only=True):
    """PELT updates: how often, from which contexts, and how long they took."""

    section: ClassVar[str] = "pelt"
    version: ClassVar[int] = 1
    collector: ClassVar[str] = "bpf_pelt"

    sides: tuple[PeltSide, ...]
    rows: tuple[PeltRow, ...]
    unseen: Annotated[
        tuple[UnseenFunction, ...], "functions that were not measured, with the reasons"
    ]
    histograms: Annotated[
        tuple[PeltHistogram, ...], "histograms of call durations, summed over CPUs and runs"
    ]
    bins: Annotated[
        tuple[PeltBinsRow, ...], "histograms of call durations in s: share of calls per bin"
    ]
    cpus: Annotated[
        tuple[CpuRow, ...],
        "per CPU: calls per second, and share of the CPU's time spent in the function",
    ]
    cross_checks: Annotated[
        tuple[CrossCheck, ...],
        "calls counted by probes, compared with calls counted by execution breakpoints",
    ]
    missing: tuple[MissingSide, ...]
    notes: tuple[str, ...]
