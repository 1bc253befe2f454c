# SPDX-License-Identifier: GPL-2.0-or-later
"""Read files that a user names: they may be missing, a fifo, a device or endless."""

import os
import stat
from pathlib import Path
from typing import BinaryIO

from schedperf.model.errors import InputError


def read_regular(path: Path, limit: int, expected: str, too_large: str = "check the file") -> bytes:
    """Return the content of a regular file.

    :param limit: largest accepted size in bytes
    :param expected: what the file should be: "a percpu.json"
    :param too_large: what to do if the file is larger than the limit
    :raises InputError: the file is not regular, not readable, or larger than ``limit``
    """
    try:
        with _open(path) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InputError(f"{path}: not a regular file; pass {expected}")
            content = file.read(limit + 1)
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise InputError(
            f"{path}: cannot be read: {problem} (expected {expected}); check the path and its "
            "permissions"
        ) from None
    if len(content) > limit:
        raise InputError(f"{path}: larger than {limit} bytes; {too_large}")
    return content


def read_head(path: Path, count: int) -> bytes:
    """Return the first bytes of a file, to detect its format.

    Return b"" if the file is not regular or cannot be read.
    """
    try:
        with _open(path) as file:
            return file.read(count) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    except OSError:
        # The later complete read reports the error.
        return b""


def _open(path: Path) -> BinaryIO:
    # Opening a fifo would block.
    return open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
