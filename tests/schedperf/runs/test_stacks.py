# SPDX-License-Identifier: GPL-2.0-or-later
"""Histograms of durations: bins, sums and percentiles, compared with sorted durations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.runs.stacks import BINS, Durations, edges_ns
from tests.stack_documents import bin_of

DURATIONS = st.lists(st.integers(min_value=0, max_value=10**11), min_size=1, max_size=60)


def histogram(values: list[int]) -> Durations:
    bins: dict[int, int] = {}
    for ns in values:
        bins[bin_of(ns)] = bins.get(bin_of(ns), 0) + 1
    return Durations(count=len(values), ns=sum(values), max_ns=max(values), bins=bins)


def test_bins_follow_each_other() -> None:
    for number in range(BINS - 1):
        assert edges_ns(number)[1] == edges_ns(number + 1)[0]


@given(st.integers(min_value=0, max_value=10**11))
def test_a_duration_is_between_the_edges_of_its_bin(ns: int) -> None:
    low, high = edges_ns(bin_of(ns))
    assert low <= ns < high
    assert high - low <= max(64, ns / 7)


@given(DURATIONS, DURATIONS)
def test_sums_are_those_of_all_durations(first: list[int], second: list[int]) -> None:
    assert histogram(first) + histogram(second) == histogram(first + second)


@given(DURATIONS, st.sampled_from([0.0, 0.5, 0.9]))
def test_a_percentile_is_in_the_bin_of_the_duration(values: list[int], part: float) -> None:
    found = histogram(values).quantile_ns(part)
    if len(values) * (1 - part) < 1:
        assert found is None
        return
    exact = float(np.quantile(values, part, method="inverted_cdf"))
    low, high = edges_ns(bin_of(int(exact)))
    assert found is not None
    assert low <= found <= high


def test_nothing_has_no_percentile() -> None:
    assert Durations().quantile_ns(0.5) is None


def test_the_percentile_of_equal_durations_is_at_most_the_longest() -> None:
    assert histogram([1000] * 1000).quantile_ns(0.99) == pytest.approx(1000, rel=0.01)
