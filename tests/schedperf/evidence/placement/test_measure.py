# SPDX-License-Identifier: GPL-2.0-or-later
"""Quantiles from bins of powers of two, against quantiles of the times themselves."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.evidence.placement.measure import quantile_of

# Neighbouring bins differ by this factor, so a quantile is known no better.
BIN_FACTOR = 2.0


def bins_of(times: list[int]) -> list[int]:
    counts = [0] * 40
    for time in times:
        counts[min(39, max(time, 1).bit_length() - 1)] += 1
    return counts


@pytest.mark.parametrize("share", [0.5, 0.99, 0.999])
def test_a_quantile_of_a_smooth_distribution_is_met_within_a_quarter(share: float) -> None:
    times = np.random.default_rng(7).lognormal(9.0, 1.2, 20_000).astype(int).tolist()
    found = quantile_of(bins_of(times), share, max(times))
    assert found == pytest.approx(np.quantile(times, share), rel=0.25)


@given(times=st.lists(st.integers(1, 2**45), min_size=2, max_size=60), share=st.floats(0.01, 0.5))
def test_a_quantile_is_off_by_no_more_than_a_bin(times: list[int], share: float) -> None:
    ordered = sorted(times)
    found = quantile_of(bins_of(times), share, ordered[-1])
    assert found is not None
    true = ordered[math.ceil(share * len(times)) - 1]
    if true < 2**39:
        assert true / BIN_FACTOR < found <= true * BIN_FACTOR
    assert found <= ordered[-1] * (1.0 + 1e-9)


def test_too_few_events_have_no_tail() -> None:
    assert quantile_of(bins_of([1000] * 50), 0.99, 1000) is None
    assert quantile_of(bins_of([1000] * 100), 0.99, 1000) is not None
    assert quantile_of([0] * 40, 0.5, 0) is None


def test_the_open_bin_ends_with_the_longest_time() -> None:
    day_ns = 86_400 * 10**9
    counts = [0] * 39 + [1000]
    assert 2**39 < (quantile_of(counts, 0.5, day_ns) or 0) < (quantile_of(counts, 0.9, day_ns) or 0)
    assert (quantile_of(counts, 0.99, day_ns) or math.inf) < day_ns
