# SPDX-License-Identifier: GPL-2.0-or-later
"""Moves over the relative time of a run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.evidence.placement.distributions import rates_over_time


def test_a_steady_rate_is_the_same_in_all_parts() -> None:
    assert rates_over_time([30] * 7, 0.1, 0.7, bins=20) == pytest.approx([300.0] * 20)


def test_the_last_step_may_be_shorter() -> None:
    assert rates_over_time([30, 30, 15], 0.1, 0.25, bins=5) == pytest.approx([300.0] * 5)


def test_what_happens_at_the_end_is_shown_at_the_end() -> None:
    found = rates_over_time([0] * 9 + [50], 0.2, 2.0, bins=4)
    assert found == pytest.approx([0.0, 0.0, 0.0, 100.0])


@given(
    counts=st.lists(st.integers(0, 2**62), max_size=50),
    step_s=st.floats(1e-3, 1e3),
    seconds=st.floats(1e-3, 1e6),
)
def test_nothing_is_lost_and_nothing_is_negative(
    counts: list[int], step_s: float, seconds: float
) -> None:
    found = rates_over_time(counts, step_s, seconds)
    assert (found >= 0.0).all()
    assert found.mean() * seconds == pytest.approx(float(sum(counts)))
