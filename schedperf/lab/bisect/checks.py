# SPDX-License-Identifier: GPL-2.0-or-later
"""Test what a bisection relies on: that the ends of its range differ.

Boots are natural logarithms of values, one per boot, shape (boots,).
"""

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean

from schedperf.stats.looks import LEAST_SD
from schedperf.stats.welch import variance_of, welch_difference

# Ends of a range differ if p is below, and the change at least, these.
ENDS_P = 0.01
SMALLEST_CHANGE = 0.01
_POWER = 0.8


def pooled_sd(good: Sequence[float], bad: Sequence[float]) -> float:
    """Return the standard deviation within the two ends, at least ``LEAST_SD``.

    :param good: two boots or more; so is ``bad``
    """
    squares = sum(variance_of(boots) * (len(boots) - 1) for boots in (good, bad))
    return max(LEAST_SD, math.sqrt(squares / (len(good) + len(bad) - 2)))


def do_ends_differ(
    good: Sequence[float], bad: Sequence[float], *, rises: bool | None = None
) -> bool:
    """Return whether two ends differ by 1% or more, with a two-sided p < 0.01 (Welch's test).

    :param good: two boots or more; so is ``bad``
    :param rises: whether bad must have larger (or smaller) values than good; None for either
    """
    found = welch_difference(good, bad)
    assert found.difference is not None
    # The boots of each end may all be equal: the difference is then exact, and has no p.
    is_large = not math.log1p(-SMALLEST_CHANGE) < found.difference < math.log1p(SMALLEST_CHANGE)
    is_expected = rises is None or (found.difference > 0.0) == rises
    return is_large and is_expected and (found.p is None or found.p < ENDS_P)


def boots_to_differ(good: Sequence[float], bad: Sequence[float]) -> int:
    """Return how many boots of each end would show the measured change, if it is the true one.

    A change of less than 1% counts as 1%. The power is 80% (Chow, Shao & Wang, "Sample Size
    Calculations in Clinical Research", section 3.2.1, normal approximation).

    :param good: two boots or more; so is ``bad``
    """
    size = max(abs(fmean(bad) - fmean(good)), math.log1p(SMALLEST_CHANGE))
    normal = NormalDist()
    quantiles = normal.inv_cdf(1.0 - ENDS_P / 2.0) + normal.inv_cdf(_POWER)
    return math.ceil(2.0 * (quantiles * pooled_sd(good, bad) / size) ** 2)
