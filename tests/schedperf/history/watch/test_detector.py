# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.history.watch.detector: ranks, bets, and the rate of false alarms."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy import integrate

from schedperf.history.watch.detector import (
    EMPTY,
    EXPONENTS,
    FEWEST_NIGHTS,
    LEAST_RANK,
    RUN_LENGTH,
    Bets,
    bet,
    bet_on,
    draw_tie_breaker,
    smoothed_rank,
)
from tests.nightly import KEY


def test_ranks_count_larger_nights_and_share_equal_ones() -> None:
    assert smoothed_rank([1.0, 3.0, 3.0], 2.0, 0.0) == 2 / 4
    assert smoothed_rank([1.0, 3.0, 3.0], 3.0, 0.5) == 1.5 / 4
    assert smoothed_rank([], 1.0, 0.25) == 0.25


@given(st.lists(st.integers(0, 3), min_size=1, max_size=20))
def test_the_ranks_of_all_nights_of_a_sample_cover_the_unit_interval(sample: list[float]) -> None:
    """Each night of a sample is as likely the last one, so its rank must be uniform."""

    def ranks(tie_breaker: float) -> list[float]:
        return sorted(
            smoothed_rank([*sample[:index], *sample[index + 1 :]], value, tie_breaker)
            for index, value in enumerate(sample)
        )

    distinct = sorted(set(zip(ranks(0.0), ranks(1.0), strict=True)))
    ends = [0.0, *(high for _, high in distinct)]
    assert [low for low, _ in distinct] == pytest.approx(ends[:-1])
    assert ends[-1] == pytest.approx(1.0)


def test_the_mirror_image_of_a_series_has_mirrored_ranks() -> None:
    generator = np.random.default_rng(2)
    earlier = list(generator.integers(0, 5, 30).astype(float))
    rank = smoothed_rank(earlier, 2.0, 0.3)
    assert smoothed_rank([-x for x in earlier], -2.0, 0.7) == pytest.approx(1.0 - rank)


@pytest.mark.parametrize("index", range(2 * len(EXPONENTS)))
def test_a_bet_has_mean_one_but_for_the_smallest_ranks(index: int) -> None:
    def factor(rank: float) -> float:
        return bet(EMPTY, rank)[index]

    mean, _ = integrate.quad(factor, 0.0, 1.0, points=[LEAST_RANK, 1 - LEAST_RANK], limit=200)
    exponent = EXPONENTS[index % len(EXPONENTS)]
    # Ranks below LEAST_RANK would win more.
    assert mean == pytest.approx(1.0 - (1.0 - exponent) * LEAST_RANK**exponent, rel=1e-6)


def test_what_a_process_has_grows_by_one_before_each_bet() -> None:
    first = bet(EMPTY, 0.5)
    assert bet(first, 0.5) == pytest.approx([(1.0 + had) * had for had in first])


def test_large_values_raise_the_first_half_of_the_processes() -> None:
    processes = bet(EMPTY, 0.01)
    assert min(processes[:3]) > 1.0 > max(processes[3:])


def test_there_is_an_alarm_from_the_run_length_on() -> None:
    assert Bets(FEWEST_NIGHTS, (RUN_LENGTH,) * 6).is_alarm
    assert Bets(FEWEST_NIGHTS, (6 * RUN_LENGTH, *(0.0,) * 5)).is_alarm
    assert not Bets(FEWEST_NIGHTS, (math.nextafter(RUN_LENGTH, 0.0),) * 6).is_alarm
    assert not Bets(FEWEST_NIGHTS - 1, (RUN_LENGTH,) * 6).is_alarm


def test_the_first_ten_nights_are_not_bet_on() -> None:
    bets = Bets()
    for night in range(11):
        assert bets == Bets(night, EMPTY)
        bets = bet_on(bets, list(range(night)), float(night), 0.5)
    assert bets.nights == 11
    assert bets.processes == bet(EMPTY, 0.5 / 11)


def test_emptied_processes_are_on_the_same_level() -> None:
    assert Bets(50, (RUN_LENGTH,) * 6).emptied() == Bets(50, EMPTY)


def test_tie_breakers_are_always_the_same_and_look_random() -> None:
    assert draw_tie_breaker(KEY, 3) == draw_tie_breaker(KEY, 3)
    draws = [draw_tie_breaker(KEY, order) for order in range(2000)]
    assert len(set(draws)) == 2000
    assert all(0.0 <= draw < 1.0 for draw in draws)
    assert np.mean(draws) == pytest.approx(0.5, abs=0.03)
    other = replace(KEY, workload="schbench")
    assert draw_tie_breaker(other, 3) != draw_tie_breaker(KEY, 3)


def test_a_name_that_is_no_unicode_has_tie_breakers() -> None:
    assert 0.0 <= draw_tie_breaker(replace(KEY, workload="\udcff"), 0) < 1.0
