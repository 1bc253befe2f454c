# SPDX-License-Identifier: GPL-2.0-or-later
"""Call a function repeatedly in a thread while the workload runs, and handle changes."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, Literal, Protocol

# The interval starts short, so that files of short workloads are read too, and doubles each time.
FIRST_LOOK_S = 0.05
LOOK_EVERY_S = 0.5
PAUSES_S = (FIRST_LOOK_S, LOOK_EVERY_S)
# CPU time for changes that may be spent before the run is long enough for its share.
FIRST_CHANGES_S = 0.005

Happened = Literal["over", "changed", "waited"]


class Changes(Protocol):
    """A source of changes that can be waited for."""

    def fileno(self) -> int:
        """Return a descriptor that is readable if there are changes."""

    def handle(self) -> None:
        """Handle pending changes; called again as long as the descriptor is readable."""


@contextlib.contextmanager
def repeated(
    look: Callable[[], None],
    largest_share: float,
    changes: Changes | None = None,
    pauses_s: tuple[float, float] = PAUSES_S,
) -> Iterator[None]:
    """Call ``look`` until the block ends, first at short intervals, then at the longest one.

    An exception in ``look`` or ``changes.handle`` ends the calls. It is raised when the block ends,
    unless the block itself raises one. A block that is shorter than the first interval has no call.

    :param largest_share: largest share of one CPU's time; slow functions are called less often
    :param changes: source of changes that are handled at once, within a further share of the same
        size; None for none
    :param pauses_s: the first interval in s, which doubles each time, and the longest
    """
    waiting = _Waiting()
    with contextlib.closing(waiting), ThreadPoolExecutor(1) as pool:
        looks = pool.submit(_look_until, waiting, look, largest_share, changes, pauses_s)
        try:
            yield
        finally:
            waiting.end()
        looks.result()


class _Waiting:
    """Waits for the end of a block, for changes, or for a time limit."""

    def __init__(self) -> None:
        self._over, self._end = os.pipe()

    def wait(self, timeout_s: float, changes: Changes | None) -> Happened:
        """Wait; return "over" at the end, "changed" on changes, "waited" at the time limit."""
        poll = select.poll()
        for descriptor in (self._over, *([] if changes is None else [changes.fileno()])):
            poll.register(descriptor, select.POLLIN)
        ready = [descriptor for descriptor, _ in poll.poll(max(timeout_s, 0.0) * 1e3)]
        if self._over in ready:
            return "over"
        return "changed" if ready else "waited"

    def end(self) -> None:
        """End all waits."""
        os.write(self._end, b"\n")

    def close(self) -> None:
        """Close the descriptors."""
        os.close(self._end)
        os.close(self._over)


def _look_until(
    waiting: _Waiting,
    look: Callable[[], None],
    largest_share: float,
    changes: Changes | None,
    pauses_s: tuple[float, float] = PAUSES_S,
) -> None:
    pause_s, longest_s = pauses_s
    spent_s, began_s = 0.0, time.monotonic()
    due_s = began_s + pause_s
    while True:
        now_s = time.monotonic()
        has_time = spent_s <= FIRST_CHANGES_S + largest_share * (now_s - began_s)
        happened = waiting.wait(due_s - now_s, changes if has_time else None)
        if happened == "over":
            return
        if happened == "changed" and changes is not None:
            spent_s += _cpu_time_of(changes.handle)
        else:
            took_s = _cpu_time_of(look)
            pause_s = min(2 * pause_s, longest_s)
            due_s = time.monotonic() + max(pause_s, took_s / largest_share)


def _cpu_time_of(function: Callable[[], None]) -> float:
    # CPU time, not elapsed time: only CPU time is taken from the workload.
    began_s = time.thread_time()
    function()
    return time.thread_time() - began_s
