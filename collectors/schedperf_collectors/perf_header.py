# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the header of a perf.data file: the offsets of its records, and its events.

perf decides on its own what it records: without a hardware PMU a request for ``cycles`` silently
becomes ``cpu-clock``. Only the attribute in the written file shows this. Attributes of 64 bytes
(VER0) or more are read; fields that a newer kernel appended are skipped. Both byte orders are
supported. Layouts: tools/perf/Documentation/perf.data-file-format.txt, tools/perf/util/header.h and
include/uapi/linux/perf_event.h. The analysis reads headers with this module, too.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Union

__all__ = [
    "ATTR_LEAST_BYTES",
    "TYPE_BREAKPOINT",
    "TYPE_HARDWARE",
    "TYPE_SOFTWARE",
    "TYPE_TRACEPOINT",
    "BadPerfData",
    "Event",
    "Header",
    "Summary",
    "read_attr",
    "read_header",
    "summarise",
    "summarise_perf_data",
]

MAGIC = b"PERFILE2"
# The same number as a big-endian machine writes it.
BIG_ENDIAN_MAGIC = MAGIC[::-1]
FIRST_VERSION_MAGIC = b"PERFFILE"
HEADER_BYTES = 104
# A pipe's header is the magic and its own size.
PIPE_HEADER_BYTES = 16
# Offset and size of one part of the file.
SECTION_BYTES = 16
# Far above what perf writes (an id per event and CPU), far below what would exhaust memory.
EVENTS_LIMIT = 4096
IDS_LIMIT = 1 << 20
# Bits of the feature sections: the events' names, one file of a directory, compressed records.
EVENT_DESC = 12
DIR_FORMAT = 24
COMPRESSED = 27

RECORD_HEADER_BYTES = 8
RECORD_LOST = 2
RECORD_SAMPLE = 9
RECORD_LOST_SAMPLES = 13
RECORD_TRACING_DATA = 66
RECORD_AUXTRACE = 71
# PERF_SAMPLE_CPU: samples contain their CPU, as in recordings of whole CPUs.
SAMPLE_CPU = 1 << 7
# PERF_FORMAT_LOST: the READ field has the number of lost samples.
FORMAT_LOST = 1 << 4
# PERF_RECORD_MISC_LOST_SAMPLES_BPF: a BPF filter dropped them on purpose.
MISC_LOST_SAMPLES_BPF = 1 << 15

Buffer = Union[bytes, mmap.mmap]
# PERF_ATTR_SIZE_VER0: what every version of struct perf_event_attr has.
ATTR_LEAST_BYTES = 64

# Members of struct perf_event_attr from config1 on; most were added by later kernels.
_CONFIG1_OFFSET, _CONFIG2_OFFSET, _CONFIG3_OFFSET = 56, 64, 128
_BRANCH_SAMPLE_TYPE_OFFSET = 72
_SAMPLE_REGS_USER_OFFSET = 80
_CLOCKID_OFFSET = 92
_SAMPLE_REGS_INTR_OFFSET = 96

TYPE_HARDWARE = 0
TYPE_SOFTWARE = 1
TYPE_TRACEPOINT = 2
TYPE_BREAKPOINT = 5

# enum perf_hw_id and enum perf_sw_ids, as `perf list` spells them.
_NAMES = {
    TYPE_HARDWARE: (
        "cycles", "instructions", "cache-references", "cache-misses", "branches", "branch-misses",
        "bus-cycles", "stalled-cycles-frontend", "stalled-cycles-backend", "ref-cycles",
    ),
    TYPE_SOFTWARE: (
        "cpu-clock", "task-clock", "page-faults", "context-switches", "cpu-migrations",
        "minor-faults", "major-faults", "alignment-faults", "emulation-faults", "dummy",
        "bpf-output", "cgroup-switches",
    ),
}  # fmt: skip
# Modifiers after an event's name, as in `cycles:ppp`; tracepoint names contain a colon.
_MODIFIERS = re.compile(r":[ukhIGHpPSDWeb]+$")

# Bits of perf_event_attr's flags word.
EXCLUDED_BITS = {"user": 4, "kernel": 5, "hv": 6, "idle": 7, "host": 19, "guest": 20}
_FLAG_FREQ = 1 << 10
_FLAG_ENABLE_ON_EXEC = 1 << 12
_PRECISE_IP_SHIFT = 15
_FLAG_SAMPLE_ID_ALL = 1 << 18
_FLAG_USE_CLOCKID = 1 << 25
_FLAG_CONTEXT_SWITCH = 1 << 26


@dataclass(frozen=True)
class Event:
    """One event as requested from the kernel.

    :param name: as perf printed it ("cycles:P"), else derived from type and config
    :param rate: sampling period in events, or samples per second
    :param by_frequency: whether ``rate`` is samples per second
    :param precise_ip: 0 (arbitrary skid) to 3 (no skid)
    :param clockid: clock of the time stamps, a number of clock_gettime(2); None for perf's own
        clock
    :param ids: ids in samples of this event, one per open file descriptor: one per CPU when
        recording system-wide
    :param sample_id_all: whether records other than samples carry time and CPU
    :param branch_sample_type: PERF_SAMPLE_BRANCH_*: what a sample's branches consist of
    :param sample_regs_user: one bit for each register of user space in a sample
    :param sample_regs_intr: one bit for each register of the interrupted code
    :param excluded: what is not counted: "user", "kernel", "hv", "idle", "host", "guest"
    :param more_config: config1 (of a breakpoint its address), config2 and config3
    :param has_switches: whether the kernel writes records of context switches for this event, and
        counts those that it lost as lost samples
    :param starts_on_exec: whether it counts from the start of the command
    """

    name: str
    type: int
    config: int
    rate: int
    by_frequency: bool
    sample_type: int
    read_format: int
    precise_ip: int
    clockid: int | None
    ids: tuple[int, ...]
    # Fields that an older kernel's attributes lack count as not requested.
    sample_id_all: bool = False
    branch_sample_type: int = 0
    sample_regs_user: int = 0
    sample_regs_intr: int = 0
    excluded: frozenset[str] = frozenset()
    more_config: tuple[int, int, int] = (0, 0, 0)
    has_switches: bool = False
    starts_on_exec: bool = False

    @property
    def plain_name(self) -> str:
        """Return the event as requested from the kernel, without modifiers: ``cpu-clock``."""
        return _known_name(self.type, self.config) or _MODIFIERS.sub("", self.name)

    @property
    def is_misnamed(self) -> bool:
        """Return whether :attr:`name` is that of another event, which perf replaced by this one."""
        printed = _MODIFIERS.sub("", self.name)
        is_known = any(printed in names for names in _NAMES.values())
        return is_known and self.has_known_name and printed != self.plain_name

    @property
    def is_of_tasks(self) -> bool:
        """Return whether it samples a command or tasks, not whole CPUs (perf record -a or -C)."""
        return self.starts_on_exec or not self.sample_type & SAMPLE_CPU

    @property
    def has_known_name(self) -> bool:
        """Return whether the event is a generic hardware or software event, by type and config."""
        return _known_name(self.type, self.config) is not None


class BadPerfData(Exception):
    """The file is not perf.data, is damaged, or is perf.data of an unsupported kind.

    The message states where and what to do.
    """


class Cursor:
    """Reads numbers and strings one after the other, never past ``end``.

    :param order: "<" or ">"
    :param label: for messages
    :raises BadPerfData: from every method, when fewer bytes are left than needed
    """

    def __init__(self, data: Buffer, order: str, start: int, end: int, label: str) -> None:
        self.data = data
        self.order = order
        self.offset = start
        self.end = min(end, len(data))
        self.label = label

    def skip(self, count: int) -> int:
        """Advance by some bytes and return the offset where they start."""
        start, left = self.offset, self.end - self.offset
        if count > left:
            raise BadPerfData(
                f"{self.label}: truncated at offset {start:#x} (expected {count} bytes, "
                f"found {max(0, left)}); record it again"
            )
        self.offset = start + count
        return start

    def u32(self) -> int:
        """Read one 32-bit number."""
        return int(struct.unpack_from(f"{self.order}I", self.data, self.skip(4))[0])

    def u64(self) -> int:
        """Read one 64-bit number."""
        return int(struct.unpack_from(f"{self.order}Q", self.data, self.skip(8))[0])

    def text(self) -> str:
        """Read a string: its padded length, then that many bytes."""
        length = self.u32()
        start = self.skip(length)
        return text_until_nul(self.data[start : start + length])


def text_until_nul(raw: bytes) -> str:
    """Decode the text before the first NUL; bytes that are not UTF-8 are replaced."""
    return raw.partition(b"\0")[0].decode("utf-8", "replace")


@dataclass(frozen=True)
class Header:
    """The header of a perf.data file: its events, and where its records and feature sections are.

    :param order: "<" or ">", the byte order of the machine that recorded
    :param start: offset of the first record
    :param end: offset after the last record
    :param cut: perf did not finish writing the file, or the copy is incomplete; the last record may
        be partial
    :param features: numbers of the feature sections in their order; empty if the file is cut
    :param compressed: some or all records are compressed
    :param notes: one sentence for each part that could not be read
    """

    order: str
    events: tuple[Event, ...]
    start: int
    end: int
    cut: bool
    features: tuple[int, ...]
    compressed: bool
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Summary:
    """Summary of the header and the records.

    :param samples: number of samples
    :param lost: samples and other records that the kernel dropped
    """

    events: tuple[Event, ...]
    samples: int
    lost: int


def summarise_perf_data(path: Path) -> Summary:
    """Read the events of a perf.data file and count its samples and losses.

    :raises BadPerfData: not perf.data, truncated, damaged, compressed or in pipe format
    :raises OSError: it cannot be read
    """
    with path.open("rb") as file:
        # An empty file cannot be mapped.
        if not path.stat().st_size:
            raise BadPerfData(f"{path.name}: empty; record it again")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return summarise(data, path.name)


def summarise(data: Buffer, label: str) -> Summary:
    """Summarise the bytes of a perf.data file; see :func:`summarise_perf_data`.

    :param label: names the file in messages
    :raises BadPerfData: as there
    """
    header = read_header(data, label)
    if header.cut:
        raise BadPerfData(f"{label}: truncated (perf did not finish writing it); record it again")
    if header.compressed:
        raise BadPerfData(
            f"{label}: the recorder does not support compressed records; record it without -z"
        )
    samples, lost = _count_records(data, header, label)
    return Summary(header.events, samples, lost)


def read_header(data: Buffer, label: str, *, fewest_events: int = 1) -> Header:
    """Read the header and the events of a perf.data file, which may be truncated or compressed.

    :param label: names the file in messages
    :param fewest_events: least number of events; ``perf sched stats`` has none
    :raises BadPerfData: not perf.data, pipe format, damaged, or too few or too many events
    """
    order = byte_order(data, label)
    if is_pipe(data, order, label):
        raise BadPerfData(
            f"{label}: the recorder does not support perf.data in pipe format; record it with -o "
            "FILE"
        )
    if len(data) < HEADER_BYTES:
        raise BadPerfData(
            f"{label}: {len(data)} bytes (expected at least {HEADER_BYTES}, the header of "
            "perf.data); record it again"
        )
    cursor = Cursor(data, order, 16, HEADER_BYTES, label)
    entry_bytes, attrs_start, attrs_bytes, start, size = (cursor.u64() for _ in range(5))
    cursor.skip(SECTION_BYTES)  # Event types, unused since Linux 3.1.
    words = [cursor.u64() for _ in range(4)]
    if start > len(data):
        raise BadPerfData(f"{label}: records start after the end of the file; record it again")
    announced = tuple(bit for bit in range(256) if words[bit // 64] >> bit % 64 & 1)
    # perf writes the size last: a killed perf leaves 0 and no features. If it wrote no record, or
    # wrote them to other files, the features follow at once.
    cut = start + size > len(data) or (
        size == 0 and not _starts_with_sections(data, order, start, len(announced))
    )
    features = () if cut else announced
    names: list[str] = []
    notes = (
        ["the file is truncated: perf did not finish writing it, or the copy is incomplete"]
        if cut
        else []
    )
    if EVENT_DESC in features:
        index = features.index(EVENT_DESC)
        try:
            names = read_names(open_section(data, order, start + size, index, label))
        except BadPerfData as error:
            notes.append(f"header section EVENT_DESC is damaged ({error})")
    entries = Cursor(data, order, attrs_start, attrs_start + attrs_bytes, label)
    return Header(
        order=order,
        events=_read_events(entries, entry_bytes, names, fewest_events),
        start=start,
        end=len(data) if cut else start + size,
        cut=cut,
        features=features,
        compressed=COMPRESSED in announced,
        notes=tuple(notes),
    )


def _starts_with_sections(data: Buffer, order: str, start: int, count: int) -> bool:
    table_bytes = count * SECTION_BYTES
    if not count or start + table_bytes > len(data):
        return False
    return int(struct.unpack_from(f"{order}Q", data, start)[0]) == start + table_bytes


def open_section(data: Buffer, order: str, table: int, index: int, label: str) -> Cursor:
    """Return a cursor over one feature section.

    :param table: offset of the table of sections, which follows the records
    :param index: index in the table
    :raises BadPerfData: the file ends before the entry of the table
    """
    entry = Cursor(data, order, table + index * SECTION_BYTES, len(data), label)
    start = entry.u64()
    return Cursor(data, order, start, start + entry.u64(), label)


def lost_records(kind: int, misc: int, body: Cursor) -> int:
    """Return how many lost records a record reports; 0 for records of other types.

    Samples that a BPF filter dropped do not count as lost.

    :param kind: type of the record
    :param misc: field ``misc`` of its header
    :param body: the bytes after the record's header
    :raises BadPerfData: the record is too short
    """
    if kind == RECORD_LOST:
        body.skip(8)  # The event's id.
        return body.u64()
    if kind == RECORD_LOST_SAMPLES and not misc & MISC_LOST_SAMPLES_BPF:
        return body.u64()
    return 0


def total_lost(lost: Mapping[int, int], events: Sequence[Event]) -> int:
    """Return how many records were lost.

    With PERF_FORMAT_LOST perf reads the number of lost samples of each event at the end and writes
    it (PERF_RECORD_LOST_SAMPLES), in addition to the kernel's PERF_RECORD_LOST. Both count the same
    losses, so the larger sum is returned; without PERF_FORMAT_LOST, the total of both.

    :param lost: sums of :func:`lost_records` by type of record
    """
    records, samples = lost.get(RECORD_LOST, 0), lost.get(RECORD_LOST_SAMPLES, 0)
    counted_twice = any(event.read_format & FORMAT_LOST for event in events)
    return max(records, samples) if counted_twice else records + samples


def payload_bytes(kind: int, body: Cursor) -> int:
    """Return how many bytes follow a record that its size field does not include, with padding.

    Only records of tracing data and AUX traces have such bytes.

    :param kind: type of the record
    :param body: the bytes after the record's header
    :raises BadPerfData: the record is too short
    """
    payload = 0
    if kind == RECORD_TRACING_DATA:
        payload = body.u32()
    elif kind == RECORD_AUXTRACE:
        payload = body.u64()
    return -(-payload // 8) * 8


def byte_order(data: Buffer, label: str) -> str:
    """Return the byte order of the recording machine, "<" or ">".

    :raises BadPerfData: not perf.data, or in the format used before Linux 2.6.39
    """
    magic = data[:8]
    if magic == FIRST_VERSION_MAGIC:
        raise BadPerfData(
            f"{label}: perf.data from before Linux 2.6.39 is not supported; record it with a "
            "newer perf"
        )
    if magic not in (MAGIC, BIG_ENDIAN_MAGIC):
        raise BadPerfData(
            f"{label}: invalid magic {magic!r} (expected perf.data); pass a file written by "
            "perf record"
        )
    return "<" if magic == MAGIC else ">"


def is_pipe(data: Buffer, order: str, label: str) -> bool:
    """Return whether perf wrote to a pipe; the header's contents then come as records.

    :raises BadPerfData: the file has fewer than 16 bytes
    """
    return Cursor(data, order, 8, len(data), label).u64() == PIPE_HEADER_BYTES


def read_names(cursor: Cursor) -> list[str]:
    """Return the names of the events, in their order, from the section EVENT_DESC.

    :raises BadPerfData: the section is truncated
    """
    # u32 count, u32 attr size; for each event its attr, u32 number of ids, a string, the ids.
    count, attr_bytes = cursor.u32(), cursor.u32()
    names = []
    for _ in range(min(count, EVENTS_LIMIT)):
        cursor.skip(attr_bytes)
        ids = cursor.u32()
        names.append(cursor.text())
        cursor.skip(8 * ids)
    return names


def _read_events(
    cursor: Cursor, entry_bytes: int, names: Sequence[str], fewest: int
) -> tuple[Event, ...]:
    if entry_bytes < ATTR_LEAST_BYTES + SECTION_BYTES:
        raise BadPerfData(
            f"{cursor.label}: event attributes of {entry_bytes} bytes are too small "
            f"(expected at least {ATTR_LEAST_BYTES + SECTION_BYTES}); record it again"
        )
    count = (cursor.end - cursor.offset) // entry_bytes
    if not fewest <= count <= EVENTS_LIMIT:
        raise BadPerfData(
            f"{cursor.label}: {max(0, count)} events (expected {fewest} to {EVENTS_LIMIT}); "
            "record it with perf record"
        )
    if len(names) != count:
        names = [""] * count
    events: list[Event] = []
    ids_left = IDS_LIMIT
    for name in names:
        events.append(_read_event(cursor, entry_bytes - SECTION_BYTES, name, ids_left))
        ids_left -= len(events[-1].ids)
    return tuple(events)


def _read_event(cursor: Cursor, attr_bytes: int, name: str, ids_left: int) -> Event:
    at = cursor.skip(attr_bytes)
    ids = _read_ids(cursor, ids_left)
    return read_attr(cursor.data[at : at + attr_bytes], cursor.order, name=name, ids=ids)


def _read_ids(cursor: Cursor, ids_left: int) -> tuple[int, ...]:
    start, size = cursor.u64(), cursor.u64()
    count = size // 8
    if count > ids_left:
        raise BadPerfData(f"{cursor.label}: more than {IDS_LIMIT} event ids; record it again")
    at = Cursor(cursor.data, cursor.order, start, start + size, cursor.label).skip(size)
    return struct.unpack_from(f"{cursor.order}{count}Q", cursor.data, at)


def records(data: Buffer, header: Header, label: str) -> Iterator[tuple[int, int, int, int]]:
    """Yield type, misc, offset and end of each record; step over a payload that follows one.

    :param label: names the file in messages
    :raises BadPerfData: the size of a record is invalid
    """
    unpack = struct.Struct(f"{header.order}IHH").unpack_from
    offset = header.start
    while offset + RECORD_HEADER_BYTES <= header.end:
        kind, misc, size = unpack(data, offset)
        stop = offset + size
        if size < RECORD_HEADER_BYTES or stop > header.end:
            raise BadPerfData(
                f"{label}: the record at offset {offset:#x} has an invalid size of {size} bytes; "
                "record it again"
            )
        yield kind, misc, offset, stop
        if kind in {RECORD_TRACING_DATA, RECORD_AUXTRACE}:
            start = offset + RECORD_HEADER_BYTES
            stop += payload_bytes(kind, Cursor(data, header.order, start, stop, label))
        offset = stop


def _count_records(data: Buffer, header: Header, label: str) -> tuple[int, int]:
    samples = 0
    lost: Counter[int] = Counter()
    for kind, misc, offset, stop in records(data, header, label):
        if kind == RECORD_SAMPLE:
            samples += 1
        else:
            start = offset + RECORD_HEADER_BYTES
            body = Cursor(data, header.order, start, stop, label)
            lost[kind] += lost_records(kind, misc, body)
    return samples, total_lost(lost, header.events)


def read_attr(raw: bytes, order: str, *, name: str = "", ids: tuple[int, ...] = ()) -> Event:
    """Read one struct perf_event_attr.

    :param raw: at least ``ATTR_LEAST_BYTES``
    :param order: "<" or ">"
    :param name: empty if perf did not print one
    :param ids: ids in samples of the event
    :raises struct.error: fewer bytes
    """
    kind, _, config, rate, sample_type, read_format, flags = struct.unpack_from(f"{order}II5Q", raw)
    precise_ip = flags >> _PRECISE_IP_SHIFT & 3
    if order == ">":
        # The flags are C bit-fields; big-endian machines fill them from the other end.
        precise_ip = flags >> 62 - _PRECISE_IP_SHIFT & 3
        flags = int(f"{flags:064b}"[::-1], 2)

    def later(member: str, offset: int) -> int:
        if len(raw) < offset + struct.calcsize(member):
            return 0
        return int(struct.unpack_from(order + member, raw, offset)[0])

    has_clockid = flags & _FLAG_USE_CLOCKID and len(raw) >= _CLOCKID_OFFSET + 4
    return Event(
        name=name or _known_name(kind, config) or f"type {kind} config {config:#x}",
        type=kind,
        config=config,
        rate=rate,
        by_frequency=bool(flags & _FLAG_FREQ),
        sample_type=sample_type,
        read_format=read_format,
        precise_ip=precise_ip,
        clockid=later("i", _CLOCKID_OFFSET) if has_clockid else None,
        ids=ids,
        sample_id_all=bool(flags & _FLAG_SAMPLE_ID_ALL),
        branch_sample_type=later("Q", _BRANCH_SAMPLE_TYPE_OFFSET),
        sample_regs_user=later("Q", _SAMPLE_REGS_USER_OFFSET),
        sample_regs_intr=later("Q", _SAMPLE_REGS_INTR_OFFSET),
        excluded=frozenset(name for name, bit in EXCLUDED_BITS.items() if flags >> bit & 1),
        more_config=(
            later("Q", _CONFIG1_OFFSET),
            later("Q", _CONFIG2_OFFSET),
            later("Q", _CONFIG3_OFFSET),
        ),
        has_switches=bool(flags & _FLAG_CONTEXT_SWITCH),
        starts_on_exec=bool(flags & _FLAG_ENABLE_ON_EXEC),
    )


def _known_name(kind: int, config: int) -> str | None:
    # Hybrid CPUs keep the number of the PMU in the upper half of a hardware event's config.
    number = config & 0xFFFFFFFF if kind == TYPE_HARDWARE else config
    names = _NAMES.get(kind, ())
    return names[number] if number < len(names) else None
