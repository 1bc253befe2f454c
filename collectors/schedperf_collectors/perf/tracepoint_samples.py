# SPDX-License-Identifier: GPL-2.0-or-later
"""Read tracepoint fields from a perf.data, ordered by time.

A sample of a tracepoint contains the record that ftrace would write; the tracepoint's ``format``
file in tracefs describes its fields::

    name: sched_switch
    ID: 372
    format:
            field:unsigned short common_type;  offset:0;  size:2;  signed:0;
            field:pid_t prev_pid;              offset:24; size:4;  signed:1;

Layout of samples: include/uapi/linux/perf_event.h, PERF_RECORD_SAMPLE.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.system import System
from schedperf_collectors.machine.tracefs import read_event_file
from schedperf_collectors.perf_header import (
    RECORD_HEADER_BYTES,
    RECORD_SAMPLE,
    TYPE_TRACEPOINT,
    BadPerfData,
    Buffer,
    Cursor,
    Header,
    lost_records,
    records,
    total_lost,
)

IDENTIFIER = re.compile(r"^ID:\s*(\d{1,9})$", re.MULTILINE)
FIELD = re.compile(
    r"^[ \t]*field:([^;]*?)\b(\w+)(?:\[[^]]*\])?;\s*offset:(\d{1,5});\s*size:(\d{1,5});"
    r"\s*signed:([01]);",
    re.MULTILINE,
)
# Codes of the struct module by size, unsigned and signed.
CODES = {1: "Bb", 2: "Hh", 4: "Ii", 8: "Qq"}

# Parts of a sample before its raw data, in this order (enum perf_event_sample_format), 8 bytes
# each. Other parts have no fixed size and are not recorded.
IDENTIFIER_BIT, TIME_BIT, CPU_BIT, RAW_BIT = 1 << 16, 1 << 2, 1 << 7, 1 << 10
FIXED_BITS = (IDENTIFIER_BIT, 1 << 0, 1 << 1, TIME_BIT, 1 << 3, 1 << 6, 1 << 9, CPU_BIT, 1 << 8)
RECORD_FINISHED_ROUND = 68
# The field common_type, with which the raw data begin.
NUMBER_BYTES = 2


@dataclass(frozen=True)
class Tracepoint:
    """The format of the requested fields of one tracepoint.

    :param name: "sched:sched_switch"
    :param number: the tracepoint's id, at the start of its raw data
    :param fields: by field name, the offset in bytes and the code of the struct module
    """

    name: str
    number: int
    fields: Mapping[str, tuple[int, str]]


class Sample(NamedTuple):
    """One occurrence of a tracepoint.

    :param time_ns: time on the clock of the recording (``perf record -k``)
    :param cpu: CPU on which it occurred
    :param name: "sched:sched_switch"
    :param values: the requested fields, in the order of the request; text such as ``comm`` as all
        bytes of the field, with those after the terminating NUL
    """

    time_ns: int
    cpu: int
    name: str
    values: tuple[Any, ...]


def read_tracepoint(system: System, name: str, fields: Sequence[str]) -> Tracepoint:
    """Read the offsets of some fields of a tracepoint.

    :param name: "sched:sched_switch"
    :raises Unavailable: tracefs is not mounted or not readable, the kernel has no such tracepoint,
        or the tracepoint has no such integer or text field
    """
    text = read_event_file(system, name, "format")
    number = IDENTIFIER.search(text)
    offsets = {
        field: (int(offset), _code(kind, int(size), int(signed)))
        for kind, field, offset, size, signed in FIELD.findall(text)
    }
    missing = [field for field in fields if offsets.get(field, (0, " "))[1] == " "]
    if number is None or missing:
        field = missing[0] if missing else "ID"
        raise Unavailable(f"{name}: no integer or text field {field!r} in its format")
    return Tracepoint(name, int(number[1]), {field: offsets[field] for field in fields})


def _code(kind: str, size: int, signed: int) -> str:
    """Return the code of the struct module; " " if the field is neither a number nor a text."""
    if size in CODES:
        return CODES[size][signed]
    return f"{size}s" if kind.strip() == "char" else " "


class Samples:
    """All samples of some tracepoints in chronological order, and the number of lost records.

    The kernel writes one buffer per CPU, and perf copies them in turn, so the file is not in
    chronological order. perf marks the end of each round over all buffers: samples after a mark are
    never older than samples before the preceding mark.

    :param label: names the file in messages
    :param tracepoints: the tracepoints to read; samples of others are skipped
    :raises BadPerfData: the samples lack time, CPU or raw data, or have unsupported parts
    """

    def __init__(
        self, data: Buffer, header: Header, label: str, tracepoints: Sequence[Tracepoint]
    ) -> None:
        self._lost: Counter[int] = Counter()
        self._data = data
        self._header = header
        self._label = label
        self._readers = {
            tracepoint.number: (tracepoint.name, _reader(tracepoint, header.order))
            for tracepoint in tracepoints
        }
        self._prefix = _prefix(header, label)

    @property
    def lost(self) -> int:
        """Return the number of lost records so far; complete after the iteration."""
        return total_lost(self._lost, self._header.events)

    def __iter__(self) -> Iterator[Sample]:
        """Yield the samples.

        :raises BadPerfData: a record is damaged
        """
        waiting: list[Sample] = []
        newest = safe = 0
        for kind, misc, offset, stop in records(self._data, self._header, self._label):
            if kind == RECORD_SAMPLE:
                sample = self._read(offset + RECORD_HEADER_BYTES, stop)
                if sample is not None:
                    waiting.append(sample)
                    newest = max(newest, sample.time_ns)
            elif kind == RECORD_FINISHED_ROUND:
                waiting.sort(key=_time)
                ready = _count_until(waiting, safe)
                yield from waiting[:ready]
                del waiting[:ready]
                safe = newest
            else:
                start = offset + RECORD_HEADER_BYTES
                body = Cursor(self._data, self._header.order, start, stop, self._label)
                self._lost[kind] += lost_records(kind, misc, body)
        yield from sorted(waiting, key=_time)

    def _read(self, start: int, stop: int) -> Sample | None:
        if start + self._prefix.size > stop:
            raise self._too_short(start)
        time_ns, cpu, size, number = self._prefix.unpack_from(self._data, start)
        name, reader = self._readers.get(number, ("", None))
        if reader is None:
            return None
        # The raw data are preceded by their size, and begin with the tracepoint's number.
        raw = start + self._prefix.size - NUMBER_BYTES
        if reader.layout.size > size or raw + size > stop:
            raise self._too_short(start)
        return Sample(time_ns, cpu, name, reader.values(self._data, raw))

    def _too_short(self, start: int) -> BadPerfData:
        return BadPerfData(
            f"{self._label}: truncated sample at offset {start:#x}; record the file again"
        )


@dataclass(frozen=True)
class _SampleReader:
    # One unpacking of a tracepoint's raw data, and the order of its numbers.
    layout: struct.Struct
    order: tuple[int, ...]

    def values(self, data: Buffer, offset: int) -> tuple[Any, ...]:
        values = self.layout.unpack_from(data, offset)
        return tuple(values[index] for index in self.order)


def _reader(tracepoint: Tracepoint, order: str) -> _SampleReader:
    layout, end = order, 0
    by_offset = sorted(tracepoint.fields, key=lambda name: tracepoint.fields[name][0])
    for name in by_offset:
        offset, code = tracepoint.fields[name]
        layout += f"{offset - end}x{code}"
        end = offset + struct.calcsize(f"{order}{code}")
    places = tuple(by_offset.index(name) for name in tracepoint.fields)
    return _SampleReader(struct.Struct(layout), places)


def _prefix(header: Header, label: str) -> struct.Struct:
    # Time, CPU, size of the raw data and the number that they begin with. perf adds a dummy event
    # without samples.
    types = {event.sample_type for event in header.events if event.type == TYPE_TRACEPOINT}
    required_bits = TIME_BIT | CPU_BIT | RAW_BIT
    sample_type = types.pop() if len(types) == 1 else 0
    if sample_type & required_bits != required_bits or sample_type & ~(RAW_BIT | sum(FIXED_BITS)):
        raise BadPerfData(f"{label}: unsupported sample fields (expected `time`, `cpu` and `raw`)")
    codes = {TIME_BIT: "Q", CPU_BIT: "I4x"}
    fixed = [codes.get(bit, "8x") for bit in FIXED_BITS if sample_type & bit]
    return struct.Struct("".join([header.order, *fixed, "IH"]))


def _time(sample: Sample) -> int:
    return sample.time_ns


def _count_until(samples: Sequence[Sample], time_ns: int) -> int:
    # bisect supports a key only since Python 3.10.
    low, high = 0, len(samples)
    while low < high:
        middle = (low + high) // 2
        if samples[middle].time_ns <= time_ns:
            low = middle + 1
        else:
            high = middle
    return low
