# SPDX-License-Identifier: GPL-2.0-or-later
"""Keep generated files in the user's cache directory, ``$XDG_CACHE_HOME`` or ``~/.cache``."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def cache_folder(name: str) -> Path:
    """Return the directory of one kind of kept files; it may not exist."""
    # XDG base directory specification: an empty variable counts as unset.
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 # never raises
    return Path(base, "schedperf", name)


def read_kept(path: Path, limit_bytes: int) -> bytes | None:
    """Read a kept file; None if it is missing or empty, or belongs to another user.

    The owner matters because the recorder may run as root.
    """
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                return None
            data = file.read(limit_bytes)
    except OSError:
        return None
    return data or None


def keep(path: Path, data: bytes) -> None:
    """Keep a file; without a writable cache, do nothing."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        # Another process doing the same meanwhile wrote the same bytes.
        os.replace(name, path)  # noqa: PTH105 # both are names


def keep_newest(folder: Path, number: int) -> None:
    """Remove all files of a directory but the newest ones."""
    with contextlib.suppress(OSError):
        times = {Path(entry): entry.stat().st_mtime_ns for entry in os.scandir(folder)}
        for path in sorted(times, key=lambda one: times[one])[:-number]:
            path.unlink()
