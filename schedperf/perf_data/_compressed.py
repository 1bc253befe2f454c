"""Compressed records: one zstd stream, cut into records, with records in it."""

import mmap
import struct
import tempfile
from collections.abc import Iterator
from typing import IO, cast

from schedperf.perf_data._bytes import Bytes
from schedperf.perf_data._walk import RECORD_COMPRESSED, RECORD_COMPRESSED2, Stream
from schedperf_collectors.perf_header import RECORD_HEADER_BYTES

# How much may come out. perf prints ratios of 5 to 40; a few kB that claim gigabytes are no
# recording.
_MOST_RATIO = 256
_ALWAYS_ALLOWED = 64 << 20
# What libzstd itself accepts without being told.
_WINDOW_LIMIT = 1 << 27
_PIECE_BYTES = 1 << 20


class _TooMuch(Exception):
    pass


class _Limited:
    # A file that takes so many bytes and no more.

    def __init__(self, file: IO[bytes], limit: int) -> None:
        self.file = file
        self.left = limit

    def write(self, piece: bytes) -> int:
        self.left -= len(piece)
        if self.left < 0:
            raise _TooMuch
        return self.file.write(piece)


def decompress(stream: Stream, offsets: list[int]) -> tuple[Bytes, list[str]]:
    """Decompress the compressed records among those at some offsets of a stream.

    What is damaged ends the stream; what came before it stays.

    :return: the records in them, in a file without a name, and a note on what is missing
    """
    import zstandard  # noqa: PLC0415 # few recordings are compressed

    notes: list[str] = []
    with tempfile.TemporaryFile() as file:
        limited = _Limited(file, _ALWAYS_ALLOWED + _MOST_RATIO * (stream.end - stream.start))
        context = zstandard.ZstdDecompressor(max_window_size=_WINDOW_LIMIT)
        # It only ever calls write().
        writer = context.stream_writer(cast(IO[bytes], limited), write_size=_PIECE_BYTES)
        at = stream.start
        try:
            for offset, start, end in _payloads(stream, offsets):
                at = offset
                writer.write(memoryview(stream.data)[start:end])
        except zstandard.ZstdError:
            notes.append(f"the compressed record at offset {at:#x} is damaged")
        except _TooMuch:
            notes.append(
                f"the compressed record at offset {at:#x} goes on for more than "
                f"{_MOST_RATIO} times its size"
            )
        file.flush()
        if not file.tell():
            return b"", notes
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), notes


def _payloads(stream: Stream, offsets: list[int]) -> Iterator[tuple[int, int, int]]:
    # The record, and where its compressed bytes start and end.
    for offset in offsets:
        kind, _, size = struct.unpack_from(f"{stream.order}IHH", stream.data, offset)
        start = offset + RECORD_HEADER_BYTES
        if kind == RECORD_COMPRESSED:
            yield offset, start, offset + size
        elif kind == RECORD_COMPRESSED2 and stream.zstd:
            (data_size,) = struct.unpack_from(f"{stream.order}Q", stream.data, start)
            yield offset, start + 8, start + 8 + data_size
