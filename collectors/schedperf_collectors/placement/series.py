# SPDX-License-Identifier: GPL-2.0-or-later
"""Read counters in time steps while the workload runs.

Steps are 0.1 s long. If there are too many, or reading takes a large part of a step, pairs of steps
are merged: a long run costs no more memory than a short one, and a large machine no more time.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Callable, Generic, TypeVar

from schedperf_collectors.contract import Unavailable

FIRST_STEP_S = 0.1
MOST_STEPS = 2000
# A look may take this share of a step: 2% of one CPU.
LARGEST_SHARE = 0.02

# What a counter is known by.
Key = TypeVar("Key")


class Series(Generic[Key]):
    """Looks at counters in a thread of its own, until it is stopped.

    :param look: returns all counters; they only grow
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
        """Begin; counters are 0 now."""
        self._began_s = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """End with a look; what came after the last whole step is a step as well."""
        self.halt()
        self._take()

    def halt(self) -> None:
        """Look no more; a second call does nothing."""
        self._stopping.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._stopping.wait(self._left_s()):
            took_s = self._take()
            is_enough = self.steps >= MOST_STEPS or took_s > LARGEST_SHARE * self.step_s
            # Of an odd number of steps the last would stay a short one.
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
        """Make one step of two; their number is even."""
        self.step_s *= 2
        self.steps //= 2
        for counts in self.rows.values():
            counts[:] = [sum(counts[at : at + 2]) for at in range(0, len(counts), 2)]
