# SPDX-License-Identifier: GPL-2.0-or-later
"""Contributions of parts add up to the change of their sum, and their intervals cover it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from schedperf.model.frame import Floats
from schedperf.stats.decomposition import Contribution, decompose

PARTS = 3
MEANS = np.array([1.0, 5.0, 10.0])
SEED = 20261129


def sides(units: int, *, more: float = 1.1, seed: int = SEED) -> tuple[Floats, Floats]:
    """Return base and new, of which the last part of new is ``more`` times as much."""
    chance = np.random.default_rng(seed)
    noise = 1.0 + 0.05 * chance.standard_normal((2, units, PARTS))
    return MEANS * noise[0], MEANS * np.array([1.0, 1.0, more]) * noise[1]


def width_of(change: Contribution) -> float:
    assert change.ci_low is not None
    assert change.ci_high is not None
    return change.ci_high - change.ci_low


def one_side() -> st.SearchStrategy[Floats]:
    amounts = st.lists(st.floats(0.0, 1e9), min_size=PARTS, max_size=PARTS)
    return st.lists(amounts, min_size=1, max_size=6).map(np.array)


@pytest.mark.property
@given(base=one_side().filter(lambda side: side.sum() > 1e-9), new=one_side())
def test_contributions_add_up_to_the_change_of_the_sum(base: Floats, new: Floats) -> None:
    *parts, whole = decompose(base, new, is_paired=False)
    before, after = (math.fsum(side.flat) / len(side) for side in (base, new))
    scale = max(1.0, after / before)
    assert math.fsum(part.value for part in parts) == pytest.approx(whole.value, abs=1e-9 * scale)
    assert whole.value == pytest.approx((after - before) / before, abs=1e-9 * scale)
    for part, column in zip(parts, range(PARTS), strict=True):
        change = new[:, column].mean() - base[:, column].mean()
        assert part.value == pytest.approx(change / before, abs=1e-9 * scale)


@pytest.mark.property
@given(base=one_side().filter(lambda side: side.sum() > 1e-9), new=one_side())
def test_an_interval_is_around_its_contribution(base: Floats, new: Floats) -> None:
    for change in decompose(base, new, is_paired=False):
        if min(len(base), len(new)) == 1:
            assert (change.ci_low, change.ci_high) == (None, None)
        else:
            assert change.ci_low is not None
            assert change.ci_high is not None
            assert math.isfinite(change.ci_low)
            assert change.ci_low <= change.value <= change.ci_high


def test_the_unit_of_time_does_not_matter() -> None:
    base, new = sides(6)
    for change, scaled in zip(
        decompose(base, new, is_paired=False),
        decompose(1e-6 * base, 1e-6 * new, is_paired=False),
        strict=True,
    ):
        assert scaled.value == pytest.approx(change.value)
        assert width_of(scaled) == pytest.approx(width_of(change))


def test_without_scatter_of_base_the_interval_is_that_of_the_mean_of_new() -> None:
    base, new = np.tile(MEANS, (5, 1)), sides(7)[1]
    found = decompose(base, new, is_paired=False)
    columns = [*new.T, new.sum(axis=1)]
    whole = MEANS.sum()
    for change, column, mean in zip(found, columns, [*MEANS, whole], strict=True):
        expected = stats.ttest_1samp((column - mean) / whole, 0.0).confidence_interval(0.95)
        assert (change.ci_low, change.ci_high) == pytest.approx((expected.low, expected.high))


def test_unpaired_intervals_cover_the_change_in_95_of_100_cases() -> None:
    cases, units = 1500, 8
    true = [0.0, 0.0, MEANS[2] * 0.1 / MEANS.sum(), MEANS[2] * 0.1 / MEANS.sum()]
    hits = np.zeros(len(true))
    for case in range(cases):
        found = decompose(*sides(units, seed=SEED + case), is_paired=False)
        hits += [
            change.ci_low is not None
            and change.ci_high is not None
            and change.ci_low <= value <= change.ci_high
            for change, value in zip(found, true, strict=True)
        ]
    # Three standard errors are 1.7%.
    assert hits / cases == pytest.approx(np.full(len(true), 0.95), abs=0.017)


def test_pairs_that_vary_together_have_narrower_intervals() -> None:
    base, new = sides(10)
    drift = np.linspace(1.0, 2.0, 10)[:, np.newaxis]
    paired = decompose(base * drift, new * drift, is_paired=True)
    unpaired = decompose(base * drift, new * drift, is_paired=False)
    for one, other in zip(paired, unpaired, strict=True):
        assert one.value == other.value
        assert width_of(one) < width_of(other) / 2


def test_pairs_with_the_same_change_of_the_sum_have_no_width() -> None:
    base, _ = sides(6)
    whole = decompose(base, 1.25 * base, is_paired=True)[-1]
    assert whole.value == pytest.approx(0.25)
    assert width_of(whole) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("units", [(1, 1), (1, 5), (5, 1)])
def test_one_unit_has_no_interval(units: tuple[int, int]) -> None:
    found = decompose(sides(units[0])[0], sides(units[1])[1], is_paired=False)
    assert {(change.ci_low, change.ci_high) for change in found} == {(None, None)}


@pytest.mark.parametrize("is_paired", [False, True])
def test_without_variance_the_change_is_exact(*, is_paired: bool) -> None:
    base, new = np.full((4, 2), 0.25), np.full((4, 2), 0.5)
    found = decompose(base, new, is_paired=is_paired)
    assert [(each.ci_low, each.value, each.ci_high) for each in found] == [
        (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), (1.0, 1.0, 1.0),
    ]  # fmt: skip


def test_a_base_without_any_amount_is_refused() -> None:
    some, none = np.ones((2, 2)), np.zeros((2, 2))
    for base, new in [(none, some), (some[:0], some), (some, some[:0])]:
        with pytest.raises(ValueError, match="no amount to compare with"):
            decompose(base, new, is_paired=False)
    assert decompose(some, none, is_paired=False)[-1].value == -1.0


def test_extreme_amounts_stay_finite() -> None:
    least, most = np.full((3, 2), 1e-12), np.array([[1e12, 2e12]] * 3)
    for base, new in [(least, most), (most, least)]:
        for change in decompose(base, new, is_paired=False):
            assert math.isfinite(change.value)
            assert math.isfinite(width_of(change))
