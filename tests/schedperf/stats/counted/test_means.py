"""Means over runs, with intervals."""

import numpy as np
import pytest
import scipy

from schedperf.stats.counted.means import means_over_runs


def test_the_interval_is_students() -> None:
    values = np.array([[10.0, 4.0], [14.0, 4.0], [12.0, 4.0], [17.0, 4.0]])
    found = means_over_runs(values, [0, 0, 0, 0])
    low, high = scipy.stats.ttest_1samp(values[:, 0], 0.0).confidence_interval(0.95)
    assert (found.replication, found.n, found.mean) == ("runs", 4, [13.25, 4.0])
    assert found.ci_low == pytest.approx([low, 4.0])
    assert found.ci_high == pytest.approx([high, 4.0])


def test_boots_are_what_is_independent() -> None:
    values = np.array([[10.0], [12.0], [12.0], [20.0], [22.0]])
    found = means_over_runs(values, [0, 0, 0, 1, 1])
    boots = [34.0 / 3.0, 21.0]
    _, high = scipy.stats.ttest_1samp(boots, 0.0).confidence_interval(0.95)
    assert (found.replication, found.n) == ("boots", 2)
    assert found.mean == pytest.approx([sum(boots) / 2.0])
    assert found.ci_high == pytest.approx([high])


def test_boots_that_agree_by_chance_do_not_hide_how_runs_scatter() -> None:
    values = np.array([[10.0], [20.0], [20.0], [10.0]])
    found = means_over_runs(values, [0, 0, 1, 1])
    low, high = scipy.stats.ttest_1samp(values[:, 0], 0.0).confidence_interval(0.95)
    assert (found.n, found.mean) == (2, [15.0])
    assert found.ci_low == pytest.approx([low])
    assert found.ci_high == pytest.approx([high])


def test_what_is_never_negative_has_no_interval_below_nothing() -> None:
    found = means_over_runs(np.array([[0.0], [10.0]]), [0, 0])
    assert found.ci_low == [0.0]


def test_one_run_has_no_interval() -> None:
    found = means_over_runs(np.array([[3.0]]), [4])
    assert (found.replication, found.n, found.mean) == ("runs", 1, [3.0])
    assert (found.ci_low, found.ci_high) == ([None], [None])
