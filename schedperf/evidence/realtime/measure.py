# SPDX-License-Identifier: GPL-2.0-or-later
"""Count the samples above fixed thresholds, from what a benchmark printed of its latencies.

>>> latencies = Latencies(
...     name="cyclictest latency", samples=1000, maximum_s=730e-6, unit_s=1e-6,
...     counts={10: 900, 80: 99}, width=1, above=1,
... )
>>> count_above(latencies, 50), count_above(latencies, 100), count_above(latencies, 1000)
(100, None, 0)
"""

import math
from collections.abc import Iterable

from schedperf.benchmarks import MICROSECOND_S, Latencies

# The same thresholds in every comparison: in us, 1 2 5 per decade up to a second.
LADDER_US = (*(digit * 10**exponent for exponent in range(6) for digit in (1, 2, 5)), 10**6)


def count_above(latencies: Latencies, threshold_us: int) -> int | None:
    """Return the number of samples of at least a threshold; None if it is unknown.

    It is unknown within a bin, above the last bin, and without a histogram, unless the maximum is
    below the threshold.
    """
    threshold = round(threshold_us * MICROSECOND_S / latencies.unit_s)
    if round(latencies.maximum_s / latencies.unit_s) < threshold:
        return 0
    counts = latencies.counts
    if not counts or threshold > max(counts):
        return None
    # All bins begin at multiples of their width, which divides the common divisor.
    if threshold % (latencies.width or math.gcd(*counts)):
        return None
    return latencies.above + sum(count for value, count in counts.items() if value >= threshold)


def merge(parts: Iterable[Latencies]) -> Latencies:
    """Return the latencies of a benchmark that one run ran several times."""
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
