# SPDX-License-Identifier: GPL-2.0-or-later
"""Write files so that they survive a crash or a power cut: completely, or not at all."""

import os
from pathlib import Path


def write_durably(path: Path, content: bytes) -> None:
    """Replace a file so that it has all of the content, or its old one, whenever power fails.

    :raises OSError: it cannot be written; the old one is unchanged
    """
    temporary = path.with_name(f".{path.name}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    descriptor = os.open(temporary, flags, 0o666)
    try:
        try:
            write_all(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.rename(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_all(descriptor: int, content: bytes) -> None:
    """Write all of the content, in as many calls as it takes."""
    while content:
        content = content[os.write(descriptor, content) :]


def sync_folder(folder: Path) -> None:
    """Make what was created, renamed or removed in a directory durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
