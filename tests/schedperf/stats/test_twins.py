# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.stats._twins: a measurement that is printed twice is tested once."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from schedperf.stats import compare_runs
from tests.schedperf.stats.as_dicts import as_dicts

MakeRuns = Callable[..., pd.DataFrame]

BASE = np.array([3.71, 3.74, 3.69, 3.75])
NEW = np.array([3.78, 3.82, 3.77, 3.80])
OTHER = np.array([5.1, 5.3, 5.2, 5.05]), np.array([5.2, 5.15, 5.25, 5.3])


def rows_of(*tables: pd.DataFrame) -> dict[str, dict[str, Any]]:
    rows = as_dicts(compare_runs(pd.concat(tables, ignore_index=True), base="base").rows)
    return {row["metric"]: row for row in rows}


@pytest.fixture
def tables(make_runs: MakeRuns) -> dict[str, pd.DataFrame]:
    def of(base: Any, new: Any, **columns: Any) -> pd.DataFrame:
        return make_runs({"base": list(base), "new": list(new)}, **columns)

    return {
        "time": of(BASE, NEW, metric="time"),
        "operations": of(
            np.round(1e6 / BASE),
            np.round(1e6 / NEW),
            metric="operations",
            unit="1/s",
            better="higher",
        ),
        "percent": of(BASE * 7.0, NEW * 7.0, metric="percent"),
        "other": of(*OTHER, metric="other"),
    }


def test_a_reciprocal_and_a_percentage_leave_the_correction_as_it_is(
    tables: dict[str, pd.DataFrame],
) -> None:
    alone = rows_of(tables["time"], tables["other"])
    found = rows_of(*tables.values())
    for metric in ("time", "other"):
        assert found[metric]["q"] == pytest.approx(alone[metric]["q"], rel=1e-12)
    for metric in ("operations", "percent"):
        assert found[metric]["q"] == found["time"]["q"]
        assert found[metric]["same_as"] == "time"
        assert found[metric]["verdict"] == found["time"]["verdict"]
    assert found["time"]["same_as"] is found["other"]["same_as"] is None


def test_the_row_that_decides_is_the_one_that_is_tested(tables: dict[str, pd.DataFrame]) -> None:
    found = rows_of(tables["operations"].assign(family="secondary"), tables["time"])
    assert (found["time"]["same_as"], found["operations"]["same_as"]) == (None, "time")
    assert found["time"]["q"] == found["time"]["p"]


def test_another_point_is_another_measurement(make_runs: MakeRuns) -> None:
    points = [
        make_runs(
            {"base": list(BASE), "new": list(NEW)}, point=f"groups={count}", metric=f"m{count}"
        )
        for count in (1, 2)
    ]
    assert not any(row["same_as"] for row in rows_of(*points).values())


def test_two_runs_may_deviate_alike_by_chance(make_runs: MakeRuns) -> None:
    found = rows_of(
        make_runs({"base": [1.0, 1.1], "new": [1.2]}, metric="a"),
        make_runs({"base": [2.0, 2.2], "new": [2.4]}, metric="b"),
    )
    assert not any(row["same_as"] for row in found.values())
