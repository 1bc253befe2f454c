# SPDX-License-Identifier: GPL-2.0-or-later
"""Find where the level of a series changed, and decide whether it changed enough to be reported."""

import math
from collections.abc import Sequence
from statistics import median, stdev

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# A change has at least so many nights before and after it.
FEWEST_BEFORE = 8
FEWEST_AFTER = 3
# The level before it is that of so many nights.
MOST_BEFORE = 30
# Median absolute deviation to standard deviation, for normal values.
MAD_TO_SD = 1.4826
_SPIKE_SDS = 2.0
_TAIL_SDS = 3.0
# 95% quantile of the likelihood ratio of a place: Hansen, "Sample splitting and threshold
# estimation", Econometrica 68 (2000), table 1.
_LIKELY = 7.35


class Limits(Struct, frozen=True, kw_only=True):
    """The smallest change that is reported: the larger of both.

    :param share: of the level, e.g. 0.01; not used by a series of differences
    :param sds: multiple of the standard deviation of nights
    """

    share: float
    sds: float


# From real series: pairs do not drift with the machine.
PAIRED = Limits(share=0.01, sds=1.0)
UNPAIRED = Limits(share=0.02, sds=2.0)


class Place(Struct, frozen=True, kw_only=True):
    """The index of the first night of a new level.

    :param earliest: first index of the 95% confidence set; ``latest`` the last one
    """

    index: int
    earliest: int
    latest: int


def find_place(levels: Sequence[float]) -> Place | None:
    """Return the split of a window whose parts differ by the largest t, without spikes.

    A spike is what differs from the median of itself and its neighbours by more than 2 standard
    deviations; it counts as 2.

    :param levels: shape (nights,)
    :return: None if there are fewer than 11 nights
    """
    if len(levels) < FEWEST_BEFORE + FEWEST_AFTER:
        return None
    values = _without_spikes(np.asarray(levels))
    splits = np.arange(FEWEST_BEFORE, len(values) - FEWEST_AFTER + 1)
    residual = _residual_squares(values, splits)
    best = int(residual.argmin())
    # The largest absolute t has the smallest residual.
    likely = splits[_likelihood_ratio(residual, len(values)) <= _LIKELY]
    return Place(index=int(splits[best]), earliest=int(likely[0]), latest=int(likely[-1]))


def change_at(levels: Sequence[float], index: int) -> float:
    """Return the median from a night on, less that of up to 30 nights before it.

    :param index: of a night that has others before it
    """
    return median(levels[index:]) - median(_before(levels, index))


def smallest_change(
    levels: Sequence[float], index: int, limits: Limits, *, is_log: bool, more: float = 0.0
) -> float:
    """Return the smallest change at a night that is reported, in the unit of the levels.

    :param index: of a night that has two others before it, or more
    :param is_log: whether levels are logarithms
    :param more: what is added, for a level that is known less exactly than its nights show
    """
    share = math.log1p(limits.share) if is_log else 0.0
    return max(share, limits.sds * robust_sd(_before(levels, index))) + more


def is_reported(
    levels: Sequence[float], index: int, limits: Limits, *, is_log: bool, more: float = 0.0
) -> bool:
    """Return whether the change at a night is large enough, and has enough nights on both sides."""
    if index < FEWEST_BEFORE or len(levels) - index < FEWEST_AFTER:
        return False
    smallest = smallest_change(levels, index, limits, is_log=is_log, more=more)
    change = abs(change_at(levels, index))
    return change > 0.0 and change >= smallest


def robust_sd(values: Sequence[float]) -> float:
    """Return the standard deviation of values, the farthest ones limited to 3 from the median.

    The limits use the median absolute deviation; if more than half of the values are equal, nothing
    is limited.

    :param values: two or more
    """
    centre = median(values)
    reach = _TAIL_SDS * MAD_TO_SD * median([abs(value - centre) for value in values])
    if reach == 0.0:
        return stdev(values)
    return stdev([min(max(value, centre - reach), centre + reach) for value in values])


def _before(levels: Sequence[float], index: int) -> Sequence[float]:
    return levels[max(0, index - MOST_BEFORE) : index]


def _without_spikes(values: Floats) -> Floats:
    padded = np.pad(values, 1, mode="edge")
    smooth = np.median(np.stack((padded[:-2], values, padded[2:])), axis=0)
    reach = _SPIKE_SDS * MAD_TO_SD * float(np.median(np.abs(values - np.median(values))))
    return np.asarray(smooth + np.clip(values - smooth, -reach, reach))


def _residual_squares(values: Floats, splits: NDArray[np.int_]) -> Floats:
    """Return the sum of squares around the means of both parts, for each split."""
    centred = values - values.mean()
    sums, squares = centred.cumsum(), float((centred**2).sum())
    before = sums[splits - 1]
    after = sums[-1] - before
    between = before**2 / splits + after**2 / (len(values) - splits)
    # Rounding may make it slightly negative.
    return np.asarray(np.maximum(squares - between, 0.0))


def _likelihood_ratio(residual: Floats, nights: int) -> Floats:
    least = float(residual.min())
    if least == 0.0:
        return np.where(residual == 0.0, 0.0, math.inf)
    return np.asarray(nights * (residual / least - 1.0))
