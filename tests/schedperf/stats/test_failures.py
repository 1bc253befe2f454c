# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.stats._failures: runs that failed are counted once and tested exactly."""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from schedperf.stats import compare_runs
from tests.schedperf.stats.as_dicts import as_dicts

MakeRuns = Callable[..., pd.DataFrame]


def fail(table: pd.DataFrame, count: int) -> pd.DataFrame:
    """Mark the last runs of a table as failed."""
    places = range(len(table))
    return table.assign(
        status=["ok" if place < len(table) - count else "failed" for place in places],
        value=[
            value if place < len(table) - count else math.nan
            for place, value in zip(places, table["value"], strict=True)
        ],
    )


@pytest.fixture
def compare_failures(make_runs: MakeRuns) -> Callable[..., list[dict[str, Any]]]:
    """Return a function that compares sides by (failed, runs) and returns the rows of failures."""

    def compare_failures(
        counts: dict[str, tuple[int, int]], **columns: object
    ) -> list[dict[str, Any]]:
        table = pd.concat(
            [fail(make_runs({side: [1.0] * n}, **columns), k) for side, (k, n) in counts.items()],
            ignore_index=True,
        )
        rows = as_dicts(compare_runs(table, base="base").rows)
        return [row for row in rows if row["metric"] == "failed runs"]

    return compare_failures


def test_p_is_boschloo_s(compare_failures: Callable[..., list[dict[str, Any]]]) -> None:
    [row] = compare_failures({"base": (1, 9), "new": (7, 8)})
    assert row["p"] == pytest.approx(stats.boschloo_exact([[1, 8], [7, 1]]).pvalue)
    assert (row["q"], row["method"]) == (row["p"], "Boschloo exact")
    assert (row["n_base"], row["n_new"], row["base"], row["new"]) == (9, 8, 1.0, 7.0)
    assert (row["verdict"], row["family"]) == ("regression", "primary")
    assert "1 of 9 runs failed in base, 7 of 8 in new" in row["reason"]


def test_fewer_failures_are_an_improvement(
    compare_failures: Callable[..., list[dict[str, Any]]],
) -> None:
    [row] = compare_failures({"base": (7, 8), "new": (0, 8)})
    assert row["verdict"] == "improvement"


def test_one_failure_more_is_informational_and_says_how_many_runs_prove_a_repair(
    compare_failures: Callable[..., list[dict[str, Any]]],
) -> None:
    [row] = compare_failures({"base": (0, 10), "new": (1, 10)})
    assert (row["verdict"], row["family"]) == ("inconclusive", "informational")
    # Fisher's: without a failure in k runs the p of 1 in 10 is 10 / (10 + k).
    assert "191 runs without a failure would confirm a fix" in row["reason"]


def test_where_all_runs_failed_nothing_tells_the_sides_apart(
    compare_failures: Callable[..., list[dict[str, Any]]],
) -> None:
    [row] = compare_failures({"base": (5, 5), "new": (5, 5)})
    assert (row["p"], row["verdict"]) == (1.0, "inconclusive")
    assert "nan" not in row["reason"]


def test_without_failures_there_is_no_row(
    compare_failures: Callable[..., list[dict[str, Any]]],
) -> None:
    assert compare_failures({"base": (0, 5), "new": (0, 5)}) == []


def test_only_the_sides_with_a_failure_or_against_one_have_a_row(
    compare_failures: Callable[..., list[dict[str, Any]]],
) -> None:
    rows = compare_failures({"base": (0, 5), "new": (0, 5), "new2": (3, 5)})
    assert [row["side"] for row in rows] == ["new2"]


def test_a_run_with_several_metrics_is_one_run(make_runs: MakeRuns) -> None:
    numbered = {"run": [0, 1, 2, 3, 4]}
    tables = [
        fail(make_runs({side: [1.0] * 5}, metric=metric, **numbered), 2 if side == "new" else 0)
        for side in ("base", "new")
        for metric in ("a", "b", "c")
    ]
    [row] = [
        row
        for row in as_dicts(compare_runs(pd.concat(tables), base="base").rows)
        if row["metric"] == "failed runs"
    ]
    assert (row["n_base"], row["n_new"], row["new"]) == (5, 5, 2.0)


@pytest.mark.parametrize("columns", [{}, {"run": [0, 1, 2, 3, 4]}])
@pytest.mark.parametrize("metric", ["", None])
def test_a_failed_run_without_a_metric_counts_beside_those_with_one(
    make_runs: MakeRuns, columns: dict[str, object], metric: str | None
) -> None:
    table = make_runs({"base": [1.0] * 5, "new": [1.0] * 5}, status="ok", **columns)
    broken = make_runs({"new": [math.nan] * 2}, status="failed", metric=metric)
    if columns:
        broken = broken.assign(run=[5, 6])
    [row] = [
        row
        for row in as_dicts(compare_runs(pd.concat([table, broken]), base="base").rows)
        if row["metric"] == "failed runs"
    ]
    assert (row["n_base"], row["n_new"], row["base"], row["new"]) == (5, 7, 0.0, 2.0)


def test_the_same_number_in_another_boot_is_another_run(make_runs: MakeRuns) -> None:
    table = fail(
        make_runs({"base": [1.0] * 4, "new": [1.0] * 4}, boot=[0, 0, 1, 1], run=[0, 1, 0, 1]), 1
    )
    row = as_dicts(compare_runs(table, base="base").rows)[-1]
    assert (row["metric"], row["n_base"], row["n_new"], row["new"]) == ("failed runs", 4, 4, 1.0)


def test_points_fail_for_themselves(make_runs: MakeRuns) -> None:
    tables = [
        fail(make_runs({side: [1.0] * 6}, point=point), count)
        for side, point, count in (
            ("base", "a=1", 0), ("new", "a=1", 6), ("base", "a=2", 0), ("new", "a=2", 0),
        )
    ]  # fmt: skip
    rows = as_dicts(compare_runs(pd.concat(tables), base="base").rows)
    found = {(row["point"], row["metric"]): row["verdict"] for row in rows}
    assert found == {
        ("a=1", "time"): "invalid",
        ("a=2", "time"): "no-change",
        ("a=1", "failed runs"): "regression",
    }


def test_many_runs_take_no_time(
    compare_failures: Callable[..., list[dict[str, Any]]],
) -> None:
    start = time.process_time()
    [row] = compare_failures({"base": (0, 3000), "new": (300, 3000)})
    assert time.process_time() - start < 5.0
    assert (row["method"], row["verdict"]) == ("Fisher exact", "regression")
    assert row["p"] == pytest.approx(stats.fisher_exact(np.array([[0, 3000], [300, 2700]])).pvalue)
