# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.stats._rows: which tables are refused, what is independent, and what is compared."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from schedperf.model.errors import InputError
from schedperf.model.frame import Frame
from schedperf.stats import compare_runs
from schedperf.stats._rows import REPLICATIONS, Rows, blocks_of, complete, count_units, form_rows
from tests.schedperf.stats.as_dicts import as_dicts

MakeRuns = Callable[..., pd.DataFrame]
Complete = Callable[..., Frame]


def rows_of(table: Frame, *new: str) -> Rows:
    return form_rows(table, base="base", new=new or ("new",))


def units_of(rows: Rows) -> list[tuple[str, float, float]]:
    kinds = [REPLICATIONS[kind] for kind in rows.replication]
    return [
        (kind, *numbers) for kind, numbers in zip(kinds, count_units(rows).tolist(), strict=True)
    ]


class TestScale:
    def test_positive_values_are_taken_on_logarithms(self, completed: Complete) -> None:
        rows = rows_of(completed({"base": [1.0, 4.0], "new": [8.0, 8.0]}))
        assert rows.is_log.tolist() == [True]
        assert rows.units["value"].tolist() == pytest.approx(np.log([1.0, 4.0, 8.0, 8.0]))
        assert (rows.base[0], rows.new[0]) == pytest.approx((2.0, 8.0))

    def test_one_value_that_is_not_positive_makes_it_differences(self, completed: Complete) -> None:
        rows = rows_of(completed({"base": [1.0, 3.0], "new": [-8.0, 0.0]}))
        assert rows.is_log.tolist() == [False]
        # The larger of the means 2 and 4.
        assert rows.scale.tolist() == [4.0]
        assert rows.units["value"].tolist() == [0.25, 0.75, -2.0, 0.0]
        assert (rows.base[0], rows.new[0]) == (2.0, -4.0)

    @pytest.mark.parametrize("values", [[0.0, 0.0], [-3.0, 3.0], [1e16, 1.0, -1e16]])
    def test_a_mean_of_0_is_no_scale_even_if_rounding_misses_it(
        self, completed: Complete, values: list[float]
    ) -> None:
        rows = rows_of(completed({"base": values, "new": values}))
        assert rows.scale.tolist() == [0.0]
        assert np.abs(rows.units["value"]).max() <= 1.0


class TestUnits:
    def test_runs_without_boots_and_rounds_are_independent(self, completed: Complete) -> None:
        rows = rows_of(completed({"base": [1.0, 2.0, 3.0], "new": [1.0, 2.0]}))
        assert units_of(rows) == [("runs", 3.0, 2.0)]

    def test_one_boot_a_side_leaves_runs(self, completed: Complete) -> None:
        rows = rows_of(completed({"base": [1.0, 2.0, 3.0], "new": [1.0, 2.0]}, boot=0))
        assert units_of(rows) == [("runs", 3.0, 2.0)]
        assert rows.boots.tolist() == [[1, 1]]

    def test_two_boots_of_one_side_make_boots_the_unit(self, completed: Complete) -> None:
        boots = {"base": [0, 0, 0, 0], "new": [0, 0, 7, 7]}
        rows = rows_of(
            completed({"base": [1.0] * 4, "new": [math.e, math.e, 1.0, math.e**2]}, boot=boots)
        )
        assert units_of(rows) == [("boots", 1.0, 2.0)]
        # A boot is the mean of its runs.
        assert rows.units["value"].tolist() == pytest.approx([0.0, 1.0, 1.0])

    def test_equal_numbers_of_boots_on_two_sides_are_different_boots(
        self, completed: Complete
    ) -> None:
        rows = rows_of(completed({"base": [1.0] * 4, "new": [2.0] * 4}, boot=[0, 0, 1, 1]))
        assert units_of(rows) == [("boots", 2.0, 2.0)]

    def test_three_shared_rounds_are_pairs(self, completed: Complete) -> None:
        rows = rows_of(
            completed({"base": [1.0, 2.0, 3.0], "new": [4.0, 5.0, 6.0]}, round=[5, 3, 9])
        )
        assert units_of(rows) == [("rounds", 3.0, 3.0)]
        [block] = blocks_of(rows)
        assert block.is_paired
        assert np.exp(block.base).tolist() == [pytest.approx([2.0, 1.0, 3.0])]
        assert np.exp(block.new).tolist() == [pytest.approx([5.0, 4.0, 6.0])]

    def test_two_shared_rounds_are_no_pairs(self, completed: Complete) -> None:
        rounds = {"base": [0, 1, 2], "new": [1, 2, 3]}
        rows = rows_of(completed({"base": [1.0, 2.0, 3.0], "new": [4.0, 5.0, 6.0]}, round=rounds))
        assert units_of(rows) == [("runs", 3.0, 3.0)]

    def test_leftover_rounds_and_runs_without_one_are_dropped(self, completed: Complete) -> None:
        rounds = {"base": [0, 1, 2, 3, math.nan], "new": [4, 2, 1, 0]}
        rows = rows_of(
            completed(
                {"base": [1.0, 2.0, 3.0, 99.0, 99.0], "new": [99.0, 6.0, 5.0, 4.0]}, round=rounds
            )
        )
        [block] = blocks_of(rows)
        assert np.exp(block.base).tolist() == [pytest.approx([1.0, 2.0, 3.0])]
        assert np.exp(block.new).tolist() == [pytest.approx([4.0, 5.0, 6.0])]
        assert units_of(rows) == [("rounds", 3.0, 3.0)]

    def test_means_are_those_of_the_rounds_that_are_compared(self, completed: Complete) -> None:
        rounds = {"base": [0, 1, 2, 3, math.nan], "new": [2, 1, 0]}
        rows = rows_of(
            completed({"base": [1.0, 2.0, 4.0, 512.0, 0.5], "new": [8.0, 4.0, 2.0]}, round=rounds)
        )
        assert (rows.base[0], rows.new[0]) == pytest.approx((2.0, 4.0))
        assert rows.left_out.tolist() == [[2, 0]]

    def test_a_boot_with_more_runs_weighs_no_more(self, completed: Complete) -> None:
        boots = {"base": [0, 0, 0, 1], "new": [2, 3]}
        rows = rows_of(completed({"base": [1.0] * 3 + [4.0], "new": [2.0, 8.0]}, boot=boots))
        assert (rows.base[0], rows.new[0]) == pytest.approx((2.0, 4.0))
        assert rows.left_out.tolist() == [[0, 0]]

    def test_several_runs_of_a_round_are_one_value(self, completed: Complete) -> None:
        # ABBA: each side twice a round.
        rows = rows_of(
            completed({"base": [1.0, 4.0] * 3, "new": [2.0, 8.0] * 3}, round=[0, 0, 1, 1, 2, 2])
        )
        [block] = blocks_of(rows)
        assert np.exp(block.base).tolist() == [pytest.approx([2.0] * 3)]
        assert np.exp(block.new).tolist() == [pytest.approx([4.0] * 3)]

    def test_one_round_of_each_boot_is_a_pair(self, completed: Complete) -> None:
        table = completed({"base": [1.0] * 3, "new": [2.0] * 3}, boot=[0, 1, 2], round=[0, 1, 2])
        assert units_of(rows_of(table)) == [("rounds", 3.0, 3.0)]

    def test_several_rounds_of_one_boot_share_it(self, completed: Complete) -> None:
        table = completed(
            {"base": [1.0] * 4, "new": [2.0] * 4}, boot=[0, 0, 1, 1], round=[0, 1, 2, 3]
        )
        assert units_of(rows_of(table)) == [("boots", 2.0, 2.0)]

    def test_the_unit_is_each_row_s_own(self, completed: Complete) -> None:
        table = Frame.joined(
            [
                completed({"base": [1.0] * 3, "new": [2.0] * 3}, point="a=1", round=[0, 1, 2]),
                completed({"base": [1.0] * 4, "new": [2.0] * 4}, point="a=2", boot=[0, 0, 1, 1]),
                completed({"base": [1.0] * 5, "new": [2.0] * 2}, point="a=3"),
            ]
        )
        assert units_of(rows_of(table)) == [
            ("rounds", 3.0, 3.0), ("boots", 2.0, 2.0), ("runs", 5.0, 2.0),
        ]  # fmt: skip


class TestRows:
    def test_rows_come_in_the_order_of_the_table_side_by_side(self, completed: Complete) -> None:
        table = Frame.joined(
            [
                completed({"new2": [1.0]}, metric="z"),
                completed({"base": [1.0], "new": [1.0]}, metric="m"),
                completed({"base": [1.0]}, metric="a"),
            ]
        )
        rows = rows_of(table, "new", "new2")
        assert list(rows.table.rows(["side", "metric"])) == [
            ("new", "m"), ("new", "a"), ("new2", "z"), ("new2", "m"), ("new2", "a"),
        ]  # fmt: skip
        assert count_units(rows).tolist() == [[1, 1], [1, 0], [0, 1], [1, 0], [1, 0]]

    def test_the_weaker_of_two_families_holds(self, completed: Complete) -> None:
        families = {"base": "primary", "new": ["secondary", "primary"]}
        rows = rows_of(completed({"base": [1.0, 1.0], "new": [1.0, 1.0]}, family=families))
        assert rows.table["family"].tolist() == ["secondary"]

    def test_the_coarser_of_two_resolutions_holds(self, completed: Complete) -> None:
        steps = {"base": 0.01, "new": [0.1, math.nan]}
        rows = rows_of(completed({"base": [1.0, 1.0], "new": [1.0, 1.0]}, resolution=steps))
        assert rows.table["resolution"].tolist() == [0.1]

    @pytest.mark.parametrize("step", [0.0, -1.0, math.nan])
    def test_a_resolution_that_is_no_step_is_unknown(
        self, completed: Complete, step: float
    ) -> None:
        rows = rows_of(completed({"base": [1.0, 2.0], "new": [1.0, 2.0]}, resolution=step))
        assert np.isnan(rows.table["resolution"]).all()
        assert (rows.units["floor"] == 0.0).all()

    def test_rounding_to_a_step_has_a_variance(self, completed: Complete) -> None:
        rows = rows_of(completed({"base": [20.0, 40.0], "new": [20.0, 20.0]}, resolution=6.0))
        # The variance of a uniform distribution, relative to each value.
        expected = [(6.0 / value) ** 2 / 12.0 for value in (20.0, 40.0, 20.0, 20.0)]
        assert rows.units["floor"].tolist() == pytest.approx(expected)
        signed = rows_of(completed({"base": [-20.0, 40.0], "new": [5.0, 5.0]}, resolution=6.0))
        assert signed.units["floor"].tolist() == pytest.approx([(6.0 / 10.0) ** 2 / 12.0] * 4)

    def test_a_step_that_dwarfs_the_values_stays_a_number(self, completed: Complete) -> None:
        for values in ([1e-300, 2e-300], [-1e-300, 2e-300]):
            rows = rows_of(completed({"base": values, "new": values}, resolution=1e150))
            assert np.isfinite(rows.units["floor"]).all()

    def test_blocks_hold_the_rows_with_equally_many_values(self, completed: Complete) -> None:
        table = Frame.joined(
            [
                completed({"base": [1.0] * n, "new": [2.0] * m}, point=f"a={place}")
                for place, (n, m) in enumerate([(3, 3), (2, 3), (3, 3), (3, 0), (0, 1)])
            ]
        )
        blocks = {
            (block.base.shape, block.new.shape): block.rows.tolist()
            for block in blocks_of(rows_of(table))
        }
        assert blocks == {((2, 3), (2, 3)): [0, 2], ((1, 2), (1, 3)): [1]}


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
        for name in ("resolution", "order", "round", "boot", "cv", "n"):
            assert np.isnan(table[name]).all()
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
        shown = "nan" if pd.isna(value) else value
        assert str(caught.value) == (
            f"new, hackbench, groups=4, time: invalid value {shown} "
            "(expected a number up to 1e+150); leave the run out or mark it as failed"
        )

    @pytest.mark.parametrize("name", ["side", "workload", "point", "metric", "unit", "better"])
    def test_a_missing_column_is_named(self, runs: pd.DataFrame, name: str) -> None:
        with pytest.raises(InputError, match=f"^runs: column `{name}` is missing"):
            compare_runs(runs.drop(columns=name), base="base")

    def test_values_or_means_must_be_there(self, runs: pd.DataFrame) -> None:
        with pytest.raises(InputError, match="^runs: column `value` or `mean` is missing"):
            compare_runs(runs.drop(columns="value"), base="base")

    @pytest.mark.parametrize("word", ["Higher", "", None, math.nan])
    def test_a_direction_is_never_guessed(self, runs: pd.DataFrame, word: Any) -> None:
        with pytest.raises(
            InputError, match=f"time: invalid `better` '{word}' .expected higher or lower"
        ):
            compare_runs(runs.assign(better=word), base="base")

    def test_an_unknown_family_is_refused(self, runs: pd.DataFrame) -> None:
        with pytest.raises(
            InputError, match="invalid `family` 'main' .expected primary or secondary or info"
        ):
            compare_runs(runs.assign(family="main"), base="base")

    @pytest.mark.parametrize("step", [math.inf, 1e200])
    def test_an_endless_resolution_is_refused(self, runs: pd.DataFrame, step: float) -> None:
        with pytest.raises(InputError, match="groups=4, time: invalid `resolution`"):
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
        with pytest.raises(
            InputError, match="base, hackbench, , time: invalid row with a mean, `cv` "
        ):
            compare_runs(self.summary(make_runs, cv=cv, n=n), base="base")

    def test_two_summaries_of_one_side_are_refused(self, make_runs: MakeRuns) -> None:
        table = self.summary(make_runs, cv=0.01, n=3)
        with pytest.raises(InputError, match="invalid row with a mean"):
            compare_runs(pd.concat([table, table.tail(1)]), base="base")

    def test_a_summary_beside_runs_of_its_side_is_refused(self, make_runs: MakeRuns) -> None:
        table = pd.concat(
            [self.summary(make_runs, cv=0.01, n=3), make_runs({"new": [110.0, 111.0]})]
        )
        with pytest.raises(InputError, match="new, hackbench, , time: invalid row with a mean"):
            compare_runs(table, base="base")

    def test_a_mean_that_is_no_number_is_shown(self, make_runs: MakeRuns) -> None:
        table = self.summary(make_runs, cv=0.01, n=3).assign(mean=[100.0, math.inf])
        with pytest.raises(InputError, match="new, .*: invalid value inf"):
            compare_runs(table, base="base")
