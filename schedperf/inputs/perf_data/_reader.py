# SPDX-License-Identifier: GPL-2.0-or-later
"""Build a :class:`Recording`: walk the records, read side-band records, count samples."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from pathlib import Path

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from schedperf.inputs.perf_data._bytes import release
from schedperf.inputs.perf_data._columns import (
    RECORD_MOST_BYTES,
    Columns,
    Integers,
    Members,
    Splitter,
    Words,
    has_members,
    is_memory_layout,
    memory_fields,
)
from schedperf.inputs.perf_data._count import Hasher, Rows, concatenate, count, merge
from schedperf.inputs.perf_data._forms import Opened, open_perf_data
from schedperf.inputs.perf_data._layout import CPU, TIME, Layout
from schedperf.inputs.perf_data._sideband import UNKNOWN_NAME, read_side_band
from schedperf.inputs.perf_data._spaces import UNKNOWN_LINE
from schedperf.inputs.perf_data._walk import Stream, Window
from schedperf.inputs.perf_data.recording import (
    KERNEL_SPACE,
    MODE_GUEST_KERNEL,
    MODE_USER,
    NO_CHAIN,
    NO_CPU,
    NO_TASK,
    Addresses,
    Chains,
    Losses,
    MemorySamples,
    Recording,
    Samples,
    Task,
)
from schedperf.model.errors import InputError
from schedperf.model.workers import count_workers
from schedperf_collectors.perf_header import (
    FORMAT_LOST,
    RECORD_LOST,
    RECORD_LOST_SAMPLES,
    BadPerfData,
    Event,
    total_lost,
)

# Flag in a row's task: the thread's name is unknown, and the lower bits are its tid.
_NAMELESS = 1 << 31
# More than PID_MAX_LIMIT of a 64-bit kernel (include/linux/threads.h): larger tids are negative.
_LARGEST_TID = 1 << 30
_HALF = 32

_Column = Words | Integers


class Keep(Enum):
    """What to read in addition to event, CPU, mode, address space and address.

    TASK and CHAIN distinguish the rows of :class:`Samples`; MEMORY requests
    :class:`MemorySamples`.
    """

    TASK = "task"
    CHAIN = "chain"
    MEMORY = "memory"


# Waiting rows are merged when there are more than this, and more than merged rows.
_MOST_WAITING = 1 << 20
# More workers would use more memory than perf and would wait for the scan of the records.
_MOST_WORKERS = 4
# Chains whose words are copied before their pages are released. They are scattered over the file,
# and the kernel maps 64 KiB around each of them.
_CHUNK_CHAINS = 1 << 10
# For less data, two threads cost more than they save.
_LEAST_PARALLEL_BYTES = 32 << 20


def read_perf_data(
    source: Path | bytes,
    label: str,
    *,
    keep: frozenset[Keep] = frozenset({Keep.CHAIN}),
    processes: int | None = None,
) -> Recording:
    """Read a whole perf.data of any form and count its samples.

    A damaged or truncated file is read up to the damage; ``notes`` describe it.

    :param source: a file, a directory of ``perf record --threads``, or a file's bytes
    :param label: name of the file in messages
    :param keep: what to read in addition to event, CPU, mode, address space and address
    :param processes: number of threads for large files, of which at most 4 are used; None for one
        per CPU that this process may use
    :raises InputError: the file is not a perf.data, has an unsupported form, or is unreadable
    """
    try:
        opened = open_perf_data(source, label)
    except BadPerfData as error:
        raise InputError(str(error)) from None
    except OSError as error:
        raise InputError(
            f"{label}: {(error.strerror or str(error)).lower()} (expected a perf.data file); check "
            "the path and its permissions"
        ) from None
    return _FileReader(opened, keep).read(processes or count_workers())


class _Counted(Struct, frozen=True):
    rows: list[Rows]
    memory: list[dict[str, _Column]]
    unknown_ids: int
    short: int


class _FileReader:
    def __init__(self, opened: Opened, keep: frozenset[Keep]) -> None:
        self.opened = opened
        self.keep = keep
        layouts = [Layout.of(event) for event in opened.events]
        self.timed = all(
            layout.sample_type & TIME and event.sample_id_all
            for layout, event in zip(layouts, opened.events, strict=True)
        )
        self.side = read_side_band(
            [(stream, walked.others) for stream, walked in opened.streams],
            opened.events,
            opened.features.build_ids,
            timed=self.timed,
        )
        self.splitter = Splitter(opened.events, timed=self.timed)
        self.members = Members(opened.events)
        self.hasher = Hasher()

    def read(self, workers: int) -> Recording:
        windows = [window for _, walked in self.opened.streams for window in walked.windows]
        parts: list[Rows] = []
        memory: list[dict[str, _Column]] = []
        unknown = short = waiting = merged = 0
        if any(map(has_members, self.splitter.layouts)):
            # The count of a group member is its difference from the previous window.
            workers = 1
        for counted in _each(self.count_window, windows, workers):
            parts += counted.rows
            memory += counted.memory
            unknown += counted.unknown_ids
            short += counted.short
            waiting += sum(map(len, counted.rows))
            if waiting > max(_MOST_WAITING, merged):
                parts = [merge(concatenate(parts))]
                waiting, merged = 0, len(parts[0])
        rows = merge(concatenate(parts))
        return self.recording(rows, memory, unknown, short)

    def recording(
        self, rows: Rows, memory: list[dict[str, _Column]], unknown: int, short: int
    ) -> Recording:
        opened, side, events = self.opened, self.side, self.opened.events
        notes = [*opened.notes, *side.notes]
        if unknown:
            notes.append(f"{unknown} sample(s) with an unknown event id are left out")
        if short:
            notes.append(f"{short} sample(s) with invalid or truncated fields are left out")
        codes = [part["task"].view(np.uint64) for part in memory]
        if Keep.TASK in self.keep:
            codes.append(rows.task)
        tasks = _TaskTable(codes, side.names)
        chains, chain = _make_chains(rows, [stream for stream, _ in opened.streams])
        return Recording(
            byte_order=opened.order,
            events=events,
            samples=_make_samples(rows, events, tasks if Keep.TASK in self.keep else None, chain),
            memory=_make_memory(memory, events, tasks) if Keep.MEMORY in self.keep else None,
            chains=chains,
            tasks=tasks.tasks,
            processes=side.processes,
            files=side.files,
            spaces=side.spaces,
            features=opened.features,
            kernel=side.kernel,
            runtime_symbols=side.runtime_symbols,
            losses=self.losses(unknown),
            notes=tuple(notes),
        )

    def losses(self, unknown: int) -> Losses:
        skipped: Counter[int] = Counter()
        for _, walked in self.opened.streams:
            skipped += walked.skipped
        lost = self.side.lost
        records, samples = lost[RECORD_LOST], lost[RECORD_LOST_SAMPLES]
        # perf writes LOST_SAMPLES records at the end: if there are none although records were lost,
        # perf was killed.
        are_counted = bool(samples or not records)
        of_event = [
            self.side.lost_samples[number]
            if are_counted and event.read_format & FORMAT_LOST
            else None
            for number, event in enumerate(self.opened.events)
        ]
        return Losses(
            records=total_lost(lost, self.opened.events),
            samples=samples,
            samples_of_event=tuple(
                None if event.has_switches and count else count
                for event, count in zip(self.opened.events, of_event, strict=True)
            ),
            mixed_of_event=tuple(
                count if event.has_switches and count else 0
                for event, count in zip(self.opened.events, of_event, strict=True)
            ),
            has_switches=any(event.has_switches for event in self.opened.events),
            throttled=self.side.throttled.total(),
            throttled_of_event=tuple(
                self.side.throttled[number] for number in range(len(self.opened.events))
            ),
            skipped=dict(skipped),
            unknown_ids=unknown,
        )

    def count_window(self, window: Window) -> _Counted:
        columns, unknown, short = self.splitter.split(window)
        rows, memory = [], []
        for part in columns:
            if has_members(part.layout):
                part, unknown_ids = self.members.deliver(part)  # noqa: PLW2901 # one per member
                unknown += unknown_ids
            rows.append(self.count_columns(part))
            if Keep.MEMORY in self.keep and is_memory_layout(part.layout):
                memory.append(self.memory_of(part, window.stream.order))
        if len(rows) > 1:
            rows = [merge(concatenate(rows))]
        end = window.start + int(window.offsets[-1]) + RECORD_MOST_BYTES
        release(window.stream.data, window.start, end)
        return _Counted(rows, memory, unknown, short)

    def count_columns(self, columns: Columns) -> Rows:
        if Keep.CHAIN in self.keep:
            hashes, has_user = self.hasher.chains(columns)
        else:
            hashes, has_user = np.zeros(len(columns.at), np.uint64), np.zeros(len(columns.at), bool)
        task = self.tasks_of(columns) if Keep.TASK in self.keep else None
        return count(columns, self.hasher, task, self.spaces_of(columns, has_user), hashes)

    def spaces_of(self, columns: Columns, has_user: NDArray[np.bool_]) -> Integers:
        spaces = np.full(len(columns.at), KERNEL_SPACE)
        # The host does not know the mappings of guests.
        spaces[columns.mode >= MODE_GUEST_KERNEL] = UNKNOWN_LINE
        (rows,) = np.nonzero((columns.mode == MODE_USER) | has_user)
        spaces[rows] = self.side.spaces_of.find(columns.pid[rows], columns.when[rows])
        return spaces

    def tasks_of(self, columns: Columns) -> Words:
        found = self.side.names_of.find(columns.tid, columns.when)
        nameless = _NAMELESS | columns.tid.view(np.int64) & (_NAMELESS - 1)
        names = np.where(found == UNKNOWN_NAME, nameless, found).view(np.uint64)
        return columns.pid << np.uint64(32) | names

    def memory_of(self, columns: Columns, order: str) -> dict[str, _Column]:
        fields = memory_fields(columns, order)
        fields |= {
            "event": columns.event,
            "mode": columns.mode,
            "cpu": columns.cpu,
            "task": self.tasks_of(columns),
            "tid": columns.tid,
            "space": self.spaces_of(columns, columns.mode == MODE_USER),
            "ip": columns.ip,
            "period": columns.period,
            "time": columns.when if self.timed else np.zeros(len(columns.at), np.uint64),
            "offset": columns.offset,
        }
        whole = fields.pop("fits") != 0
        return {name: column[whole] for name, column in fields.items()}


def _each(
    function: Callable[[Window], _Counted], windows: Sequence[Window], workers: int
) -> Iterator[_Counted]:
    # In order. Threads, not processes: NumPy releases the GIL, and no data has to be copied.
    size = sum(int(window.offsets[-1]) for window in windows)
    if workers == 1 or size < _LEAST_PARALLEL_BYTES:
        yield from map(function, windows)
        return
    with ThreadPoolExecutor(min(workers, _MOST_WORKERS)) as pool:
        yield from pool.map(function, windows)


def _cpus_of(events: Sequence[Event], event: Integers, cpu: Words) -> Integers:
    """Return the CPU of each row, ``NO_CPU`` if the event does not record it."""
    has_cpu = np.array([bool(event_attr.sample_type & CPU) for event_attr in events])
    return np.where(has_cpu[event], cpu.view(np.int64), NO_CPU)


class _TaskTable:
    """Numbers the tasks of rows, ordered by pid."""

    def __init__(self, codes: Sequence[Words], names: Sequence[tuple[str, int]]) -> None:
        self.codes = np.unique(np.concatenate([np.zeros(0, np.uint64), *codes]))
        self.tasks = tuple(_task(code, names) for code in self.codes.tolist())

    def find(self, codes: Words) -> Integers:
        """Return the index in ``tasks`` of the task of each row.

        :param codes: pid in the upper half; in the lower half the index of name and process, or
            ``_NAMELESS`` and the tid
        """
        return np.searchsorted(self.codes, codes)


def _task(code: int, names: Sequence[tuple[str, int]]) -> Task:
    pid, name = code >> _HALF, code & 0xFFFFFFFF
    return Task(pid, _name_unknown(name)) if name & _NAMELESS else Task(pid, *names[name])


def _name_unknown(name: int) -> str:
    # perf's notation for unknown threads; an exiting thread has tid -1.
    tid = name & ~_NAMELESS
    return f":{tid - _NAMELESS if tid > _LARGEST_TID else tid}"


def _make_samples(
    rows: Rows, events: Sequence[Event], tasks: _TaskTable | None, chain: Integers
) -> Samples:
    """Return the rows as :class:`Samples`.

    :param tasks: None to leave tasks out
    :param chain: index of each row's chain
    """
    event = rows.events()
    return Samples(
        event=event,
        mode=rows.modes(),
        cpu=_cpus_of(events, event, rows.cpus().view(np.uint64)),
        task=np.full(len(rows), NO_TASK) if tasks is None else tasks.find(rows.task),
        space=rows.space,
        ip=rows.ip,
        chain=chain,
        count=rows.count,
        period=rows.period,
    )


def _make_chains(rows: Rows, streams: Sequence[Stream]) -> tuple[Chains, Integers]:
    """Read each distinct chain once; return the chains and the index of each row's chain.

    The index is ``NO_CHAIN`` for a row without a chain.
    """
    index = np.full(len(rows), NO_CHAIN)
    (with_chain,) = np.nonzero(rows.chain_hash)
    _, first, inverse = np.unique(
        rows.chain_hash[with_chain], return_index=True, return_inverse=True
    )
    # Number the chains in the order of the rows, because hashes are random.
    by_row = np.argsort(first)
    number = np.empty_like(by_row)
    number[by_row] = np.arange(len(by_row))
    index[with_chain] = number[inverse]
    chosen = with_chain[first[by_row]]
    lengths = rows.chain_length[chosen]
    starts = np.concatenate(([0], np.cumsum(lengths)))
    words = _gather(streams, rows.chain_offset[chosen], lengths, starts)
    return Chains(words=words, starts=starts), index


def _gather(
    streams: Sequence[Stream], chain_offsets: Integers, lengths: Integers, starts: Integers
) -> Addresses:
    """Return the words of all chains, concatenated.

    :param chain_offsets: where each chain starts in the recording
    :param lengths: length of each chain, in words
    :param starts: where each chain starts in the result; shape (chains + 1,)
    """
    words = np.empty(int(starts[-1]), np.uint64)
    bases = np.array([stream.base for stream in streams])
    owners = np.searchsorted(bases, chain_offsets, side="right") - 1
    views = [memoryview(stream.data) for stream in streams]
    for first in range(0, len(lengths), _CHUNK_CHAINS):
        chunk = slice(first, first + _CHUNK_CHAINS)
        owner = owners[chunk]
        begin = chain_offsets[chunk] - bases[owner]
        end = begin + 8 * lengths[chunk]
        spans = zip(owner.tolist(), begin.tolist(), end.tolist(), strict=True)
        # Copying bytes is much faster than indexing words, which also need not be aligned.
        raw = b"".join([views[number][low:high] for number, low, high in spans])
        last = min(first + _CHUNK_CHAINS, len(lengths))
        words[starts[first] : starts[last]] = np.frombuffer(raw, f"{streams[0].order}u8")
        for stream in streams:
            release(stream.data, 0, len(stream.data))
    return words


def _make_memory(
    parts: Sequence[Mapping[str, _Column]], events: Sequence[Event], tasks: _TaskTable
) -> MemorySamples:
    """Return the memory samples of all windows, in file order."""

    def column(name: str) -> _Column:
        values: _Column = np.concatenate(
            [np.zeros(0, np.uint64), *(part[name].view(np.uint64) for part in parts)]
        )
        return values[order]

    order = np.argsort(
        np.concatenate([np.zeros(0, np.uint64), *(part["offset"] for part in parts)]), kind="stable"
    )
    event = column("event").view(np.int64)
    return MemorySamples(
        event=event,
        mode=column("mode").view(np.int64),
        cpu=_cpus_of(events, event, column("cpu").view(np.uint64)),
        task=tasks.find(column("task").view(np.uint64)),
        tid=column("tid").view(np.int64),
        space=column("space").view(np.int64),
        ip=column("ip").view(np.uint64),
        address=column("address").view(np.uint64),
        physical=column("physical").view(np.uint64),
        data_src=column("data_src").view(np.uint64),
        weight=column("weight").view(np.int64),
        period=column("period").view(np.int64),
        time=column("time").view(np.uint64),
    )
