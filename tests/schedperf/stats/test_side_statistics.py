# SPDX-License-Identifier: GPL-2.0-or-later
"""The runs of a row are described once, for all reports."""

import statistics

import numpy as np
import pytest

from schedperf.model.rows import BootMean, Replication, RunsAbove, RunValue, SideStatistics
from schedperf.stats.side_statistics import describe_runs


def runs_of(*values: float, boots: tuple[int, ...] = ()) -> list[RunValue]:
    """Return runs in time order, each a pair of its own."""
    return [
        RunValue(boot=boots[n] if boots else 0, run=n, order=n, round=n, value=value)
        for n, value in enumerate(values)
    ]


def describe(
    runs: list[RunValue],
    mean: float | None = 1.0,
    *,
    other: float = 1.0,
    replication: Replication = "runs",
    is_maximum: bool = False,
) -> SideStatistics:
    described = describe_runs(
        runs, runs_of(other), means=(mean, other), replication=replication, is_maximum=is_maximum
    )["statistics_base"]
    assert described is not None
    return described


def test_quartiles_and_whiskers_are_those_of_a_box_plot() -> None:
    found = describe(runs_of(3.0, 1.0, 100.0, 4.0, 2.0))
    assert found.quartiles == tuple(np.percentile([1.0, 2.0, 3.0, 4.0, 100.0], [25, 50, 75]))
    # A whisker ends at the farthest value near the box.
    assert found.whiskers == (1.0, 4.0)
    single = describe(runs_of(7.0))
    assert (single.quartiles, single.whiskers) == ((7.0,) * 3, (7.0,) * 2)


def test_cv_is_relative_to_the_mean_of_the_row() -> None:
    assert describe(runs_of(-1.0, 1.0, 3.0), -4.0).cv == pytest.approx(0.5)
    assert describe(runs_of(1.0, 1.3), 1.1).cv == pytest.approx(statistics.stdev([1.0, 1.3]) / 1.1)
    assert [describe(runs_of(1.0)).cv, describe(runs_of(1.0, 2.0), 0.0).cv] == [None, None]


def test_drift_compares_the_later_half_with_the_earlier_half() -> None:
    backwards = runs_of(1.0, 4.0, 50.0, 2.0, 2.0)[::-1]
    assert describe(backwards).drift == pytest.approx(1.0)
    # A zero on either side makes all means arithmetic.
    assert describe(backwards, other=0.0).drift == pytest.approx(4.0 / 5.0)
    assert describe(runs_of(0.0, 0.0, 1.0, 1.0)).drift is None
    assert describe(runs_of(1.0, 2.0, 3.0)).drift is None


def test_each_boot_has_a_mean_also_where_the_order_is_unknown() -> None:
    runs = [
        RunValue(boot=boot, run=run, order=None, round=None, value=value)
        for boot, values in ((0, (1.0, 4.0)), (1, (9.0, 9.0)))
        for run, value in enumerate(values)
    ]
    assert describe(runs).boots == (BootMean(boot=0, mean=2.0), BootMean(boot=1, mean=9.0))


def test_the_interval_is_of_the_unit_of_replication_and_of_the_median_of_maxima() -> None:
    boots = runs_of(1.0, 1.1, 2.0, 2.2, boots=(0, 0, 1, 1))
    ends = {
        replication: describe(boots, replication=replication) for replication in ("runs", "boots")
    }
    assert (ends["boots"].ci_high or 0.0) > 100.0 > (ends["runs"].ci_high or 0.0)
    values = [float(value) for value in range(1, 11)]
    maxima = describe(runs_of(*values), is_maximum=True)
    assert (maxima.ci_low, maxima.ci_high) == (2.0, 9.0)
    # Only the first pair is of both sides.
    pairs = describe(runs_of(1.0, 1.1, 2.0), replication="rounds")
    assert (pairs.ci_low, pairs.ci_high) == (None, None)


@pytest.mark.parametrize(
    ("base", "new", "above"),
    [
        (
            runs_of(1.0, 2.0),
            runs_of(1.5, 3.0)[::-1],
            RunsAbove(above=2.0, pairs=2, interleaved=True),
        ),
        (
            runs_of(1.0, 2.0, 3.0),
            runs_of(1.5, 3.0),
            RunsAbove(above=3.5, pairs=6, interleaved=False),
        ),
        (runs_of(1.0), [], None),
    ],
)
def test_runs_are_compared_within_their_pair_or_all_with_all(
    base: list[RunValue], new: list[RunValue], above: RunsAbove | None
) -> None:
    described = describe_runs(base, new, means=(1.0, None), replication="runs", is_maximum=False)
    assert described["runs_above"] == above
    assert (described["statistics_new"] is None) == (not new)
