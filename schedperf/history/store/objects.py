# SPDX-License-Identifier: GPL-2.0-or-later
"""Keep files by the SHA-256 of their content: ``objects/ab/abcd….tar``."""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from schedperf.inputs.bundle.durable import explain, replacing, sync_folder, write_all
from schedperf.model.errors import InputError

FOLDER = "objects"
_CHUNK_BYTES = 1 << 20


class Objects:
    """The files of a store.

    :param folder: directory of the store
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / FOLDER

    def path(self, sha256: str, kind: str) -> Path:
        """Return where a file is; files of one kind have one suffix, whatever their compression.

        :param kind: "bundle" or "table"
        """
        return self.folder / sha256[:2] / f"{sha256}.{'csv' if kind == 'table' else 'tar'}"

    def keep(self, source: Path, sha256: str, kind: str) -> Path:
        """Copy a file, and sync it to disk; do nothing if it is there. Return the path of the copy.

        :param sha256: of the file
        :raises InputError: it cannot be read or written, or has changed meanwhile
        """
        path = self.path(sha256, kind)
        if path.exists():
            return path
        # Another process may copy the same file.
        new = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            if not path.parent.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                sync_folder(self.folder)
            with replacing(new) as file:
                is_same = _copy(source, file) == sha256
            if is_same:
                new.replace(path)
                sync_folder(path.parent)
            else:
                new.unlink()
        except OSError as error:
            raise InputError(
                f"{error.filename or path.parent}: {explain(error)}; free space there, and repeat "
                "the command"
            ) from None
        if not is_same:
            raise InputError(f"{source}: changed while it was read; add it again")
        return path

    def left_over(self, used: set[Path]) -> Iterator[Path]:
        """Yield files that nothing uses: copies of a killed command.

        :param used: the paths of all files in use
        """
        for path in sorted(self.folder.glob("??/*")):
            if path not in used:
                yield path


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file.

    :raises InputError: it cannot be read
    """
    try:
        with _open(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read: {explain(error)}; check the path and its permissions"
        ) from None


def _open(path: Path) -> FileIO:
    """Open a regular file.

    :raises OSError: it is another kind of file, or cannot be read
    """
    # Opening a fifo would block.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    file = FileIO(descriptor)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, "not a regular file")


def _copy(source: Path, file: BinaryIO) -> str:
    state = hashlib.sha256()
    with _open(source) as opened:
        while chunk := opened.read(_CHUNK_BYTES):
            state.update(chunk)
            write_all(file, chunk)
    return state.hexdigest()
