"""Quantiles of times that were counted in bins of powers of two."""

import itertools
import math
from collections.abc import Sequence

# A quantile needs an event on its far side.
FEWEST_BEYOND = 1.0


def quantile_of(log2: Sequence[int], share: float, largest: float) -> float | None:
    """Return the time below which a share of the events lies; None where they are too few.

    Within a bin events are taken to be spread evenly over the logarithm of time. Bin 0, which
    also has what took no time, begins at 1; the highest bin that has any ends with the largest.

    >>> quantile_of([0, 0, 10, 80, 10], 0.1, largest=20.0)
    8.0

    :param log2: shape (bins,); bin i holds 2^i <= time < 2^(i+1), the last one also all above
    :param largest: the longest time that was seen
    """
    total = sum(log2)
    if total * (1.0 - share) < FEWEST_BEYOND:
        return None
    wanted = share * total
    highest = math.log2(max(largest, 1.0))
    last = max(place for place, count in enumerate(log2) if count)
    for place, (count, end) in enumerate(zip(log2, itertools.accumulate(log2), strict=True)):
        if count and end >= wanted:
            top = place + 1.0 if place < last else max(highest, float(place))
            inside = (wanted - (end - count)) / count
            return math.exp2(place + inside * (top - place))
    return None
