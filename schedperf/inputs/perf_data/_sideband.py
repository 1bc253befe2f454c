# SPDX-License-Identifier: GPL-2.0-or-later
"""Read perf's side-band records: tasks, mappings, generated code, losses and throttling.

Records are sorted by time, because perf writes the buffers of the CPUs one after the other: the
fork of a process may come after its samples in the file.
"""

import struct
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schedperf.inputs.perf_data._bytes import Bytes
from schedperf.inputs.perf_data._layout import ID, IDENTIFIER, TIME, Layout
from schedperf.inputs.perf_data._spaces import (
    KERNEL_LINE,
    UNKNOWN_LINE,
    Line,
    Maps,
    SpaceTable,
)
from schedperf.inputs.perf_data._walk import Stream
from schedperf.inputs.perf_data.recording import (
    KERNEL_MAP,
    NO_PROCESS,
    KernelText,
    MappedFile,
    Processes,
    RuntimeSymbol,
    generated_code_of,
)
from schedperf_collectors.perf_header import (
    RECORD_HEADER_BYTES,
    RECORD_LOST,
    RECORD_LOST_SAMPLES,
    BadPerfData,
    Cursor,
    Event,
    lost_records,
    text_until_nul,
)

# PERF_RECORD_* of include/uapi/linux/perf_event.h.
_MMAP, _COMM, _EXIT, _THROTTLE, _FORK, _MMAP2, _KSYMBOL = 1, 3, 4, 5, 7, 10, 17
# PERF_RECORD_MISC_COMM_EXEC: the name is that of a new program; PERF_RECORD_MISC_FORK_EXEC: perf
# synthesized the record, and all of the child's mappings follow.
_MISC_EXEC = 1 << 13
# PERF_RECORD_MISC_MMAP_DATA: the mapping is not executable.
_MISC_MMAP_DATA = 1 << 13
_MISC_MMAP_BUILD_ID = 1 << 14
# Offset of the file's name in a record.
_NAME_OFFSETS = {_MMAP: 40, _MMAP2: 72}
_BUILD_ID_OFFSET = 40
# Offset of the protection in PERF_RECORD_MMAP2, and its bit PROT_EXEC.
_PROT_OFFSET, _PROT_EXEC = 64, 4
# In PERF_RECORD_THROTTLE, the id follows the time.
_THROTTLE_ID_OFFSET = 8
_BUILD_ID_MOST_BYTES = 20

# The pid in mappings of the kernel: its text and modules.
_KERNEL_PID = 0xFFFFFFFF
# The pid of all processes outside of the recorder's pid namespace; the idle task has no mappings.
_FOREIGN_PID = 0
# Names of memory without a file: is_anon_memory and is_no_dso_memory of perf.
_ANONYMOUS = ("//anon", "/dev/zero", "/anon_hugepage", "[stack", "/SYSV", "[heap]")
_GUEST_MAP = "[guest.kernel.kallsyms"
_LAST_ADDRESS = (1 << 64) - 1
_IDLE_COMM = "swapper"
UNKNOWN_NAME = -1
# PID_MAX_LIMIT of the kernel's include/linux/threads.h: all valid ids are smaller.
_ID_LIMIT = 1 << 22


class _Changes:
    """Values that ids get, in the order of the changes.

    A tuple per change would take ten times the memory, and a small file may have millions.
    """

    def __init__(self) -> None:
        self.ids, self.times, self.values = array("Q"), array("Q"), array("q")

    def add(self, number: int, time: int, value: int) -> None:
        """Note that an id has a value from a time on."""
        self.ids.append(number)
        self.times.append(time)
        self.values.append(value)


class _Timelines:
    """The value of each id over time.

    :param unknown: value of ids without changes
    """

    def __init__(self, changes: _Changes, unknown: int) -> None:
        self.unknown = unknown
        ids, times, values = map(np.asarray, (changes.ids, changes.times, changes.values))
        order = np.lexsort((times, ids))
        ids, self.values = ids[order], values[order]
        self.times, ranks = np.unique(times[order], return_inverse=True)
        self.ids, self.first, numbers = np.unique(ids, return_index=True, return_inverse=True)
        # The key of a change: the number of its id and the rank of its time.
        self.stride = np.int64(len(self.times) + 1)
        self.keys = numbers * self.stride + ranks
        # Most ids have one value that never changes, which needs no search.
        counts = np.diff(np.append(self.first, len(ids)))
        small = self.ids[self.ids < _ID_LIMIT]
        self.number_of = np.full(int(small[-1]) + 1 if len(small) else 0, -1, np.int32)
        self.number_of[small] = np.arange(len(small))
        self.changes_often = counts > 1

    def find(self, ids: NDArray[np.uint64], times: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the value of each id at the time beside it; shape (ids,).

        Before its first change, an id has its first value, because the kernel reports changes with
        a small delay.

        :param ids: shape (ids,)
        :param times: shape (ids,)
        """
        if not len(self.ids):
            return np.full(len(ids), self.unknown)
        numbers = self._numbers(ids)
        values = np.where(numbers < 0, self.unknown, self.values[self.first[numbers]])
        (rows,) = np.nonzero((numbers >= 0) & self.changes_often[numbers])
        if len(rows):
            number = numbers[rows]
            rank = np.searchsorted(self.times, times[rows], side="right") - 1
            key = number * self.stride + rank
            last = np.searchsorted(self.keys, key, side="right") - 1
            values[rows] = self.values[np.maximum(last, self.first[number])]
        return values

    def _numbers(self, ids: NDArray[np.uint64]) -> NDArray[np.int64]:
        if (ids < len(self.number_of)).all():
            return self.number_of[ids].astype(np.int64)
        nearest = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[nearest] == ids, nearest, -1)


@dataclass(kw_only=True, slots=True)
class SideBand:
    """The contents of the records that are not samples.

    :param lost: number of lost records by the type that reports them, LOST or LOST_SAMPLES
    :param lost_samples: number of lost samples that LOST_SAMPLES reports, by index of the event;
        None is the index of unknown events
    :param throttled: number of times that the kernel throttled an event, by the same index
    :param spaces_of: address space of a process over time
    :param names: name and process of a task
    :param names_of: index into ``names`` of a thread over time, ``UNKNOWN_NAME`` if unknown
    """

    kernel: KernelText | None
    runtime_symbols: tuple[RuntimeSymbol, ...]
    lost: Counter[int]
    lost_samples: Counter[int | None]
    throttled: Counter[int | None]
    files: Sequence[MappedFile]
    spaces: SpaceTable
    spaces_of: _Timelines
    names: Sequence[tuple[str, int]]
    names_of: _Timelines
    processes: Processes
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Record:
    time: int
    kind: int
    misc: int
    body: Cursor


def read_side_band(
    streams: Sequence[tuple[Stream, Sequence[int]]],
    events: Sequence[Event],
    build_ids: Mapping[str, str],
    *,
    timed: bool,
) -> SideBand:
    """Read the records that are not samples.

    :param streams: each stream with the offsets of its records that are not samples
    :param build_ids: build ids by path, for mappings without one
    :param timed: whether records have timestamps; otherwise their order in the file is used
    """
    clock = _Clock(events) if timed else None
    reader = _SidebandReader(build_ids, _EventIds(events))
    for record in _records(streams, clock):
        reader.read(record)
    return reader.result()


def _records(
    streams: Sequence[tuple[Stream, Sequence[int]]], clock: "_Clock | None"
) -> Iterator[_Record]:
    # Sort by time. A compressed file of a few kB may have millions of records, so only their times
    # and offsets are kept before parsing.
    times, owners, starts = array("Q"), array("L"), array("Q")
    for owner, (stream, offsets) in enumerate(streams):
        unpack = struct.Struct(f"{stream.order}IHH").unpack_from
        for offset in offsets:
            kind, _, size = unpack(stream.data, offset)
            if kind in _HANDLERS:
                times.append(
                    stream.base + offset
                    if clock is None
                    else clock.time(stream.data, stream.order, offset, offset + size)
                )
                owners.append(owner)
                starts.append(offset)
    for index in np.argsort(np.asarray(times), kind="stable"):
        stream, offset = streams[owners[index]][0], starts[index]
        kind, misc, size = struct.unpack_from(f"{stream.order}IHH", stream.data, offset)
        start, stop = offset + RECORD_HEADER_BYTES, offset + size
        body = Cursor(stream.data, stream.order, start, stop, stream.label)
        yield _Record(times[index], kind, misc, body)


class _Clock:
    """Reads the timestamps of records that are not samples, from the fields at their end."""

    def __init__(self, events: Sequence[Event]) -> None:
        layouts = [Layout.of(event) for event in events]
        self.first = layouts[0].index_from_end(TIME) or 0
        indices = {layout.index_from_end(TIME) or 0 for layout in layouts}
        has_ids = all(layout.sample_type & IDENTIFIER for layout in layouts)
        self.by_id: dict[int, int] = {}
        if len(indices) > 1 and has_ids:
            for event, layout in zip(events, layouts, strict=True):
                self.by_id |= dict.fromkeys(event.ids, layout.index_from_end(TIME) or 0)

    def time(self, data: Bytes, order: str, offset: int, stop: int) -> int:
        index = self.first
        if self.by_id and stop - 8 >= offset + RECORD_HEADER_BYTES:
            (number,) = struct.unpack_from(f"{order}Q", data, stop - 8)
            index = self.by_id.get(number, index)
        at = stop - 8 * index
        if not index or at < offset + RECORD_HEADER_BYTES:
            return 0
        (time,) = struct.unpack_from(f"{order}Q", data, at)
        # perf treats records without a time, and those with all bits set, as having time 0.
        return 0 if time == _LAST_ADDRESS else int(time)


class _EventIds:
    """Finds the event of a record that is not a sample."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.is_single = len(events) == 1
        self.by_id = {number: index for index, event in enumerate(events) for number in event.ids}
        layout = Layout.of(events[0])
        self.index = layout.index_from_end(IDENTIFIER) or layout.index_from_end(ID) or 0

    def find(self, number: int) -> int | None:
        """Return the index of the event with an id; None if unknown."""
        return 0 if self.is_single else self.by_id.get(number)

    def of_trailer(self, body: Cursor) -> int | None:
        """Return the index of the event to which the id at the end of a record belongs.

        Return None if the event is unknown.
        """
        at = body.end - 8 * self.index
        if self.is_single or not self.index or at < body.offset:
            return self.find(0)
        return self.find(int(struct.unpack_from(f"{body.order}Q", body.data, at)[0]))


class _Family:
    # Processes in the order of their beginnings, and the one that has a pid now.

    def __init__(self) -> None:
        self.pids, self.parents, self.parent_pids = array("q"), array("q"), array("q")
        self.programs: dict[int, str] = {}
        self.current: dict[int, int] = {}

    def begin(self, pid: int, parent: int, parent_pid: int) -> int:
        """Add a process, which has its pid from now on; return its index."""
        number = self.current[pid] = len(self.pids)
        self.pids.append(pid)
        self.parents.append(parent)
        self.parent_pids.append(parent_pid)
        return number

    def find(self, pid: int) -> int:
        """Return the index of the process that has a pid; add the process if it is unknown."""
        number = self.current.get(pid)
        return self.begin(pid, NO_PROCESS, NO_PROCESS) if number is None else number

    def fork(self, child: int, parent: int) -> None:
        """Begin a process, or set the parent of one that existed before the recording."""
        number = self.current.get(child)
        if number is None or self.parent_pids[number] != NO_PROCESS:
            number = self.begin(child, NO_PROCESS, NO_PROCESS)
        self.parents[number] = self.current.get(parent, NO_PROCESS)
        self.parent_pids[number] = parent

    def execute(self, pid: int, program: str) -> None:
        """Begin a process with the pid of the one that executed its program."""
        self.programs[self.begin(pid, self.find(pid), pid)] = program

    def result(self) -> Processes:
        pids, parents = np.array(self.pids, np.int64), np.array(self.parents, np.int64)
        parent_pids = np.array(self.parent_pids, np.int64)
        # perf lists the processes that existed before the recording in any order, so some come
        # after their children.
        distinct, first = np.unique(pids, return_index=True)
        if len(distinct):
            nearest = np.minimum(np.searchsorted(distinct, parent_pids), len(distinct) - 1)
            is_later = (parents == NO_PROCESS) & (distinct[nearest] == parent_pids)
            parents = np.where(is_later, first[nearest], parents)
        programs = tuple(self.programs.get(number) for number in range(len(pids)))
        return Processes(pid=pids, parent=parents, parent_pid=parent_pids, program=programs)


class _SidebandReader:
    def __init__(self, build_ids: Mapping[str, str], ids: _EventIds) -> None:
        self.build_ids = build_ids
        self.ids = ids
        self.kernel: KernelText | None = None
        self.symbols: dict[RuntimeSymbol, None] = {}
        self.lost: Counter[int] = Counter()
        self.lost_samples: Counter[int | None] = Counter()
        self.throttled: Counter[int | None] = Counter()
        self.files: dict[MappedFile, int] = {}
        self.lines = [Line(-1, 0), Line(-1, 0)]
        self.maps: list[tuple[int, int, int, int, int]] = []
        self.map_times: list[tuple[int, int]] = []
        self.line_of: dict[int, int] = {}
        # Number of processes that share each line.
        self.sharers: defaultdict[int, int] = defaultdict(int)
        self.attached: list[tuple[int, int, int, int]] = []
        self.names: dict[tuple[str, int], int] = {(_IDLE_COMM, NO_PROCESS): 0}
        self.comm_of: dict[int, str] = {0: _IDLE_COMM}
        self.named = _Changes()
        self.named.add(0, 0, 0)
        self.family = _Family()
        self.damaged = 0

    def read(self, record: _Record) -> None:
        try:
            _HANDLERS[record.kind](self, record)
        except BadPerfData:
            self.damaged += 1

    def attach(self, pid: int, line: int, time: int) -> None:
        """Assign a line (``_spaces.Line``) to a process, from a time on."""
        if pid in self.line_of:
            self.sharers[self.line_of[pid]] -= 1
        self.line_of[pid] = line
        self.sharers[line] += 1
        self.attached.append((pid, time, line, len(self.maps)))

    def new_line(self, parent: int) -> int:
        self.lines.append(Line(parent, len(self.maps)))
        return len(self.lines) - 1

    def read_mapping(self, record: _Record) -> None:
        body = record.body
        offset = body.offset - RECORD_HEADER_BYTES
        pid, _ = body.u32(), body.u32()
        start, length, page_offset = body.u64(), body.u64(), body.u64()
        name = text_until_nul(body.data[offset + _NAME_OFFSETS[record.kind] : body.end])
        # All foreign processes have this pid, so their mappings cannot be distinguished.
        if not length or pid == _FOREIGN_PID or name.startswith(_GUEST_MAP):
            return
        line = KERNEL_LINE if pid == _KERNEL_PID else self.own_line(pid, record.time)
        if line == KERNEL_LINE and name.startswith(KERNEL_MAP):
            # For the kernel perf stores an address instead of a file offset.
            if self.kernel is None or page_offset:
                self.kernel = KernelText(symbol=name.removeprefix(KERNEL_MAP), address=page_offset)
            page_offset = (start - page_offset) & _LAST_ADDRESS
        if line != KERNEL_LINE and name.startswith(_ANONYMOUS):
            # Executable anonymous memory is code that the process generates, as in map__new of
            # perf.
            page_offset = start
            name = generated_code_of(pid) if _is_executable(record, offset) else name
        file = self.number_of_file(name, _build_id(record, offset) or self.build_ids.get(name))
        end = min(start + length, _LAST_ADDRESS)
        self.maps.append((line, start, end, file, page_offset))
        self.map_times.append((pid, record.time))

    def own_line(self, pid: int, time: int) -> int:
        """Return a line that only this process uses, for a new mapping."""
        line = self.line_of.get(pid)
        if line is None or self.sharers[line] > 1:
            line = self.new_line(-1 if line is None else line)
            self.attach(pid, line, time)
        return line

    def number_of_file(self, name: str, build_id: str | None) -> int:
        return self.files.setdefault(MappedFile(name, build_id), len(self.files))

    def read_comm(self, record: _Record) -> None:
        body = record.body
        pid, tid = body.u32(), body.u32()
        name = text_until_nul(body.data[body.offset : body.end])
        if record.misc & _MISC_EXEC:
            self.family.execute(pid, name)
            self.attach(pid, self.new_line(-1), record.time)
        self.name_task(pid, tid, name, record.time)

    def name_task(self, pid: int, tid: int, comm: str, time: int) -> None:
        """Give a thread the name and the process that it has from a time on."""
        self.comm_of[tid] = comm
        number = self.names.setdefault((comm, self.family.find(pid)), len(self.names))
        self.named.add(tid, time, number)

    def read_fork(self, record: _Record) -> None:
        child, parent, thread, parent_thread = (record.body.u32() for _ in range(4))
        if child != parent:
            self.family.fork(child, parent)
        comm = self.comm_of.get(parent_thread)
        if comm is not None:
            self.name_task(child, thread, comm, record.time)
        # A new thread shares the mappings of its process.
        if child == parent:
            return
        if record.misc & _MISC_EXEC:
            self.attach(child, self.new_line(-1), record.time)
        elif parent in self.line_of:
            self.attach(child, self.line_of[parent], record.time)

    def read_exit(self, record: _Record) -> None:
        pid, _, thread = (record.body.u32() for _ in range(3))
        if pid == thread and pid in self.line_of:
            # The process no longer shares its line; its late samples still find the line.
            self.sharers[self.line_of.pop(pid)] -= 1

    def read_symbol(self, record: _Record) -> None:
        body = record.body
        address, size, kind_and_flags = body.u64(), body.u32(), body.u32()
        kind = kind_and_flags & 0xFFFF if body.order == "<" else kind_and_flags >> 16
        name = text_until_nul(body.data[body.offset : body.end])
        self.symbols[RuntimeSymbol(address, size, name, kind)] = None

    def read_lost(self, record: _Record) -> None:
        lost = lost_records(record.kind, record.misc, record.body)
        self.lost[record.kind] += lost
        if record.kind == RECORD_LOST_SAMPLES:
            self.lost_samples[self.ids.of_trailer(record.body)] += lost

    def read_throttle(self, record: _Record) -> None:
        body = record.body
        has_id = body.end - body.offset >= _THROTTLE_ID_OFFSET + 8
        at = body.offset + _THROTTLE_ID_OFFSET
        number = struct.unpack_from(f"{body.order}Q", body.data, at)[0] if has_id else 0
        self.throttled[self.ids.find(int(number))] += 1

    def result(self) -> SideBand:
        columns = list(zip(*self.maps, strict=True)) or [(), (), (), (), ()]
        maps = Maps(
            np.array(columns[0], np.int64),
            np.array(columns[1], np.uint64),
            np.array(columns[2], np.uint64),
            np.array(columns[3], np.int64),
            np.array(columns[4], np.uint64),
        )
        spaces = SpaceTable(self.lines, maps)
        notes = [f"truncated records: {self.damaged}"] if self.damaged else []
        return SideBand(
            kernel=self.kernel,
            runtime_symbols=tuple(self.symbols),
            lost=self.lost,
            lost_samples=self.lost_samples,
            throttled=self.throttled,
            files=tuple(self.files),
            spaces=spaces,
            spaces_of=self.timelines_of_spaces(spaces),
            names=tuple(self.names),
            names_of=_Timelines(self.named, UNKNOWN_NAME),
            processes=self.family.result(),
            notes=tuple(notes),
        )

    def timelines_of_spaces(self, spaces: SpaceTable) -> _Timelines:
        """Return the space of each process over time.

        It changes when a process gets another line, and when a mapping begins a new space.
        """
        numbers = np.flatnonzero(spaces.starts_space)
        lines = np.array([entry[2] for entry in self.attached], np.int64)
        counts = np.array([entry[3] for entry in self.attached], np.int64)
        got = spaces.space_at(lines, counts).tolist()
        begun = spaces.space_at(spaces.maps.line[numbers], numbers + 1).tolist()
        changes = [
            (pid, time, order, 0, space)
            for (pid, time, _, order), space in zip(self.attached, got, strict=True)
        ]
        changes += [
            (*self.map_times[number], number, 1, space)
            for number, space in zip(numbers.tolist(), begun, strict=True)
        ]
        changes.sort(key=lambda change: (change[2], change[3]))
        spaces_of = _Changes()
        for pid, time, _, _, space in changes:
            spaces_of.add(pid, time, space)
        return _Timelines(spaces_of, UNKNOWN_LINE)


def _is_executable(record: _Record, offset: int) -> bool:
    if record.kind == _MMAP:
        return not record.misc & _MISC_MMAP_DATA
    body = record.body
    protection = Cursor(body.data, body.order, offset + _PROT_OFFSET, body.end, body.label)
    return bool(protection.u32() & _PROT_EXEC)


def _build_id(record: _Record, offset: int) -> str | None:
    if record.kind != _MMAP2 or not record.misc & _MISC_MMAP_BUILD_ID:
        return None
    body = record.body
    raw = body.data[offset + _BUILD_ID_OFFSET : body.end]
    if len(raw) < 4 + _BUILD_ID_MOST_BYTES:
        return None
    return raw[4 : 4 + min(raw[0], _BUILD_ID_MOST_BYTES)].hex() or None


_HANDLERS: Mapping[int, Callable[[_SidebandReader, _Record], None]] = {
    _MMAP: _SidebandReader.read_mapping,
    _MMAP2: _SidebandReader.read_mapping,
    _COMM: _SidebandReader.read_comm,
    _FORK: _SidebandReader.read_fork,
    _EXIT: _SidebandReader.read_exit,
    _KSYMBOL: _SidebandReader.read_symbol,
    _THROTTLE: _SidebandReader.read_throttle,
    RECORD_LOST: _SidebandReader.read_lost,
    RECORD_LOST_SAMPLES: _SidebandReader.read_lost,
}
