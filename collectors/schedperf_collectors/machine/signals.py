# SPDX-License-Identifier: GPL-2.0-or-later
"""Record signals for loops to check, so that no signal interrupts a write.

SIGINT, SIGTERM and SIGHUP are only recorded; a waiting loop is woken, checks :attr:`Signals.caught`
and cleans up as usual. SIGHUP stays ignored if it is (nohup). SIGCHLD wakes the loop too, so that
it need not poll for the end of a process.
"""

from __future__ import annotations

import os
import select
import signal
from types import FrameType
from typing import Any

from schedperf_collectors.machine.errors import Interrupted

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """The signal handler of this process; the only instance is :data:`signals`.

    It works inside ``with signals:`` only, and in the main thread only.

    :ivar caught: number of the first signal that requested termination; None if none came
    """

    def __init__(self) -> None:
        self.caught: int | None = None
        self._read = self._write = -1
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:  # noqa: PYI034 # Self came with Python 3.11
        self.caught = None
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._before = {signal.SIGCHLD: signal.signal(signal.SIGCHLD, _nothing)}
        for signum in _ENDING:
            # nohup ignores SIGHUP on purpose. SIGINT is handled even if ignored: scripts ignore it
            # for background jobs without meaning to.
            if signum == signal.SIGHUP and signal.getsignal(signum) == signal.SIG_IGN:
                continue
            self._before[signum] = signal.signal(signum, self._note)
        return self

    def __exit__(self, *_exception: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(-1)
        os.close(self._read)
        os.close(self._write)

    def wait(self, timeout_s: float | None, *readable: int) -> list[int]:
        """Sleep until a signal arrives, a descriptor is readable, or the time limit is reached.

        :param timeout_s: the time limit; None for no limit
        :param readable: the descriptors
        :return: the readable descriptors
        """
        ready, _, _ = select.select([self._read, *readable], [], [], timeout_s)
        if self._read in ready:
            ready.remove(self._read)
            # One read empties the pipe, unless no one waited for a long time.
            os.read(self._read, 65536)
        return ready

    def check(self) -> None:
        """Raise :exc:`Interrupted` if a signal has requested termination."""
        if self.caught is not None:
            raise Interrupted(self.caught)

    def _note(self, signum: int, _frame: FrameType | None) -> None:
        # The first signal decides the exit status.
        if self.caught is None:
            self.caught = signum


def _nothing(_signum: int, _frame: FrameType | None) -> None:
    # Without a handler, SIGCHLD does not interrupt a sleep.
    pass


def default_signals() -> None:
    """Reset SIGINT, SIGTERM, SIGHUP and SIGCHLD in a forked child; ignored ones stay ignored."""
    signal.set_wakeup_fd(-1)
    for signum in (*_ENDING, signal.SIGCHLD):
        if signal.getsignal(signum) != signal.SIG_IGN:
            signal.signal(signum, signal.SIG_DFL)


signals = Signals()
