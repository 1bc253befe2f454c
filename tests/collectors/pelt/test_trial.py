# SPDX-License-Identifier: GPL-2.0-or-later
"""What the timing pair reads of nothing is a median: single long readings do not move it."""

from types import SimpleNamespace
from typing import Any

import pytest

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.pelt.loader import LINEAR_BINS
from schedperf_collectors.pelt.programs import LINEAR_STEP_NS
from schedperf_collectors.pelt.trial import median_reading

LOG2_BINS = 32


def read(*durations_ns: int) -> Any:
    """Return what a CPU counted of calls that took so long, as its program sorts them."""
    linear, log2 = [0] * LINEAR_BINS, [0] * LOG2_BINS
    for duration_ns in durations_ns:
        linear[min(duration_ns // LINEAR_STEP_NS, LINEAR_BINS - 1)] += 1
        log2[max(duration_ns.bit_length() - 1, 0)] += 1
    return SimpleNamespace(linear_ns=linear, log2_ns=log2, by_context=[len(durations_ns)])


def test_a_few_interrupts_are_in_the_mean_and_not_in_the_median() -> None:
    calm, disturbed = [620] * 980, [200_000] * 20
    median, (low, high) = median_reading([read(*calm, *disturbed)], "getuid")
    assert sum(calm + disturbed) / 1000 > 4000
    assert 600 <= median <= 650
    assert (low, high) == (600, 650)


def test_cpus_are_added_up_and_the_interval_holds_the_bins_of_its_ends() -> None:
    even = [read(*range(0, 1000, 10)), read(*range(1000, 2000, 10))]
    median, (low, high) = median_reading(even, "getuid")
    assert median == pytest.approx(1000, abs=50)
    # 200 calls: ranks 100 -+ 13.9, that is 861 to 1139 ns.
    assert (low, high) == (850, 1150)


@pytest.mark.parametrize("duration_ns", [3_140, 3_160, 4_000, 4_096, 70_000, 4_000_000_000])
def test_readings_beyond_the_linear_bins_are_in_a_log2_bin(duration_ns: int) -> None:
    median, (low, high) = median_reading([read(*[duration_ns] * 9, 100)], "getuid")
    assert low <= duration_ns <= high
    assert low <= median <= high <= max(2 * duration_ns, 3_150)


def test_one_reading_is_its_own_bin() -> None:
    assert median_reading([read(120)], "getuid") == (125.0, (100, 150))


@pytest.mark.parametrize("values", [[], [read()], [SimpleNamespace(
    linear_ns=[0] * LINEAR_BINS, log2_ns=[0] * LOG2_BINS, by_context=[7])]])  # fmt: skip
def test_without_a_reading_there_is_none(values: list[Any]) -> None:
    with pytest.raises(
        Unavailable, match=r"^the probes of getuid counted [07] of \d+ test calls and timed none$"
    ):
        median_reading(values, "getuid")
