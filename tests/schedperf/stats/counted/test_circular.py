# SPDX-License-Identifier: GPL-2.0-or-later
"""Directions on a circle: mean, concentration and distance."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.stats.counted.circular import direction_of_bins, distance, mean_direction

PARTS = st.floats(0.0, 0.999)


def test_equal_phases_are_concentrated_and_even_ones_are_not() -> None:
    one_bin = direction_of_bins([0] * 16 + [25] + [0] * 47)
    assert one_bin is not None
    assert one_bin.part == pytest.approx(16.5 / 64)
    assert one_bin.length == pytest.approx(1.0)
    even = direction_of_bins([3] * 64)
    assert even is not None
    assert even.length == pytest.approx(0.0, abs=1e-12)


def test_the_mean_of_phases_around_zero_is_zero_and_not_a_half() -> None:
    # An arithmetic mean of 0.95 and 0.05 would be half a period away from both.
    found = mean_direction((0.95, 0.05))
    assert found is not None
    assert distance(found.part, 0.0) == pytest.approx(0.0, abs=1e-9)
    assert found.length == pytest.approx(math.cos(math.pi / 10))


def test_nothing_has_no_direction() -> None:
    assert direction_of_bins([0] * 64) is None
    assert mean_direction(()) is None


def test_counts_as_large_as_json_allows_have_a_direction() -> None:
    found = direction_of_bins([2**63 - 1] * 2 + [0] * 62)
    assert found is not None
    assert found.part == pytest.approx(1.0 / 64)


@given(one=PARTS, other=PARTS, turned=PARTS)
def test_distance_is_symmetric_and_does_not_depend_on_where_the_turn_begins(
    one: float, other: float, turned: float
) -> None:
    found = distance(one, other)
    assert 0.0 <= found <= 0.5
    assert found == distance(other, one)
    moved = distance((one + turned) % 1.0, (other + turned) % 1.0)
    assert moved == pytest.approx(found, abs=1e-9)


@given(counts=st.lists(st.integers(0, 1000), min_size=64, max_size=64).filter(any))
def test_a_direction_is_a_part_of_a_turn_with_a_length_up_to_one(counts: list[int]) -> None:
    found = direction_of_bins(counts)
    assert found is not None
    assert 0.0 <= found.part < 1.0
    assert 0.0 <= found.length <= 1.0
