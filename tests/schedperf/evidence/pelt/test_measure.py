# SPDX-License-Identifier: GPL-2.0-or-later
"""Quantiles of two histograms: as true as their bins are wide."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.evidence.pelt.capture import Durations
from schedperf.evidence.pelt.measure import (
    TRIMMED,
    Histogram,
    merge,
    quantile,
    slowest_share,
    trimmed_mean_ns,
)

STEP, LINEAR, LOG2 = 50, 64, 32


def histogram_of(durations: list[int]) -> Histogram:
    """Count durations in ns as the recorder does."""
    linear = np.bincount([min(one // STEP, LINEAR - 1) for one in durations], minlength=LINEAR)
    log2 = np.bincount([max(one.bit_length() - 1, 0) for one in durations], minlength=LOG2)
    return Histogram(
        log2_ns=tuple(map(int, log2)), linear_ns=tuple(map(int, linear)), linear_step_ns=STEP
    )


@given(
    st.lists(st.integers(0, 2**24), min_size=1, max_size=300), st.sampled_from((0.01, 0.5, 0.99))
)
def test_a_quantile_is_in_the_bin_of_the_call_that_has_that_rank(
    durations: list[int], share: float
) -> None:
    found = quantile(histogram_of(durations), share)
    exact = np.quantile(durations, share, method="inverted_cdf") * 1e-9
    assert found is not None
    # A value on an edge belongs to the bin above it.
    assert abs(found.value - exact) <= found.resolution + 1e-12


def test_linear_bins_are_interpolated_evenly_and_log2_bins_by_the_logarithm() -> None:
    even = histogram_of([*range(100, 150)])
    found = quantile(even, 0.5)
    assert found is not None
    assert found.value == pytest.approx(125e-9)
    assert found.resolution == pytest.approx(50e-9)
    long = quantile(histogram_of([5000, 6000]), 0.5)
    assert long is not None
    # Half way from 4096 to 8192 by the logarithm.
    assert long.value == pytest.approx(4096e-9 * 2**0.5)
    assert long.resolution == pytest.approx(4096e-9)


def test_the_log2_bin_that_begins_within_the_linear_ones_holds_the_rest_only() -> None:
    # 3000 ns is in a linear bin, 3500 ns is not; both are in the log2 bin from 2048 to 4096.
    found = quantile(histogram_of([3000, 3500]), 0.99)
    assert found is not None
    assert 3150e-9 < found.value < 4096e-9
    assert found.resolution == pytest.approx((4096 - 3150) * 1e-9)


def test_the_open_last_bin_has_no_quantile() -> None:
    endless = Histogram(log2_ns=(0, 5), linear_ns=(5,), linear_step_ns=STEP)
    assert quantile(endless, 0.5) is None


def durations(log2: tuple[int, ...], linear: tuple[int, ...], step: int = STEP) -> Durations:
    return Durations(
        timed={0: sum(log2)}, sum_ns={0: 1}, log2_ns={0: log2}, linear_ns={0: linear},
        linear_step_ns=step,
    )  # fmt: skip


def test_histograms_of_cpus_and_runs_are_added() -> None:
    added = merge([durations((0, 1, 2), (3, 0)), durations((1, 0, 0), (1, 0))])
    assert added == Histogram(log2_ns=(1, 1, 2), linear_ns=(4, 0), linear_step_ns=STEP)
    assert added.timed == 4


@pytest.mark.parametrize(
    "other", [durations((1,), (1, 0)), durations((0, 1), (1,)), durations((0, 1), (1, 0), 100)]
)
def test_histograms_of_other_bins_are_not_added(other: Durations) -> None:
    assert merge([durations((0, 1), (1, 0)), other]) is None


def test_no_calls_are_no_histogram() -> None:
    assert merge([]) is None
    assert merge([durations((0, 0), (0, 0))]) is None


@given(st.lists(st.integers(0, 2**24), min_size=100, max_size=400))
def test_the_trimmed_mean_is_that_of_the_fast_calls(durations: list[int]) -> None:
    found = trimmed_mean_ns(histogram_of(durations))
    fast = np.sort(durations)[: round(TRIMMED * len(durations))]
    assert found is not None
    # Each call is within its bin: 50 ns, or a factor of 2; and one call more or less may count.
    assert found <= 2.1 * fast.mean() + STEP + max(durations) / len(fast)
    assert found >= fast.mean() / 2.1 - STEP - max(durations) / len(fast)


def test_rare_calls_of_milliseconds_carry_the_sum_and_not_the_trimmed_mean() -> None:
    durations = [225] * 995 + [3_000_000] * 5
    histogram = histogram_of(durations)
    assert sum(durations) / len(durations) > 15_000
    # 990 of the 995 calls between 200 and 250 ns.
    assert trimmed_mean_ns(histogram) == pytest.approx(200 + 50 * 990 / 995 / 2)
    assert slowest_share(histogram, sum(durations)) == pytest.approx(0.985, abs=0.001)


def test_calls_that_take_alike_have_no_slow_ones() -> None:
    assert slowest_share(histogram_of([225] * 1000), 225_000.0) == pytest.approx(0.01, abs=0.002)
