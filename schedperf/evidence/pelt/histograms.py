"""Durations of calls as two histograms, and what quantiles can be read from them.

Linear bins are fine where durations are short; log2 bins reach as far as they must. Both hold the
same calls, so together they are one cumulative distribution: its steps are the edges of the
linear bins, and beyond their end those of the log2 bins.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from schedperf.evidence.pelt.capture import Bins, Durations

NS_PER_S = 1e9


@dataclass(frozen=True, kw_only=True, slots=True)
class Histogram:
    """Calls by their duration.

    :param log2_ns: bin i holds 2**i <= ns < 2**(i + 1), bin 0 also 0 ns; the last one is open
    :param linear_ns: bin i holds i * step <= ns < (i + 1) * step; the last one is open
    """

    log2_ns: tuple[int, ...]
    linear_ns: tuple[int, ...]
    linear_step_ns: int

    @property
    def timed(self) -> int:
        """How many calls it holds."""
        return sum(self.log2_ns)


@dataclass(frozen=True, kw_only=True, slots=True)
class Quantile:
    """A duration in s that a share of the calls stays below.

    :param resolution: the width of the bin that it was interpolated in, in s
    """

    value: float
    resolution: float


def merge(durations: Iterable[Durations]) -> Histogram | None:
    """Add the histograms of all CPUs; None without calls, or where their bins differ."""
    found = list(durations)
    steps = {one.linear_step_ns for one in found}
    log2, linear = (
        _add(bins) for bins in ([one.log2_ns for one in found], [one.linear_ns for one in found])
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
    """Return the duration below which this share of the calls stays.

    Calls are taken to be spread evenly over a linear bin, and evenly over the logarithm of the
    durations in a log2 bin.

    :param share: above 0 and below 1
    :return: None where it falls into the open last bin
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


def _linear_end(histogram: Histogram) -> int:
    # The last linear bin is open, so it says nothing that the log2 bins do not say better.
    return (len(histogram.linear_ns) - 1) * histogram.linear_step_ns


def _bins(histogram: Histogram) -> Iterable[tuple[int, int, int]]:
    # From, to and calls of each bin that is closed, without a gap.
    step, end = histogram.linear_step_ns, _linear_end(histogram)
    below = 0
    for place, count in enumerate(histogram.linear_ns[:-1]):
        below += count
        yield place * step, (place + 1) * step, count
    start, reached = end, 0
    for power, count in enumerate(histogram.log2_ns[:-1]):
        reached += count
        high = 2 ** (power + 1)
        if high > end:
            # A log2 bin may begin within the linear ones: what these hold is taken off it. The
            # two may differ by a call that came while the gate opened or closed.
            yield max(start, 1), high, max(reached - below, 0)
            start, below = high, max(reached, below)
