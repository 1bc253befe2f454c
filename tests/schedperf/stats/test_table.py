"""schedperf.stats._table: any sane DataFrame is taken, and what cannot be is refused by name."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from schedperf.model.errors import InputError
from schedperf.stats import compare_runs
from schedperf.stats._table import complete
from tests.schedperf.stats.as_dicts import as_dicts

MakeRuns = Callable[..., pd.DataFrame]

BASE, NEW = [100.0, 101.0, 102.0, 104.0], [110.0, 111.0, 112.0, 115.0]


def only_row(table: pd.DataFrame) -> dict[str, Any]:
    [row] = as_dicts(compare_runs(table, base="base").rows)
    return row


@pytest.fixture
def runs(make_runs: MakeRuns) -> pd.DataFrame:
    return make_runs({"base": BASE, "new": NEW}, point="groups=4")


class TestWhatIsTaken:
    @pytest.mark.parametrize(
        "dtype", ["int32", "Int64", "float32", "Float64", "string", "object", "category"]
    )
    def test_the_type_of_a_number_does_not_matter(self, runs: pd.DataFrame, dtype: Any) -> None:
        same = runs.assign(value=runs["value"].astype(int).astype(dtype))
        assert only_row(same)["p"] == pytest.approx(only_row(runs)["p"], rel=1e-6)

    def test_text_columns_may_be_categories(self, runs: pd.DataFrame) -> None:
        names = [name for name in runs if name != "value"]
        assert only_row(runs.astype(dict.fromkeys(names, "category"))) == only_row(runs)

    def test_nullable_types_with_gaps_are_numbers_that_are_missing(
        self, runs: pd.DataFrame
    ) -> None:
        table = runs.assign(
            boot=pd.array([0] * 8, dtype="Int64"),
            resolution=pd.array([0.1] * 7 + [pd.NA], dtype="Float64"),
            status=["ok"] * 7 + ["failed"],
            value=pd.array([*BASE, *NEW[:3], pd.NA], dtype="Float64"),
        )
        row = as_dicts(compare_runs(table, base="base").rows)[0]
        assert (row["n_base"], row["n_new"]) == (4, 3)

    def test_an_index_with_duplicates_does_not_matter(self, runs: pd.DataFrame) -> None:
        assert only_row(runs.set_axis([0] * len(runs))) == only_row(runs)

    def test_further_columns_do_not_matter(self, runs: pd.DataFrame) -> None:
        # Also not with names that the engine uses itself.
        more = runs.assign(note="x", row=9, is_new=-1, unit_of_work=3.0, is_summary=True, floor=1)
        assert only_row(more) == only_row(runs)

    def test_the_table_of_the_caller_is_left_alone(self, runs: pd.DataFrame) -> None:
        before = runs.copy()
        compare_runs(runs, base="base")
        pd.testing.assert_frame_equal(runs, before)

    def test_names_of_sides_may_be_numbers(self, runs: pd.DataFrame) -> None:
        table = runs.assign(side=[6] * 4 + [7] * 4)
        [row] = as_dicts(compare_runs(table, base="6").rows)
        assert (row["side"], row["n_base"], row["n_new"]) == ("7", 4, 4)

    def test_a_family_that_is_left_out_is_primary(self, make_runs: MakeRuns) -> None:
        table = make_runs({"base": BASE, "new": NEW}, family=[None, math.nan, "primary", None])
        assert only_row(table)["family"] == "primary"

    def test_what_is_not_given_has_a_default(self, runs: pd.DataFrame) -> None:
        table = complete(runs)
        assert set(table["family"]) == {"primary"}
        assert set(table["status"]) == {"ok"}
        assert table[["resolution", "order", "round", "boot", "cv", "n"]].isna().all(axis=None)
        assert not table["is_summary"].any()

    def test_an_extreme_value_is_only_a_number(self, make_runs: MakeRuns) -> None:
        row = only_row(
            make_runs({"base": [1e-300, 1.1e-300, 0.9e-300], "new": [1e150, 0.9e150, 0.95e150]})
        )
        assert row["verdict"] == "regression"
        assert all(math.isfinite(row[name]) for name in ("ratio", "ci_low", "ci_high", "p", "q"))


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        "value", [math.nan, math.inf, -math.inf, None, pd.NA, 1e151, -1e200, "much", ""]
    )
    def test_no_number_is_refused_with_its_row(self, runs: pd.DataFrame, value: Any) -> None:
        table = runs.astype({"value": object})
        table.loc[6, "value"] = value
        with pytest.raises(InputError) as caught:
            compare_runs(table, base="base")
        assert str(caught.value) == (
            f"new, hackbench, groups=4, time: the value of a run is {value}; "
            "leave the run out or mark it as failed"
        )

    @pytest.mark.parametrize("name", ["side", "workload", "point", "metric", "unit", "better"])
    def test_a_missing_column_is_named(self, runs: pd.DataFrame, name: str) -> None:
        with pytest.raises(InputError, match=f"^runs: no column {name}; a row a run needs side"):
            compare_runs(runs.drop(columns=name), base="base")

    def test_values_or_means_must_be_there(self, runs: pd.DataFrame) -> None:
        with pytest.raises(InputError, match="^runs: no column value"):
            compare_runs(runs.drop(columns="value"), base="base")

    @pytest.mark.parametrize("word", ["Higher", "", None, math.nan])
    def test_a_direction_is_never_guessed(self, runs: pd.DataFrame, word: Any) -> None:
        with pytest.raises(InputError, match=f"time: better is {word}; write higher or lower"):
            compare_runs(runs.assign(better=word), base="base")

    def test_an_unknown_family_is_refused(self, runs: pd.DataFrame) -> None:
        with pytest.raises(InputError, match="family is main; write primary or secondary or info"):
            compare_runs(runs.assign(family="main"), base="base")

    @pytest.mark.parametrize("step", [math.inf, 1e200])
    def test_an_endless_resolution_is_refused(self, runs: pd.DataFrame, step: float) -> None:
        with pytest.raises(InputError, match="groups=4, time: the resolution is"):
            compare_runs(runs.assign(resolution=step), base="base")

    def test_a_failed_run_may_say_nothing_at_all(self, runs: pd.DataFrame) -> None:
        failed = pd.DataFrame(
            [{"side": "new", "workload": "hackbench", "point": "groups=4", "status": "failed"}]
        )
        table = pd.concat([runs.assign(status="ok"), failed], ignore_index=True)
        row = as_dicts(compare_runs(table, base="base").rows)[0]
        assert (row["metric"], row["n_new"]) == ("time", 4)


class TestSummaries:
    @staticmethod
    def summary(make_runs: MakeRuns, **columns: object) -> pd.DataFrame:
        table = make_runs({"base": [np.nan], "new": [np.nan]}, **columns).drop(columns="value")
        return table.assign(mean=[100.0, 110.0])

    @pytest.mark.parametrize(
        ("cv", "n"),
        [(-0.1, 3), (math.inf, 3), (1e10, 3), (0.1, 0), (0.1, 0.5), (0.1, math.inf), (0.1, 1e10)],
    )
    def test_a_spread_or_a_number_that_cannot_be_is_refused(
        self, make_runs: MakeRuns, cv: float, n: float
    ) -> None:
        with pytest.raises(InputError, match="base, hackbench, , time: cv = .* cannot be"):
            compare_runs(self.summary(make_runs, cv=cv, n=n), base="base")

    def test_two_summaries_of_one_side_are_refused(self, make_runs: MakeRuns) -> None:
        table = self.summary(make_runs, cv=0.01, n=3)
        with pytest.raises(InputError, match="a summary needs one row"):
            compare_runs(pd.concat([table, table.tail(1)]), base="base")

    def test_a_summary_beside_runs_of_its_side_is_refused(self, make_runs: MakeRuns) -> None:
        table = pd.concat(
            [self.summary(make_runs, cv=0.01, n=3), make_runs({"new": [110.0, 111.0]})]
        )
        with pytest.raises(InputError, match="new, hackbench, , time: .* a summary needs one row"):
            compare_runs(table, base="base")

    def test_a_mean_that_is_no_number_is_shown(self, make_runs: MakeRuns) -> None:
        table = self.summary(make_runs, cv=0.01, n=3).assign(mean=[100.0, math.inf])
        with pytest.raises(InputError, match="new, .*: the value of a run is inf"):
            compare_runs(table, base="base")
