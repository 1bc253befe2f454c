# SPDX-License-Identifier: GPL-2.0-or-later
"""Rank series by what they cannot see: the noise between nights and boots."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from schedperf.history.questions.history import History
from schedperf.history.questions.records import Analysed, Night, Series
from schedperf.history.watch.place import MAD_TO_SD
from schedperf.stats import least_detectable
from schedperf.stats.welch import welch_of_variances

# Nights that describe the noise of today.
WINDOW = 90
# Nights after a step for the second number.
WEEK = 7
FEWEST = 8
_MOST_SDS = 3.0
_SIDES = 2
# Two-sided level of A/A tests.
_LEVEL = 0.05


class Noise(Struct, frozen=True, kw_only=True):
    """The noise of a series.

    :param nights: nights with a value
    :param lost: nights without
    :param sd_nights: standard deviation between nights of what is analysed: of logarithms if
        ``is_log``, else in the unit; None for fewer than 8 nights
    :param sd_boots: standard deviation between boots of one kernel in one night; None if no night
        has two boots
    :param seen_in_one_night: smallest step that one night shows (80% power); a fraction if
        ``is_log``; None as ``sd_nights``
    :param seen_in_seven_nights: smallest step that the mean of seven nights shows
    :param aa_nights: nights in which both kernels were the same, with two boots of each
    :param aa_differ: those of them that differ with p < 0.05
    """

    series: Series
    is_paired: bool
    is_log: bool
    nights: int
    lost: int
    sd_nights: float | None
    sd_boots: float | None
    seen_in_one_night: float | None
    seen_in_seven_nights: float | None
    aa_nights: int
    aa_differ: int


def rank_noise(history: History) -> tuple[Noise, ...]:
    """Return the noise of all series, the worst first.

    Series of differences, whose steps are in their units, follow; last are those with too few
    nights.

    :raises InputError: the database cannot be read
    """
    nights = history.all_nights()
    found = [noise_of(each, nights.get(each.key, ())) for each in history.series()]
    return tuple(sorted(found, key=_rank))


def _rank(noise: Noise) -> tuple[bool, bool, float]:
    step = noise.seen_in_one_night
    return step is None, not noise.is_log, -(step or 0.0)


def noise_of(series: Series, nights: Sequence[Night]) -> Noise:
    """Return the noise of a series in its last 90 nights.

    :param nights: in their order
    """
    recent = nights[-WINDOW:]
    analysed = Analysed.of(nights)
    values = Analysed.of(recent).measured
    sd = sd_between_nights(values)
    aa = [p for night in nights if (p := _aa_p(night)) is not None]
    return Noise(
        series=series,
        is_paired=analysed.is_paired,
        is_log=analysed.is_log,
        nights=len(analysed.measured),
        lost=len(analysed.values) - len(analysed.measured),
        sd_nights=sd,
        sd_boots=_sd_boots(recent),
        seen_in_one_night=_smallest(sd, 1, len(values), is_log=analysed.is_log),
        seen_in_seven_nights=_smallest(sd, WEEK, len(values), is_log=analysed.is_log),
        aa_nights=len(aa),
        aa_differ=sum(p < _LEVEL for p in aa),
    )


def sd_between_nights(values: Sequence[float]) -> float | None:
    """Return the standard deviation of nights, which a step hardly changes; None for too few.

    It is the root of half the mean square of successive differences: von Neumann, Kent, Bellinson
    and Hart, "The mean square successive difference", Ann. Math. Statist. 12 (1941). A difference
    that is larger than 3 standard deviations counts as 3, by their median, unless that is 0.

    :param values: shape (nights,)
    """
    if len(values) < FEWEST:
        return None
    sizes = [abs(after - before) for before, after in pairwise(values)]
    largest = _MOST_SDS * MAD_TO_SD * median(sizes) or math.inf
    squares = [min(size, largest) ** 2 for size in sizes]
    return math.sqrt(math.fsum(squares) / (2 * len(squares)))


def noises_of(values: Sequence[npt.NDArray[np.float64]]) -> list[float | None]:
    """Return the standard deviation between the nights of many series, up to rounding errors.

    It is that of :func:`sd_between_nights`; series of one length are computed together.

    :param values: of each series, shape (nights,), without NaN
    """
    by_size: dict[int, list[int]] = {}
    for index, each in enumerate(values):
        by_size.setdefault(len(each), []).append(index)
    found: list[float | None] = [None] * len(values)
    for size, indexes in by_size.items():
        if size < FEWEST:
            continue
        sizes = np.abs(np.diff(np.stack([values[index] for index in indexes])))
        largest = _MOST_SDS * MAD_TO_SD * np.median(sizes, axis=1, keepdims=True)
        largest[largest == 0.0] = math.inf
        mean = np.mean(np.minimum(sizes, largest) ** 2, axis=1)
        for index, square in zip(indexes, mean.tolist(), strict=True):
            found[index] = math.sqrt(square / 2.0)
    return found


def smallest_steps(
    sd: npt.NDArray[np.float64],
    after: int,
    nights: npt.NDArray[np.float64],
    *,
    is_log: npt.NDArray[np.bool_],
) -> npt.NDArray[np.float64]:
    """Return the smallest step that each series shows in some nights (power 80%).

    :param sd: standard deviation between nights, shape (series,); NaN if unknown
    :param after: nights after the step
    :param nights: nights before it, shape (series,)
    :return: fractions where ``is_log`` is true, else in the unit; NaN if unknown
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        step = least_detectable(sd * np.sqrt(1.0 / after + 1.0 / nights), nights - 1.0)
    return np.where(is_log, np.expm1(step), step)


def _smallest(sd: float | None, after: int, nights: int, *, is_log: bool) -> float | None:
    """Return the smallest step that is detected, with ``nights`` before and ``after`` after it."""
    if sd is None:
        return None
    error = sd * math.sqrt(1.0 / after + 1.0 / nights)
    step = float(least_detectable(np.array(error), np.array(nights - 1.0)))
    return math.expm1(step) if is_log else step


def _sd_boots(nights: Sequence[Night]) -> float | None:
    """Return the standard deviation between boots, pooled over nights and kernels."""
    pairs = [*_variances(nights)]
    freedom = sum(number for _, number in pairs)
    if not freedom:
        return None
    return math.sqrt(math.fsum(variance * number for variance, number in pairs) / freedom)


def _variances(nights: Sequence[Night]) -> Iterator[tuple[float, int]]:
    for night in nights:
        for sd, boots in (
            (night.new_sd, night.new_boots),
            (night.reference_sd, night.reference_boots),
        ):
            if sd is not None and boots is not None:
                yield sd * sd, boots - 1


def _aa_p(night: Night) -> float | None:
    """Return the p value of Welch's test of the boots of a kernel that is on both sides.

    Return None for other nights, or if a side has one boot.
    """
    if not night.revision or night.revision != night.reference_revision:
        return None
    levels = [each for each in (night.new, night.reference) if each is not None]
    sides = [*_variances([night])]
    # A side without two boots has no variance.
    if len(sides) < len(levels) or len(levels) < _SIDES or not any(each for each, _ in sides):
        return None
    new, reference = (math.log(each) if night.scale == "log" else each for each in levels)
    variances, freedom = zip(*sides, strict=True)
    return welch_of_variances(new - reference, variances, [each + 1 for each in freedom]).p
