# SPDX-License-Identifier: GPL-2.0-or-later
"""Turn signals into a value that loops check, so that none interrupts a write.

SIGINT, SIGTERM and SIGHUP are only recorded; a waiting loop is woken, checks :attr:`Signals.caught`
and cleans up as usual. SIGCHLD wakes too, which makes waiting for a process exact on every kernel.
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
    """The signals of this process; there is one, :data:`signals`.

    It works inside ``with signals:`` only, and in the main thread only.
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
        """Sleep until a signal arrives, a descriptor is readable, or the time is over.

        :return: the readable descriptors
        """
        ready, _, _ = select.select([self._read, *readable], [], [], timeout_s)
        if self._read in ready:
            ready.remove(self._read)
            # One read empties the pipe, unless no one waited for a long time.
            os.read(self._read, 65536)
        return ready

    def check(self) -> None:
        """Raise :exc:`Interrupted` if a signal has asked to terminate."""
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
    """Reset the signals of a forked child to their defaults."""
    signal.set_wakeup_fd(-1)
    for signum in (*_ENDING, signal.SIGCHLD):
        if signal.getsignal(signum) != signal.SIG_IGN:
            signal.signal(signum, signal.SIG_DFL)


signals = Signals()
