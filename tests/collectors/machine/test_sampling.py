# SPDX-License-Identifier: GPL-2.0-or-later
"""Looks are repeated while a block runs, and what they take of a CPU is limited."""

import os
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from schedperf_collectors.machine import sampling
from schedperf_collectors.machine.sampling import (
    FIRST_CHANGES_S,
    FIRST_LOOK_S,
    LOOK_EVERY_S,
    PAUSES_S,
    Changes,
    Happened,
    _look_until,
    _Waiting,
    repeated,
)

# Only a limit: a machine that is busy with other things takes its time.
LONGEST_WAIT_S = 60


class Waiting(_Waiting):
    """The end of a block, after some looks at once; it keeps how long each was waited for."""

    def __init__(self, looks: int) -> None:
        self.looks = looks
        self.waits: list[float] = []

    def wait(self, timeout_s: float, changes: Changes | None) -> Happened:
        del changes
        self.waits.append(timeout_s)
        return "over" if len(self.waits) > self.looks else "waited"


def waits_before(
    look: Callable[[], None],
    largest_share: float,
    looks: int = 1,
    pauses_s: tuple[float, float] = PAUSES_S,
) -> list[float]:
    """Return how long is waited before each look, and before the one that does not come.

    The clock stands still, so that a busy machine takes nothing off a wait.
    """
    waiting = Waiting(looks)
    clock = SimpleNamespace(monotonic=lambda: 0.0, thread_time=time.thread_time)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "time", clock)
        _look_until(waiting, look, largest_share, None, pauses_s)
    return waiting.waits


class Pipe:
    """Changes that are reported by bytes in a pipe; each takes some CPU time to handle."""

    def __init__(self, seconds: float) -> None:
        self.reader, self.writer = os.pipe()
        self.seconds = seconds
        self.handled: list[float] = []

    def fileno(self) -> int:
        return self.reader

    def handle(self) -> None:
        os.read(self.reader, 1)
        compute(self.seconds)
        self.handled.append(time.monotonic())


def compute(seconds: float) -> None:
    end_s = time.thread_time() + seconds
    while time.thread_time() < end_s:
        pass


def test_looks_come_soon_and_then_later_and_later() -> None:
    waits = waits_before(lambda: None, 0.1, looks=6)
    assert waits == [FIRST_LOOK_S * factor for factor in (1, 2, 4, 8)] + [LOOK_EVERY_S] * 3


def test_looks_come_as_often_as_the_caller_asks() -> None:
    assert waits_before(lambda: None, 0.1, looks=2, pauses_s=(10.0, 10.0)) == [10.0] * 3


def test_looks_come_while_the_block_runs_and_not_after_it() -> None:
    times: list[float] = []
    twice = threading.Event()

    def look() -> None:
        times.append(time.monotonic())
        if len(times) == 2:
            twice.set()

    began_s = time.monotonic()
    with repeated(look, 0.1):
        assert twice.wait(LONGEST_WAIT_S)
    made = len(times)
    assert times[0] - began_s >= FIRST_LOOK_S
    assert times[1] - times[0] >= 2 * FIRST_LOOK_S
    time.sleep(2 * LOOK_EVERY_S)
    assert len(times) == made


def test_what_computes_long_comes_less_often() -> None:
    assert waits_before(lambda: compute(0.02), 0.02)[1] >= 0.9
    assert waits_before(lambda: compute(0.02), 1.0)[1] == 2 * FIRST_LOOK_S


def test_waiting_is_no_cost() -> None:
    # Going to sleep and waking up compute a little, on a busy machine milliseconds, which count.
    # Of a whole CPU that is less than the pause; the sleep itself, were it counted, would be more.
    assert waits_before(lambda: time.sleep(3 * FIRST_LOOK_S), 1.0)[1] == 2 * FIRST_LOOK_S


def test_changes_are_handled_when_they_come() -> None:
    pipe = Pipe(0.0)
    with repeated(lambda: None, 1e-6, pipe):
        os.write(pipe.writer, b"12")
        end_s = time.monotonic() + LONGEST_WAIT_S
        while len(pipe.handled) < 2 and time.monotonic() < end_s:
            time.sleep(0.001)
    assert len(pipe.handled) == 2


def test_changes_that_cost_too_much_wait() -> None:
    pipe = Pipe(2 * FIRST_CHANGES_S)
    os.write(pipe.writer, b"1" * 100)
    looked = threading.Event()
    with repeated(looked.set, 1e-6, pipe):
        assert looked.wait(LONGEST_WAIT_S)
    assert len(pipe.handled) == 1


def test_what_a_look_raises_is_raised_at_the_end() -> None:
    looked = threading.Event()
    looks: list[int] = []

    def look() -> None:
        looks.append(1)
        looked.set()
        raise ValueError("broken")

    def watch() -> None:
        with repeated(look, 0.1):
            assert looked.wait(LONGEST_WAIT_S)
            # As long as several looks more.
            time.sleep(4 * FIRST_LOOK_S)

    with pytest.raises(ValueError, match="broken"):
        watch()
    assert looks == [1]
