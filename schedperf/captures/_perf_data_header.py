"""The header of perf.data: where the records are, and the attributes of the events.

Layouts are those of the kernel tree's ``tools/perf/util/header.h`` and
``include/uapi/linux/perf_event.h``. Attributes grow with every few versions;
what is known is read and the rest skipped, so files of a newer perf can be read.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from schedperf.captures._perf_data_features import (
    COMPRESSED,
    DIR_FORMAT,
    NO_FEATURES,
    Cursor,
    Features,
    read_features,
)
from schedperf.errors import InputError

MAGIC = b"PERFILE2"
# A big-endian machine writes the same number the other way round.
BIG_ENDIAN_MAGIC = MAGIC[::-1]
FIRST_VERSION_MAGIC = b"PERFFILE"
FILE_HEADER_BYTES = 104
# A pipe's header is the magic and its own size.
PIPE_HEADER_BYTES = 16

# PERF_ATTR_SIZE_VER0: what every version of struct perf_event_attr has.
ATTR_BYTES = 64
# Where the ids are, behind each attribute: offset and size.
IDS_SECTION_BYTES = 16
# Far above what perf writes (an id for each event and CPU), far below what fills the memory.
MAX_EVENTS = 4096
MAX_IDS = 1 << 20

PERF_TYPE_HARDWARE = 0
PERF_TYPE_SOFTWARE = 1
# enum perf_hw_id and enum perf_sw_ids, as `perf list` spells them.
_EVENT_NAMES = {
    PERF_TYPE_HARDWARE: (
        "cycles",
        "instructions",
        "cache-references",
        "cache-misses",
        "branches",
        "branch-misses",
        "bus-cycles",
        "stalled-cycles-frontend",
        "stalled-cycles-backend",
        "ref-cycles",
    ),
    PERF_TYPE_SOFTWARE: (
        "cpu-clock",
        "task-clock",
        "page-faults",
        "context-switches",
        "cpu-migrations",
        "minor-faults",
        "major-faults",
        "alignment-faults",
        "emulation-faults",
        "dummy",
        "bpf-output",
        "cgroup-switches",
    ),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One event's attribute.

    :param name: as perf wrote it (``cpu-clock:ppp``), else after its type and config
    :param type: PERF_TYPE_*; with ``config`` it says what was counted
    :param sample_period: events from one sample to the next (with -F: samples a second)
    :param ids: the ids by which samples name this event
    """

    name: str
    type: int
    config: int
    sample_period: int
    sample_type: int
    read_format: int
    ids: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """Everything but the records.

    :param order: "<" or ">", the byte order of the machine that recorded
    :param start: offset of the first record
    :param end: offset behind the last record
    :param cut: the file ends before perf's own end, so the last record may be partial
    :param notes: one sentence for each thing that could not be read
    """

    order: str
    events: tuple[Event, ...]
    features: Features
    start: int
    end: int
    cut: bool
    notes: tuple[str, ...]


def read_header(data: bytes, label: str) -> Header:
    """Read everything but the records.

    :raises InputError: not a perf.data file, or of a kind that is not read
    """
    order = _byte_order(data, label)
    cursor = Cursor(data, order, 16, FILE_HEADER_BYTES, label)
    entry_bytes, attrs_start, attrs_bytes, start, size = (cursor.u64() for _ in range(5))
    cursor.skip(16)  # Event types, unused since Linux 3.1.
    words = [cursor.u64() for _ in range(4)]
    if start > len(data):
        raise InputError(f"{label}: records start behind the end of the file; record it again")
    # perf writes the size last: a perf that was killed leaves 0, and no features.
    cut = size == 0 or start + size > len(data)
    features = NO_FEATURES
    notes: tuple[str, ...] = ("cut off: perf did not end properly, or the copy is partial",)
    if not cut:
        bits = [64 * word + bit for word in range(4) for bit in range(64) if words[word] >> bit & 1]
        _refuse_unread_kinds(bits, label)
        features, notes = read_features(data, order, start + size, bits, label)
    entries = Cursor(data, order, attrs_start, attrs_start + attrs_bytes, label)
    return Header(
        order=order,
        events=_read_events(entries, entry_bytes, features.event_names),
        features=features,
        start=start,
        end=len(data) if cut else start + size,
        cut=cut,
        notes=notes,
    )


def _byte_order(data: bytes, label: str) -> str:
    magic = data[:8]
    if magic == FIRST_VERSION_MAGIC:
        raise InputError(f"{label}: perf.data of before Linux 2.6.39; record it with a newer perf")
    if magic not in {MAGIC, BIG_ENDIAN_MAGIC}:
        raise InputError(f"{label}: not a perf.data file: it starts with {magic!r}")
    order = "<" if magic == MAGIC else ">"
    if Cursor(data, order, 8, len(data), label).u64() == PIPE_HEADER_BYTES:
        raise InputError(f"{label}: perf.data as written to a pipe; record it with -o FILE")
    if len(data) < FILE_HEADER_BYTES:
        raise InputError(f"{label}: {len(data)} bytes are no perf.data header; record it again")
    return order


def _refuse_unread_kinds(bits: Sequence[int], label: str) -> None:
    if COMPRESSED in bits:
        raise InputError(f"{label}: the records are compressed; record it without -z")
    if DIR_FORMAT in bits:
        raise InputError(f"{label}: one file of a perf.data folder; record it without --threads")


def _read_events(cursor: Cursor, entry_bytes: int, names: Sequence[str]) -> tuple[Event, ...]:
    if entry_bytes < ATTR_BYTES + IDS_SECTION_BYTES:
        raise InputError(
            f"{cursor.label}: attributes of {entry_bytes} bytes, fewer than any perf writes; "
            "record it again"
        )
    count = (cursor.end - cursor.offset) // entry_bytes
    if not 0 < count <= MAX_EVENTS:
        raise InputError(f"{cursor.label}: {max(0, count)} events; record it with perf record")
    events: list[Event] = []
    for index in range(count):
        name = names[index] if len(names) == count else ""
        ids_left = MAX_IDS - sum(len(event.ids) for event in events)
        events.append(_read_event(cursor, entry_bytes, name, ids_left))
    return tuple(events)


def _read_event(cursor: Cursor, entry_bytes: int, name: str, ids_left: int) -> Event:
    kind, _ = cursor.u32(), cursor.u32()
    config, sample_period, sample_type, read_format = (cursor.u64() for _ in range(4))
    cursor.skip(entry_bytes - IDS_SECTION_BYTES - 40)
    start, size = cursor.u64(), cursor.u64()
    if size // 8 > ids_left:
        raise InputError(f"{cursor.label}: more than {MAX_IDS} event ids; record it again")
    ids = Cursor(cursor.data, cursor.order, start, start + size, cursor.label)
    place = ids.skip(size)
    return Event(
        name=name or _event_name(kind, config),
        type=kind,
        config=config,
        sample_period=sample_period,
        sample_type=sample_type,
        read_format=read_format,
        ids=struct.unpack_from(f"{cursor.order}{size // 8}Q", cursor.data, place),
    )


def _event_name(kind: int, config: int) -> str:
    names = _EVENT_NAMES.get(kind, ())
    return names[config] if config < len(names) else f"type {kind} config {config:#x}"
