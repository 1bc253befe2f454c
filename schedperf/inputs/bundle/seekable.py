# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the bytes of a tar by offset, compressed or not.

A compressed file is decompressed on demand into an unlinked temporary file, so that a decompression
bomb is noticed at its first oversized header.
"""

import gzip
import lzma
import os
import shlex
import stat
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from schedperf.model.errors import BundleError

# Chunk size for reading, decompressing and hashing, in bytes.
CHUNK = 1 << 20
# Decompressors may not need more memory than this: xz -9 takes 65 MiB, zstd --long 128 MiB.
MAX_WINDOW_BYTES = 192 << 20
# Limit on the decompressed size: this many bytes, or a multiple of the file's size. Recordings
# compress by a factor of 10 to 50, zeros by 1000 or more.
SMALL_BYTES = 256 << 20
MOST_EXPANSION = 200

_Chunks = Callable[[BinaryIO], Iterator[bytes]]


class Source:
    """The bytes of an uncompressed tar. It needs no closing."""

    unit = "byte"
    is_plain = True

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.size = self.packed_bytes = os.fstat(descriptor).st_size
        # Why the bytes end early; None at the end of the file.
        self.damage: str | None = None
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

    def reaches(self, end: int) -> bool:
        """Return whether the tar has at least this many bytes."""
        return end <= self.size

    def read(self, offset: int, size: int) -> bytes:
        """Return exactly ``size`` bytes from ``offset``.

        :raises BundleError: the file ends before ``offset + size``
        """
        parts = []
        while size:
            part = os.pread(self._descriptor, min(size, CHUNK), offset)
            if not part:
                raise BundleError(f"{self.path}: truncated while it was read; copy it again")
            parts.append(part)
            offset += len(part)
            size -= len(part)
        return b"".join(parts)


class _Spool(Source):
    """The bytes of a compressed tar; ``reaches`` decompresses as far as asked.

    ``reaches`` raises a BundleError if the tar is too large, or the temporary directory is full.
    """

    unit = "unpacked byte"
    is_plain = False

    def __init__(self, path: Path, kind: str, packed_bytes: int, chunks: Iterator[bytes]) -> None:
        with tempfile.TemporaryFile() as file:
            super().__init__(path, os.dup(file.fileno()))
        self.packed_bytes = packed_bytes
        self._kind = kind
        self._chunks = chunks
        self._most_bytes = max(SMALL_BYTES, MOST_EXPANSION * packed_bytes)

    def reaches(self, end: int) -> bool:
        while self.size < end and (chunk := self._next_chunk()):
            self._append(chunk)
            if self.size > self._most_bytes:
                raise BundleError(
                    f"{self.path}: unpacks to more than {self._most_bytes >> 20} MiB (expected at "
                    f"most {MOST_EXPANSION} times its size); record the bundle again"
                )
        return end <= self.size

    def _next_chunk(self) -> bytes:
        """Decompress the next chunk; return b"" at the end or at damage."""
        # Imported here because plain bundles do not need it.
        from zstandard import ZstdError  # noqa: PLC0415

        try:
            return next(self._chunks, b"")
        except EOFError:
            return b""
        except (gzip.BadGzipFile, zlib.error, lzma.LZMAError, ZstdError) as error:
            self.damage = f"{self._kind} data cannot be decompressed ({error})"
            return b""

    def _append(self, chunk: bytes) -> None:
        left = memoryview(chunk)
        try:
            # A nearly full disk accepts a partial write and fails afterwards.
            while left:
                written = os.pwrite(self._descriptor, left, self.size)
                self.size += written
                left = left[written:]
        except OSError as error:
            raise BundleError(
                f"{self.path}: cannot be decompressed into {tempfile.gettempdir()}: "
                f"{str(error.strerror).lower()}; set TMPDIR to a larger file system"
            ) from error


def _gz_chunks(file: BinaryIO) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=file) as stream:
        # Not read(): on a truncated file it discards what it already has.
        yield from iter(lambda: stream.read1(CHUNK), b"")


def _xz_chunks(file: BinaryIO) -> Iterator[bytes]:
    # LZMAFile has no memory limit.
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_WINDOW_BYTES)
    while not decompressor.eof:
        fresh = file.read(CHUNK) if decompressor.needs_input else b""
        if decompressor.needs_input and not fresh:
            raise EOFError
        # An empty chunk would look like the end of the file.
        if chunk := decompressor.decompress(fresh, max_length=CHUNK):
            yield chunk


def _zst_chunks(file: BinaryIO) -> Iterator[bytes]:
    from zstandard import ZstdDecompressor  # noqa: PLC0415 # see _next_chunk

    unpack = ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
    with unpack.stream_reader(file, read_across_frames=True) as stream:
        yield from iter(lambda: stream.read(CHUNK), b"")


def _unpacked(descriptor: int, chunks: _Chunks) -> Iterator[bytes]:
    with os.fdopen(descriptor, "rb") as file:
        yield from chunks(file)


_COMPRESSORS: Mapping[bytes, tuple[str, _Chunks]] = {
    b"\x1f\x8b": ("gz", _gz_chunks),
    b"\xfd7zXZ\x00": ("xz", _xz_chunks),
    b"\x28\xb5\x2f\xfd": ("zst", _zst_chunks),
}


def unpacked_chunks(file: BinaryIO) -> Iterator[bytes] | None:
    """Return the decompressed content of a gz, xz or zst file; None for other files.

    The iterator yields at most 1 MiB at a time. It raises EOFError or an error of the decompressor
    if the data are damaged. The caller limits their size.

    :param file: a seekable file
    """
    magic = file.read(8)
    file.seek(0)
    for first_bytes, (_, chunks) in _COMPRESSORS.items():
        if magic.startswith(first_bytes):
            return chunks(file)
    return None


def open_source(path: Path) -> Source:
    """Open a plain, gz, xz or zst file, recognised by its first bytes.

    :raises BundleError: the file is not a readable regular file
    """
    descriptor = _open_regular(path)
    magic = os.pread(descriptor, 8, 0)
    for first_bytes, (kind, chunks) in _COMPRESSORS.items():
        if magic.startswith(first_bytes):
            packed_bytes = os.fstat(descriptor).st_size
            return _Spool(path, kind, packed_bytes, _unpacked(descriptor, chunks))
    return Source(path, descriptor)


def _open_regular(path: Path) -> int:
    """Open a file without blocking on a fifo, and return its descriptor.

    :raises BundleError: the file is missing, unreadable or not regular
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        partial = Path(f"{path}.partial")
        if partial.exists():
            raise BundleError(
                f"{path}: no such file, but {partial} of an interrupted or running recording "
                f"exists; see `schedperf show {shlex.quote(str(partial))}`"
            ) from None
        raise BundleError(f"{path}: no such file") from None
    except OSError as error:
        raise BundleError(f"{path}: cannot be read: {str(error.strerror).lower()}") from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kind = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
        raise BundleError(f"{path}: {kind} (expected a bundle, e.g. base.tar)")
    return descriptor
