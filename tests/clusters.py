# SPDX-License-Identifier: GPL-2.0-or-later
"""Functions that the workers of a cluster import."""

import os
import signal
from pathlib import Path


def double(number: int) -> int:
    """Return twice a number."""
    return 2 * number


def die_at_seven(number: int) -> int:
    """Return twice a number; kill the worker at 7."""
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number


def fail_at_seven(number: int) -> int:
    """Return twice a number; fail at 7.

    :raises OSError: the number is 7
    """
    if number == 7:
        raise OSError("seven")
    return 2 * number


def die_once(task: tuple[int, str]) -> int:
    """Return twice a number; kill the worker that has 7 first."""
    number, mark = task
    if number == 7 and not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number
