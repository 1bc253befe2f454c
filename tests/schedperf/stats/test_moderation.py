# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.stats._moderation: variances of a sweep help each other, as far as they agree."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy import special, stats

from schedperf.stats import Result, compare_runs
from schedperf.stats._correction import false_discovery
from schedperf.stats._moderation import MATCHED, _Mixture, moderate_variances
from tests.schedperf.stats.as_dicts import as_dicts, df_rows

MakeRuns = Callable[..., pd.DataFrame]
ComparePoints = Callable[..., Result]
Points = dict[str, tuple[list[float], list[float]]]

# Deviations of equal variance with different patterns.
DEVIATIONS = np.array([-0.02, 0.0, 0.02])


def sweep_of(scales: list[float], effect: float = 0.05) -> Points:
    return {
        f"groups={2**place}": (
            list(np.exp(scale * DEVIATIONS)),
            list(np.exp(scale * DEVIATIONS[::-1] + effect)),
        )
        for place, scale in enumerate(scales)
    }


def half_widths(result: Result) -> list[float]:
    return [math.log(row["ci_high"] / row["ci_low"]) / 2.0 for row in as_dicts(result.rows)]


def plain_half_width(n: int, sd: float) -> float:
    return float(stats.t.ppf(0.975, 2 * n - 2)) * sd * math.sqrt(2.0 / n)


class TestSweeps:
    def test_fewer_than_four_rows_stay_with_welch(self, compare_points: ComparePoints) -> None:
        for row in as_dicts(compare_points(sweep_of([1.0, 1.0, 1.0])).rows):
            assert row["method"] == "Welch t on logs"

    def test_rows_that_vary_alike_are_firmer_than_alone(
        self, compare_points: ComparePoints
    ) -> None:
        result = compare_points(sweep_of([1.0] * 4))
        for row, half in zip(as_dicts(result.rows), half_widths(result), strict=True):
            assert row["method"] == "moderated t on logs"
            assert half < plain_half_width(3, 0.02)
            # Known at best as well as all four rows together know it.
            pooled = float(stats.t.ppf(0.975, 16)) * 0.02 * math.sqrt(2.0 / 3.0)
            assert half > 0.95 * pooled

    def test_many_alike_rows_approach_the_pooled_variance(
        self, compare_points: ComparePoints
    ) -> None:
        # Prior degrees of freedom are 24 at most, so that 4 + 24 remain.
        halves = half_widths(compare_points(sweep_of([1.0] * 60)))
        expected = float(stats.t.ppf(0.975, 28)) * 0.02 * math.sqrt(2.0 / 3.0)
        assert halves == pytest.approx([expected] * 60, rel=0.03)

    def test_rows_that_vary_differently_keep_their_own(self, compare_points: ComparePoints) -> None:
        scales = [0.01, 0.1, 1.0, 10.0, 0.03, 0.3, 3.0, 30.0]
        halves = half_widths(compare_points(sweep_of(scales)))
        # One variance in common would make them all alike; here they differ by a factor of 3000.
        assert np.argsort(halves).tolist() == np.argsort(scales).tolist()
        assert max(halves) / min(halves) > 300.0

    def test_a_wild_row_is_drawn_down_and_a_quiet_one_up(
        self, compare_points: ComparePoints
    ) -> None:
        alike = half_widths(compare_points(sweep_of([1.0] * 8)))
        mixed = half_widths(compare_points(sweep_of([1.0] * 6 + [2.0, 0.5])))
        assert alike[6] < mixed[6] < plain_half_width(3, 0.04)
        assert mixed[7] < alike[7]

    def test_another_metric_is_another_sweep(self, make_runs: MakeRuns) -> None:
        tables = [
            make_runs({"base": base, "new": new}, point=point, metric=metric)
            for metric, count in (("a", 3), ("b", 4))
            for point, (base, new) in sweep_of([1.0] * count).items()
        ]
        rows = as_dicts(compare_runs(pd.concat(tables), base="base").rows)
        assert {(row["metric"], row["method"]) for row in rows} == {
            ("a", "Welch t on logs"),
            ("b", "moderated t on logs"),
        }

    def test_rows_with_uneven_sides_stay_with_welch(self, compare_points: ComparePoints) -> None:
        points = {
            point: (base, [*new, *(1.001 * value for value in new)])
            for point, (base, new) in sweep_of([1.0] * 5).items()
        }
        for row in as_dicts(compare_points(points).rows):
            assert row["method"] == "Welch t on logs"

    def test_the_order_of_the_points_does_not_matter(self, compare_points: ComparePoints) -> None:
        points = sweep_of([1.0, 2.0, 0.5, 1.5, 3.0])
        there = as_dicts(compare_points(points).rows)
        back = as_dicts(compare_points(dict(reversed(points.items()))).rows)
        for one, other in zip(there, reversed(back), strict=True):
            assert one["p"] == pytest.approx(other["p"], rel=1e-9)

    def test_false_alarms_stay_at_their_level_also_where_variances_differ(self) -> None:
        random = np.random.default_rng(8)
        trials, points = 150, 9
        spread = 0.02 * np.exp(random.uniform(-math.log(2.0), math.log(2.0), (trials, points, 1)))
        values = np.exp(spread * random.normal(0.0, 1.0, (trials, points, 6)))
        grid = np.indices(values.shape).reshape(3, -1)
        table = pd.DataFrame(
            {
                "comparison": grid[0],
                "side": np.where(grid[2] < 3, "base", "new"),
                "workload": "w",
                "point": [f"groups={point}" for point in grid[1]],
                "metric": "m",
                "unit": "s",
                "better": "lower",
                "value": values.ravel(),
            }
        )
        rows = df_rows(compare_runs(table, base="base").rows)
        assert len(rows) == trials * points
        # 1350 rows: three standard errors above 5%, and above 1% after the correction.
        assert (rows["p"] < 0.05).mean() < 0.068
        assert rows["verdict"].isin(["regression", "improvement"]).mean() < 0.018


class TestUnequalRows:
    """Sweeps of 9 rows and 3 runs per side, simulated; the seeds are fixed."""

    @staticmethod
    def share_changed(
        factors: npt.ArrayLike, effect: float = 0.0, *, trials: int = 6000
    ) -> tuple[float, float]:
        """Return the shares of rows and of sweeps that are called changed.

        :param factors: standard deviation of each row over 2%, shape (rows,)
        """
        random = np.random.default_rng(20261123)
        spread = 0.02 * np.asarray(factors)
        base, new = spread[:, None] * random.standard_normal((2, trials, len(spread), 3))
        variance = (base.var(axis=2, ddof=1) + new.var(axis=2, ddof=1)).ravel() / 2.0
        sweep = np.repeat(np.arange(trials), len(spread))
        moderated, df = moderate_variances(
            variance, np.full(len(sweep), 4.0), np.arange(len(sweep)), sweep
        )
        difference = (new.mean(axis=2) - base.mean(axis=2)).ravel() + math.log1p(effect)
        p = 2.0 * special.stdtr(df, -np.abs(difference) / np.sqrt(moderated * 2.0 / 3.0))
        changed = (false_discovery(p, sweep) < 0.05).reshape(trials, -1)
        return float(changed.mean()), float(changed.any(axis=1).mean())

    @pytest.mark.parametrize(
        "factors",
        [
            np.geomspace(0.5, 2.0, 9),
            [4.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
            np.geomspace(0.5**0.5, 2.0**0.5, 9),
            np.ones(9),
        ],
        ids=["x4", "one row x4", "x2", "equal"],
    )
    def test_false_alarms_of_sweeps_stay_at_their_level(self, factors: npt.ArrayLike) -> None:
        # The standard error is 0.3%.
        assert self.share_changed(factors)[1] < 0.055

    def test_equal_rows_lose_no_power(self) -> None:
        assert self.share_changed(np.ones(9), 0.05)[0] > 0.785


class TestScaledT:
    def test_it_agrees_with_the_mixture_at_two_probabilities(self) -> None:
        random = np.random.default_rng(3)
        shape = (5, 400)
        mixture = _Mixture(
            weight=random.dirichlet(np.full(5, 0.3), 400).T,
            variance=np.exp(random.normal(0.0, 1.0, shape)),
            df=random.uniform(2.5, 40.0, shape),
        )
        variance, df = mixture.as_scaled_t()
        for p in MATCHED:
            x = special.stdtrit(df, 1.0 - p / 2.0) * np.sqrt(variance)
            tails = 2.0 * special.stdtr(mixture.df, -x / np.sqrt(mixture.variance))
            assert (mixture.weight * tails).sum(axis=0) == pytest.approx(p, rel=1e-4)

    def test_a_single_answer_stays_as_it_is(self) -> None:
        one = np.array([[1.0]])
        [variance], [df] = _Mixture(weight=one, variance=2.0 * one, df=7.0 * one).as_scaled_t()
        assert (variance, df) == (pytest.approx(2.0, rel=1e-5), pytest.approx(7.0, rel=1e-4))


class TestHistory:
    @staticmethod
    def past(make_runs: MakeRuns, scale: float, bundles: int) -> list[pd.DataFrame]:
        values = list(np.exp(scale * np.array([-0.02, 0.01, 0.0, 0.02, -0.01])))
        return [make_runs({f"night {place}": values}) for place in range(bundles)]

    def test_earlier_bundles_make_one_row_firmer(self, make_runs: MakeRuns) -> None:
        table = make_runs({"base": [1.0, 1.02, 0.99], "new": [1.05, 1.06, 1.03]})
        [plain] = as_dicts(compare_runs(table, base="base").rows)
        history = self.past(make_runs, 1.0, 6)
        [firm] = as_dicts(compare_runs(table, base="base", history=history).rows)
        assert firm["method"] == "moderated t on logs"
        assert firm["ratio"] == plain["ratio"]
        assert firm["ci_high"] - firm["ci_low"] < plain["ci_high"] - plain["ci_low"]
        assert firm["p"] < plain["p"]

    def test_a_noisy_past_makes_a_lucky_row_wider(self, make_runs: MakeRuns) -> None:
        table = make_runs({"base": [1.0, 1.001, 1.0], "new": [1.05, 1.051, 1.05]})
        [plain] = as_dicts(compare_runs(table, base="base").rows)
        history = self.past(make_runs, 2.0, 6)
        [wide] = as_dicts(compare_runs(table, base="base", history=history).rows)
        assert wide["ci_high"] - wide["ci_low"] > plain["ci_high"] - plain["ci_low"]

    @pytest.mark.parametrize(
        "changes",
        [
            {"metric": "other"},
            {"status": "failed"},
            {"value": 1.0},
            {"value": -1.0},
            {"unit": "ms"},
        ],
    )
    def test_a_past_of_something_else_says_nothing(
        self, make_runs: MakeRuns, changes: dict[str, Any]
    ) -> None:
        table = make_runs({"base": [1.0, 1.02, 0.99], "new": [1.05, 1.06, 1.03]})
        history = [past.assign(**changes) for past in self.past(make_runs, 1.0, 6)]
        with_past = as_dicts(compare_runs(table, base="base", history=history).rows)
        assert with_past == as_dicts(compare_runs(table, base="base").rows)


class TestRounds:
    @staticmethod
    def sweep(random: np.random.Generator, between: float) -> Points:
        rounds = random.normal(0.0, between, (12, 4))
        noise = random.normal(0.0, 0.02, (12, 2, 4))
        return {
            f"groups={place}": (
                list(np.exp(rounds[place] + noise[place, 0])),
                list(np.exp(rounds[place] + noise[place, 1])),
            )
            for place in range(12)
        }

    def test_rounds_that_do_not_matter_give_their_degrees_of_freedom_back(
        self, compare_points: ComparePoints
    ) -> None:
        random = np.random.default_rng(1)
        columns = {"round": [0, 1, 2, 3]}
        quiet = compare_points(self.sweep(random, 0.0), columns=columns)
        busy = compare_points(self.sweep(random, 0.2), columns=columns)
        assert {row.method for row in quiet.rows} == {"paired moderated t on logs"}
        # Noise of pairs is the same in both; only what is known of it differs.
        widths = [np.mean(half_widths(result)) for result in (quiet, busy)]
        assert widths[0] < widths[1]
        # Rounds that differ by ten times the noise are taken out of the difference.
        assert widths[1] < 0.1
