"""Looks are repeated while a block runs, and what they take of a CPU is limited."""

import time

import pytest

from schedperf_collectors._sampling import FIRST_LOOK_S, repeated


def compute(seconds: float) -> None:
    end_s = time.thread_time() + seconds
    while time.thread_time() < end_s:
        pass


def test_looks_come_soon_and_then_later_and_later() -> None:
    times: list[float] = []
    began_s = time.monotonic()
    with repeated(lambda: times.append(time.monotonic() - began_s), 0.1):
        time.sleep(0.5)
    # After 0.05, 0.15 and 0.35 s.
    assert times[0] >= FIRST_LOOK_S
    assert 2 <= len(times) <= 3
    assert times[1] - times[0] >= 2 * FIRST_LOOK_S


def test_what_computes_long_comes_less_often() -> None:
    looks: list[float] = []

    def look() -> None:
        looks.append(time.monotonic())
        compute(0.02)

    with repeated(look, 0.02):
        time.sleep(0.6)
    assert len(looks) == 1
    looks.clear()
    with repeated(look, 1.0):
        time.sleep(0.6)
    assert len(looks) >= 2


def test_waiting_is_no_cost() -> None:
    looks: list[float] = []

    def look() -> None:
        looks.append(time.monotonic())
        time.sleep(0.05)

    with repeated(look, 0.02):
        time.sleep(0.9)
    assert len(looks) >= 2


def test_what_a_look_raises_is_raised_at_the_end() -> None:
    looks: list[int] = []

    def look() -> None:
        looks.append(1)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"), repeated(look, 0.1):
        time.sleep(0.4)
    assert looks == [1]
