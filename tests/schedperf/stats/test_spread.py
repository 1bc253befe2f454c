# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.stats._spread: Brown and Forsythe's test, the variance between boots, and two modes."""

import json
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import pytest
from scipy import stats

from schedperf.stats._densities import change_of_shares
from schedperf.stats._rows import Block
from schedperf.stats._spread import compare_spread, find_modes

Compare = Callable[..., dict[str, Any]]
MakeBlock = Callable[..., Block]


class TestSides:
    @pytest.mark.parametrize(("n", "m"), [(5, 5), (6, 9), (30, 12)])
    def test_p_is_scipy_s_levene_about_the_median(
        self, make_block: MakeBlock, n: int, m: int
    ) -> None:
        random = np.random.default_rng(n)
        base, new = random.normal(0.0, 1.0, n), random.normal(0.0, 3.0, m)
        p, quotient = compare_spread(1, [make_block(base, new)])
        assert p[0] == pytest.approx(stats.levene(base, new, center="median").pvalue, rel=1e-9)
        assert quotient[0] == pytest.approx(np.std(new, ddof=1) / np.std(base, ddof=1), rel=1e-3)

    def test_few_values_say_nothing(self, make_block: MakeBlock) -> None:
        p, quotient = compare_spread(1, [make_block([1.0, 2.0, 3.0, 4.0], np.arange(9.0))])
        assert np.isnan([p[0], quotient[0]]).all()

    def test_a_noisier_side_is_told_and_so_is_a_steadier_one(self, compare_values: Compare) -> None:
        quiet = [1.0, 1.001, 0.999, 1.002, 0.998, 1.0005, 0.9995, 1.0015]
        wild = [1.0, 1.1, 0.9, 1.2, 0.85, 1.05, 0.95, 1.15]
        for base, new, word in ((quiet, wild, "noisier"), (wild, quiet, "steadier")):
            [warning] = [w for w in compare_values(base, new)["caveats"] if w.code == "spread"]
            assert warning.numbers["word"] == word
            assert warning.numbers["factor"] > 10.0

    def test_a_side_that_never_varies_is_told_in_finite_numbers(
        self, compare_values: Compare
    ) -> None:
        row = compare_values([1.0] * 8, [1.0, 1.1, 0.9, 1.2, 0.85, 1.05, 0.95, 1.15])
        [warning] = [w for w in row["caveats"] if w.code == "spread"]
        assert json.dumps(dict(warning.numbers), allow_nan=False)

    def test_two_sides_that_never_vary_are_alike(self, make_block: MakeBlock) -> None:
        p, _ = compare_spread(1, [make_block(np.ones(6), np.full(6, 2.0))])
        assert np.isnan(p[0])


class TestBoots:
    @staticmethod
    def anova(sides: list[list[list[float]]]) -> float:
        """One-way analysis of variance of the logarithms by its textbook sums."""
        between = within = correction = 0.0
        boots = runs = 0
        for side in sides:
            logs = [np.log(boot) for boot in side]
            centre = np.concatenate(logs).mean()
            between += sum(len(boot) * (boot.mean() - centre) ** 2 for boot in logs)
            within += sum(((boot - boot.mean()) ** 2).sum() for boot in logs)
            total = sum(len(boot) for boot in logs)
            correction += sum(len(boot) ** 2 for boot in logs) / total
            boots, runs = boots + len(logs), runs + total
        df = boots - len(sides)
        inside, outside, each = within / (runs - boots), between / df, (runs - correction) / df
        return float((outside - inside) / (outside + (each - 1.0) * inside))

    @staticmethod
    def compare(compare_values: Compare, base: list[list[float]], new: list[list[float]]) -> Any:
        numbers = {
            name: [place for place, boot in enumerate(side) for _ in boot]
            for name, side in (("base", base), ("new", new))
        }
        return compare_values(list(chain(*base)), list(chain(*new)), boot=numbers)

    def test_icc_is_that_of_the_analysis_of_variance(self, compare_values: Compare) -> None:
        base = [[1.0, 1.05], [1.2, 1.22, 1.15], [1.1, 1.0]]
        new = [[1.3, 1.5], [1.2, 1.21]]
        row = self.compare(compare_values, base, new)
        assert row["icc"] == pytest.approx(self.anova([base, new]), rel=1e-9)
        assert 0.0 < row["icc"] < 1.0
        assert row["design_effect"] == pytest.approx(1.0 + (11 / 5 - 1.0) * row["icc"])

    def test_boots_that_are_all_the_noise_have_an_icc_near_1(self, compare_values: Compare) -> None:
        base = [[level, level * 1.0001] for level in (1.0, 1.2, 0.9)]
        row = self.compare(compare_values, base, base)
        assert row["icc"] > 0.999
        assert row["design_effect"] == pytest.approx(2.0, rel=1e-3)

    def test_boots_without_any_say_have_an_icc_of_0(self, compare_values: Compare) -> None:
        base = [[1.0, 1.2, 0.9]] * 3
        row = self.compare(compare_values, base, base)
        assert (row["icc"], row["design_effect"]) == (0.0, 1.0)

    def test_one_boot_or_one_run_a_boot_cannot_tell(self, compare_values: Compare) -> None:
        one = self.compare(compare_values, [[1.0, 1.1]], [[1.0, 1.2]])
        assert (one["icc"], one["design_effect"], one["replication"]) == (None, None, "runs")
        each = self.compare(compare_values, [[1.0], [1.1]], [[1.0], [1.2]])
        assert (each["icc"], each["replication"]) == (None, "boots")


JITTER = np.array([0.0, 0.004, -0.003, 0.002, -0.005, 0.001, -0.002, 0.005, -0.004, 0.003])


def side(slow: int, n: int, *, shift: float = 0.0, apart: float = 0.2) -> list[float]:
    """Return n logarithms, the first of them in the slow mode."""
    return [float(JITTER[i] + shift + apart * (i < slow)) for i in range(n)]


class TestFinding:
    def test_counts_and_occupancy(self, make_block: MakeBlock) -> None:
        found = find_modes(make_block(side(2, 10), side(9, 10)))
        assert found is not None
        assert (found.high.tolist(), found.n) == ([[2, 9]], (10, 10))
        assert found.p_occupancy[0] == pytest.approx(
            stats.fisher_exact(np.array([[2, 8], [9, 1]])).pvalue
        )

    def test_the_shift_within_is_a_linear_model_of_side_and_mode(
        self, make_block: MakeBlock
    ) -> None:
        base, new = np.array(side(3, 8)), np.array(side(5, 9, shift=0.01))
        found = find_modes(make_block(base, new))
        assert found is not None
        design = np.column_stack(
            (
                np.ones(17),
                np.concatenate((base > 0.1, new > 0.1)).astype(float),
                np.arange(17) >= 8,
            )
        )
        values = np.concatenate((base, new))
        fit, *_ = np.linalg.lstsq(design, values, rcond=None)
        # The same estimate; its error is from the variance within the four cells.
        assert found.effect[0] == pytest.approx(fit[2])
        cells = [base[base > 0.1], base[base < 0.1], new[new > 0.1], new[new < 0.1]]
        variance = sum(((cell - cell.mean()) ** 2).sum() for cell in cells) / 13.0
        weight = 3 * 5 / 8 + 5 * 4 / 9
        assert (found.se[0], found.df[0]) == pytest.approx((np.sqrt(variance / weight), 13.0))

    def test_both_sides_in_one_mode_each_are_no_modes(self, make_block: MakeBlock) -> None:
        assert find_modes(make_block(side(0, 10), side(10, 10))) is None

    def test_one_run_elsewhere_is_an_outlier_and_no_mode(self, make_block: MakeBlock) -> None:
        assert find_modes(make_block(side(1, 10), side(0, 10))) is None
        assert find_modes(make_block(side(1, 10), side(1, 10))) is None

    def test_modes_of_one_side_are_enough(self, make_block: MakeBlock) -> None:
        found = find_modes(make_block(side(0, 10), side(4, 10)))
        assert found is not None
        assert found.high.tolist() == [[0, 4]]

    def test_few_values_have_none(self, make_block: MakeBlock) -> None:
        assert find_modes(make_block(side(2, 4), side(1, 3))) is None

    def test_swapped_sides_are_mirrored(self, make_block: MakeBlock) -> None:
        there = find_modes(make_block(side(2, 7), side(5, 9, shift=0.02)))
        back = find_modes(make_block(side(5, 9, shift=0.02), side(2, 7)))
        assert there is not None
        assert back is not None
        assert back.effect == pytest.approx(-there.effect)
        assert back.se == pytest.approx(there.se)
        assert back.p_occupancy == pytest.approx(there.p_occupancy)

    def test_only_the_rows_with_modes_are_returned(self, make_block: MakeBlock) -> None:
        found = find_modes(make_block([side(0, 10), side(4, 10)], [side(0, 10), side(5, 10)]))
        assert found is not None
        assert found.rows.tolist() == [1]

    def test_steps_that_are_all_rounding_are_no_modes(self, make_block: MakeBlock) -> None:
        steps = [0.0] * 5 + [0.02] * 5
        assert find_modes(make_block(steps, steps, floor=0.02**2 / 12.0)) is None
        assert find_modes(make_block(steps, steps)) is not None

    def test_normal_data_rarely_have_modes_and_planted_ones_are_found(
        self, make_block: MakeBlock
    ) -> None:
        random = np.random.default_rng(3)
        normal = find_modes(make_block(*random.normal(0.0, 0.01, (2, 20_000, 5))))
        assert normal is not None
        assert len(normal.rows) < 0.01 * 20_000
        planted = 0.08 * (random.random((2, 5000, 5)) < 0.5) + random.normal(
            0.0, 0.01, (2, 5000, 5)
        )
        found = find_modes(make_block(*planted))
        assert found is not None
        assert len(found.rows) == pytest.approx(0.82 * 5000, rel=0.05)


class TestVerdicts:
    def test_a_slow_mode_that_became_frequent_is_a_regression_of_the_mean(
        self, compare_values: Compare
    ) -> None:
        row = compare_values(list(np.exp(side(2, 10))), list(np.exp(side(9, 10))))
        assert row["verdict"] == "regression"
        assert row["p"] == pytest.approx(
            2.0 * stats.fisher_exact(np.array([[2, 8], [9, 1]])).pvalue
        )
        # Effect and interval are those of the mean, which moved with the occupancy.
        assert row["ratio"] == pytest.approx(np.exp(np.mean(side(9, 10)) - np.mean(side(2, 10))))
        [modes] = [w for w in row["caveats"] if w.code == "two-modes"]
        assert modes.numbers["base"] == "2 of 10"
        assert modes.numbers["new"] == "9 of 10"
        assert modes.numbers["within"].startswith("+0.0% [")
        slow = max(side(0, 10)), min(side(10, 10))
        assert np.exp(slow[0]) < row["mode_boundary"] < np.exp(slow[1])

    def test_a_shift_within_the_modes_is_seen_through_them(self, compare_values: Compare) -> None:
        base, new = side(5, 10), side(5, 10, shift=0.03)
        row = compare_values(list(np.exp(base)), list(np.exp(new)))
        assert row["verdict"] == "regression"
        assert row["ratio"] == pytest.approx(np.exp(0.03))
        # The mean over both modes shows nothing: its interval is as wide as they are apart.
        assert stats.ttest_ind(new, base, equal_var=False).pvalue > 0.3
        assert row["method"] == "bimodal: exact test of runs per mode, within-mode t on logs"
        [modes] = [w for w in row["caveats"] if w.code == "two-modes"]
        assert modes.numbers["p"] == pytest.approx(1.0)

    def test_the_slow_mode_of_a_throughput_is_the_low_one(self, compare_values: Compare) -> None:
        row = compare_values(list(np.exp(side(3, 10))), list(np.exp(side(7, 10))), better="higher")
        [modes] = [w for w in row["caveats"] if w.code == "two-modes"]
        assert (modes.numbers["base"], modes.numbers["new"]) == ("7 of 10", "3 of 10")

    def test_the_caveat_states_both_modes_and_the_change_of_the_share(
        self, compare_values: Compare
    ) -> None:
        def values(slow: int, n: int) -> list[float]:
            return [2.2 + 0.001 * i for i in range(slow)] + [1.9 + 0.001 * i for i in range(n)]

        row = compare_values(values(2, 18), values(12, 8))
        [modes] = [w for w in row["caveats"] if w.code == "two-modes"]
        p = stats.fisher_exact(np.array([[2, 18], [12, 8]])).pvalue
        assert modes.text.startswith(
            "two modes, 1.907 s and 2.205 s: the slower one has 2 of 20 runs of base (10%) and 12 "
            f"of 20 of new (60%), +50 percentage points [+21, +70], p = {p:.2g}; change within the "
            "modes -0.1% ["
        )
        # Newcombe's own example: 56 of 70 and 48 of 80, table II, method 10.
        assert change_of_shares((48, 56), (80, 70), 0.95) == pytest.approx(
            (0.0524, 0.3339), abs=5e-5
        )

    def test_boots_have_modes_too(self, compare_values: Compare) -> None:
        boots = list(range(10))
        base, new = (list(np.exp(side(slow, 10))) for slow in (1, 8))
        row = compare_values(base, new, boot=boots)
        [modes] = [w for w in row["caveats"] if w.code == "two-modes"]
        assert (
            "the slower one has 1 of 10 boots of base (10%) and 8 of 10 of new (80%)" in modes.text
        )

    def test_modes_of_a_metric_without_a_direction_are_not_slow(
        self, compare_values: Compare
    ) -> None:
        row = compare_values(list(np.exp(side(2, 10))), list(np.exp(side(9, 10))), better="unknown")
        [modes] = [w for w in row["caveats"] if w.code == "two-modes"]
        assert "the higher one has 2 of 10 runs" in modes.text

    def test_equal_modes_are_no_change_in_neither(self, compare_values: Compare) -> None:
        values = list(np.exp(side(5, 10)))
        row = compare_values(values, values)
        assert row["p"] == pytest.approx(1.0)
        assert row["verdict"] in {"no-change", "inconclusive"}
