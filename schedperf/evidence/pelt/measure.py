# SPDX-License-Identifier: GPL-2.0-or-later
"""Compute the values of one run: rates of calls, and durations with their quantiles.

Calls are divided by the time, by the operations of the benchmark and by the wakeups of the run.
Calls of a node or context have the same divisors, so that the parts add up to the total.

Durations have two histograms of the same calls: linear bins resolve short durations, log2 bins
cover long ones. They are combined to one cumulative distribution, whose steps are the edges of the
linear bins and, after these, the edges of the log2 bins.
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
# Share of the calls in a trimmed mean, without the slowest. A call that is interrupted, or whose
# virtual CPU is stalled, takes milliseconds, and a few of them dominate the mean.
TRIMMED = 0.99
# Contexts with clock-driven calls: an increase per wakeup only shows that a run took longer.
CLOCKED = frozenset({"tick"})
# Statistics from which probe overhead may be subtracted.
NET: frozenset[What] = frozenset({"mean", "trimmed", "share"})
QUANTILES: Mapping[What, float] = {"p50": 0.5, "p99": 0.99}


class Histogram(Struct, frozen=True, kw_only=True):
    """Number of calls by duration.

    :param log2_ns: bin i counts 2**i <= ns < 2**(i + 1), bin 0 also 0 ns; the last bin has no upper
        bound
    :param linear_ns: bin i counts i * step <= ns < (i + 1) * step; the last bin has no upper bound
    :param linear_step_ns: the step, in ns
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
    """Add the histograms of all CPUs, of one or several runs.

    :return: None if no call was timed, or if the number or the width of the bins differs
    """
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

    :param share: probability of the quantile, above 0 and below 1
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

    Calls are assumed to be distributed within bins as in :func:`quantile`.

    :param histogram: of at least one call
    :return: None if one of these calls is in the open-ended last bin
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
    """Return the share of the total duration of all calls that the slowest 1% of the calls take.

    The rest is the trimmed mean (:func:`trimmed_mean_ns`) times 99% of the calls.

    :param histogram: of at least one call
    :param sum_ns: total duration of all timed calls, in ns
    :return: 0 to 1; None if the trimmed mean is unknown or ``sum_ns`` is 0
    """
    mean = trimmed_mean_ns(histogram)
    if mean is None or not sum_ns:
        return None
    return max(1.0 - TRIMMED * histogram.timed * mean / sum_ns, 0.0)


def _linear_end(histogram: Histogram) -> int:
    # The last linear bin is open-ended; the log2 bins resolve its calls.
    return (len(histogram.linear_ns) - 1) * histogram.linear_step_ns


def _bins(histogram: Histogram) -> Iterable[tuple[int, int, int]]:
    # Start, end and calls of each closed bin, contiguously.
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
            # A log2 bin may begin within the linear bins, whose calls are then subtracted. The two
            # may differ by a call at the start or end of counting.
            yield max(start, 1), high, max(reached - below, 0)
            start, below = high, max(reached, below)


class Key(NamedTuple):
    """Identity of a measure.

    :param function: kernel function or tracepoint
    :param what: the statistic, as in ``PeltRow.what``
    :param node: NUMA node; None for all CPUs
    :param context: "" for all contexts
    """

    function: str
    what: What
    node: int | None = None
    context: str = ""


Found = dict[tuple[Key, Basis], Measure]


class Traced(Struct, frozen=True, kw_only=True):
    """The capture of one run, and properties of its machine.

    :param nodes: NUMA node by CPU; empty if unknown, or if there are too many nodes for a row each
    :param wakeups: wakeups of the whole machine in the run; None if 0 or not counted on all nodes
    :param emulated: whether an emulator ran the kernel; None if unknown
    """

    capture: PeltCapture
    nodes: Mapping[int, int]
    wakeups: float | None
    emulated: bool | None


def call_counts(run: Captured[Traced]) -> dict[Key, int]:
    """Return the number of calls of each measured function: in total, by node, and by context.

    Counts by node are left out if there are not several nodes, and those by context if contexts
    were not recorded.
    """
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
    """Return calls per second, per operation, and per wakeup.

    Their bases are "time", "operation" and "share". Rates per operation or per wakeup are left out
    if the number of operations or wakeups is unknown or 0. Calls of :data:`CLOCKED` contexts are
    only divided by time.
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
    """Return mean, trimmed mean, quantiles (all in s) and share of CPU time of all timed functions.

    The basis is "share" for all of them. The share is the mean times all calls, divided by the time
    of all CPUs: untimed calls are assumed to take as long as timed calls. Mean and share are also
    computed by node if there are several nodes. Statistics that are unknown, e.g. a quantile in the
    open-ended last bin, are left out. Probe overhead is not subtracted from quantiles.

    :param net: functions for which probe overhead is subtracted from both means and the share
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
    """Yield additional numbers of the measures: key of the measure, name and value of the number.

    "total": number of calls; "read": mean or trimmed mean in s, or share, without subtraction of
    probe overhead; "resolution": width in s of the bin that contains a quantile.
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
    """Return the mean measured duration in ns; None if no call was timed on these CPUs.

    :param cpus: CPUs to include; None for all
    """
    timed = _sum(durations.timed, cpus)
    return _sum(durations.sum_ns, cpus) / timed if timed else None


def cpus_by_node(run: Captured[Traced]) -> Iterator[tuple[int | None, frozenset[int] | None]]:
    """Yield pairs of a node and its CPUs.

    The first pair is (None, None) for all CPUs; the nodes follow if there are several.
    """
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
