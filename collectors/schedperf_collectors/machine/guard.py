"""A setting that is changed for a while, and is restored whatever becomes of who changed it.

A collector that hangs, and each of them at Ctrl-C, is killed, and cannot undo anything then. So a
child with a session of its own, which no signal to the collector reaches, waits for the end of a
pipe, that is for the end of the collector, and restores the setting.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn


@contextlib.contextmanager
def changed_for_now(path: Path, value: bytes) -> Iterator[None]:
    """Write a value into a file of /proc or /sys, and what was there before when the block ends.

    :raises OSError: it cannot be read or written
    """
    before = path.read_bytes()
    held, release = os.pipe()
    ready, say_ready = os.pipe()
    guard = os.fork()
    if guard == 0:
        _wait_and_restore(path, before, held, say_ready)
    os.close(held)
    os.close(say_ready)
    try:
        # Nothing is changed before the guard is out of reach.
        os.read(ready, 1)
        path.write_bytes(value)
        yield
    finally:
        os.close(ready)
        os.close(release)
        os.waitpid(guard, 0)


def _wait_and_restore(path: Path, before: bytes, held: int, say_ready: int) -> NoReturn:
    try:
        os.setsid()
        # Whoever waits for the collector's pipes to end must not wait for this process.
        for descriptor in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 # bare names
            if descriptor not in (held, say_ready):
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        os.close(say_ready)
        os.read(held, 1)
        path.write_bytes(before)
    finally:
        os._exit(0)
