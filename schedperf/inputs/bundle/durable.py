# SPDX-License-Identifier: GPL-2.0-or-later
"""Write files like the recorder: synced to disk, and without following symbolic links."""

import fcntl
import os
from pathlib import Path
from typing import IO

from schedperf_collectors.machine.errors import explain
from schedperf_collectors.machine.new_files import (
    Folder,
    copy_all,
    replacing,
    write_all,
    write_durably,
)

__all__ = [
    "append_lines",
    "copy_all",
    "explain",
    "replacing",
    "sync_folder",
    "write_all",
    "write_durably",
]

_LONGEST_LINE = 1 << 20


def sync_folder(path: Path) -> None:
    """Sync a directory, so that its created, renamed and removed files survive a power cut.

    :raises OSError: it cannot be opened or synced, or another user planted a link in its path
    """
    with Folder(path) as folder:
        folder.sync()


def append_lines(path: Path, content: bytes) -> int:
    """Append whole lines to a file, and sync it to disk; other writers wait for the end.

    An incomplete last line, which a power cut left, is removed first. After an error, the file has
    the lines that it had before.

    :param content: lines, each with its newline
    :return: size of the incomplete line that was removed, in bytes; 0 if there was none
    :raises OSError: the file cannot be written
    """
    with path.open("ab+", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        removed = _cut_incomplete_line(file)
        end = file.seek(0, os.SEEK_END)
        try:
            write_all(file, content)
            os.fsync(file.fileno())
        except OSError:
            file.truncate(end)
            raise
    sync_folder(path.parent)
    return removed


def _cut_incomplete_line(file: IO[bytes]) -> int:
    """Remove an incomplete last line; return its size in bytes."""
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - _LONGEST_LINE))
    tail = file.read()
    incomplete = len(tail) - tail.rfind(b"\n") - 1
    if incomplete:
        file.truncate(end - incomplete)
    return incomplete
