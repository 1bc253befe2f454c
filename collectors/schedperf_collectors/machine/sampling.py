# SPDX-License-Identifier: GPL-2.0-or-later
"""Call a function repeatedly in a thread while the workload runs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Callable

# Short workloads are read as well: the first readings come early, each later one after twice the
# time.
FIRST_LOOK_S = 0.05
LOOK_EVERY_S = 0.5


@contextlib.contextmanager
def repeated(look: Callable[[], None], largest_share: float) -> Iterator[None]:
    """Call ``look`` until the block ends: soon at first, then every :data:`LOOK_EVERY_S`.

    What it raises ends the looks and is raised when the block ends.

    :param largest_share: most of one CPU's time that looks may take; slow looks are made less often
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
        # CPU time counts, not waiting: a look takes time from the workload only while it runs.
        began_s = time.thread_time()
        look()
        took_s = time.thread_time() - began_s
        pause_s = min(2 * pause_s, LOOK_EVERY_S)
