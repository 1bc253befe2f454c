# SPDX-License-Identifier: GPL-2.0-or-later
"""How counters grew over time."""

import time
from collections import Counter
from collections.abc import Callable

import pytest

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.placement import series as _placement_series
from schedperf_collectors.placement.series import FIRST_STEP_S, Series

Wait = Callable[[Callable[[], object]], None]


def test_each_step_holds_what_came_in_it() -> None:
    series = Series(Counter[str])
    series.add(Counter(a=2))
    series.add(Counter(a=2, b=7))
    series.add(Counter(a=5, b=7))
    assert series.rows == {"a": [2, 0, 3], "b": [0, 7, 0]}
    assert series.steps == 3


def test_merging_keeps_the_sums_and_the_order() -> None:
    series = Series(Counter[str])
    for total in (1, 3, 6, 10):
        series.add(Counter(a=total))
    series.merge()
    assert series.rows == {"a": [3, 7]}
    assert series.step_s == 2 * FIRST_STEP_S
    series.add(Counter(a=10, b=1))
    assert series.rows == {"a": [3, 7, 0], "b": [0, 0, 1]}


def test_a_long_run_has_longer_steps_and_no_more_of_them(
    monkeypatch: pytest.MonkeyPatch, wait_for: Wait
) -> None:
    monkeypatch.setattr(_placement_series, "FIRST_STEP_S", 0.005)
    monkeypatch.setattr(_placement_series, "MOST_STEPS", 8)
    monkeypatch.setattr(_placement_series, "LARGEST_SHARE", 1e9)
    began_s = time.monotonic()
    looks: Counter[str] = Counter()

    def look() -> Counter[str]:
        looks["all"] += 1
        return Counter(looks)

    series = Series(look)
    series.start()
    wait_for(lambda: series.step_s >= 0.04)
    series.stop()
    seconds = time.monotonic() - began_s
    assert series.steps <= 8 + 1
    assert series.step_s >= 0.04
    assert (series.steps - 1) * series.step_s <= seconds
    assert sum(series.rows["all"]) == looks["all"]


def test_looks_that_take_long_are_made_less_often(wait_for: Wait) -> None:
    def look() -> Counter[str]:
        time.sleep(0.05)
        return Counter(a=1)

    series = Series(look)
    series.start()
    wait_for(lambda: series.step_s > FIRST_STEP_S)
    series.stop()
    assert series.step_s > FIRST_STEP_S


def test_a_run_shorter_than_a_step_is_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    # On a busy machine even this takes longer than a step of the real length.
    monkeypatch.setattr(_placement_series, "FIRST_STEP_S", 3600.0)
    series = Series(lambda: Counter(a=3))
    series.start()
    series.stop()
    assert series.rows == {"a": [3]}


def test_counters_that_cannot_be_read_any_more_end_it_with_the_reason() -> None:
    def look() -> Counter[str]:
        raise Unavailable("map moves: next key: bad file descriptor")

    series = Series(look)
    series.start()
    series.stop()
    assert series.failure == "map moves: next key: bad file descriptor"
    assert series.rows == {}
