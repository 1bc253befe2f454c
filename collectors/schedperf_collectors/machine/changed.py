# SPDX-License-Identifier: GPL-2.0-or-later
"""Change a setting of the machine while a collector runs, and restore it even if it is killed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

# Name of the process that restores the setting and then ends. The recorder does not kill it.
GUARD = "schedperf-guard"


@contextlib.contextmanager
def changed_for_now(path: Path, value: bytes) -> Iterator[None]:
    """Write a value to a file of /proc or /sys; restore the old one when the block ends.

    A killed collector cannot restore the value (the recorder kills collectors that hang, and all of
    them on Ctrl-C). Therefore a child in a separate session, which the recorder does not kill
    (:data:`GUARD`), waits for end of file on a pipe to the collector and then restores the value.

    :raises OSError: the file cannot be read or written; a failure to restore it raises nothing
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
        # The value is changed only after the child is in its own session, under its own name.
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
        Path("/proc/self/comm").write_text(GUARD)
        # Readers of the collector's pipes must not wait for this process.
        for descriptor in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 # bare names
            if descriptor not in (held, say_ready):
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        os.close(say_ready)
        os.read(held, 1)
        path.write_bytes(before)
    finally:
        os._exit(0)
