# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.stats._estimates: SciPy's numbers where it has the method, else closed forms."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from schedperf.stats import compare_runs
from schedperf.stats._estimates import MOST_UNEVEN, variances_of
from tests.schedperf.stats.as_dicts import as_dicts

MakeRuns = Callable[..., pd.DataFrame]
Compare = Callable[..., dict[str, Any]]

BASE = (0.612, 0.624, 0.603, 0.631)
SLOWER = (0.812, 0.834, 0.803, 0.841, 0.825)


def interval(row: dict[str, Any]) -> tuple[float, float]:
    return math.log(row["ci_low"]), math.log(row["ci_high"])


class TestWelch:
    def test_positive_values_are_scipy_s_test_of_their_logarithms(
        self, compare_values: Compare
    ) -> None:
        row = compare_values(BASE, SLOWER)
        expected = stats.ttest_ind(np.log(SLOWER), np.log(BASE), equal_var=False)
        assert row["ratio"] == pytest.approx(stats.gmean(SLOWER) / stats.gmean(BASE), rel=1e-12)
        assert interval(row) == pytest.approx(tuple(expected.confidence_interval(0.95)), rel=1e-9)
        assert row["p"] == pytest.approx(expected.pvalue, rel=1e-9)
        assert (row["base"], row["new"]) == pytest.approx((stats.gmean(BASE), stats.gmean(SLOWER)))
        assert row["method"] == "Welch t on logs"

    def test_other_values_are_scipy_s_test_of_themselves(self, compare_values: Compare) -> None:
        base, new = [-3.0, 1.0, 0.5, 2.0], [4.0, 7.5, 6.0]
        row = compare_values(base, new)
        assert row["p"] == pytest.approx(
            stats.ttest_ind(new, base, equal_var=False).pvalue, rel=1e-9
        )
        assert (row["base"], row["new"]) == pytest.approx((np.mean(base), np.mean(new)))
        assert (row["ratio"], row["ci_low"], row["ci_high"]) == (None, None, None)
        assert row["method"] == "Welch t on values"

    def test_variance_on_one_side_is_enough(self, compare_values: Compare) -> None:
        row = compare_values([1.0, 1.0, 1.0], [1.5, 1.6, 1.7])
        expected = stats.ttest_1samp(np.log([1.5, 1.6, 1.7]), 0.0)
        assert row["p"] == pytest.approx(expected.pvalue, rel=1e-9)

    @pytest.mark.parametrize(("base", "new"), [([0.6], SLOWER), (BASE, [0.6]), ([0.6], [0.6])])
    def test_one_run_has_no_variance(
        self, compare_values: Compare, base: Sequence[float], new: Sequence[float]
    ) -> None:
        row = compare_values(base, new)
        assert row["ratio"] == pytest.approx(stats.gmean(new) / stats.gmean(base))
        assert [row[name] for name in ("ci_low", "p", "q", "mde")] == [None] * 4
        assert (row["verdict"], row["method"]) == ("inconclusive", "none")


class TestExact:
    @pytest.mark.parametrize("n", [2, 5, 12])
    def test_a_counter_that_never_varies_is_exact_however_many_runs(
        self, compare_values: Compare, n: int
    ) -> None:
        row = compare_values([100] * n, [103] * n, unit="count")
        assert (row["verdict"], row["p"], row["q"]) == ("regression", None, None)
        assert row["method"] == "exact on logs"
        assert row["ci_low"] == row["ci_high"] == row["ratio"] == pytest.approx(1.03)
        assert "exact" in row["reason"]

    @pytest.mark.parametrize("value", [0, 0.1, -7])
    def test_equal_counters_are_equal(self, compare_values: Compare, value: float) -> None:
        row = compare_values([value] * 7, [value] * 5, unit="count")
        assert (row["verdict"], row["p"]) == ("no-change", None)

    def test_a_counter_that_left_0_changed(self, compare_values: Compare) -> None:
        row = compare_values([0, 0, 0], [3, 3, 3], unit="count")
        assert (row["verdict"], row["ratio"], row["method"]) == (
            "regression",
            None,
            "exact on values",
        )

    def test_values_that_cancel_out_have_no_share(self, compare_values: Compare) -> None:
        row = compare_values([-1.0, 1.0], [-2.0, 2.0])
        assert row["verdict"] == "inconclusive"
        assert "the means of both sides are 0" in row["reason"]

    def test_the_variance_of_equal_numbers_is_0_to_the_last_digit(self) -> None:
        values = np.array([[0.1] * 3, [0.1, 0.1, 0.2]])
        assert variances_of(values)[0] == 0.0
        assert variances_of(values)[1] == pytest.approx(np.var([0.1, 0.1, 0.2], ddof=1))
        assert variances_of(values[:, :1]).tolist() == [0.0, 0.0]


class TestResolution:
    def test_printed_steps_are_a_variance_floor(self, compare_values: Compare) -> None:
        row = compare_values([0.056] * 4, [0.056] * 4, resolution=0.001)
        error = 0.001 / 0.056 * math.sqrt(2.0 / (12.0 * 4.0))
        half = stats.t.ppf(0.975, 6) * error
        assert interval(row) == pytest.approx((-half, half), rel=1e-6)
        assert row["p"] == 1.0

    def test_each_side_has_a_floor_of_its_own(self, compare_values: Compare) -> None:
        row = compare_values([0.05] * 4, [0.1] * 4, resolution=0.001)
        errors = [(0.001 / value) ** 2 / 12.0 / 4.0 for value in (0.05, 0.1)]
        # Welch and Satterthwaite's, with four and one fifths of the variance.
        df = 3.0 / (0.8**2 + 0.2**2)
        half = stats.t.ppf(0.975, df) * math.sqrt(sum(errors))
        assert interval(row) == pytest.approx((math.log(2.0) - half, math.log(2.0) + half))

    def test_the_floor_leaves_a_larger_variance_alone(self, compare_values: Compare) -> None:
        assert (
            compare_values(BASE, SLOWER, resolution=1e-3)["p"] == compare_values(BASE, SLOWER)["p"]
        )

    @pytest.mark.parametrize(("steps", "verdict"), [(1, "inconclusive"), (3, "regression")])
    def test_less_than_two_steps_are_no_verdict(
        self, compare_values: Compare, steps: int, verdict: str
    ) -> None:
        row = compare_values([0.056] * 4, [0.056 + 0.001 * steps] * 4, resolution=0.001)
        assert row["q"] < 0.05
        assert row["verdict"] == verdict
        assert ("less than twice the resolution" in row["reason"]) == (steps == 1)

    def test_the_floor_is_that_of_a_pair_as_well(self, compare_values: Compare) -> None:
        row = compare_values([0.5] * 4, [0.5] * 4, resolution=0.01, round=[0, 1, 2, 3])
        half = stats.t.ppf(0.975, 3) * 0.01 / 0.5 * math.sqrt(2.0 / (12.0 * 4.0))
        assert interval(row) == pytest.approx((-half, half), rel=1e-6)


class TestPairs:
    def test_rounds_are_scipy_s_paired_test(self, compare_values: Compare) -> None:
        rounds = [3, 1, 0, 2]
        row = compare_values(BASE, SLOWER[:4], round=rounds)
        expected = stats.ttest_rel(np.log(SLOWER[:4]), np.log(BASE))
        assert row["p"] == pytest.approx(expected.pvalue, rel=1e-9)
        assert interval(row) == pytest.approx(tuple(expected.confidence_interval(0.95)), rel=1e-9)
        assert (row["method"], row["replication"]) == ("paired t on logs", "rounds")
        assert "n = 4 pairs" in row["reason"]

    def test_pairs_that_never_vary_are_exact(self, compare_values: Compare) -> None:
        row = compare_values([2] * 4, [3] * 4, round=[0, 1, 2, 3])
        assert (row["p"], row["method"], row["verdict"]) == (None, "exact on logs", "regression")


class TestBoots:
    def test_several_boots_are_a_test_of_their_means(self, compare_values: Compare) -> None:
        base, new = (
            np.array([1.0, 1.2, 1.4, 1.3, 0.9, 1.1]),
            np.array([1.5, 1.6, 1.4, 1.9, 1.7, 1.8]),
        )
        row = compare_values(list(base), list(new), boot=[0, 0, 1, 1, 2, 2])
        means = [np.log(side).reshape(3, 2).mean(axis=1) for side in (new, base)]
        assert row["p"] == pytest.approx(stats.ttest_ind(*means, equal_var=False).pvalue, rel=1e-9)
        assert (row["n_base"], row["n_new"], row["replication"]) == (3, 3, "boots")

    def test_a_lone_boot_borrows_the_variance_of_the_other_side(
        self, compare_values: Compare
    ) -> None:
        logs = np.array([0.0, 0.02, 0.05])
        row = compare_values(
            [1.1, 1.1], list(np.exp(logs)), boot={"base": [0, 0], "new": [0, 1, 2]}
        )
        # One more value from a population with the variance of the others: Student's prediction.
        se = np.std(logs, ddof=1) * math.sqrt(1.0 + 1.0 / 3.0)
        t = (logs.mean() - math.log(1.1)) / se
        assert row["p"] == pytest.approx(2.0 * stats.t.sf(abs(t), 2), rel=1e-9)
        assert (row["n_base"], row["n_new"]) == (1, 3)
        # It has an interval, so nothing is said of one that could not be.
        assert [warning.code for warning in row["caveats"]] == ["one-boot"]


class TestSummaries:
    @staticmethod
    def compare(make_runs: MakeRuns, **columns: object) -> dict[str, Any]:
        table = make_runs({"base": [0.0], "new": [0.0]}, **columns).drop(columns="value")
        [row] = as_dicts(compare_runs(table.assign(mean=[100.0, 110.0]), base="base").rows)
        return row

    def test_a_published_table_is_scipy_s_test_from_statistics(self, make_runs: MakeRuns) -> None:
        row = self.compare(make_runs, cv={"base": 0.02, "new": 0.05}, n={"base": 5, "new": 10})
        deviations = [math.sqrt(math.log1p(cv**2)) for cv in (0.02, 0.05)]
        expected = stats.ttest_ind_from_stats(
            math.log(110.0), deviations[1], 10, math.log(100.0), deviations[0], 5, equal_var=False
        )
        assert row["p"] == pytest.approx(expected.pvalue, rel=1e-9)
        assert (row["n_base"], row["n_new"], row["ratio"]) == (5, 10, pytest.approx(1.1))
        assert row["verdict"] == "regression"

    def test_an_unknown_number_of_runs_is_inconclusive_with_the_number_it_takes(
        self, make_runs: MakeRuns
    ) -> None:
        row = self.compare(make_runs, cv=0.05)
        assert (row["verdict"], row["p"], row["ci_low"]) == ("inconclusive", None, None)
        assert (row["n_base"], row["n_new"]) == (None, None)
        assert row["more_runs"] >= 2
        assert f"{row['more_runs']} runs per side would give a verdict" in row["reason"]

    def test_runs_that_were_made_count_towards_those_that_are_needed(
        self, make_runs: MakeRuns
    ) -> None:
        needed = self.compare(make_runs, cv=0.1)["more_runs"]
        for base, new in ((4, 4), (9, 4)):
            row = self.compare(make_runs, cv=0.1, n={"base": base, "new": new})
            assert (row["verdict"], row["more_runs"]) == ("inconclusive", needed - 4)

    def test_without_a_spread_nothing_can_be_said(self, make_runs: MakeRuns) -> None:
        row = self.compare(make_runs, n=5)
        assert (row["verdict"], row["more_runs"]) == ("inconclusive", None)
        assert "the standard deviation is not recorded, so significance is unknown" in row["reason"]
        assert row["ratio"] == pytest.approx(1.1)

    def test_without_both_that_is_said(self, make_runs: MakeRuns) -> None:
        row = self.compare(make_runs)
        assert "the number of runs and the standard deviation" in row["reason"]

    def test_no_spread_at_all_is_exact(self, make_runs: MakeRuns) -> None:
        row = self.compare(make_runs, cv=0.0, n=3)
        assert (row["verdict"], row["p"]) == ("regression", None)

    def test_a_summary_of_one_run_has_no_interval(self, make_runs: MakeRuns) -> None:
        row = self.compare(make_runs, cv=0.01, n={"base": 1, "new": 5})
        assert (row["verdict"], row["ci_low"]) == ("inconclusive", None)

    def test_a_summary_stands_against_runs(self, make_runs: MakeRuns) -> None:
        table = pd.concat(
            [
                make_runs({"base": [np.nan]}, mean=100.0, cv=0.02, n=5),
                make_runs({"new": [108.0, 110.0, 112.0]}),
            ],
            ignore_index=True,
        )
        [row] = as_dicts(compare_runs(table, base="base").rows)
        logs = np.log([108.0, 110.0, 112.0])
        expected = stats.ttest_ind_from_stats(
            logs.mean(), logs.std(ddof=1), 3, math.log(100.0), math.sqrt(math.log1p(0.02**2)), 5,
            equal_var=False,
        )  # fmt: skip
        assert row["p"] == pytest.approx(expected.pvalue, rel=1e-9)
        assert (row["n_base"], row["n_new"]) == (5, 3)

    def test_a_summary_on_one_side_only_is_invalid(self, make_runs: MakeRuns) -> None:
        table = make_runs({"base": [np.nan]}, mean=100.0, cv=0.02, n=5)
        [row] = as_dicts(compare_runs(table, base="base", new=["new"]).rows)
        assert (row["verdict"], row["n_new"]) == ("invalid", 0)

    def test_a_negative_mean_is_compared_by_differences(self, make_runs: MakeRuns) -> None:
        table = make_runs({"base": [0.0], "new": [0.0]}, cv=0.1, n=4).drop(columns="value")
        [row] = as_dicts(compare_runs(table.assign(mean=[-10.0, -20.0]), base="base").rows)
        expected = stats.ttest_ind_from_stats(-20.0, 2.0, 4, -10.0, 1.0, 4, equal_var=False)
        assert row["p"] == pytest.approx(expected.pvalue, rel=1e-9)


class TestUneven:
    @pytest.mark.parametrize(("quotient", "error"), [(1.5, 0.070), (4.0, 0.101)])
    def test_pooling_costs_what_its_threshold_says(self, quotient: float, error: float) -> None:
        # Many values: the variance that is pooled against the true one, smaller side noisier.
        true = quotient**2 + 1.0 / MOST_UNEVEN
        pooled = (quotient**2 + MOST_UNEVEN) / (1.0 + MOST_UNEVEN) * (1.0 + 1.0 / MOST_UNEVEN)
        found = 2.0 * stats.norm.sf(stats.norm.ppf(0.975) * math.sqrt(pooled / true))
        assert found == pytest.approx(error, abs=0.001)


def test_the_variance_of_equal_values_is_exactly_zero() -> None:
    found = variances_of(np.array([[0.1, 0.1, 0.1], [1.0, 2.0, 4.0]]))
    assert found.tolist() == [0.0, pytest.approx(7.0 / 3.0)]
    assert variances_of(np.array([[7.0]])).tolist() == [0.0]
