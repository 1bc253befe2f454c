# SPDX-License-Identifier: GPL-2.0-or-later
"""Read an untrusted directory with size limits: files may be compressed.

Links are followed to files below the directory only.
"""

import bz2
import io
import lzma
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from gzip import GzipFile
from pathlib import Path
from typing import IO, cast

import zstandard

from schedperf.inputs.bundle.files import read_regular
from schedperf.inputs.bundle.seekable import MAX_WINDOW_BYTES
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line

# Largest number of files; a month of mmtests results has 20,000.
MOST_FILES = 100_000
DEEPEST = 24
# A benchmark prints kilobytes; a log with one line per transaction has some MB.
LARGEST_FILE_BYTES = 64 << 20
# Limit on the decompressed size of all files of one directory, which are kept in memory.
LARGEST_TREE_BYTES = 1 << 30
# Compressed data that are unpacked at once; they become 32 MiB at most.
_ZST_BYTES = 1 << 10

_OPEN: Mapping[str, Callable[[IO[bytes]], IO[bytes]]] = {
    ".gz": lambda file: cast("IO[bytes]", GzipFile(fileobj=file)),
    ".xz": lzma.LZMAFile,
    ".bz2": bz2.BZ2File,
    ".zst": lambda file: io.BytesIO(_unpack_zst(file)),
}
_DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError)


class Tree:
    """The regular files below a directory, or a single file.

    ::

        tree.files("iter-0")          # ("iter-0/tests-timestamp", …)
        tree.read("iter-0/lscpu.txt") # also finds lscpu.txt.gz, .xz …

    :ivar skipped: files that are left out, with the reason, one sentence each
    :raises InputError: the path does not exist, cannot be read, or has no files or too many
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        # Names of files are relative to this directory.
        self._folder = root
        self._name = root.resolve().name
        self.skipped: list[str] = []
        self._total = 0
        self._read: dict[str, bytes] = {}
        self._sizes = dict(sorted(self._walk()))
        if not self._sizes:
            raise InputError(f"{root}: no files (expected results); check the path")

    @property
    def name(self) -> str:
        """The name of the directory or file; "imported" if it is not printable."""
        return self._name if self._name.isprintable() and self._name else "imported"

    @cached_property
    def _by_plain(self) -> Mapping[str, str]:
        # The uncompressed file has precedence.
        plain = {strip_compression(name): name for name in self._sizes}
        return {**plain, **{name: name for name in self._sizes}}

    def files(self, folder: str = "") -> tuple[str, ...]:
        """Return the sorted names of the files below a directory, relative to the root."""
        prefix = f"{folder}/" if folder else ""
        return tuple(name for name in self._sizes if name.startswith(prefix))

    def size(self, name: str) -> int:
        """Return the size of a file as it is stored, in bytes; 0 if the file does not exist."""
        return self._sizes.get(self._by_plain.get(name, name), 0)

    def folders(self, folder: str = "") -> tuple[str, ...]:
        """Return the subdirectories of a directory with files in or below them.

        The names are relative to the root and sorted like :meth:`files`.

        :param folder: relative to the root; "" for the root
        """
        prefix = f"{folder}/" if folder else ""
        below = (name.removeprefix(prefix).split("/") for name in self.files(folder))
        return tuple(dict.fromkeys(f"{prefix}{parts[0]}" for parts in below if len(parts) > 1))

    def find(self, name: str) -> str | None:
        """Return the file with this name, with or without a compression suffix; None if missing."""
        return self._by_plain.get(name)

    def read(self, name: str) -> bytes | None:
        """Return the decompressed content of a file; None if the file does not exist.

        :param name: as in :meth:`files`, with or without the compression suffix
        :raises InputError: the file is damaged, unreadable or too large, or the files read so far
            are too large together
        """
        file = self._by_plain.get(name)
        if file is None:
            return None
        if file not in self._read:
            self._read[file] = self._decompress(file)
        return self._read[file]

    def read_text(self, name: str) -> str:
        """Return a file as text; "" if the file does not exist.

        Bytes that are not UTF-8 become U+FFFD.

        :raises InputError: as :meth:`read`
        """
        return (self.read(name) or b"").decode(errors="replace")

    def read_or_skip(self, name: str) -> bytes | None:
        """Return the content of a file; None if :meth:`read` returns None or fails.

        The error of :meth:`read` is added to ``skipped``.
        """
        try:
            return self.read(name)
        except InputError as error:
            self.skipped.append(str(error))
            return None

    def path(self, name: str) -> Path:
        """Return the path of a file, for programs that read it.

        :param name: as in :meth:`files`
        """
        return self._folder / name

    def original(self, name: str) -> bytes:
        """Return a file as it is stored, compressed or not.

        :param name: as in :meth:`files`
        :raises InputError: the file cannot be read, or is too large
        """
        return read_regular(self._folder / name, LARGEST_FILE_BYTES, "a file")

    def _decompress(self, file: str) -> bytes:
        where = self._folder / file
        stored = read_regular(where, LARGEST_FILE_BYTES, "a file", "remove it from the directory")
        opener = _OPEN.get(where.suffix)
        try:
            content = stored
            if opener is not None:
                with opener(io.BytesIO(stored)) as unpacked:
                    content = unpacked.read(LARGEST_FILE_BYTES + 1)
        except _DAMAGED as error:
            raise InputError(
                f"{where}: damaged {where.suffix} file ({clean_line(str(error))}); copy it again"
            ) from None
        if len(content) > LARGEST_FILE_BYTES:
            raise InputError(
                f"{where}: larger than {LARGEST_FILE_BYTES >> 20} MiB decompressed; remove it from "
                "the directory"
            )
        self._total += len(content)
        if self._total > LARGEST_TREE_BYTES:
            raise InputError(
                f"{self.root}: more than {LARGEST_TREE_BYTES >> 20} MiB of results (expected one "
                "recording); import parts of it separately"
            )
        return content

    def _walk(self) -> Iterator[tuple[str, int]]:
        try:
            status = self.root.stat()
        except OSError as error:
            problem = (error.strerror or str(error)).lower()
            raise InputError(f"{self.root}: {problem}; check the path") from None
        if not stat.S_ISDIR(status.st_mode):
            yield self.root.name, status.st_size
            self._folder = self.root.parent
            return
        count = 0
        for folder, names in self._directories():
            for name in names:
                count += 1
                if count > MOST_FILES:
                    raise InputError(
                        f"{self.root}: more than {MOST_FILES} files (expected one recording); pass "
                        "the directory of one recording"
                    )
                found = self._regular(folder, name)
                if found is not None:
                    yield found

    def _directories(self) -> Iterator[tuple[Path, Sequence[str]]]:
        for folder, below, names in os.walk(self.root):
            path = Path(folder)
            if len(path.relative_to(self.root).parts) >= DEEPEST:
                self.skipped.append(f"{path}: directories below this one are not read")
                below.clear()
            below.sort()
            yield path, sorted(names)

    def _is_inside(self, path: Path) -> bool:
        """Return whether a path is a symbolic link whose target is below the root."""
        return path.is_symlink() and path.resolve().is_relative_to(self.root.resolve())

    def _regular(self, folder: Path, name: str) -> tuple[str, int] | None:
        path = folder / name
        try:
            status = path.stat() if self._is_inside(path) else path.lstat()
            relative = str(path.relative_to(self.root))
            relative.encode()
        except (OSError, UnicodeError):
            self.skipped.append(f"{clean_line(repr(name))}: cannot be read")
            return None
        # A link to a file elsewhere could put any file of this machine into the bundle.
        if not stat.S_ISREG(status.st_mode) or not relative.isprintable():
            self.skipped.append(
                f"{clean_line(relative)}: not read, because it is not a regular file with a "
                "printable name"
            )
            return None
        return relative, status.st_size


def _unpack_zst(file: IO[bytes]) -> bytes:
    """Return the content of all frames, or its beginning if it is larger than the limit.

    The reader of zstandard takes a truncated frame for a complete one.

    :raises EOFError: the last frame is truncated
    :raises zstandard.ZstdError: the data are damaged
    """
    unpacker = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
    content = bytearray()
    frame = None
    while (data := file.read(_ZST_BYTES)) and len(content) <= LARGEST_FILE_BYTES:
        while data:
            frame = frame or unpacker.decompressobj()
            content += frame.decompress(data)
            data = frame.unused_data
            frame = None if frame.eof else frame
    if frame is not None and len(content) <= LARGEST_FILE_BYTES:
        raise EOFError("the data end within a frame")
    return bytes(content)


def strip_compression(name: str) -> str:
    """Return a file's name without its compression suffix: "log" for "log.gz"."""
    stem, dot, suffix = name.rpartition(".")
    return stem if f"{dot}{suffix}" in _OPEN else name


def natural_order(name: str) -> tuple[tuple[int, str], ...]:
    """Return a key that sorts names by the numbers in them: run2 precedes run10."""
    parts = re.findall(r"[0-9]{1,18}|[^0-9]+", name)
    return tuple((int(part) if part[0] in "0123456789" else 0, part) for part in parts)
