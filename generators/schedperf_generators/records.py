# SPDX-License-Identifier: GPL-2.0-or-later
"""Records of a perf.data that are no samples: tasks, mappings, losses.

Layouts are those of include/uapi/linux/perf_event.h and of
tools/lib/perf/include/perf/event.h.
"""

from dataclasses import dataclass, field
from typing import Protocol

from schedperf_generators._binary import name_bytes, pack, record_bytes
from schedperf_generators.events import Event, SampleType
from schedperf_generators.samples import MODE_KERNEL, MODE_USER

_MISC_COMM_EXEC = 1 << 13
_MISC_MMAP_BUILD_ID = 1 << 14
_MISC_LOST_SAMPLES_BPF = 1 << 15

# The kernel's and the modules' mappings belong to this process.
KERNEL_PID = 0xFFFFFFFF

# PERF_RECORD_KSYMBOL_TYPE_*.
KSYMBOL_BPF, KSYMBOL_OUT_OF_LINE = 1, 2
# PROT_READ | PROT_EXEC and MAP_PRIVATE: what code is mapped with.
_PROT_CODE, _MAP_PRIVATE = 5, 2


class Record(Protocol):
    """Anything that stands between the header and the feature sections of a perf.data."""

    def pack(self, order: str, events: tuple[Event, ...]) -> bytes:
        """Return the whole record in a byte order, as a recording of these events has it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SideBand:
    """What all records of the kernel have that are no samples: whose, when and where.

    :param time: in ns
    """

    pid: int = 0
    tid: int | None = None
    time: int = 0
    cpu: int = 0

    def thread(self) -> int:
        """Return the thread's id."""
        return self.pid if self.tid is None else self.tid

    def trailer(self, order: str, events: tuple[Event, ...]) -> bytes:
        """Return the sample's id fields that the kernel appends; the first event's layout."""
        event = events[0]
        if not event.sample_id_all:
            return b""
        asked = event.sample_type
        pid = self.pid if self.pid != KERNEL_PID else 0
        parts = (
            (SampleType.TID, pack(order, "2I", pid, pid if self.tid is None else self.tid)),
            (SampleType.TIME, pack(order, "Q", self.time)),
            (SampleType.ID, pack(order, "Q", event.ids[0])),
            (SampleType.STREAM_ID, pack(order, "Q", event.ids[0])),
            (SampleType.CPU, pack(order, "2I", self.cpu, 0)),
            (SampleType.IDENTIFIER, pack(order, "Q", event.ids[0])),
        )
        return b"".join(raw for field_asked, raw in parts if asked & field_asked)


@dataclass(frozen=True, kw_only=True, slots=True)
class Comm(SideBand):
    """A task got a name.

    :param execed: by running another program, which unmaps all that was mapped
    """

    comm: str
    execed: bool = False

    def pack(self, order: str, events: tuple[Event, ...]) -> bytes:
        """Return PERF_RECORD_COMM."""
        body = pack(order, "2I", self.pid, self.thread()) + name_bytes(self.comm)
        misc = _MISC_COMM_EXEC * self.execed
        return record_bytes(order, 3, misc, body + self.trailer(order, events))


@dataclass(frozen=True, kw_only=True, slots=True)
class Fork(SideBand):
    """A task, ``pid`` and ``tid``, came into being; a thread has its parent's pid."""

    parent_pid: int
    parent_tid: int | None = None

    def pack(self, order: str, events: tuple[Event, ...]) -> bytes:
        """Return PERF_RECORD_FORK."""
        return _life_and_death(7, self, order, events)


@dataclass(frozen=True, kw_only=True, slots=True)
class Exit(SideBand):
    """A task came to its end."""

    parent_pid: int
    parent_tid: int | None = None

    def pack(self, order: str, events: tuple[Event, ...]) -> bytes:
        """Return PERF_RECORD_EXIT."""
        return _life_and_death(4, self, order, events)


def _life_and_death(kind: int, task: Fork | Exit, order: str, events: tuple[Event, ...]) -> bytes:
    parent_tid = task.parent_pid if task.parent_tid is None else task.parent_tid
    body = pack(order, "4IQ", task.pid, task.parent_pid, task.thread(), parent_tid, task.time)
    return record_bytes(order, kind, 0, body + task.trailer(order, events))


@dataclass(frozen=True, kw_only=True, slots=True)
class Mmap(SideBand):
    """A file is mapped, as perf wrote it of old and writes it of the kernel.

    :param page_offset: where in the file the mapping starts; of the kernel an address
    """

    start: int
    length: int
    page_offset: int = 0
    path: str
    mode: int = MODE_USER

    def pack(self, order: str, events: tuple[Event, ...]) -> bytes:
        """Return PERF_RECORD_MMAP."""
        tid = self.thread()
        body = pack(order, "2I3Q", self.pid, tid, self.start, self.length, self.page_offset)
        body += name_bytes(self.path) + self.trailer(order, events)
        return record_bytes(order, 1, self.mode, body)


@dataclass(frozen=True, kw_only=True, slots=True)
class Mmap2(SideBand):
    """A file is mapped; with a build id instead of its inode where there is one.

    :param build_id: 20 bytes, or fewer
    """

    start: int
    length: int
    page_offset: int = 0
    path: str
    mode: int = MODE_USER
    build_id: bytes | None = None
    inode: int = 4711

    def pack(self, order: str, events: tuple[Event, ...]) -> bytes:
        """Return PERF_RECORD_MMAP2."""
        place = (self.start, self.length, self.page_offset)
        body = pack(order, "2I3Q", self.pid, self.thread(), *place)
        if self.build_id is None:
            body += pack(order, "2I2Q", 8, 1, self.inode, 0)
        else:
            body += pack(order, "B3x", len(self.build_id)) + self.build_id.ljust(20, b"\0")
        body += pack(order, "2I", _PROT_CODE, _MAP_PRIVATE) + name_bytes(self.path)
        misc = self.mode | _MISC_MMAP_BUILD_ID * (self.build_id is not None)
        return record_bytes(order, 10, misc, body + self.trailer(order, events))


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost(SideBand):
    """The kernel's buffer was full: records of any kind were dropped."""

    count: int

    def pack(self, order: str, events: tuple[Event, ...]) -> bytes:
        """Return PERF_RECORD_LOST."""
        body = pack(order, "2Q", events[0].ids[0], self.count)
        return record_bytes(order, 2, 0, body + self.trailer(order, events))


@dataclass(frozen=True, kw_only=True, slots=True)
class LostSamples(SideBand):
    """Samples were dropped.

    :param by_filter: on purpose, by a BPF filter
    """

    count: int
    by_filter: bool = False

    def pack(self, order: str, events: tuple[Event, ...]) -> bytes:
        """Return PERF_RECORD_LOST_SAMPLES."""
        body = pack(order, "Q", self.count) + self.trailer(order, events)
        return record_bytes(order, 13, _MISC_LOST_SAMPLES_BPF * self.by_filter, body)


@dataclass(frozen=True, kw_only=True, slots=True)
class Throttle(SideBand):
    """The kernel paused an event that fired too often, or went on with it."""

    ends: bool = False

    def pack(self, order: str, events: tuple[Event, ...]) -> bytes:
        """Return PERF_RECORD_THROTTLE or PERF_RECORD_UNTHROTTLE."""
        event_id = events[0].ids[0]
        body = pack(order, "3Q", self.time, event_id, event_id) + self.trailer(order, events)
        return record_bytes(order, 6 if self.ends else 5, 0, body)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ksymbol(SideBand):
    """The kernel made code, or removed it."""

    address: int
    size: int
    name: str
    kind: int = KSYMBOL_BPF
    removed: bool = False

    def pack(self, order: str, events: tuple[Event, ...]) -> bytes:
        """Return PERF_RECORD_KSYMBOL."""
        body = pack(order, "QI2H", self.address, self.size, self.kind, self.removed)
        body += name_bytes(self.name) + self.trailer(order, events)
        return record_bytes(order, 17, MODE_KERNEL, body)


@dataclass(frozen=True, kw_only=True, slots=True)
class BpfEvent(SideBand):
    """A BPF program was loaded."""

    program: int
    tag: bytes = bytes(8)

    def pack(self, order: str, events: tuple[Event, ...]) -> bytes:
        """Return PERF_RECORD_BPF_EVENT."""
        loaded = 1
        body = pack(order, "2HI", loaded, 0, self.program) + self.tag
        return record_bytes(order, 18, MODE_KERNEL, body + self.trailer(order, events))


@dataclass(frozen=True, kw_only=True, slots=True)
class RawRecord:
    """Any record by its type and bytes: damaged ones, and those of a perf of the future.

    :param size: in the header where it is not the true one
    :param payload: bytes behind the record that its size does not count
    """

    kind: int
    body: bytes = b""
    misc: int = 0
    size: int | None = None
    payload: bytes = field(default=b"", repr=False)

    def pack(self, order: str, _events: tuple[Event, ...]) -> bytes:
        """Return the record and what follows it."""
        raw = record_bytes(order, self.kind, self.misc, self.body)
        if self.size is not None:
            raw = raw[:6] + pack(order, "H", self.size) + raw[8:]
        return raw + self.payload


# All records before it are older than all behind the next one: PERF_RECORD_FINISHED_ROUND.
FINISHED_ROUND = RawRecord(kind=68)
