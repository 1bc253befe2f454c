# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.stats._columns: many quantities of the same runs, compared at once."""

import time

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from schedperf.stats import compare_columns, welch_difference
from schedperf.stats._moderation import PRIOR_DF

Floats = npt.NDArray[np.float64]


def draw(rng: np.random.Generator, means: Floats, runs: int) -> Floats:
    """Draw shares that vary by 5% of themselves and by how few samples they rest on."""
    return rng.normal(means, 0.05 * means + 0.01 * np.sqrt(means), (runs, len(means)))


def test_three_columns_are_each_welch_s_own() -> None:
    base = [[12.1, 0.31, 5.0], [12.4, 0.27, 5.5], [11.9, 0.33, 5.2]]
    new = [[13.7, 0.30, 5.1], [13.5, 0.37, 4.9], [13.9, 0.35, 5.6]]
    found = compare_columns(base, new)
    for column, (before, after) in enumerate(
        zip(np.transpose(base).tolist(), np.transpose(new).tolist(), strict=True)
    ):
        plain = welch_difference(before, after)
        assert found.difference[column] == pytest.approx(plain.difference)
        assert found.ci_low[column] == pytest.approx(plain.ci_low)
        assert found.p[column] == pytest.approx(plain.p)


def test_many_columns_make_each_other_firmer_than_their_own_variances() -> None:
    rng = np.random.default_rng(5)
    means = 10.0 ** rng.uniform(-2, 1, 200)
    found = compare_columns(draw(rng, means, 3), draw(rng, means, 3))
    assert (found.df > 4.0).all()
    assert (found.df <= 4.0 + max(PRIOR_DF)).all()


@pytest.mark.parametrize("runs", [2, 3, 8])
def test_where_nothing_changed_p_is_uniform_for_hot_and_for_cold_columns(runs: int) -> None:
    rng = np.random.default_rng(runs)
    means = 10.0 ** rng.uniform(-3, 1, 8_000)
    p = compare_columns(draw(rng, means, runs), draw(rng, means, runs)).p
    for part in (p, p[means < 0.01], p[means > 1.0]):
        # Four binomial standard errors of the smallest part.
        assert np.mean(part < 0.05) == pytest.approx(0.05, abs=0.02)
    assert np.mean(p < 0.001) < 0.003


def test_intervals_of_hot_columns_that_changed_cover_the_truth() -> None:
    rng = np.random.default_rng(11)
    means = 10.0 ** rng.uniform(-2, 1, 4_000)
    found = compare_columns(draw(rng, means, 5), draw(rng, 1.3 * means, 5))
    inside = (found.ci_low <= 0.3 * means) & (0.3 * means <= found.ci_high)
    assert np.mean(inside) == pytest.approx(0.95, abs=0.02)
    assert np.mean(inside[means > 1.0]) == pytest.approx(0.95, abs=0.03)


def test_q_is_corrected_for_the_tested_columns_alone() -> None:
    rng = np.random.default_rng(3)
    means = np.full(400, 1.0)
    base, new = draw(rng, means, 4), draw(rng, means, 4)
    new[:, 0] += 0.5
    every = compare_columns(base, new)
    few = compare_columns(base, new, tested=np.arange(400) < 4, alike=np.ones(400))
    assert every.q[0] < 0.01
    assert few.q[0] < every.q[0]
    assert np.isnan(few.p[4:]).all()
    assert np.isnan(few.q[4:]).all()
    assert few.ci_low == pytest.approx(every.ci_low)
    assert np.mean(every.q[1:] < 0.05) < 0.01


def test_swapped_sides_mirror_the_result() -> None:
    rng = np.random.default_rng(7)
    means = 10.0 ** rng.uniform(-2, 1, 50)
    base, new = draw(rng, means, 4), draw(rng, means, 5)
    there, back = compare_columns(base, new), compare_columns(new, base)
    assert there.difference == pytest.approx(-back.difference)
    assert there.ci_low == pytest.approx(-back.ci_high)
    assert there.p == pytest.approx(back.p)


def test_another_unit_leaves_p() -> None:
    rng = np.random.default_rng(9)
    means = 10.0 ** rng.uniform(-2, 1, 50)
    base, new = draw(rng, means, 4), draw(rng, means, 4)
    assert compare_columns(1e6 * base, 1e6 * new).p == pytest.approx(compare_columns(base, new).p)


def test_the_same_runs_on_both_sides_differ_in_nothing() -> None:
    runs = draw(np.random.default_rng(2), np.linspace(0.1, 9.0, 30), 5)
    found = compare_columns(runs, runs)
    assert (found.difference == 0.0).all()
    assert found.p == pytest.approx(1.0)


def test_a_column_that_never_varies_has_a_difference_but_no_interval_and_no_p() -> None:
    rng = np.random.default_rng(4)
    base, new = draw(rng, np.full(8, 1.0), 3), draw(rng, np.full(8, 1.0), 3)
    base[:, 0], new[:, 0] = 0.1, 0.3
    base[:, 1], new[:, 1] = 0.0, 0.0
    found = compare_columns(base, new)
    assert np.isnan(found.ci_low[:2]).all()
    assert np.isnan(found.ci_high[:2]).all()
    assert found.difference[0] == pytest.approx(0.2)
    assert found.difference[1] == 0.0
    assert np.isnan(found.p[:2]).all()
    assert not np.isnan(found.p[2:]).any()


def test_one_run_on_a_side_has_a_difference_and_no_interval() -> None:
    rng = np.random.default_rng(6)
    found = compare_columns(draw(rng, np.full(8, 1.0), 1), draw(rng, np.full(8, 1.0), 5))
    assert not np.isnan(found.difference).any()
    for unknown in (found.ci_low, found.ci_high, found.p, found.q):
        assert np.isnan(unknown).all()


def test_missing_values_count_for_their_own_column_only() -> None:
    nothing = float("nan")
    base = [[1.0, 5.0, nothing], [1.2, nothing, nothing], [0.9, 5.4, nothing]]
    new = [[2.0, 6.0, 1.0], [2.1, 6.2, 1.5], [2.3, 6.1, 1.2]]
    found = compare_columns(base, new)
    assert found.n_base.tolist() == [3, 2, 0]
    assert found.base[1] == pytest.approx(5.2)
    assert found.difference[1] == pytest.approx(0.9)
    plain = stats.ttest_ind([6.0, 6.2, 6.1], [5.0, 5.4], equal_var=False)
    assert found.p[1] == pytest.approx(plain.pvalue)
    assert np.isnan([found.base[2], found.difference[2], found.ci_low[2], found.p[2]]).all()


def test_uneven_sides_are_not_pooled() -> None:
    rng = np.random.default_rng(8)
    means = np.full(40, 2.0)
    base, new = draw(rng, means, 3), 5.0 * draw(rng, means, 9)
    found = compare_columns(base, new)
    plain = stats.ttest_ind(new, base, equal_var=False)
    assert found.p == pytest.approx(plain.pvalue)


def test_different_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="^new has 3 columns \\(expected 2, as in base\\)$"):
        compare_columns([[1.0, 2.0]], [[1.0, 2.0, 3.0]])


def test_no_columns_are_no_trouble() -> None:
    assert len(compare_columns(np.zeros((3, 0)), np.zeros((4, 0)))) == 0


def test_twenty_thousand_columns_of_sixteen_runs_take_no_time() -> None:
    rng = np.random.default_rng(1)
    means = 10.0 ** rng.uniform(-3, 1, 20_000)
    base, new = draw(rng, means, 8), draw(rng, means, 8)
    begin = time.process_time()
    compare_columns(base, new)
    # Measured: 0.07 s.
    assert time.process_time() - begin < 1.0


def test_what_was_hardly_sampled_and_what_is_hot_are_told_apart() -> None:
    rng = np.random.default_rng(12)
    hot = np.full(40, 5.0)
    # One sample in one run of eight, of a period that differs by a factor of 100.
    cold = np.zeros((8, 2_000))
    cold[rng.integers(0, 8, 2_000), np.arange(2_000)] = 10.0 ** rng.uniform(-4, -2, 2_000)
    base = np.column_stack((draw(rng, hot, 4), cold[:4]))
    new = np.column_stack((draw(rng, hot, 4), cold[4:]))
    alone = compare_columns(base[:, :40], new[:, :40])
    together = compare_columns(base, new)
    assert together.ci_high[:40] != pytest.approx(alone.ci_high)
    for apart in (
        compare_columns(base, new, tested=np.arange(2_040) < 40),
        compare_columns(base, new, alike=np.arange(2_040) < 40),
    ):
        assert apart.ci_high[:40] == pytest.approx(alone.ci_high)


def test_one_column_that_varies_wildly_has_no_pull_on_the_others() -> None:
    rng = np.random.default_rng(13)
    means = 10.0 ** rng.uniform(-1, 1, 60)
    base, new = draw(rng, means, 5), draw(rng, means, 5)
    before = compare_columns(base, new)
    base[:, 0], new[:, 0] = 40.0 * rng.random(5), 40.0 * rng.random(5)
    after = compare_columns(base, new)
    widths = [np.median((one.ci_high - one.ci_low)[1:] / means[1:]) for one in (before, after)]
    assert widths[1] == pytest.approx(widths[0], rel=0.2)
