# SPDX-License-Identifier: GPL-2.0-or-later
"""Start a program that signals end, and terminate it with all processes of its process group."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial

# Time to exit after SIGTERM.
LIMIT_S = 10.0
_LOOK_S = 0.02
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def signals_delayed() -> Iterator[Callable[[], object]]:
    """Delay SIGINT, SIGTERM and SIGHUP, so that a program can be started.

    An exception that a handler raises meanwhile would be lost, or leave the program running::

        with signals_delayed() as deliver:
            process = subprocess.Popen(command, preexec_fn=deliver)
            try:
                deliver()
                process.wait()
            finally:
                end_group(process)

    :return: function that ends the delay; the new process calls it, too
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    deliver = partial(signal.pthread_sigmask, signal.SIG_SETMASK, before)
    try:
        yield deliver
    finally:
        deliver()


def end_group(process: "subprocess.Popen[bytes]") -> None:
    """Send SIGTERM to the process group that a process leads, and wait until the group has ended.

    If the group has not ended after 10 s, send SIGKILL, and wait another 10 s. The process is
    reaped.
    """
    for signum in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signum)
        until_s = time.monotonic() + LIMIT_S
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(LIMIT_S)
        if _has_ended(process.pid, until_s):
            return


def _has_ended(group: int, until_s: float) -> bool:
    """Wait until a process group is empty; return false if the time runs out first.

    Return false at once if only processes of other users are left.

    :param until_s: end of the wait, on the monotonic clock
    """
    while True:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            # Only processes of other users are left.
            return False
        if time.monotonic() > until_s:
            return False
        time.sleep(_LOOK_S)
