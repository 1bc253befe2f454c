# SPDX-License-Identifier: GPL-2.0-or-later
"""Compute the values of one run: rates of calls, and durations with their quantiles.

Calls are divided by the time, by the operations of the benchmark and by the wakeups of the run.
Those of a node or of a context are divided by the same, so that the parts add up to the whole.

Durations are two histograms: linear bins are fine where durations are short, log2 bins reach as far
as they must. Both hold the same calls, so together they are one cumulative distribution: its steps
are the edges of the linear bins, and beyond their end those of the log2 bins.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

from schedperf.evidence.pelt.capture import Bins, Counts, Durations, FunctionCalls, PeltCapture
from schedperf.evidence.pelt.record import What
from schedperf.model.counted import Basis
from schedperf.model.run import Captured
from schedperf.stats.counted.rates import Measure, divide

NS_PER_S = 1e9
# Share of the calls in a trimmed mean: the slowest are left out. A call that is interrupted or
# whose virtual CPU is stalled takes milliseconds, and a few of them carry the mean.
TRIMMED = 0.99
# Contexts whose calls a clock drives: more per wakeup only says that a run took longer.
CLOCKED = frozenset({"tick"})
# Statistics of which probe overhead may be subtracted.
NET: frozenset[What] = frozenset({"mean", "trimmed", "share"})
QUANTILES: Mapping[What, float] = {"p50": 0.5, "p99": 0.99}


class Histogram(Struct, frozen=True, kw_only=True):
    """Calls by their duration.

    :param log2_ns: bin i holds 2**i <= ns < 2**(i + 1), bin 0 also 0 ns; the last one is open
    :param linear_ns: bin i holds i * step <= ns < (i + 1) * step; the last one is open
    """

    log2_ns: tuple[int, ...]
    linear_ns: tuple[int, ...]
    linear_step_ns: int

    @property
    def timed(self) -> int:
        """Number of timed calls."""
        return sum(self.log2_ns)


class Quantile(Struct, frozen=True, kw_only=True):
    """A quantile of the durations, in s.

    :param resolution: width in s of the bin in which it was interpolated
    """

    value: float
    resolution: float


def merge(durations: Iterable[Durations]) -> Histogram | None:
    """Add the histograms of all CPUs; None without calls, or where their bins differ."""
    parts = list(durations)
    steps = {part.linear_step_ns for part in parts}
    log2, linear = (
        _add(bins)
        for bins in ([part.log2_ns for part in parts], [part.linear_ns for part in parts])
    )
    if len(steps) != 1 or log2 is None or linear is None or not sum(log2):
        return None
    return Histogram(log2_ns=log2, linear_ns=linear, linear_step_ns=steps.pop())


def _add(by_cpu: Iterable[Bins]) -> tuple[int, ...] | None:
    rows = [counts for bins in by_cpu for counts in bins.values()]
    if len({len(row) for row in rows}) != 1:
        return None
    return tuple(map(sum, zip(*rows, strict=True)))


def quantile(histogram: Histogram, share: float) -> Quantile | None:
    """Return a quantile of the durations.

    Calls are assumed to be spread evenly over a linear bin, and evenly over the logarithm of the
    duration in a log2 bin.

    :param share: of the quantile, above 0 and below 1
    :return: None if the quantile is in the open-ended last bin
    """
    rank, before = share * histogram.timed, 0
    for low, high, count in _bins(histogram):
        if before + count >= rank and count:
            part = (rank - before) / count
            is_linear = high <= _linear_end(histogram)
            inside = low + part * (high - low) if is_linear else low * (high / low) ** part
            return Quantile(value=inside / NS_PER_S, resolution=(high - low) / NS_PER_S)
        before += count
    return None


def trimmed_mean_ns(histogram: Histogram) -> float | None:
    """Return the mean duration of the calls without the slowest 1%, in ns.

    Calls are assumed to be spread within bins as by :func:`quantile`.

    :return: None if one of them is in the open-ended last bin
    """
    kept, total = TRIMMED * histogram.timed, 0.0
    left = kept
    for low, high, count in _bins(histogram):
        taken = min(float(count), left)
        if taken <= 0.0:
            continue
        part = taken / count
        if high <= _linear_end(histogram):
            mean = low + part * (high - low) / 2.0
        else:
            top = low * (high / low) ** part
            mean = (top - low) / math.log(top / low)
        total += taken * mean
        left -= taken
    return total / kept if left < 1.0 else None


def slowest_share(histogram: Histogram, sum_ns: float) -> float | None:
    """Return the share of the measured time that the slowest 1% of the calls took.

    :param sum_ns: of all timed calls
    """
    mean = trimmed_mean_ns(histogram)
    if mean is None or not sum_ns:
        return None
    return max(1.0 - TRIMMED * histogram.timed * mean / sum_ns, 0.0)


def _linear_end(histogram: Histogram) -> int:
    # The last linear bin is open-ended; the log2 bins resolve its calls.
    return (len(histogram.linear_ns) - 1) * histogram.linear_step_ns


def _bins(histogram: Histogram) -> Iterable[tuple[int, int, int]]:
    # From, to and calls of each bin that is closed, without a gap.
    step, end = histogram.linear_step_ns, _linear_end(histogram)
    below = 0
    for index, count in enumerate(histogram.linear_ns[:-1]):
        below += count
        yield index * step, (index + 1) * step, count
    start, reached = end, 0
    for power, count in enumerate(histogram.log2_ns[:-1]):
        reached += count
        high = 2 ** (power + 1)
        if high > end:
            # A log2 bin may begin within the linear bins: the calls in these are subtracted. The
            # two may differ by a call made while counting started or stopped.
            yield max(start, 1), high, max(reached - below, 0)
            start, below = high, max(reached, below)


class Key(NamedTuple):
    """What is measured.

    :param node: None: all CPUs
    :param context: "": all of them
    """

    function: str
    what: What
    node: int | None = None
    context: str = ""


Found = dict[tuple[Key, Basis], Measure]


class Traced(Struct, frozen=True, kw_only=True):
    """The capture of one run, and facts of its machine.

    :param nodes: NUMA node by CPU; empty if unknown
    :param wakeups: of the whole machine in the run; None if not counted
    :param emulated: None: unknown
    """

    capture: PeltCapture
    nodes: Mapping[int, int]
    wakeups: float | None
    emulated: bool | None


def call_counts(run: Captured[Traced]) -> dict[Key, int]:
    """Return the calls of each measured function: in total, by node, and by context."""
    counts: dict[Key, int] = {}
    for function, seen in run.content.capture.functions.items():
        if seen.calls is None:
            continue
        for node, cpus in cpus_by_node(run):
            counts[Key(function, "calls", node)] = _sum(seen.calls, cpus)
        for context, calls in (seen.contexts or {}).items():
            counts[Key(function, "calls", None, context)] = sum(calls.values())
    return counts


def call_measures(run: Captured[Traced]) -> Found:
    """Return calls a second (basis "time"), an operation, and a wakeup (basis "share").

    Calls of :data:`CLOCKED` contexts are only divided by time.
    """
    amounts = {key: Measure(float(count), "1") for key, count in call_counts(run).items()}
    measures = dict(
        divide(
            amounts,
            seconds=run.content.capture.seconds,
            ops=run.ops,
        )
    )
    if run.content.wakeups:
        for key, amount in amounts.items():
            measures[key, "share"] = Measure(amount.value / run.content.wakeups, "1/wakeup")
    return {
        (key, basis): measure
        for (key, basis), measure in measures.items()
        if basis == "time" or key.context not in CLOCKED
    }


def duration_measures(run: Captured[Traced], net: Collection[str]) -> Found:
    """Return mean, quantiles and share of CPU time of the functions whose calls were timed.

    The share is the mean times all calls, divided by the time of all CPUs: untimed calls are
    assumed to take as long as timed calls. Probe overhead is not subtracted from quantiles.

    :param net: functions for which probe overhead is subtracted from the mean and the share
    """
    reads = (
        None
        if run.content.capture.empty_probe is None
        else run.content.capture.empty_probe.reads_ns
    )
    measures: Found = {}
    for function, seen in run.content.capture.functions.items():
        if seen.durations is not None:
            own_ns = reads or 0.0 if function in net else 0.0
            measures.update(_durations_of(run, function, seen, seen.durations, own_ns))
    return measures


def _durations_of(
    run: Captured[Traced], function: str, seen: FunctionCalls, durations: Durations, own_ns: float
) -> Iterator[tuple[tuple[Key, Basis], Measure]]:
    for node, cpus in cpus_by_node(run):
        mean = mean_ns(durations, cpus)
        calls = _sum(seen.calls or {}, cpus)
        # CPUs without calls spent no time in the function, and have no mean duration.
        spent = 0.0 if not calls else None if mean is None else calls * (mean - own_ns)
        if mean is not None:
            yield (Key(function, "mean", node), "share"), Measure((mean - own_ns) / NS_PER_S, "s")
        if spent is not None and (count := _count_cpus(run, cpus)):
            share = spent / NS_PER_S / (run.content.capture.seconds * count)
            yield (Key(function, "share", node), "share"), Measure(share, "")
    histogram = merge([durations])
    trimmed = None if histogram is None else trimmed_mean_ns(histogram)
    if trimmed is not None:
        yield (Key(function, "trimmed"), "share"), Measure((trimmed - own_ns) / NS_PER_S, "s")
    for what, read in _quantiles(durations):
        yield (Key(function, what), "share"), Measure(read.value, "s")


def shown_beside(run: Captured[Traced]) -> Iterator[tuple[Key, str, float]]:
    """Yield additional numbers of each measure, by name.

    "total": calls; "read": mean in s, or share, without subtraction of probe overhead;
    "resolution": width in s of the bin that contains a quantile.
    """
    for key, count in call_counts(run).items():
        yield key, "total", float(count)
    for (key, _), measure in duration_measures(run, ()).items():
        if key.what in NET:
            yield key, "read", measure.value
    for function, seen in run.content.capture.functions.items():
        for what, read in _quantiles(seen.durations):
            yield Key(function, what), "resolution", read.resolution


def _quantiles(durations: Durations | None) -> Iterator[tuple[What, Quantile]]:
    histogram = None if durations is None else merge([durations])
    for what, part in QUANTILES.items():
        if histogram is not None and (read := quantile(histogram, part)):
            yield what, read


def mean_ns(durations: Durations, cpus: Collection[int] | None = None) -> float | None:
    """Return the mean measured duration in ns; None if no call was timed.

    :param cpus: of these only
    """
    timed = _sum(durations.timed, cpus)
    return _sum(durations.sum_ns, cpus) / timed if timed else None


def cpus_by_node(run: Captured[Traced]) -> Iterator[tuple[int | None, frozenset[int] | None]]:
    """Yield all CPUs (None), then the CPUs of each node if there are several nodes."""
    yield None, None
    nodes = sorted(set(run.content.nodes.values()))
    if len(nodes) > 1:
        for node in nodes:
            yield (
                node,
                frozenset(cpu for cpu, cpu_node in run.content.nodes.items() if cpu_node == node),
            )


def _count_cpus(run: Captured[Traced], cpus: Collection[int] | None) -> int:
    if cpus is not None:
        return len(cpus)
    seen = {
        cpu for observed in run.content.capture.functions.values() for cpu in observed.calls or ()
    }
    return len(run.content.nodes) or len(seen)


def _sum(counts: Counts, cpus: Collection[int] | None) -> int:
    return sum(count for cpu, count in counts.items() if cpus is None or cpu in cpus)
