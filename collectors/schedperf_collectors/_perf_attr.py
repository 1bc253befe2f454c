"""Which events a perf.data file rests on: its attributes, read back from the header.

perf decides on its own what it records: without a hardware PMU a request for
``cycles`` silently becomes ``cpu-clock``. Only the ``perf_event_attr`` in the
written file tells. Layout: tools/perf/Documentation/perf.data-file-format.txt
and include/uapi/linux/perf_event.h. Either byte order and all attribute sizes
from 64 bytes (VER0) on are read; what a newer perf appended is left alone.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Union

MAGIC = b"PERFILE2"
HEADER_BYTES = 104
# PERF_ATTR_SIZE_VER0, and the section (offset, size) of the event's ids behind each attribute.
ATTR_LEAST_BYTES = 64
SECTION_BYTES = 16
# perf itself opens a few dozen events.
ATTRS_LIMIT = 4096
FEATURES_OFFSET = 72
FLAGS_OFFSET = 40
# The clock id is beyond VER0; attributes of Linux 4.1 and later have it.
CLOCKID_OFFSET = 92
HEADER_EVENT_DESC = 12
NAME_LIMIT_BYTES = 4096

TYPE_HARDWARE = 0
TYPE_SOFTWARE = 1
TYPE_TRACEPOINT = 2
TYPE_BREAKPOINT = 5

# enum perf_hw_id and enum perf_sw_ids, as `perf list` spells them.
NAMES = {
    TYPE_HARDWARE: (
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
    TYPE_SOFTWARE: (
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

# Bits of perf_event_attr's flags word.
FLAG_FREQ = 1 << 10
PRECISE_IP_SHIFT = 15
FLAG_USE_CLOCKID = 1 << 25

RECORD_LOST = 2
RECORD_SAMPLE = 9
RECORD_LOST_SAMPLES = 13
# PERF_RECORD_HEADER_TRACING_DATA and PERF_RECORD_AUXTRACE: a payload follows the record and is not
# in its size; its own size, padded to 8 bytes, is the record's first field.
PAYLOAD_SIZE_FIELDS = {66: "I", 71: "Q"}
# PERF_RECORD_MISC_LOST_SAMPLES_BPF: a BPF filter dropped them on purpose.
MISC_LOST_SAMPLES_BPF = 1 << 15

Buffer = Union[bytes, mmap.mmap]


class BadPerfData(Exception):
    """The bytes are no perf.data file, or are damaged; the message says where."""


@dataclass(frozen=True)
class Attr:
    """One event as the kernel was asked for it.

    :param name: as perf printed it ("cycles:P"); "" where the file does not say
    :param period: events from one sample to the next; None when sampling by frequency
    :param frequency: samples a second; None when sampling by period
    :param precise_ip: 0 (arbitrary skid) to 3 (no skid)
    :param clockid: clock of the time stamps, as clock_gettime numbers them; None: perf's own
    :param opened: how often it was opened: once a CPU when recording system-wide
    """

    type: int
    config: int
    name: str
    period: int | None
    frequency: int | None
    precise_ip: int
    clockid: int | None
    opened: int

    @property
    def event(self) -> str:
        """The event by what the kernel was asked for, without modifiers: ``cpu-clock``."""
        # Hybrid CPUs keep the number of the PMU in the upper half of a hardware event's config.
        config = self.config & 0xFFFFFFFF if self.type == TYPE_HARDWARE else self.config
        names = NAMES.get(self.type, ())
        if config < len(names):
            return names[config]
        return self.name or f"type {self.type} config {self.config:#x}"


@dataclass(frozen=True)
class PerfData:
    """What the header of a file and a walk over its records tell.

    :param samples: number of samples
    :param lost: samples and other records that the kernel could not deliver
    """

    attrs: tuple[Attr, ...]
    samples: int
    lost: int


def read_perf_data(path: Path) -> PerfData:
    """Read the attributes of a perf.data file and count its samples and losses.

    :raises BadPerfData: no perf.data file, cut off or damaged
    :raises OSError: it cannot be read
    """
    with path.open("rb") as file:
        if path.stat().st_size < HEADER_BYTES:
            raise BadPerfData(f"{path.name}: {path.stat().st_size} bytes, too short for a header")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return parse_perf_data(data, path.name)


def parse_perf_data(data: Buffer, label: str) -> PerfData:
    """Do what :func:`read_perf_data` does on bytes.

    :param label: names the file in messages
    """
    if len(data) < HEADER_BYTES or data[:8] not in (MAGIC, MAGIC[::-1]):
        raise BadPerfData(f"{label}: not a perf.data file: it starts with {data[:8]!r}")
    file = _File(data, label, "<" if data[:8] == MAGIC else ">")
    header_bytes, entry_bytes, attrs_at, attrs_bytes, data_at, data_bytes = file.unpack("6Q", 8)
    if header_bytes != HEADER_BYTES:
        raise BadPerfData(f"{label}: a header of {header_bytes} bytes, not {HEADER_BYTES}")
    if data_bytes == 0:
        raise BadPerfData(f"{label}: no records: perf did not end properly")
    data_end = file.check(data_at, data_bytes)
    names = _event_names(file, data_end)
    attrs_end = file.check(attrs_at, attrs_bytes)
    if entry_bytes < ATTR_LEAST_BYTES + SECTION_BYTES:
        raise BadPerfData(f"{label}: attributes of {entry_bytes} bytes")
    starts = range(attrs_at, attrs_end - entry_bytes + 1, entry_bytes)
    if not 0 < len(starts) <= ATTRS_LIMIT:
        raise BadPerfData(f"{label}: {len(starts)} attributes")
    if len(names) != len(starts):
        names = [""] * len(starts)
    attrs = tuple(
        _attr(file, start, entry_bytes - SECTION_BYTES, name) for start, name in zip(starts, names)
    )
    return PerfData(attrs, *_count_records(file, data_at, data_end))


@dataclass(frozen=True)
class _File:
    # The bytes with their byte order; nothing outside them is ever read.
    data: Buffer
    label: str
    order: str

    def check(self, at: int, size: int) -> int:
        if at + size > len(self.data):
            raise BadPerfData(f"{self.label}: {size} bytes at {at} are beyond the end of the file")
        return at + size

    def unpack(self, layout: str, at: int) -> tuple[int, ...]:
        self.check(at, struct.calcsize(self.order + layout))
        return struct.unpack_from(self.order + layout, self.data, at)


def _attr(file: _File, at: int, size: int, name: str) -> Attr:
    kind, _, config, rate = file.unpack("IIQQ", at)
    (flags,) = file.unpack("Q", at + FLAGS_OFFSET)
    precise_ip = flags >> PRECISE_IP_SHIFT & 3
    if file.order == ">":
        # The flags are C bit-fields, which big-endian machines fill from the other end.
        precise_ip = flags >> 62 - PRECISE_IP_SHIFT & 3
        flags = int(f"{flags:064b}"[::-1], 2)
    clockid = None
    if flags & FLAG_USE_CLOCKID and size >= CLOCKID_OFFSET + 4:
        (clockid,) = file.unpack("i", at + CLOCKID_OFFSET)
    _, ids_bytes = file.unpack("QQ", at + size)
    by_frequency = bool(flags & FLAG_FREQ)
    return Attr(
        type=kind,
        config=config,
        name=name,
        period=None if by_frequency else rate,
        frequency=rate if by_frequency else None,
        precise_ip=precise_ip,
        clockid=clockid,
        opened=ids_bytes // 8,
    )


def _event_names(file: _File, table: int) -> list[str]:
    # Sections of features follow the data in the order of their bits. EVENT_DESC is: u32 count,
    # u32 attr size; for each event its attr, u32 number of ids, a string, the ids.
    (features,) = file.unpack("Q", FEATURES_OFFSET)
    if not features >> HEADER_EVENT_DESC & 1:
        return []
    before = bin(features & ((1 << HEADER_EVENT_DESC) - 1)).count("1")
    at, size = file.unpack("QQ", table + before * SECTION_BYTES)
    end = file.check(at, size)
    count, attr_bytes = file.unpack("II", at)
    cursor = at + 8
    names: list[str] = []
    for _ in range(min(count, ATTRS_LIMIT)):
        ids, name_bytes = file.unpack("II", cursor + attr_bytes)
        name_at = cursor + attr_bytes + 8
        cursor = name_at + name_bytes + ids * 8
        if name_bytes > NAME_LIMIT_BYTES or cursor > end:
            raise BadPerfData(f"{file.label}: event names at {at} are damaged")
        name = file.data[name_at : name_at + name_bytes]
        names.append(name.partition(b"\0")[0].decode("utf-8", "replace"))
    return names


def _count_records(file: _File, start: int, end: int) -> tuple[int, int]:
    header = struct.Struct(f"{file.order}IHH")
    at, samples, lost = start, 0, 0
    while at + header.size <= end:
        kind, misc, size = header.unpack_from(file.data, at)
        if size < header.size or at + size > end:
            raise BadPerfData(f"{file.label}: a record of {size} bytes at {at}")
        if kind == RECORD_SAMPLE:
            samples += 1
        elif kind == RECORD_LOST:
            # The id of the event comes before the number.
            lost += file.unpack("QQ", at + header.size)[1]
        elif kind == RECORD_LOST_SAMPLES and not misc & MISC_LOST_SAMPLES_BPF:
            lost += file.unpack("Q", at + header.size)[0]
        elif kind in PAYLOAD_SIZE_FIELDS:
            (payload,) = file.unpack(PAYLOAD_SIZE_FIELDS[kind], at + header.size)
            size += -(-payload // 8) * 8
        at += size
    return samples, lost
