# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.history.watch.place: where a level changes, and whether it changes enough."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.history.watch.place import (
    FEWEST_AFTER,
    FEWEST_BEFORE,
    PAIRED,
    UNPAIRED,
    Limits,
    change_at,
    find_place,
    is_reported,
    robust_sd,
    smallest_change,
)
from tests.nightly import noise, with_step


def by_t(levels: list[float]) -> int:
    """Return the split with the largest absolute t, computed one split at a time."""
    values = np.asarray(levels)

    def t(split: int) -> float:
        parts = values[:split], values[split:]
        squares = sum(((part - part.mean()) ** 2).sum() for part in parts)
        scale = squares / (len(values) - 2) * (1 / len(parts[0]) + 1 / len(parts[1]))
        return float(abs(parts[1].mean() - parts[0].mean()) / math.sqrt(scale))

    return max(range(FEWEST_BEFORE, len(values) - FEWEST_AFTER + 1), key=t)


@pytest.mark.parametrize("seed", range(5))
def test_without_spikes_the_place_is_the_split_with_the_largest_t(seed: int) -> None:
    # A uniform distribution has no tails.
    generator = np.random.default_rng(seed)
    levels = with_step(generator.uniform(-0.005, 0.005, 70), 55, 0.004)
    place = find_place(levels)
    assert place is not None
    assert place.index == by_t(levels)
    assert place.earliest <= place.index <= place.latest


def test_a_clear_step_has_a_place_without_doubt() -> None:
    place = find_place(with_step(noise(60), 50, 0.2))
    assert place is not None
    assert (place.earliest, place.index, place.latest) == (50, 50, 50)


def test_a_spike_does_not_attract_the_place() -> None:
    levels = with_step(noise(60), 40, 0.05)
    levels[20] += 1.0
    levels[56] -= 1.0
    place = find_place(levels)
    assert place is not None
    assert place.index == 40


def test_the_confidence_set_contains_the_place_in_95_percent() -> None:
    contained = 0
    for seed in range(400):
        place = find_place(with_step(noise(80, seed=seed), 55, 0.015))
        assert place is not None
        contained += place.earliest <= 55 <= place.latest
    assert contained / 400 >= 0.92


def test_few_nights_have_no_place() -> None:
    assert find_place([0.0] * 10) is None
    assert find_place([]) is None


def test_a_constant_series_has_any_place_and_no_change() -> None:
    place = find_place([5.0] * 40)
    assert place is not None
    assert (place.earliest, place.latest) == (8, 37)
    assert not is_reported([5.0] * 40, place.index, PAIRED, is_log=True)
    assert not is_reported([5.0] * 40, place.index, PAIRED, is_log=False)


@given(st.lists(st.floats(-1e100, 1e100), min_size=11, max_size=60))
def test_any_numbers_have_a_place_that_can_be_reported(levels: list[float]) -> None:
    place = find_place(levels)
    assert place is not None
    assert FEWEST_BEFORE <= place.earliest <= place.index <= place.latest
    assert place.latest <= len(levels) - FEWEST_AFTER
    is_reported(levels, place.index, UNPAIRED, is_log=False)


def test_a_change_is_that_of_the_medians_of_thirty_nights_before_and_all_after() -> None:
    levels = [100.0] * 20 + [1.0] * 16 + [2.0] * 14 + [7.0, 7.0, 8.0, 9.0, 9.0]
    assert change_at(levels, 50) == 8.0 - 1.0


@pytest.mark.parametrize(
    ("limits", "change", "is_large"),
    [
        (PAIRED, 0.0101, True),
        (PAIRED, 0.0099, False),
        (PAIRED, -0.0101, True),
        (UNPAIRED, 0.0201, True),
        (UNPAIRED, 0.0199, False),
    ],
)
def test_quiet_series_report_changes_from_one_or_two_percent(
    limits: Limits, change: float, *, is_large: bool
) -> None:
    levels = with_step([0.0] * 40, 30, math.copysign(math.log1p(abs(change)), change))
    assert is_reported(levels, 30, limits, is_log=True) == is_large


def test_noisy_series_report_changes_from_one_or_two_standard_deviations() -> None:
    before = noise(30, sd=0.05)
    sd = robust_sd(before)
    assert smallest_change(before, 30, PAIRED, is_log=True) == sd
    assert smallest_change(before, 30, UNPAIRED, is_log=True) == 2 * sd
    assert smallest_change(before, 30, PAIRED, is_log=True, more=0.1) == sd + 0.1


def test_a_series_of_differences_has_no_smallest_share() -> None:
    levels = with_step([0.0, 1e-6] * 20, 30, 1e-5)
    assert is_reported(levels, 30, UNPAIRED, is_log=False)
    assert not is_reported(levels, 30, UNPAIRED, is_log=True)


def test_few_nights_on_a_side_are_not_reported() -> None:
    levels = with_step([0.0] * 40, 7, 1.0)
    assert not is_reported(levels, 7, PAIRED, is_log=True)
    levels = with_step([0.0] * 40, 38, 1.0)
    assert not is_reported(levels, 38, PAIRED, is_log=True)


def test_a_robust_deviation_limits_outliers() -> None:
    quiet = noise(30)
    assert robust_sd([*quiet, 50.0]) < 1.5 * robust_sd(quiet)
    assert robust_sd([1.0] * 10) == 0.0
    # More than half are equal, so there is nothing to limit the others by.
    assert robust_sd([1.0] * 6 + [2.0] * 4) == pytest.approx(np.std([1.0] * 6 + [2.0] * 4, ddof=1))
