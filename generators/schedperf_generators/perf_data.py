# SPDX-License-Identifier: GPL-2.0-or-later
"""Write perf.data files with known contents.

The forms are those that perf writes: a file, a pipe, a directory, with compressed records of either
type, in either byte order, with attributes of any size::

    data = PerfData(
        events=(Event(name="cpu-clock", type=1),),
        records=(Comm(pid=7, comm="hackbench"), Sample(ip=0xFFFFFFFF81000010, pid=7, cpu=1)),
    )
    write_perf_data(data)
"""

import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Literal

import zstandard

from schedperf_generators._binary import pack, padded, record_bytes
from schedperf_generators.events import Event
from schedperf_generators.features import Feature, Machine
from schedperf_generators.records import Record
from schedperf_generators.samples import Sample

# struct perf_file_header: magic, sizes, three sections, 256 bits of features.
_HEADER_BYTES = 104
_PIPE_HEADER_BYTES = 16
_SECTION_BYTES = 16
# PERF_RECORD_* that perf itself writes.
_HEADER_ATTR, _EVENT_UPDATE, _HEADER_FEATURE, _COMPRESSED2 = 64, 78, 80, 83
_UPDATE_NAME = 2
_COMPRESSION_LEVEL = 1
# PERF_DIR_VERSION.
_DIR_VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class PerfData:
    """The contents of a perf.data.

    :param records: in file order
    :param machine: machine of the feature sections
    :param features: additional sections by number, or other bytes for a section of the machine;
        None omits the section
    :param order: byte order, "<" or ">"
    :param compressed: type of the compressed records: 81 PERF_RECORD_COMPRESSED, 83
        PERF_RECORD_COMPRESSED2; None: not compressed
    :param chunk_bytes: size of each chunk before its compression; a chunk may split a record
    """

    events: tuple[Event, ...] = (Event(),)
    records: Iterable[Record] = ()
    machine: Machine = field(default_factory=Machine)
    features: Mapping[int, bytes | None] = field(default_factory=dict)
    order: Literal["<", ">"] = "<"
    compressed: Literal[81, 83] | None = None
    chunk_bytes: int = 32768

    def sections(self) -> dict[int, bytes]:
        """Return the feature sections by number, in order."""
        sections: dict[int, bytes | None] = dict(self.machine.sections(self.order, self.events))
        if self.compressed is not None:
            sections[Feature.COMPRESSED] = pack(
                self.order, "5I", 1, 1, _COMPRESSION_LEVEL, 4, self.chunk_bytes
            )
        sections |= self.features
        return {number: raw for number, raw in sorted(sections.items()) if raw is not None}

    def record_pieces(self) -> Iterator[bytes]:
        """Yield the bytes of the records as in the file."""
        pieces = (record.pack(self.order, self.events) for record in self.records)
        if self.compressed is None:
            return pieces
        return _compress(pieces, self.order, self.compressed, self.chunk_bytes)


def write_perf_data(data: PerfData) -> bytes:
    """Return the file as ``perf record -o FILE`` writes it."""
    file = io.BytesIO()
    write_perf_data_to(data, file)
    return file.getvalue()


def write_perf_data_to(data: PerfData, file: BinaryIO) -> None:
    """Write the recording to a seekable file, record by record."""
    order, events = data.order, data.events
    ids_bytes = sum(8 * len(event.ids) for event in events)
    attrs_bytes = sum(event.attr_bytes + _SECTION_BYTES for event in events)
    file.write(bytes(_HEADER_BYTES))
    attrs, ids_at = b"", _HEADER_BYTES
    for event in events:
        file.write(pack(order, f"{len(event.ids)}Q", *event.ids))
        attrs += event.attr(order) + pack(order, "2Q", ids_at, 8 * len(event.ids))
        ids_at += 8 * len(event.ids)
    file.write(attrs)
    start = _HEADER_BYTES + ids_bytes + attrs_bytes
    size = sum(file.write(piece) for piece in data.record_pieces())
    sections = data.sections()
    file.write(_section_table(order, start + size, sections))
    file.writelines(sections.values())
    entry_bytes = events[0].attr_bytes + _SECTION_BYTES
    places = (_HEADER_BYTES + ids_bytes, attrs_bytes, start, size, 0, 0)
    file.seek(0)
    file.write(_magic(order) + pack(order, "8Q", _HEADER_BYTES, entry_bytes, *places))
    file.write(_feature_bits(order, sections))


def write_perf_data_pipe(data: PerfData) -> bytes:
    """Return what ``perf record -o -`` writes: attributes and features are records."""
    order = data.order
    raw = _magic(order) + pack(order, "Q", _PIPE_HEADER_BYTES)
    for event in data.events:
        ids = pack(order, f"{len(event.ids)}Q", *event.ids)
        raw += record_bytes(order, _HEADER_ATTR, 0, event.attr(order) + ids)
    sections = data.sections()
    # Names of events follow; build ids are already records.
    build_ids = sections.pop(Feature.BUILD_ID, b"")
    sections.pop(Feature.EVENT_DESC, None)
    for number, section in sections.items():
        raw += record_bytes(order, _HEADER_FEATURE, 0, pack(order, "Q", number) + section)
    for event in data.events:
        body = pack(order, "2Q", _UPDATE_NAME, event.ids[0] if event.ids else 0)
        raw += record_bytes(order, _EVENT_UPDATE, 0, body + event.name.encode() + b"\0")
    return raw + build_ids + b"".join(data.record_pieces())


def write_perf_data_folder(data: PerfData, folder: Path, *, files: int = 2) -> None:
    """Write a directory like ``perf record --threads``: samples in data.N, other records in data.

    :param folder: the directory; must not exist
    :param files: number of data.N files; samples are distributed round-robin
    """
    samples = [record for record in data.records if isinstance(record, Sample)]
    others = [record for record in data.records if not isinstance(record, Sample)]
    features = dict(data.features)
    features[Feature.DIR_FORMAT] = pack(data.order, "Q", _DIR_VERSION)
    head = replace(data, records=others, features=features)
    folder.mkdir()
    (folder / "data").write_bytes(write_perf_data(head))
    for number in range(files):
        share = replace(data, records=samples[number::files])
        (folder / f"data.{number}").write_bytes(b"".join(share.record_pieces()))


def _magic(order: str) -> bytes:
    return b"PERFILE2" if order == "<" else b"2ELIFREP"


def _section_table(order: str, start: int, sections: Mapping[int, bytes]) -> bytes:
    table, offset = b"", start + _SECTION_BYTES * len(sections)
    for section in sections.values():
        table += pack(order, "2Q", offset, len(section))
        offset += len(section)
    return table


def _feature_bits(order: str, sections: Mapping[int, bytes]) -> bytes:
    bits = sum(1 << number for number in sections)
    return pack(order, "4Q", *(bits >> 64 * word & (1 << 64) - 1 for word in range(4)))


def _compress(pieces: Iterable[bytes], order: str, kind: int, chunk: int) -> Iterator[bytes]:
    # One stream of all records, cut at the ends of chunks, not of records.
    compressor = zstandard.ZstdCompressor(level=_COMPRESSION_LEVEL).compressobj()

    def packed(raw: bytes) -> bytes:
        return compressor.compress(raw) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)

    pending = b""
    for piece in pieces:
        pending += piece
        while len(pending) >= chunk:
            yield _compressed_record(packed(pending[:chunk]), order, kind)
            pending = pending[chunk:]
    if pending:
        yield _compressed_record(packed(pending), order, kind)


def _compressed_record(packed: bytes, order: str, kind: int) -> bytes:
    if kind == _COMPRESSED2:
        body = pack(order, "Q", len(packed)) + padded(packed, 8)
        # The size in the header has 16 bits and overflows.
        return pack(order, "IHH", kind, 0, (8 + len(body)) % (1 << 16)) + body
    return pack(order, "IHH", kind, 0, 8 + len(packed)) + packed
