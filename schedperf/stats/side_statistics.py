# SPDX-License-Identifier: GPL-2.0-or-later
"""Describe the runs of a result: how those of each side vary, and how often new is above base."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from statistics import median, quantiles
from typing import TypedDict

from schedperf.model.rows import BootMean, Replication, RunsAbove, RunValue, SideStatistics
from schedperf.model.verdict import FEWEST_RUNS
from schedperf.stats.one_side import (
    Interval,
    compared_runs,
    interval_of_mean,
    interval_of_median,
    mean_of,
)
from schedperf.stats.welch import variance_of

# A whisker reaches the farthest value within so many interquartile ranges of the box: Tukey,
# "Exploratory Data Analysis" (1977).
WHISKER = 1.5
# With fewer runs, no drift is computed from their halves.
FEWEST_IN_DRIFT = 4


class Described(TypedDict):
    """The fields of a row that follow from its runs.

    The statistics of a side without runs are None. If either side has no runs, ``runs_above`` is
    None as well.
    """

    statistics_base: SideStatistics | None
    statistics_new: SideStatistics | None
    runs_above: RunsAbove | None


def describe_runs(
    base: Sequence[RunValue],
    new: Sequence[RunValue],
    *,
    means: tuple[float | None, float | None],
    replication: Replication,
    is_maximum: bool,
) -> Described:
    """Describe the runs of both sides of a row.

    :param means: means of both sides (medians of maxima), base first; None without values
    :param replication: unit of replication of the row
    :param is_maximum: True for maxima of runs: intervals are those of the medians
    """
    is_log = all(run.value > 0.0 for run in (*base, *new))
    statistics = [
        _describe_side(
            side, mean, _interval(compared, replication, is_log=is_log, is_maximum=is_maximum),
            is_log=is_log,
        )
        if side
        else None
        for side, compared, mean in zip(
            (base, new), compared_runs(base, new, replication), means, strict=True
        )
    ]  # fmt: skip
    return Described(
        statistics_base=statistics[0],
        statistics_new=statistics[1],
        runs_above=_count_above(base, new) if base and new else None,
    )


def _interval(
    runs: Sequence[RunValue], replication: Replication, *, is_log: bool, is_maximum: bool
) -> Interval:
    values = [run.value for run in runs]
    if is_maximum:
        return interval_of_median(values, runs, replication)
    return interval_of_mean(values, runs, replication, is_log=is_log)


def _describe_side(
    runs: Sequence[RunValue], mean: float | None, interval: Interval, *, is_log: bool
) -> SideStatistics:
    in_time = sorted(runs, key=lambda run: run.moment)
    values = [run.value for run in in_time]
    quartiles = _quartiles(values)
    return SideStatistics(
        ci_low=interval[0],
        ci_high=interval[1],
        cv=variance_of(values) ** 0.5 / abs(mean) if mean and len(values) >= FEWEST_RUNS else None,
        quartiles=quartiles,
        whiskers=_whiskers(values, quartiles),
        drift=_drift(values, is_log=is_log),
        boots=tuple(_boot_means(in_time, is_log=is_log)),
    )


def _quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    if len(values) == 1:
        return (values[0],) * 3
    low, _, high = quantiles(values, n=4, method="inclusive")
    return low, median(values), high


def _whiskers(
    values: Sequence[float], quartiles: tuple[float, float, float]
) -> tuple[float, float]:
    low, _, high = quartiles
    reach = WHISKER * (high - low)
    inside = [value for value in values if low - reach <= value <= high + reach]
    return min(inside), max(inside)


def _drift(values: Sequence[float], *, is_log: bool) -> float | None:
    half = len(values) // 2
    if len(values) < FEWEST_IN_DRIFT:
        return None
    early, late = (mean_of(part, is_log=is_log) for part in (values[:half], values[-half:]))
    return late / early if early else None


def _boot_means(in_time: Sequence[RunValue], *, is_log: bool) -> list[BootMean]:
    boots: dict[int | None, list[float]] = {}
    for run in in_time:
        boots.setdefault(run.boot, []).append(run.value)
    return [
        BootMean(boot=boot, mean=mean_of(values, is_log=is_log)) for boot, values in boots.items()
    ]


def _count_above(base: Sequence[RunValue], new: Sequence[RunValue]) -> RunsAbove:
    # Interleaved runs are compared within their pair.
    rounds = [{run.round: run.value for run in runs} for runs in (base, new)]
    are_paired = None not in rounds[0] and rounds[0].keys() == rounds[1].keys()
    if are_paired and len(rounds[0]) == len(base) == len(new):
        above = sum(rounds[1][number] > value for number, value in rounds[0].items())
        return RunsAbove(above=float(above), pairs=len(base), interleaved=True)
    # Ties count half: Vargha & Delaney, "A critique and improvement of the CL common language
    # effect size statistics", J. Educ. Behav. Stat. 25 (2000).
    ordered = sorted(run.value for run in base)
    twice = sum(bisect_left(ordered, run.value) + bisect_right(ordered, run.value) for run in new)
    return RunsAbove(above=twice / 2.0, pairs=len(base) * len(new), interleaved=False)
