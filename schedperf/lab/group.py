# SPDX-License-Identifier: GPL-2.0-or-later
"""Terminate a program together with all processes of its process group."""

import contextlib
import os
import signal
import subprocess
import time

# Time to exit after SIGTERM.
LIMIT_S = 10.0
_LOOK_S = 0.02


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
