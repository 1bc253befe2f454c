"""A pipe's perf.data: what the header of a file holds comes as records, in front of the others."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from schedperf.perf_data._bytes import Bytes
from schedperf.perf_data._features import read_build_ids
from schedperf.perf_data._walk import Stream
from schedperf_collectors.perf_header import (
    ATTR_LEAST_BYTES,
    COMPRESSED,
    EVENT_DESC,
    EVENTS_LIMIT,
    IDS_LIMIT,
    PIPE_HEADER_BYTES,
    RECORD_HEADER_BYTES,
    BadPerfData,
    Cursor,
    Event,
    read_attr,
    read_names,
    text_until_nul,
)

# PERF_RECORD_* of tools/lib/perf/include/perf/event.h; those that perf makes itself start at 64.
_FIRST_OF_PERF = 64
_HEADER_ATTR, _HEADER_BUILD_ID, _EVENT_UPDATE, _HEADER_FEATURE = 64, 67, 78, 80
# PERF_EVENT_UPDATE__NAME.
_UPDATE_NAME = 2
# A reader learns nothing from more of them, and a hostile pipe may have millions.
_MOST_NOTES = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class PipeHeader:
    """What the records say that a file has in its header.

    :param sections: feature sections by their number
    :param build_ids: by path
    :param notes: one sentence for each thing that could not be read
    """

    events: tuple[Event, ...]
    sections: Mapping[int, Cursor]
    build_ids: Mapping[str, str]
    notes: tuple[str, ...]


def announces_compression(data: Bytes, order: str) -> bool:
    """Tell whether the records in front say that others are compressed."""
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


def read_pipe_header(stream: Stream, offsets: Sequence[int]) -> PipeHeader:
    """Read events and features.

    :param offsets: of the records that are no samples
    :raises BadPerfData: there is no event
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
                notes.append(f"record {kind} at offset {offset:#x} is damaged: {error}")
    if not events:
        raise BadPerfData(f"{stream.label}: no events; record it again")
    if damaged > _MOST_NOTES:
        notes.append(f"further damaged records of the header: {damaged - _MOST_NOTES}")
    return PipeHeader(
        events=tuple(_named(events, names, sections)),
        sections=sections,
        build_ids=build_ids,
        notes=tuple(notes),
    )


def _read_event(body: Cursor, ids_left: int) -> Event:
    at = body.skip(8)
    (attr_bytes,) = struct.unpack_from(f"{body.order}I", body.data, at + 4)
    # The first kernels with perf left the size out: it is that of the first version.
    attr_bytes = attr_bytes or ATTR_LEAST_BYTES
    if attr_bytes < ATTR_LEAST_BYTES:
        raise BadPerfData(f"attribute of {attr_bytes} bytes")
    body.skip(attr_bytes - 8)
    count = (body.end - body.offset) // 8
    if count > ids_left:
        raise BadPerfData(f"more than {IDS_LIMIT} event ids")
    ids = tuple(body.u64() for _ in range(count))
    return read_attr(body.data[at : at + attr_bytes], body.order, ids=ids)


def _named(
    events: Sequence[Event], names: Mapping[int, str], sections: Mapping[int, Cursor]
) -> list[Event]:
    # Some perfs send the names with the events' ids, some in the section that files have.
    described: list[str] = []
    if EVENT_DESC in sections:
        try:
            described = read_names(sections[EVENT_DESC])
        except BadPerfData:
            described = []
    if len(described) != len(events):
        described = [""] * len(events)
    return [
        replace(event, name=names.get(event.ids[0] if event.ids else 0) or name or event.name)
        for event, name in zip(events, described, strict=True)
    ]
