# SPDX-License-Identifier: GPL-2.0-or-later
"""When boots count instead of runs, what is not known, and where a drift may look like a change."""

import numpy as np
import pytest

from schedperf.evidence.profile.independent import (
    average_runs,
    column_means,
    independent_of,
    may_be_drift,
)


def test_boots_count_where_any_side_has_several() -> None:
    assert independent_of([[0, 0, 0], [0, 0]]) == "runs"
    assert independent_of([[0, 0, 0], [0, 1]]) == "boots"


def test_runs_of_one_boot_are_one_row() -> None:
    values = np.array([[1.0, 10.0], [3.0, 30.0], [5.0, 50.0]])
    assert average_runs(values, [4, 4, 7], "boots").tolist() == [[2.0, 20.0], [5.0, 50.0]]
    assert average_runs(values, [4, 4, 7], "runs") is values


def test_what_is_not_known_does_not_count_in_a_mean() -> None:
    values = np.array([[1.0, np.nan], [np.nan, np.nan], [3.0, np.nan]])
    first, second = column_means(values)
    assert first == 2.0
    assert np.isnan(second)


@pytest.mark.parametrize(
    ("base", "new", "expected"),
    [
        ([0, 1, 2], [3, 4, 5], True),
        ([3, 4, 5], [0, 1, 2], True),
        ([0, 3, 4], [1, 2, 5], False),
        (list(range(10)), list(range(10, 20)), False),
    ],
)
def test_few_runs_of_one_side_before_the_other_may_be_drift(
    base: list[int],
    new: list[int],
    expected: bool,  # noqa: FBT001 # a parameter of the test
) -> None:
    boots = [[0] * len(base), [0] * len(new)]
    assert may_be_drift([base, new], boots) is expected


def test_boots_are_counted_where_a_side_has_several() -> None:
    orders = [list(range(10)), list(range(10, 20))]
    assert may_be_drift(orders, [[0, 1] * 5, [0, 1] * 5])
