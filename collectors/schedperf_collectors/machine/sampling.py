# SPDX-License-Identifier: GPL-2.0-or-later
"""Call a function repeatedly in a thread while the workload runs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Callable

# The interval starts short, so that short workloads are read as well, and doubles each time.
FIRST_LOOK_S = 0.05
LOOK_EVERY_S = 0.5


@contextlib.contextmanager
def repeated(look: Callable[[], None], largest_share: float) -> Iterator[None]:
    """Call ``look`` until the block ends: soon at first, then every :data:`LOOK_EVERY_S`.

    An exception in ``look`` ends the calls and is raised when the block ends.

    :param largest_share: largest share of one CPU's time; slow functions are called less often
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
        # CPU time, not elapsed time: only CPU time is taken from the workload.
        began_s = time.thread_time()
        look()
        took_s = time.thread_time() - began_s
        pause_s = min(2 * pause_s, LOOK_EVERY_S)
