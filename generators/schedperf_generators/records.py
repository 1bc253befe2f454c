# SPDX-License-Identifier: GPL-2.0-or-later
"""Define records of a perf.data other than samples: tasks, mappings, lost records.

include/uapi/linux/perf_event.h and tools/lib/perf/include/perf/event.h define their layouts.
"""

from dataclasses import dataclass, field
from typing import Protocol

from schedperf_generators._binary import name_bytes, pack, record_bytes
from schedperf_generators.events import Event, SampleType
from schedperf_generators.samples import MODE_KERNEL, MODE_USER

_MISC_COMM_EXEC = 1 << 13
_MISC_MMAP_BUILD_ID = 1 << 14
_MISC_LOST_SAMPLES_BPF = 1 << 15

# The pid in mappings of the kernel and its modules.
KERNEL_PID = 0xFFFFFFFF

# PERF_RECORD_KSYMBOL_TYPE_*.
KSYMBOL_BPF, KSYMBOL_OUT_OF_LINE = 1, 2
# PROT_READ | PROT_EXEC and MAP_PRIVATE, as for code.
PROT_READ, PROT_WRITE, PROT_EXEC = 1, 2, 4
_MAP_PRIVATE = 2


class Record(Protocol):
    """A record between the header and the feature sections of a perf.data."""

    def pack(self, order: str, events: tuple[Event, ...]) -> bytes:
        """Return the record in a byte order, in a recording of these events."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SideBand:
    """Fields of all records of the kernel other than samples: task, time, CPU and event.

    :param tid: thread id; None: the first thread of the process
    :param time: in ns
    :param event: index of the event that reports it
    """

    pid: int = 0
    tid: int | None = None
    time: int = 0
    cpu: int = 0
    event: int = 0

    def thread(self) -> int:
        """Return the thread's id."""
        return self.pid if self.tid is None else self.tid

    def trailer(self, order: str, events: tuple[Event, ...]) -> bytes:
        """Return the id fields that the kernel appends, in the layout of the first event.

        Return b"" if the first event has no ``sample_id_all``.
        """
        event = events[0]
        if not event.sample_id_all:
            return b""
        asked = event.sample_type
        pid = self.pid if self.pid != KERNEL_PID else 0
        event_id = events[self.event].ids[0]
        parts = (
            (SampleType.TID, pack(order, "2I", pid, pid if self.tid is None else self.tid)),
            (SampleType.TIME, pack(order, "Q", self.time)),
            (SampleType.ID, pack(order, "Q", event_id)),
            (SampleType.STREAM_ID, pack(order, "Q", event_id)),
            (SampleType.CPU, pack(order, "2I", self.cpu, 0)),
            (SampleType.IDENTIFIER, pack(order, "Q", event_id)),
        )
        return b"".join(raw for field_asked, raw in parts if asked & field_asked)


@dataclass(frozen=True, kw_only=True, slots=True)
class Comm(SideBand):
    """A task changes its name.

    :param execed: by exec, which removes all mappings
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
    """The task ``pid``, ``tid`` is created; a thread has its parent's pid."""

    parent_pid: int
    parent_tid: int | None = None

    def pack(self, order: str, events: tuple[Event, ...]) -> bytes:
        """Return PERF_RECORD_FORK."""
        return _life_and_death(7, self, order, events)


@dataclass(frozen=True, kw_only=True, slots=True)
class Exit(SideBand):
    """A task exits."""

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
    """A file is mapped; old perf versions write it for all files, newer ones for the kernel.

    :param page_offset: file offset of the mapping; an address for the kernel
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
    """A file is mapped; with a build id instead of the inode if ``build_id`` is set.

    :param build_id: 20 bytes, or fewer
    :param protection: bits of PROT_READ, PROT_WRITE and PROT_EXEC
    """

    start: int
    length: int
    page_offset: int = 0
    path: str
    mode: int = MODE_USER
    build_id: bytes | None = None
    inode: int = 4711
    protection: int = PROT_READ | PROT_EXEC

    def pack(self, order: str, events: tuple[Event, ...]) -> bytes:
        """Return PERF_RECORD_MMAP2."""
        mapping = (self.start, self.length, self.page_offset)
        body = pack(order, "2I3Q", self.pid, self.thread(), *mapping)
        if self.build_id is None:
            body += pack(order, "2I2Q", 8, 1, self.inode, 0)
        else:
            body += pack(order, "B3x", len(self.build_id)) + self.build_id.ljust(20, b"\0")
        body += pack(order, "2I", self.protection, _MAP_PRIVATE) + name_bytes(self.path)
        misc = self.mode | _MISC_MMAP_BUILD_ID * (self.build_id is not None)
        return record_bytes(order, 10, misc, body + self.trailer(order, events))


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost(SideBand):
    """The kernel dropped records, because its buffer was full."""

    count: int

    def pack(self, order: str, events: tuple[Event, ...]) -> bytes:
        """Return PERF_RECORD_LOST."""
        body = pack(order, "2Q", events[self.event].ids[0], self.count)
        return record_bytes(order, 2, 0, body + self.trailer(order, events))


@dataclass(frozen=True, kw_only=True, slots=True)
class LostSamples(SideBand):
    """The kernel dropped samples.

    :param by_filter: dropped by a BPF filter
    """

    count: int
    by_filter: bool = False

    def pack(self, order: str, events: tuple[Event, ...]) -> bytes:
        """Return the bytes of a record PERF_RECORD_LOST_SAMPLES."""
        body = pack(order, "Q", self.count) + self.trailer(order, events)
        return record_bytes(order, 13, _MISC_LOST_SAMPLES_BPF * self.by_filter, body)


@dataclass(frozen=True, kw_only=True, slots=True)
class Throttle(SideBand):
    """The kernel throttled an event.

    :param ends: whether the throttling ends instead
    """

    ends: bool = False

    def pack(self, order: str, events: tuple[Event, ...]) -> bytes:
        """Return PERF_RECORD_THROTTLE or PERF_RECORD_UNTHROTTLE."""
        event_id = events[self.event].ids[0]
        body = pack(order, "3Q", self.time, event_id, event_id) + self.trailer(order, events)
        return record_bytes(order, 6 if self.ends else 5, 0, body)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ksymbol(SideBand):
    """The kernel generated code, such as that of a BPF program.

    :param kind: PERF_RECORD_KSYMBOL_TYPE_*
    :param removed: whether the code was removed instead
    """

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
    """A record by its type and bytes, e.g. a damaged or unknown one.

    :param size: size in the header, if it differs from the real one
    :param payload: bytes after the record that its size does not include
    """

    kind: int
    body: bytes = b""
    misc: int = 0
    size: int | None = None
    payload: bytes = field(default=b"", repr=False)

    def pack(self, order: str, _events: tuple[Event, ...]) -> bytes:
        """Return the record and its payload."""
        raw = record_bytes(order, self.kind, self.misc, self.body)
        if self.size is not None:
            raw = raw[:6] + pack(order, "H", self.size) + raw[8:]
        return raw + self.payload


# PERF_RECORD_FINISHED_ROUND: all records before it are older than those after the next one.
FINISHED_ROUND = RawRecord(kind=68)
