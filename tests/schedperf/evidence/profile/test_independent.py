"""When boots count instead of runs, and what is not known."""

import numpy as np

from schedperf.evidence.profile.independent import average_runs, column_means, independent_of


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
