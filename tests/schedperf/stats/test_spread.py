"""schedperf.stats._spread: Brown and Forsythe's test, and the variance between boots."""

import json
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import pytest
from scipy import stats

from schedperf.stats._rows import Block
from schedperf.stats._spread import compare_spread

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
