# SPDX-License-Identifier: GPL-2.0-or-later
"""Count the samples above fixed thresholds, from the printed latencies of a benchmark.

>>> latencies = Latencies(
...     name="cyclictest latency", samples=1000, maximum_s=730e-6, unit_s=1e-6,
...     counts={10: 900, 80: 99}, width=1, above=1,
... )
>>> count_above(latencies, 50), count_above(latencies, 100), count_above(latencies, 1000)
(100, None, 0)
"""

import math
from collections.abc import Iterable

from schedperf.inputs.benchmarks import MICROSECOND_S, Latencies

# The same thresholds in every comparison: in us, 1 2 5 per decade up to a second.
LADDER_US = (*(digit * 10**exponent for exponent in range(6) for digit in (1, 2, 5)), 10**6)


def count_above(latencies: Latencies, threshold_us: int) -> int | None:
    """Return the number of samples >= a threshold; None if unknown.

    The number is unknown if the threshold is inside a bin or above the last bin, or without a
    histogram, unless the maximum is below the threshold.
    """
    threshold = round(threshold_us * MICROSECOND_S / latencies.unit_s)
    if round(latencies.maximum_s / latencies.unit_s) < threshold:
        return 0
    counts = latencies.counts
    if not counts or threshold > max(counts):
        return None
    # All bins begin at multiples of their width, so their greatest common divisor is a multiple of
    # it.
    if threshold % (latencies.width or math.gcd(*counts)):
        return None
    return latencies.above + sum(count for value, count in counts.items() if value >= threshold)


def merge(parts: Iterable[Latencies]) -> Latencies:
    """Merge the latencies of a benchmark that a run executed several times.

    The result has no histogram if one of the parts has none, or if their bins differ.

    :param parts: at least one
    """
    first, *others = parts
    for other in others:
        counts = None
        if first.counts and other.counts and _bins(first) == _bins(other):
            counts = {
                value: first.counts.get(value, 0) + other.counts.get(value, 0)
                for value in {*first.counts, *other.counts}
            }
        first = Latencies(
            name=first.name,
            samples=first.samples + other.samples,
            maximum_s=max(first.maximum_s, other.maximum_s),
            unit_s=first.unit_s,
            counts=counts,
            width=first.width,
            above=first.above + other.above,
        )
    return first


def _bins(latencies: Latencies) -> tuple[float, int | None]:
    return latencies.unit_s, latencies.width
