"""Looks at something again and again while the workload runs, in a thread of the collector."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Callable

# Short workloads are seen as well: the first looks come early and each later one twice as late.
FIRST_LOOK_S = 0.05
LOOK_EVERY_S = 0.5


@contextlib.contextmanager
def repeated(look: Callable[[], None], largest_share: float) -> Iterator[None]:
    """Call ``look`` until the block ends: soon at first, then every :data:`LOOK_EVERY_S`.

    What it raises ends the looks and is raised when the block ends.

    :param largest_share: of one CPU's time that looks may take: what took long comes less often
    """
    over = Event()
    with ThreadPoolExecutor(1) as pool:
        looks = pool.submit(_look_until, over, look, largest_share)
        try:
            yield
        finally:
            over.set()
        looks.result()


def _look_until(over: Event, look: Callable[[], None], largest_share: float) -> None:
    pause_s, took_s = FIRST_LOOK_S, 0.0
    while not over.wait(max(pause_s, took_s / largest_share)):
        # The workload loses what a look computes; while it waits for a CPU it costs nothing.
        began_s = time.thread_time()
        look()
        took_s = time.thread_time() - began_s
        pause_s = min(2 * pause_s, LOOK_EVERY_S)
