# SPDX-License-Identifier: GPL-2.0-or-later
"""Read counters in time steps while the workload runs.

Steps are 0.1 s long. If there are too many, or reading takes a large part of a step, pairs of steps
are merged, which limits the memory of long runs and the CPU time on large machines.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Callable, Generic, TypeVar

from schedperf_collectors.contract import Unavailable

FIRST_STEP_S = 0.1
MOST_STEPS = 2000
# Largest share of a step spent reading: 2% of one CPU.
LARGEST_SHARE = 0.02

# Key of a counter.
Key = TypeVar("Key")


class Series(Generic[Key]):
    """Reads counters in a separate thread, until it is stopped.

    :param look: function that returns all counters, which only grow; it may raise Unavailable
    :ivar step_s: length of a step in s; the last step may be shorter
    :ivar rows: by key, the growth of the counter in each step, shape (steps,)
    :ivar steps: number of steps
    :ivar failure: why reading failed, which ends the series; None if it did not
    """

    def __init__(self, look: Callable[[], Counter[Key]]) -> None:
        self._look = look
        self._last: Counter[Key] = Counter()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self.step_s = FIRST_STEP_S
        self.rows: dict[Key, list[int]] = {}
        self.steps = 0
        self.failure: str | None = None

    def start(self) -> None:
        """Start reading; all counters are 0 at this time."""
        self._began_s = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """Stop after a last read, which adds a shorter step."""
        self.halt()
        self._take()

    def halt(self) -> None:
        """Stop reading; a second call does nothing."""
        self._stopping.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._stopping.wait(self._left_s()):
            took_s = self._take()
            is_enough = self.steps >= MOST_STEPS or took_s > LARGEST_SHARE * self.step_s
            # With an odd number of steps, the last one would remain short.
            if is_enough and self.steps % 2 == 0:
                self.merge()

    def _left_s(self) -> float:
        return max(self._began_s + (self.steps + 1) * self.step_s - time.monotonic(), 0)

    def _take(self) -> float:
        began_s = time.monotonic()
        try:
            now = self._look()
        except Unavailable as error:
            self.failure = error.reason
            self._stopping.set()
            return 0.0
        self.add(now)
        return time.monotonic() - began_s

    def add(self, now: Counter[Key]) -> None:
        """Add a step that ends with these counters."""
        for key, count in now.items():
            self.rows.setdefault(key, [0] * self.steps)
            self.rows[key].append(count - self._last[key])
        self.steps += 1
        self._last = now

    def merge(self) -> None:
        """Merge pairs of steps into steps of twice the length; the number of steps must be even."""
        self.step_s *= 2
        self.steps //= 2
        for counts in self.rows.values():
            counts[:] = [sum(counts[at : at + 2]) for at in range(0, len(counts), 2)]
