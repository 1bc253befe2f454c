# SPDX-License-Identifier: GPL-2.0-or-later
"""Percentiles of histograms are those of the waits, within the width of a bin."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.evidence.wakeup_latency.histogram import BINS, Histogram, bin_of, edges


def histogram_of(waits: list[int]) -> Histogram:
    return Histogram.of([{bin_of(ns): 1} for ns in waits], above=0, max_ns=max(waits))


@given(
    st.lists(st.integers(0, 10**10), min_size=2, max_size=300),
    st.sampled_from([0.5, 0.9, 0.99, 0.999]),
)
def test_a_percentile_is_the_order_statistic_within_a_bin(waits: list[int], part: float) -> None:
    found = histogram_of(waits).quantile(part)
    if len(waits) * (1.0 - part) < 1.0 - 1e-9:
        assert found is None
        return
    exact = sorted(waits)[max(0, math.ceil(len(waits) * part - 1e-9) - 1)]
    assert found is not None
    assert abs(found - exact) <= max(4.0, exact / 16.0)
    assert found <= max(waits)


def test_bins_cover_all_durations_without_gaps() -> None:
    assert edges(0)[0] == 0
    for number in range(BINS - 1):
        assert edges(number)[1] == edges(number + 1)[0]
    # 2.3 minutes.
    assert edges(BINS - 1)[1] == 1 << 37


def test_a_percentile_above_the_recorded_bins_is_unknown() -> None:
    histogram = Histogram.of([{bin_of(1000): 98}], above=2, max_ns=5_000_000)
    assert histogram.total == 100
    assert histogram.quantile(0.5) == pytest.approx(1000, rel=1 / 16)
    assert histogram.quantile(0.99) is None


def test_shares_are_those_below_each_edge() -> None:
    histogram = Histogram.of([{16: 1, 17: 3}], above=0, max_ns=70)
    assert histogram.shares_below([15, 16, 17, 18]) == [0.0, 0.0, 0.25, 1.0]
