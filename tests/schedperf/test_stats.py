"""schedperf.stats: the arithmetic is SciPy's, and nothing is said that the data do not say."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from schedperf.errors import InputError
from schedperf.stats import Result, compare_runs, records, welch_difference

BASE = (0.612, 0.624, 0.603, 0.631, 0.605)
SLOWER = (0.812, 0.834, 0.803, 0.841, 0.825)


def rows_of(side: str, values: Sequence[object], **columns: object) -> list[dict[str, object]]:
    common: dict[str, object] = {
        "side": side,
        "workload": "hackbench",
        "point": "",
        "metric": "time",
        "unit": "s",
        "better": "lower",
    }
    return [{**common, "value": value, **columns} for value in values]


def compare_values(base: Sequence[object], new: Sequence[object], **columns: object) -> Result:
    table = pd.DataFrame(rows_of("base", base, **columns) + rows_of("new", new, **columns))
    return compare_runs(table, base="base")


def only_row(result: Result) -> dict[str, Any]:
    [row] = records(result.rows)
    return row


class TestWelchDifference:
    def test_equals_scipy(self) -> None:
        found = welch_difference(BASE, SLOWER, confidence=0.9)
        expected = scipy_stats.ttest_ind(SLOWER, BASE, equal_var=False)
        interval = expected.confidence_interval(0.9)
        assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
        assert found.ci_low == pytest.approx(interval.low, rel=1e-9)
        assert found.ci_high == pytest.approx(interval.high, rel=1e-9)
        assert found.difference == pytest.approx(np.mean(SLOWER) - np.mean(BASE))

    def test_one_run_gives_a_difference_without_interval(self) -> None:
        found = welch_difference([1.0], SLOWER)
        assert found.difference == pytest.approx(np.mean(SLOWER) - 1.0)
        assert (found.ci_low, found.ci_high, found.p) == (None, None, None)

    def test_nothing_gives_nothing(self) -> None:
        assert welch_difference([], BASE).difference is None
        assert welch_difference(BASE, []).difference is None

    def test_without_variance_the_difference_is_exact(self) -> None:
        found = welch_difference([0.1] * 3, [0.3] * 4)
        assert found.difference == found.ci_low == found.ci_high == 0.3 - 0.1
        assert found.p is None

    def test_variance_on_one_side_is_enough(self) -> None:
        found = welch_difference([0.1] * 3, [0.3, 0.4, 0.5])
        assert found.p is not None
        assert 0.0 < found.p < 0.1


class TestCompareRuns:
    def test_ratio_and_interval_are_welch_on_logs(self) -> None:
        row = only_row(compare_values(BASE, SLOWER))
        expected = scipy_stats.ttest_ind(np.log(SLOWER), np.log(BASE), equal_var=False)
        interval = expected.confidence_interval(0.95)
        assert row["ratio"] == pytest.approx(
            scipy_stats.gmean(SLOWER) / scipy_stats.gmean(BASE), rel=1e-12
        )
        assert row["ci_low"] == pytest.approx(math.exp(interval.low), rel=1e-9)
        assert row["ci_high"] == pytest.approx(math.exp(interval.high), rel=1e-9)
        assert row["p"] == pytest.approx(expected.pvalue, rel=1e-9)
        assert row["base"] == pytest.approx(scipy_stats.gmean(BASE))
        assert (row["n_base"], row["n_new"], row["method"]) == (5, 5, "Welch t on logs")

    def test_columns_are_the_documented_ones(self) -> None:
        result = compare_values(BASE, SLOWER)
        assert list(result.rows) == [
            "side", "workload", "point", "metric", "unit", "better", "family", "n_base", "n_new",
            "base", "new", "ratio", "ci_low", "ci_high", "p", "q", "verdict", "method", "reason",
            "warnings",
        ]  # fmt: skip
        assert list(result.sweeps) == [
            "side", "workload", "metric", "points", "geomean_ratio", "ci_low", "ci_high",
        ]  # fmt: skip
        assert list(result.families) == ["family", "side", "verdict", "rows"]

    @pytest.mark.parametrize(
        ("better", "verdict"), [("lower", "regression"), ("higher", "improvement")]
    )
    def test_direction_comes_from_the_metric(self, better: str, verdict: str) -> None:
        assert only_row(compare_values(BASE, SLOWER, better=better))["verdict"] == verdict

    def test_a_margin_of_noise_is_no_change(self) -> None:
        values = [1.0, 1.001, 0.999, 1.002, 0.998]
        row = only_row(compare_values(values, values[::-1]))
        assert row["verdict"] == "no-change"
        assert "90 % interval" in row["reason"]

    def test_noise_wider_than_the_margin_is_inconclusive(self) -> None:
        assert (
            only_row(compare_values([1.0, 1.2, 0.8], [1.1, 0.9, 1.0]))["verdict"] == "inconclusive"
        )

    def test_significance_outranks_equivalence_and_says_so(self) -> None:
        base = [1.0, 1.0002, 0.9998, 1.0001, 0.9999]
        row = only_row(compare_values(base, [1.02 * value for value in base]))
        assert row["verdict"] == "regression"
        assert "within the margin of ±3 %" in row["reason"]

    def test_a_significant_change_below_one_percent_is_no_change(self) -> None:
        base = [1.0, 1.0002, 0.9998, 1.0001, 0.9999]
        row = only_row(compare_values(base, [1.005 * value for value in base]))
        assert row["p"] < 1e-6
        assert row["verdict"] == "no-change"

    def test_one_run_is_inconclusive_with_the_reason(self) -> None:
        row = only_row(compare_values([0.6], SLOWER))
        assert row["verdict"] == "inconclusive"
        assert row["reason"] == "base has 1 run; at least 2 are needed for an interval"
        assert row["ratio"] == pytest.approx(scipy_stats.gmean(SLOWER) / 0.6)
        assert (row["ci_low"], row["p"], row["q"]) == (None, None, None)
        assert [warning.code for warning in row["warnings"]] == ["few-runs"]

    def test_a_metric_on_one_side_only_is_invalid(self) -> None:
        table = pd.DataFrame(rows_of("base", BASE) + rows_of("new", SLOWER, metric="other"))
        found = records(compare_runs(table, base="base").rows)
        assert [(row["metric"], row["verdict"], row["reason"]) for row in found] == [
            ("time", "invalid", "no value in new, so there is nothing to compare"),
            ("other", "invalid", "no value in base, so there is nothing to compare"),
        ]

    def test_runs_that_failed_do_not_count(self) -> None:
        table = pd.DataFrame(
            rows_of("base", BASE, status="ok")
            + rows_of("new", BASE, status="ok")
            + rows_of("new", [99.0, math.nan], status="failed")
        )
        assert only_row(compare_runs(table, base="base"))["n_new"] == 5

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None, 1e200, "much"])
    def test_what_is_no_number_is_refused_with_the_row_named(self, value: object) -> None:
        with pytest.raises(InputError, match="new, hackbench, groups=4, time: the value of a run"):
            compare_values([1.0, 2.0], [1.0, value], point="groups=4")

    def test_no_runs_at_all_give_no_rows(self) -> None:
        empty = pd.DataFrame(columns=list(rows_of("base", [1.0])[0]))
        result = compare_runs(empty, base="base", new=["new"])
        assert len(result.rows) == len(result.sweeps) == len(result.families) == 0

    def test_several_sides_are_each_compared_with_base(self) -> None:
        table = pd.DataFrame(
            rows_of("base", BASE) + rows_of("new", SLOWER) + rows_of("new2", BASE)
            + rows_of("new2", BASE, metric="only here")
        )  # fmt: skip
        found = [
            (row["side"], row["metric"]) for row in records(compare_runs(table, base="base").rows)
        ]
        assert found == [("new", "time"), ("new2", "time"), ("new2", "only here")]


class TestDifferenceScale:
    def test_signed_values_are_compared_by_differences(self) -> None:
        row = only_row(compare_values([-10.0, -11.0, -9.0, -10.5], [10.0, 11.0, 9.0, 10.5]))
        assert row["method"] == "Welch t on values"
        assert (row["ratio"], row["ci_low"], row["verdict"]) == (None, None, "regression")

    def test_zeros_on_both_sides_are_equal(self) -> None:
        row = only_row(compare_values([0, 0, 0], [0, 0], unit="count"))
        assert (row["verdict"], row["method"]) == ("no-change", "exact on values")

    def test_an_exact_counter_that_differs_is_decided_exactly(self) -> None:
        row = only_row(compare_values([100, 100], [103, 103], unit="count"))
        assert (row["verdict"], row["p"], row["q"]) == ("regression", None, None)
        assert "exact" in row["reason"]

    def test_values_that_cancel_out_have_no_share(self) -> None:
        row = only_row(compare_values([-1.0, 1.0], [-2.0, 2.0]))
        assert row["verdict"] == "inconclusive"
        assert "0 on average" in row["reason"]


class TestResolution:
    def test_printed_steps_are_a_variance_floor(self) -> None:
        row = only_row(compare_values([0.056] * 5, [0.056] * 5, resolution=0.001))
        # The standard error of 5 + 5 values rounded to steps of u.
        error = 0.001 / 0.056 * math.sqrt(2.0 / (12.0 * 5.0))
        half = scipy_stats.t.ppf(0.975, 8) * error
        assert row["ci_high"] == pytest.approx(math.exp(half), rel=1e-6)
        assert row["verdict"] == "no-change"

    def test_less_than_two_steps_is_no_verdict(self) -> None:
        row = only_row(compare_values([0.056] * 5, [0.057] * 5, resolution=0.001))
        assert row["q"] < 0.05
        assert row["verdict"] == "inconclusive"
        assert "less than two steps" in row["reason"]

    def test_three_steps_are_a_verdict(self) -> None:
        row = only_row(compare_values([0.056] * 5, [0.059] * 5, resolution=0.001))
        assert row["verdict"] == "regression"

    def test_coarse_numbers_carry_a_caveat(self) -> None:
        [warning] = only_row(compare_values([0.056] * 5, [0.056] * 5, resolution=0.001))["warnings"]
        assert warning.text == "printed in steps of 0.001 s, 1.8 % of the value"


class TestFamilies:
    @staticmethod
    def table(family_of_second: str) -> pd.DataFrame:
        quiet, loud = [1.0, 1.3, 0.8, 1.1], [1.5, 1.2, 1.4, 1.7]
        return pd.DataFrame(
            rows_of("base", BASE) + rows_of("new", SLOWER)
            + rows_of("base", quiet, metric="b", family=family_of_second)
            + rows_of("new", loud, metric="b", family=family_of_second)
        )  # fmt: skip

    def test_q_is_benjamini_hochberg_within_the_family(self) -> None:
        table = self.table("primary").fillna({"family": "primary"})
        rows = records(compare_runs(table, base="base").rows)
        expected = scipy_stats.false_discovery_control([row["p"] for row in rows])
        assert [row["q"] for row in rows] == pytest.approx(list(expected))

    def test_another_family_does_not_count(self) -> None:
        table = self.table("secondary").fillna({"family": "primary"})
        for row in records(compare_runs(table, base="base").rows):
            assert row["q"] == pytest.approx(row["p"])

    def test_the_weaker_of_two_families_holds(self) -> None:
        table = pd.DataFrame(
            rows_of("base", BASE, family="primary") + rows_of("new", SLOWER, family="diagnostic")
        )
        assert only_row(compare_runs(table, base="base"))["family"] == "diagnostic"


class TestSweeps:
    def test_geometric_mean_of_all_points_with_interval(self) -> None:
        table = pd.DataFrame(
            [
                row
                for point, factor in (("groups=1", 1.1), ("groups=4", 1.3))
                for row in (
                    rows_of("base", BASE, point=point)
                    + rows_of("new", [factor * value for value in BASE], point=point)
                )
            ]
        )
        [sweep] = records(compare_runs(table, base="base").sweeps)
        assert sweep["points"] == ("groups=1", "groups=4")
        assert sweep["geomean_ratio"] == pytest.approx(math.sqrt(1.1 * 1.3))
        # Two equal standard errors: the mean's is smaller by the root of two, with 16 degrees.
        error = math.sqrt(2.0 * np.var(np.log(BASE), ddof=1) / 5.0) / math.sqrt(2.0)
        half = scipy_stats.t.ppf(0.975, 16) * error
        assert sweep["ci_high"] == pytest.approx(math.sqrt(1.1 * 1.3) * math.exp(half))

    def test_a_point_without_an_interval_leaves_the_sweep_without(self) -> None:
        table = pd.DataFrame(
            rows_of("base", BASE, point="groups=1") + rows_of("new", BASE, point="groups=1")
            + rows_of("base", [0.5], point="groups=4") + rows_of("new", BASE, point="groups=4")
        )  # fmt: skip
        [sweep] = records(compare_runs(table, base="base").sweeps)
        assert sweep["geomean_ratio"] is not None
        assert sweep["ci_low"] is None


def test_false_alarms_are_rare_on_equal_sides() -> None:
    # The 5 % of Welch's test, less what the smallest effect takes; 400 rows with a fixed seed.
    random = np.random.default_rng(20261121)
    alarms = 0
    for _ in range(400):
        base, new = np.exp(random.normal(0.0, 0.02, (2, 5)))
        verdict = only_row(compare_values(list(base), list(new)))["verdict"]
        alarms += verdict in {"regression", "improvement"}
    assert alarms <= 32


def test_intervals_cover_the_truth() -> None:
    random = np.random.default_rng(7)
    covered = 0
    for _ in range(400):
        base = np.exp(random.normal(0.0, 0.02, 4))
        new = 1.1 * np.exp(random.normal(0.0, 0.04, 6))
        row = only_row(compare_values(list(base), list(new)))
        covered += row["ci_low"] <= 1.1 <= row["ci_high"]
    assert covered >= 0.92 * 400
