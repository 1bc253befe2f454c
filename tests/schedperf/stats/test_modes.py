"""Planted modes are found, and each of the two questions has its answer."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from schedperf.stats._modes import find_modes
from schedperf.stats._rows import Block

MakeBlock = Callable[..., Block]
Compare = Callable[..., dict[str, Any]]

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
        [modes] = [w for w in row["caveats"] if w.code == "modes"]
        assert modes.numbers["base"] == "2 of 10"
        assert modes.numbers["new"] == "9 of 10"
        assert modes.numbers["within"] == "-0.03 %"

    def test_a_shift_within_the_modes_is_seen_through_them(self, compare_values: Compare) -> None:
        base, new = side(5, 10), side(5, 10, shift=0.03)
        row = compare_values(list(np.exp(base)), list(np.exp(new)))
        assert row["verdict"] == "regression"
        assert row["ratio"] == pytest.approx(np.exp(0.03))
        # The mean over both modes shows nothing: its interval is as wide as they are apart.
        assert stats.ttest_ind(new, base, equal_var=False).pvalue > 0.3
        assert row["method"] == "two modes: occupancy exact, t within on logs"
        [modes] = [w for w in row["caveats"] if w.code == "modes"]
        assert modes.numbers["p"] == pytest.approx(1.0)

    def test_the_slow_mode_of_a_throughput_is_the_low_one(self, compare_values: Compare) -> None:
        row = compare_values(list(np.exp(side(3, 10))), list(np.exp(side(7, 10))), better="higher")
        [modes] = [w for w in row["caveats"] if w.code == "modes"]
        assert (modes.numbers["base"], modes.numbers["new"]) == ("7 of 10", "3 of 10")

    def test_equal_modes_are_no_change_in_neither(self, compare_values: Compare) -> None:
        values = list(np.exp(side(5, 10)))
        row = compare_values(values, values)
        assert row["p"] == pytest.approx(1.0)
        assert row["verdict"] in {"no-change", "inconclusive"}
