# SPDX-License-Identifier: GPL-2.0-or-later
"""The mean or median of one side has one interval, which depends on what is independent."""

import numpy as np
import pytest
import scipy.stats

from schedperf.model.rows import Replication, RunValue
from schedperf.stats.one_side import (
    NO_INTERVAL,
    compared_runs,
    interval_of_mean,
    interval_of_median,
    replication_of,
)


def runs_of(*boots: int | None) -> list[RunValue]:
    """Return a run for each number of a boot; each is a pair of its own."""
    return [
        RunValue(boot=boot, run=number, order=None, round=number, value=1.0)
        for number, boot in enumerate(boots)
    ]


def student(values: list[float]) -> tuple[float, float]:
    low, high = scipy.stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    return float(low), float(high)


NINE = [0.8, 1.0, 1.3, 0.7, 1.1, 1.3, 0.6, 1.2, 1.5]


@pytest.mark.parametrize("replication", ["runs", "rounds"])
def test_the_interval_of_a_geometric_mean_is_students_of_logarithms(
    replication: Replication,
) -> None:
    found = interval_of_mean(NINE, runs_of(*[0, 1, 2] * 3), replication, is_log=True)
    assert found == pytest.approx(np.exp(student(np.log(NINE).tolist())))


def test_boots_count_once_each_however_many_runs_they_have() -> None:
    values = [10.0, 12.0, 12.0, 20.0, 22.0]
    found = interval_of_mean(values, runs_of(0, 0, 0, 1, 1), "boots", is_log=False)
    low, high = student([34.0 / 3.0, 21.0])
    assert low < 0.0
    # Values that are never negative have no negative mean.
    assert found == pytest.approx((0.0, high))
    below = [value - 30.0 for value in values]
    assert interval_of_mean(below, runs_of(0, 0, 0, 1, 1), "boots", is_log=False) == pytest.approx(
        (low - 30.0, high - 30.0)
    )


def test_boots_that_agree_by_chance_do_not_hide_how_runs_vary() -> None:
    values = [10.0, 20.0, 20.0, 10.0]
    found = interval_of_mean(values, runs_of(0, 0, 1, 1), "boots", is_log=False)
    assert found == pytest.approx(student(values))


@pytest.mark.parametrize(
    ("values", "boots", "replication"),
    [([3.0], [0], "runs"), ([3.0, 4.0, 5.0], [0, 0, 0], "boots"), ([], [], "runs")],
)
def test_fewer_than_two_units_have_no_interval(
    values: list[float], boots: list[int], replication: Replication
) -> None:
    assert interval_of_mean(values, runs_of(*boots), replication, is_log=True) == NO_INTERVAL


def test_an_end_that_no_float_can_hold_is_missing() -> None:
    low, high = interval_of_mean([1e-300, 1e300], runs_of(0, 0), "runs", is_log=True)
    assert (low, high) == (0.0, None)


def test_the_interval_of_a_median_lies_between_two_runs_or_boots() -> None:
    values = [float(value) for value in range(1, 11)]
    assert interval_of_median(values, runs_of(*[0] * 10), "runs") == (2.0, 9.0)
    assert interval_of_median(values[:6], runs_of(*[0] * 6), "runs") == (1.0, 6.0)
    assert interval_of_median(values[:5], runs_of(*[0] * 5), "runs") == NO_INTERVAL
    of_boots = runs_of(*(number // 2 for number in range(10)))
    assert interval_of_median(values, of_boots, "boots") == NO_INTERVAL


def test_pairs_are_compared_where_both_sides_have_them() -> None:
    base, new = runs_of(0, 0, 0), runs_of(0, 0, 0, 0)[1:]
    rounds = [[run.round for run in side] for side in compared_runs(base, new, "rounds")]
    assert rounds == [[1, 2], [1, 2]]
    assert compared_runs(base, new, "runs") == (base, new)


def test_a_side_alone_is_replicated_by_its_boots_if_it_has_several() -> None:
    assert replication_of(runs_of(4, 4)) == "runs"
    assert replication_of(runs_of(4, 5)) == "boots"
