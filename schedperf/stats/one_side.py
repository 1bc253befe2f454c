# SPDX-License-Identifier: GPL-2.0-or-later
"""Estimate the mean or the median of one side with its 95% CI.

A change has its own interval (:func:`schedperf.stats.compare_runs`), which these cannot replace:
intervals of two sides may overlap although the change is significant.
"""

import math
from collections.abc import Hashable, Iterable, Sequence
from statistics import fmean, geometric_mean
from typing import Literal, Protocol, TypeVar

import scipy

from schedperf.model.rows import Replication
from schedperf.model.verdict import CONFIDENCE, FEWEST_RUNS
from schedperf.stats._rows import FEWEST_BOOTS
from schedperf.stats.verdicts import LARGEST_LOG
from schedperf.stats.welch import variance_of

# Lower and upper end; None where there is none.
Interval = tuple[float | None, float | None]
NO_INTERVAL: Interval = (None, None)


class InUnits(Protocol):
    """The boot and the round of a run; ``RunKey`` and ``RunValue`` have both."""

    @property
    def boot(self) -> int | None:
        """Return the number of the boot; None if it is not recorded."""

    @property
    def round(self) -> int | None:
        """Return the number of the interleaved pair; None if the run was not interleaved."""


Run = TypeVar("Run", bound=InUnits)


def replication_of(runs: Iterable[InUnits]) -> Literal["runs", "boots"]:
    """Return the unit of replication of a side that is not compared with another.

    :return: "boots" if the runs have two or more different boots, else "runs"
    """
    boots = {run.boot for run in runs}
    return "boots" if len(boots) >= FEWEST_BOOTS else "runs"


def compared_runs(
    base: Sequence[Run], new: Sequence[Run], replication: Replication
) -> tuple[Sequence[Run], Sequence[Run]]:
    """Return the runs that are compared, those of base first.

    For "rounds" these are the runs in rounds that both sides have, else all runs.
    """
    if replication != "rounds":
        return base, new
    first, second = ({run.round for run in side} - {None} for side in (base, new))
    both = first & second
    return [run for run in base if run.round in both], [run for run in new if run.round in both]


def gather_units(
    values: Sequence[float], runs: Iterable[InUnits], replication: Replication
) -> list[list[float]]:
    """Return the values of one side, grouped by independent unit.

    :param values: one value per run
    :param runs: the run of each value
    :param replication: the units: "runs" (each value is a unit), "boots", or "rounds" (interleaved
        pairs of runs, of which a side has one run each)
    :return: a list of values per unit, in order of the units' first values. Runs without a boot
        (for "boots") or without a round (for "rounds") form one unit
    :raises ValueError: the numbers of values and runs differ
    """
    units: dict[Hashable, list[float]] = {}
    for number, (value, run) in enumerate(zip(values, runs, strict=True)):
        unit = {"boots": run.boot, "rounds": run.round}.get(replication, number)
        units.setdefault(unit, []).append(value)
    return list(units.values())


def mean_of(values: Sequence[float], *, is_log: bool) -> float:
    """Return the geometric mean if ``is_log``, else the arithmetic mean.

    :param values: one or more; all positive if ``is_log``
    """
    if not is_log:
        return fmean(values)
    # Through logarithms, the mean of equal values would differ from them by rounding.
    return float(values[0]) if min(values) == max(values) else geometric_mean(values)


def interval_of_mean(
    values: Sequence[float], runs: Iterable[InUnits], replication: Replication, *, is_log: bool
) -> Interval:
    """Return Student's 95% CI of a side's mean; (None, None) with fewer than two units.

    Each unit has the same weight, whatever its number of runs. A few boots whose means agree by
    chance do not show how much runs vary, so the half-width over the runs is used if it is larger.
    If no value is negative, the lower end is at least 0.

    :param runs: the run of each value
    :param replication: unit of replication
    :param is_log: whether the mean is geometric; all values are positive then
    :return: lower and upper end, in the unit of the values; the upper end is None if it is too
        large for a float
    :raises ValueError: the numbers of values and runs differ
    """
    written = list(map(math.log, values)) if is_log else values
    units = list(map(fmean, gather_units(written, runs, replication)))
    if len(units) < FEWEST_RUNS:
        return NO_INTERVAL
    centre, half = fmean(units), max(map(_half_width, (units, written)))
    low, high = centre - half, centre + half
    if is_log:
        return math.exp(low), math.exp(high) if high < LARGEST_LOG else None
    return (low if min(values) < 0.0 else max(low, 0.0)), high


def interval_of_median(
    maxima: Sequence[float], runs: Iterable[InUnits], replication: Replication
) -> Interval:
    """Return the exact 95% CI of the median of maxima; (None, None) with fewer than six units.

    Its ends are two of the values, chosen by the binomial distribution (Hollander, Wolfe & Chicken,
    "Nonparametric Statistical Methods", 3rd ed., section 3.6). Of each unit the largest value
    counts.

    :param maxima: one per run
    :param runs: the run of each maximum
    :param replication: unit of replication
    :raises ValueError: the numbers of maxima and runs differ
    """
    ordered = sorted(map(max, gather_units(maxima, runs, replication)))
    n = len(ordered)
    # How many of n coins show heads in at most 2.5% of all cases: so many values lie outside.
    heads = scipy.special.bdtr(range(n), n, 0.5)
    outside = int((heads <= (1.0 - CONFIDENCE) / 2.0).sum())
    return (ordered[outside - 1], ordered[-outside]) if outside else NO_INTERVAL


def _half_width(values: Sequence[float]) -> float:
    quantile = float(scipy.special.stdtrit(len(values) - 1, 0.5 + CONFIDENCE / 2.0))
    return quantile * math.sqrt(variance_of(values) / len(values))
