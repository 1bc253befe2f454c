# SPDX-License-Identifier: GPL-2.0-or-later
"""Detect the type of each input file, and define the runs read from it."""

import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import zstandard
from msgspec import Struct
from msgspec.structs import replace

from schedperf.inputs.bundle.files import read_head
from schedperf.inputs.bundle.open import Bundle, open_bundle
from schedperf.model.errors import InputError
from schedperf.model.run import Captured, RunKey, SideOf

if TYPE_CHECKING:
    # The records of c2c take longer to import than the rest of this module.
    from schedperf.evidence.c2c.record import SourceKind

# Magic numbers of a file and of a pipe, in either byte order; the last one is from perf before
# Linux 2.6.39.
MAGICS = (b"PERFILE2", b"2ELIFREP", b"PERFFILE")

# Offset of the magic in a tar header (ustar, POSIX and GNU), and the bytes needed to see it.
_USTAR = slice(257, 262)
_HEAD_BYTES = 512
# Compressed data whose first bytes are these, for all supported compressions.
_PACKED_BYTES = 1 << 17
# Files written by perf record --threads; "data" describes all of them.
_PART = re.compile(r"data\.[0-9]+")

Content = TypeVar("Content")


class Source(Struct, Generic[Content], frozen=True, kw_only=True):
    """One source, and the part of it that is shown.

    :param point: workload and point of a bundle's runs; "" if the source is not a bundle
    """

    path: Path
    kind: "SourceKind"
    point: str
    side: SideOf[Content]


def source_of_file(
    path: Path, kind: "SourceKind", content: Content, notes: Iterable[str]
) -> Source[Content]:
    """Return the source for a file that contains a single run."""
    key = RunKey(side="", workload="", point="", boot=0, run=0)
    run = Captured(key=key, content=content)
    side = SideOf(name="", label=path.name, kind="clean", runs=(run,), notes=tuple(notes))
    return Source(path=path, kind=kind, point="", side=side)


def tell_apart(sources: Sequence[Source[Content]]) -> list[Source[Content]]:
    """Return the sources with unique labels.

    If two labels are equal, all sources are labelled by their paths.
    """
    if len({source.side.label for source in sources}) == len(sources):
        return [*sources]
    return [
        replace(source, side=replace(source.side, label=str(source.path))) for source in sources
    ]


def is_perf_data(path: Path) -> bool:
    """Return whether a path is a file written by perf record, or any directory.

    ``perf record --threads`` writes a directory.
    """
    if path.is_dir():
        return True
    return read_head(path, len(MAGICS[0])) in MAGICS


def open_source(path: Path) -> Bundle:
    """Open a source other than perf.data.

    :raises InputError: the file cannot be read, is not a bundle, or is damaged
    """
    head = read_head(path, _PACKED_BYTES)
    if head:
        _check_kind(path, head)
    return open_bundle(path)


def _check_kind(path: Path, head: bytes) -> None:
    if _PART.fullmatch(path.name) and is_perf_data(path.with_name("data")):
        raise InputError(
            f"{path}: part of a recording of perf record --threads; pass the directory "
            f"{path.parent}"
        )
    unpacked = _unpack(head)
    if unpacked is None:
        if head[_USTAR] != b"ustar":
            raise InputError(
                f"{path}: unknown file type (expected a bundle or perf.data); give a file written "
                "by schedperf record or perf record"
            )
        return
    compression, inner = unpacked
    # A compressed file that cannot be unpacked is a damaged bundle; opening it reports where.
    if inner and (inner[_USTAR] != b"ustar" or compression == "zlib"):
        raise InputError(
            f"{path}: unknown content, compressed with {compression} (expected a bundle or "
            "perf.data); decompress it first"
        )


def _unpack(head: bytes) -> tuple[str, bytes] | None:
    """Return how a file is compressed, and its first bytes unpacked; None if it is not compressed.

    The bytes are empty if the file is damaged.
    """
    for magic, (compression, unpack) in _COMPRESSIONS.items():
        if head.startswith(magic):
            try:
                return compression, unpack(head)
            except (zlib.error, lzma.LZMAError, zstandard.ZstdError):
                return compression, b""
    return None


def _unpack_zlib(head: bytes) -> bytes:
    # Accepts gzip and zlib: 32 makes zlib detect which.
    return zlib.decompressobj(32 + zlib.MAX_WBITS).decompress(head, _HEAD_BYTES)


def _unpack_xz(head: bytes) -> bytes:
    return lzma.LZMADecompressor().decompress(head, _HEAD_BYTES)


def _unpack_zstd(head: bytes) -> bytes:
    return zstandard.ZstdDecompressor().stream_reader(io.BytesIO(head)).read(_HEAD_BYTES)


_COMPRESSIONS: Mapping[bytes, tuple[str, Callable[[bytes], bytes]]] = {
    b"\x1f\x8b": ("gzip", _unpack_zlib),
    b"\xfd7zXZ\0": ("xz", _unpack_xz),
    b"\x28\xb5\x2f\xfd": ("zstd", _unpack_zstd),
    # Compression levels that the zlib header can name.
    **dict.fromkeys((b"x\x01", b"x\x5e", b"x\x9c", b"x\xda"), ("zlib", _unpack_zlib)),
}
