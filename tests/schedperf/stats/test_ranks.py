# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.stats._ranks: SciPy's exact tests, and intervals found by inverting them."""

import time
from collections.abc import Callable
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from scipy import stats

from schedperf.stats._ranks import _mann_whitney, _signed_rank, rank
from schedperf.stats._rows import Block

MakeBlock = Callable[..., Block]


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(20261121)


class TestTwoSides:
    @pytest.mark.parametrize(("n", "m"), [(5, 5), (5, 9), (8, 6), (12, 12)])
    def test_p_is_scipy_s_exact_mann_whitney(
        self, make_block: MakeBlock, random: np.random.Generator, n: int, m: int
    ) -> None:
        base, new = random.normal(0.0, 1.0, (20, n)), random.normal(0.8, 1.0, (20, m))
        found = rank(make_block(base, new))
        expected = stats.mannwhitneyu(new, base, axis=1, method="exact").pvalue
        assert found is not None
        assert found.p == pytest.approx(expected, rel=1e-9)
        assert not found.is_tied.any()

    def test_the_interval_holds_the_shifts_that_the_test_does_not_refuse(
        self, make_block: MakeBlock, random: np.random.Generator
    ) -> None:
        base, new = random.normal(0.0, 1.0, 6), random.normal(1.0, 1.0, 7)
        found = rank(make_block(base, new))
        assert found is not None
        differences = np.sort((new[:, None] - base).ravel())
        assert found.shift[0] == pytest.approx(np.median(differences))
        # Between two neighbouring differences the test's answer is the same.
        refused = [
            stats.mannwhitneyu(new - shift, base, method="exact").pvalue <= 0.05
            for shift in (differences[:-1] + differences[1:]) / 2.0
        ]
        accepted = np.flatnonzero(~np.array(refused))
        assert found.low[0] == differences[accepted[0]]
        assert found.high[0] == differences[accepted[-1] + 1]

    @pytest.mark.parametrize(("base", "new"), [([1, 1, 2, 3, 4], [3, 5, 5, 6, 7])])
    def test_ties_are_a_permutation_of_the_values(
        self, make_block: MakeBlock, base: list[float], new: list[float]
    ) -> None:
        pooled = np.array(base + new)
        hits = 0
        for chosen in combinations(range(10), 5):
            rest = [place for place in range(10) if place not in chosen]
            difference = pooled[list(chosen)].mean() - pooled[rest].mean()
            hits += abs(difference) >= np.mean(new) - np.mean(base) - 1e-12
        found = rank(make_block(base, new))
        assert found is not None
        assert found.is_tied.tolist() == [True]
        assert found.p[0] == pytest.approx(hits / comb(10, 5))

    def test_many_ties_are_sampled_alike_whatever_order_and_name_they_have(
        self, make_block: MakeBlock, random: np.random.Generator
    ) -> None:
        base, new = random.integers(0, 6, 12) * 1.0, random.integers(2, 8, 10) * 1.0
        found = rank(make_block(base, new))
        turned = rank(make_block(new[::-1], random.permutation(base)))
        assert found is not None
        assert turned is not None
        expected = stats.permutation_test(
            (base, new), lambda x, y: np.mean(x) - np.mean(y), n_resamples=20_000, rng=random
        ).pvalue
        assert found.p[0] == turned.p[0]
        assert found.p[0] == pytest.approx(expected, abs=4.0 * np.sqrt(expected / 20_000) + 1e-4)

    @pytest.mark.parametrize(("n", "m"), [(4, 9), (9, 4), (201, 200)])
    def test_too_few_values_and_too_many_are_left_out(
        self, make_block: MakeBlock, n: int, m: int
    ) -> None:
        assert rank(make_block(np.arange(n), np.arange(m) + 0.5)) is None

    @pytest.mark.parametrize(("n", "m"), [(5, 5), (6, 9), (8, 8)])
    def test_the_floor_is_p_of_sides_apart(self, make_block: MakeBlock, n: int, m: int) -> None:
        found = rank(make_block(np.arange(n), 100.5 + np.arange(m)))
        assert found is not None
        assert found.floor[0] == found.p[0] == pytest.approx(2.0 / comb(n + m, n))
        # Of any values as many.
        same = rank(make_block(np.arange(n), 0.25 + np.arange(m)))
        assert same is not None
        assert same.floor[0] == found.floor[0] < same.p[0]


class TestPairs:
    @pytest.mark.parametrize("n", [6, 8])
    def test_the_floor_is_p_of_pairs_that_all_rise(self, make_block: MakeBlock, n: int) -> None:
        found = rank(make_block(np.arange(n), np.arange(n) ** 2 + 1.5, is_paired=True))
        assert found is not None
        assert found.floor[0] == found.p[0] == pytest.approx(2.0 / 2**n)

    def test_p_is_scipy_s_exact_wilcoxon(
        self, make_block: MakeBlock, random: np.random.Generator
    ) -> None:
        base, new = random.normal(0.0, 1.0, (20, 9)), random.normal(0.8, 1.0, (20, 9))
        found = rank(make_block(base, new, is_paired=True))
        expected = stats.wilcoxon(new - base, axis=1, method="exact").pvalue
        assert found is not None
        assert found.p == pytest.approx(expected, rel=1e-9)

    def test_the_interval_holds_the_shifts_that_the_test_does_not_refuse(
        self, make_block: MakeBlock, random: np.random.Generator
    ) -> None:
        pairs = random.normal(1.0, 1.0, 8)
        found = rank(make_block(np.zeros(8), pairs, is_paired=True))
        assert found is not None
        i, j = np.triu_indices(8)
        walsh = np.sort((pairs[i] + pairs[j]) / 2.0)
        assert found.shift[0] == pytest.approx(np.median(walsh))
        refused = [
            stats.wilcoxon(pairs - shift, method="exact").pvalue <= 0.05
            for shift in (walsh[:-1] + walsh[1:]) / 2.0
        ]
        accepted = np.flatnonzero(~np.array(refused))
        assert found.low[0] == pytest.approx(walsh[accepted[0]])
        assert found.high[0] == pytest.approx(walsh[accepted[-1] + 1])

    @pytest.mark.parametrize("differences", [[1, 1, 2, 3, -1, 4], [0, 1, 2, 3, 4, 5]])
    def test_ties_and_zeros_are_a_permutation_of_signs(
        self, make_block: MakeBlock, differences: list[float]
    ) -> None:
        found = rank(make_block([0.0] * 6, differences, is_paired=True))
        hits = sum(
            abs(np.dot(signs, differences)) >= abs(np.sum(differences)) - 1e-12
            for signs in product((-1, 1), repeat=6)
        )
        assert found is not None
        assert found.p[0] == pytest.approx(hits / 64)

    def test_many_ties_are_sampled_alike_in_any_order(self, make_block: MakeBlock) -> None:
        values = np.array([1, 1, 2, 3, -1, 4, 2, 0, 1, 1, -2, 3, 1, 2, 1, -1, 0.0])
        there = rank(make_block(np.zeros(17), values, is_paired=True))
        back = rank(make_block(values[::-1], np.zeros(17), is_paired=True))
        assert there is not None
        assert back is not None
        assert there.p[0] == back.p[0]
        expected = sum(abs(np.sum(values * signs)) >= values.sum() for signs in
                       np.random.default_rng(1).choice((-1, 1), (20_000, 17))) / 20_000  # fmt: skip
        assert there.p[0] == pytest.approx(expected, abs=4.0 * np.sqrt(expected / 20_000) + 1e-4)

    def test_five_pairs_can_confirm_nothing(self, make_block: MakeBlock) -> None:
        assert rank(make_block([0.0] * 5, [1, 2, 3, 4, 5], is_paired=True)) is None


class TestNullDistributions:
    @pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 3), (6, 5)])
    def test_u_is_counted_as_by_enumeration(self, n: int, m: int) -> None:
        counts = np.zeros(n * m + 1)
        for chosen in combinations(range(n + m), n):
            counts[sum(chosen) - n * (n - 1) // 2] += 1
        assert _mann_whitney(n, m) == pytest.approx(counts / comb(n + m, n), rel=1e-12)

    @pytest.mark.parametrize(("n", "m"), [(200, 200), (5, 8000), (8000, 5), (150, 266)])
    def test_many_runs_keep_their_digits_and_take_no_time(self, n: int, m: int) -> None:
        _mann_whitney.cache_clear()
        start = time.process_time()
        ways = _mann_whitney(n, m)
        assert time.process_time() - start < 1.0
        assert (ways >= 0.0).all()
        assert ways.sum() == pytest.approx(1.0, abs=1e-8)
        u = np.arange(len(ways))
        mean, variance = n * m / 2.0, n * m * (n + m + 1) / 12.0
        assert (ways * (u - mean) ** 2).sum() == pytest.approx(variance, rel=1e-6)

    def test_signed_ranks_are_counted_as_by_enumeration(self) -> None:
        counts = np.zeros(22)
        for taken in product((0, 1), repeat=6):
            counts[np.dot(taken, np.arange(1, 7))] += 1
        assert _signed_rank(6) == pytest.approx(counts / 64)


class TestOutliers:
    def test_a_value_far_from_its_side_is_told(self, make_block: MakeBlock) -> None:
        quiet = [1.0, 1.1, 0.9, 1.05, 0.95]
        for outlier, is_outlying in ((1.3, False), (3.0, True)):
            found = rank(make_block([*quiet, outlier], [2.0 * value for value in quiet]))
            assert found is not None
            assert found.is_outlying.tolist() == [is_outlying]

    @pytest.mark.parametrize(("n", "share"), [(5, 0.057), (10, 0.010)])
    def test_normal_data_have_one_as_often_as_the_threshold_says(
        self, make_block: MakeBlock, random: np.random.Generator, n: int, share: float
    ) -> None:
        found = rank(make_block(*random.normal(0.0, 1.0, (2, 8000, n))))
        assert found is not None
        assert found.is_outlying.mean() == pytest.approx(share, rel=0.25)
