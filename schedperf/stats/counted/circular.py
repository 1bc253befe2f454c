# SPDX-License-Identifier: GPL-2.0-or-later
"""Circular statistics of the phases of periodic timers: concentration and distance.

A timer that expires at a fraction f of its period is a unit vector of the angle 2 pi f. The
mean resultant length of n of them is R = |sum of vectors| / n: 1 where all agree, near 0
where they are spread evenly. The distance of two directions is pi - |pi - |a - b||.
Both are from K. V. Mardia and P. E. Jupp, Directional Statistics (2000), sections 2.2 and 2.3.

Binning n angles into 64 bins shortens R by a factor of 0.9996, which is not corrected.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

TURN = 2.0 * math.pi


class Direction(NamedTuple):
    """A mean direction.

    :param part: fraction of a turn, from 0 to below 1
    :param length: the mean resultant length, from 0 to 1
    """

    part: float
    length: float


def mean_direction(parts: Iterable[float]) -> Direction | None:
    """Return the mean direction of fractions of a turn; None if there are none."""
    return _mean([(part, 1) for part in parts])


def direction_of_bins(counts: Sequence[int]) -> Direction | None:
    """Return the mean direction of a histogram over one turn; None if it has no counts.

    :param counts: shape (bins,)
    """
    return _mean([((index + 0.5) / len(counts), count) for index, count in enumerate(counts)])


def _mean(weighted: Sequence[tuple[float, int]]) -> Direction | None:
    total = sum(count for _, count in weighted)
    if not total:
        return None
    cosines = math.fsum(count * math.cos(TURN * part) for part, count in weighted) / total
    sines = math.fsum(count * math.sin(TURN * part) for part, count in weighted) / total
    # Modulo a turn, a small negative angle can round up to the whole turn.
    part = math.atan2(sines, cosines) / TURN % 1.0
    return Direction(part=0.0 if part == 1.0 else part, length=min(1.0, math.hypot(cosines, sines)))


def distance(a: float, b: float) -> float:
    """Return the distance of two fractions of a turn: 0 to 0.5.

    >>> distance(0.95, 0.05)
    0.10000000000000009
    """
    return 0.5 - abs(0.5 - abs(a - b))
