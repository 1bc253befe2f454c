# SPDX-License-Identifier: GPL-2.0-or-later
"""Open all forms of perf.data: a file, the output of a pipe, a directory, compressed or not.

The result has the same parts for each form: streams of records, and the description of the machine
from perf's header.
"""

import dataclasses
import mmap
import re
import stat
import struct
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, cast

from msgspec import Struct
from msgspec.structs import replace

from schedperf.inputs.perf_data._bytes import Bytes
from schedperf.inputs.perf_data._features import (
    Features,
    read_build_ids,
    read_sections,
    section_cursors,
)
from schedperf.inputs.perf_data._walk import (
    RECORD_COMPRESSED,
    RECORD_COMPRESSED2,
    Stream,
    Walked,
    walk,
)
from schedperf_collectors.perf_header import (
    ATTR_LEAST_BYTES,
    COMPRESSED,
    DIR_FORMAT,
    EVENT_DESC,
    EVENTS_LIMIT,
    IDS_LIMIT,
    PIPE_HEADER_BYTES,
    RECORD_HEADER_BYTES,
    BadPerfData,
    Cursor,
    Event,
    byte_order,
    is_pipe,
    read_attr,
    read_header,
    read_names,
    text_until_nul,
)

# Name of the file with the header: in perf's code, and in its documentation.
_MAIN_FILES = ("data", "header")
_DATA_FILE = re.compile(r"data\.[0-9]{1,6}")
# Limits on the decompressed size. perf reports ratios of 5 to 40; a much higher ratio is a
# decompression bomb. Records of 8 bytes are legal, so a megabyte already is 130,000 of them.
_MOST_RATIO = 100
_ALWAYS_ALLOWED = 1 << 20
# libzstd's own default.
_WINDOW_LIMIT = 1 << 27
_PIECE_BYTES = 1 << 20
# PERF_RECORD_* of tools/lib/perf/include/perf/event.h; records that perf itself writes start at 64.
_FIRST_OF_PERF = 64
_HEADER_ATTR, _HEADER_BUILD_ID, _EVENT_UPDATE, _HEADER_FEATURE = 64, 67, 78, 80
# PERF_EVENT_UPDATE__NAME.
_UPDATE_NAME = 2
# An untrusted pipe may have millions of damaged records.
_MOST_NOTES = 10


class Opened(Struct, frozen=True, kw_only=True):
    """A perf.data of any form, with its records located but not parsed.

    :param order: byte order, "<" or ">"
    :param streams: each stream with its records
    :param notes: one note for each part that is missing or damaged
    """

    order: str
    events: tuple[Event, ...]
    features: Features
    streams: tuple[tuple[Stream, Walked], ...]
    notes: tuple[str, ...]


def open_perf_data(source: Path | bytes, label: str) -> Opened:
    """Locate all records of a perf.data.

    :param source: a file, a directory of ``perf record --threads``, or a file's bytes
    :param label: name of the file in messages
    :raises BadPerfData: no part of it can be read
    :raises OSError: a file cannot be opened
    """
    if isinstance(source, Path) and source.is_dir():
        return _open_folder(source, label)
    data = source if isinstance(source, bytes) else _map(source, label)
    order = byte_order(data, label)
    if is_pipe(data, order, label):
        return _open_pipe(data, order, label)
    return _open_file(data, label, {})


def _open_folder(folder: Path, label: str) -> Opened:
    names = {path.name: path for path in folder.iterdir()}
    main = next((names[name] for name in _MAIN_FILES if name in names), None)
    if main is None:
        raise BadPerfData(
            f"{label}: directory without a file `data` (expected a directory written by "
            "perf record --threads)"
        )
    parts = {
        name: _map_member(names[name], f"{label}: {name}")
        for name in sorted(filter(_DATA_FILE.fullmatch, names), key=lambda name: int(name[5:]))
    }
    opened = _open_file(_map_member(main, f"{label}: {main.name}"), label, parts)
    # perf numbers the data files from 0, and does not record how many there are.
    last = max((int(name[5:]) for name in parts), default=-1)
    if absent := last + 1 - len(parts):
        note = (
            f"{absent} of {last + 1} data files in the directory are missing, so their samples "
            "are not counted"
        )
        return replace(opened, notes=(note, *opened.notes))
    return opened


def _map_member(path: Path, label: str) -> Bytes:
    # The directory is untrusted: a link in it may point to any file.
    if not stat.S_ISREG(path.lstat().st_mode):
        raise BadPerfData(
            f"{label}: not a regular file (expected a file written by perf record --threads)"
        )
    # A thread without samples writes an empty file.
    return _map(path, label) if path.lstat().st_size else b""


def _map(path: Path, label: str) -> Bytes:
    if not stat.S_ISREG(path.stat().st_mode):
        raise BadPerfData(f"{label}: not a regular file (expected a perf.data file)")
    if not path.stat().st_size:
        raise BadPerfData(f"{label}: empty file (expected a perf.data file); record it again")
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _open_file(data: Bytes, label: str, parts: Mapping[str, Bytes]) -> Opened:
    header = read_header(data, label)
    notes = list(header.notes)
    cursors, more = section_cursors(data, header, label)
    features, damaged = read_sections(cursors)
    notes += more + damaged
    if DIR_FORMAT in header.features and not parts:
        notes.append(
            "the file is part of a `perf record --threads` directory; samples of the other files "
            "are missing"
        )
    streams = _Streams(header.order, label, zstd=header.compressed)
    streams.add(data, header.start, header.end, cut=header.cut)
    for part in parts.values():
        streams.add(part, 0, len(part), cut=False)
    return Opened(
        order=header.order,
        events=header.events,
        features=features,
        streams=tuple(streams.found),
        notes=(*notes, *streams.notes),
    )


def _open_pipe(data: Bytes, order: str, label: str) -> Opened:
    streams = _Streams(order, label, zstd=_announces_compression(data, order))
    # A pipe has no end marker.
    streams.add(data, PIPE_HEADER_BYTES, len(data), cut=True)
    stream, walked = streams.found[0]
    header = _read_pipe_header(stream, walked.others)
    features, damaged = read_sections(header.sections)
    return Opened(
        order=order,
        events=header.events,
        features=replace(features, build_ids={**header.build_ids, **features.build_ids}),
        streams=tuple(streams.found),
        notes=(*header.notes, *damaged, *streams.notes),
    )


class _Streams:
    """The streams of a recording: its files, and the decompressed contents of each."""

    def __init__(self, order: str, label: str, *, zstd: bool) -> None:
        self.order = order
        self.label = label
        self.zstd = zstd
        self.found: list[tuple[Stream, Walked]] = []
        self.notes: list[str] = []
        self.base = 0

    def add(self, data: Bytes, start: int, end: int, *, cut: bool) -> None:
        stream, walked = self._walk(data, start, end, cut=cut)
        inner, notes = _decompress(stream, walked.others)
        self.notes += notes
        if inner:
            # perf splits records across compressed records, so damage also cuts off a record.
            self._walk(inner, 0, len(inner), cut=cut or bool(notes))

    def _walk(self, data: Bytes, start: int, end: int, *, cut: bool) -> tuple[Stream, Walked]:
        stream = Stream(
            data=data,
            start=start,
            end=end,
            order=self.order,
            label=self.label,
            base=self.base,
            cut=cut,
            zstd=self.zstd,
        )
        self.base += len(data)
        walked = walk(stream)
        self.found.append((stream, walked))
        self.notes += walked.notes
        return stream, walked


class _TooMuch(Exception):
    pass


class _Limited:
    """A file that accepts a limited number of bytes; more raise ``_TooMuch``."""

    def __init__(self, file: IO[bytes], limit: int) -> None:
        self.file = file
        self.left = limit

    def write(self, piece: bytes) -> int:
        self.left -= len(piece)
        if self.left < 0:
            raise _TooMuch
        return self.file.write(piece)


def _decompress(stream: Stream, offsets: list[int]) -> tuple[Bytes, list[str]]:
    """Decompress the compressed records of a stream, up to the first damage.

    :param offsets: offsets of records, compressed or not
    :return: the decompressed records, in an unlinked file (b"" if there are none), and a list with
        a note if records are missing
    """
    import zstandard  # noqa: PLC0415 # few recordings are compressed

    notes: list[str] = []
    with tempfile.TemporaryFile() as file:
        limited = _Limited(file, _ALWAYS_ALLOWED + _MOST_RATIO * (stream.end - stream.start))
        context = zstandard.ZstdDecompressor(max_window_size=_WINDOW_LIMIT)
        # The writer only calls write().
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
                f"the compressed record at offset {at:#x} expands to more than "
                f"{_MOST_RATIO} times its size"
            )
        file.flush()
        if not file.tell():
            return b"", notes
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), notes


def _payloads(stream: Stream, offsets: list[int]) -> Iterator[tuple[int, int, int]]:
    """Yield the offset of each compressed record, and start and end of its compressed bytes."""
    for offset in offsets:
        kind, _, size = struct.unpack_from(f"{stream.order}IHH", stream.data, offset)
        start = offset + RECORD_HEADER_BYTES
        if kind == RECORD_COMPRESSED:
            yield offset, start, offset + size
        elif kind == RECORD_COMPRESSED2 and stream.zstd:
            (data_size,) = struct.unpack_from(f"{stream.order}Q", stream.data, start)
            yield offset, start + 8, start + 8 + data_size


class _PipeHeader(Struct, frozen=True, kw_only=True):
    """The contents of a file's header, from the records of a pipe.

    :param sections: feature sections by number
    :param build_ids: build ids by path
    :param notes: one note for each damaged record
    """

    events: tuple[Event, ...]
    sections: Mapping[int, Cursor]
    build_ids: Mapping[str, str]
    notes: tuple[str, ...]


def _announces_compression(data: Bytes, order: str) -> bool:
    """Return whether the first records announce compressed records."""
    offset = PIPE_HEADER_BYTES
    while offset + RECORD_HEADER_BYTES + 8 <= len(data):
        kind, _, size = struct.unpack_from(f"{order}IHH", data, offset)
        if kind < _FIRST_OF_PERF or size < RECORD_HEADER_BYTES:
            break
        (feature,) = struct.unpack_from(f"{order}Q", data, offset + RECORD_HEADER_BYTES)
        if kind == _HEADER_FEATURE and feature == COMPRESSED:
            return True
        offset += size
    return False


def _read_pipe_header(stream: Stream, offsets: Sequence[int]) -> _PipeHeader:
    """Parse events and features.

    :param offsets: offsets of the records that are not samples
    :raises BadPerfData: the pipe has no event
    """
    events: list[Event] = []
    names: dict[int, str] = {}
    sections: dict[int, Cursor] = {}
    build_ids: dict[str, str] = {}
    notes: list[str] = []
    damaged = 0
    ids_left = IDS_LIMIT
    for offset in offsets:
        kind, _, size = struct.unpack_from(f"{stream.order}IHH", stream.data, offset)
        start = offset + RECORD_HEADER_BYTES
        body = Cursor(stream.data, stream.order, start, offset + size, stream.label)
        try:
            if kind == _HEADER_ATTR and len(events) < EVENTS_LIMIT:
                events.append(_read_event(body, ids_left))
                ids_left -= len(events[-1].ids)
            elif kind == _EVENT_UPDATE and body.u64() == _UPDATE_NAME:
                number = body.u64()
                names[number] = text_until_nul(body.data[body.offset : body.end])
            elif kind == _HEADER_BUILD_ID:
                body.offset = offset
                build_ids |= read_build_ids(body)
            elif kind == _HEADER_FEATURE:
                sections[body.u64()] = body
        except BadPerfData as error:
            damaged += 1
            if damaged <= _MOST_NOTES:
                notes.append(
                    f"the record of type {kind} at offset {offset:#x} is damaged ({error})"
                )
    if not events:
        raise BadPerfData(f"{stream.label}: no events; record it again")
    if damaged > _MOST_NOTES:
        notes.append(f"{damaged - _MOST_NOTES} further header records are damaged")
    return _PipeHeader(
        events=tuple(_named(events, names, sections)),
        sections=sections,
        build_ids=build_ids,
        notes=tuple(notes),
    )


def _read_event(body: Cursor, ids_left: int) -> Event:
    at = body.skip(8)
    (attr_bytes,) = struct.unpack_from(f"{body.order}I", body.data, at + 4)
    # The first kernels with perf write no size; it is that of the first version of the struct.
    attr_bytes = attr_bytes or ATTR_LEAST_BYTES
    if attr_bytes < ATTR_LEAST_BYTES:
        raise BadPerfData(
            f"perf_event_attr has {attr_bytes} bytes (expected at least {ATTR_LEAST_BYTES})"
        )
    body.skip(attr_bytes - 8)
    count = (body.end - body.offset) // 8
    if count > ids_left:
        raise BadPerfData(f"more than {IDS_LIMIT} event ids")
    ids = tuple(body.u64() for _ in range(count))
    return read_attr(body.data[at : at + attr_bytes], body.order, ids=ids)


def _named(
    events: Sequence[Event], names: Mapping[int, str], sections: Mapping[int, Cursor]
) -> list[Event]:
    # Depending on its version, perf writes the names as EVENT_UPDATE records or as EVENT_DESC.
    described: list[str] = []
    if EVENT_DESC in sections:
        try:
            described = read_names(sections[EVENT_DESC])
        except BadPerfData:
            described = []
    if len(described) != len(events):
        described = [""] * len(events)
    return [
        dataclasses.replace(
            event, name=names.get(event.ids[0] if event.ids else 0) or name or event.name
        )
        for event, name in zip(events, described, strict=True)
    ]
