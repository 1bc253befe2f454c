"""Put a recording together: walk, side-band, counted samples."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from schedperf.model.errors import InputError
from schedperf.perf_data._bytes import release
from schedperf.perf_data._columns import (
    RECORD_MOST_BYTES,
    Columns,
    Integers,
    Splitter,
    Words,
    is_memory_layout,
    memory_fields,
)
from schedperf.perf_data._count import Hasher, Rows, concatenate, count, merge
from schedperf.perf_data._forms import Opened, open_perf_data
from schedperf.perf_data._groups import Members, has_members
from schedperf.perf_data._layout import FORMAT_LOST, TIME, Layout
from schedperf.perf_data._result import (
    NAMELESS,
    Column,
    TaskTable,
    make_chains,
    make_memory,
    make_samples,
)
from schedperf.perf_data._sideband import UNKNOWN_COMM, read_side_band
from schedperf.perf_data._spaces import UNKNOWN_LINE
from schedperf.perf_data._walk import Window
from schedperf.perf_data.recording import (
    KERNEL_SPACE,
    MODE_GUEST_KERNEL,
    MODE_USER,
    Losses,
    Recording,
)
from schedperf_collectors.perf_header import RECORD_LOST, RECORD_LOST_SAMPLES, BadPerfData


class Keep(Enum):
    """What is told apart, beside event, CPU, mode and address."""

    TASK = "task"
    CHAIN = "chain"
    MEMORY = "memory"


# Rows that wait to be added up: at most as many as those that already are, and these.
_MOST_WAITING = 1 << 20
# Below it two threads cost more than they save.
_LEAST_PARALLEL_BYTES = 32 << 20


def read_perf_data(
    source: Path | bytes,
    label: str,
    *,
    keep: frozenset[Keep] = frozenset({Keep.CHAIN}),
    processes: int | None = None,
) -> Recording:
    """Read a whole perf.data of any form and count its samples.

    What is damaged or cut off is read up to there, and ``notes`` say so.

    :param source: a file, a folder of ``perf record --threads``, or a file's bytes
    :param label: names the file in messages
    :param processes: on how many CPUs to work; None: on as many as there are, where the file is
        large
    :raises InputError: no perf.data, of a kind that is not read, or nothing of it can be read
    """
    try:
        opened = open_perf_data(source, label)
    except BadPerfData as error:
        raise InputError(str(error)) from None
    except OSError as error:
        raise InputError(f"{label}: {error.strerror}; give a file that can be read") from None
    return _Reader(opened, keep).read(processes or os.cpu_count() or 1)


@dataclass(frozen=True, slots=True)
class _Counted:
    rows: list[Rows]
    memory: list[dict[str, Column]]
    unknown_ids: int
    short: int


class _Reader:
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
        memory: list[dict[str, Column]] = []
        unknown = short = waiting = merged = 0
        if any(map(has_members, self.splitter.layouts)):
            # What a member counted is known only after the windows before.
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
        self, rows: Rows, memory: list[dict[str, Column]], unknown: int, short: int
    ) -> Recording:
        opened, side, events = self.opened, self.side, self.opened.events
        notes = [*opened.notes, *side.notes]
        if unknown:
            notes.append(f"samples that belong to no event of the file: {unknown}")
        if short:
            notes.append(f"samples with fields that do not fit or cannot be: {short}")
        codes = [part["task"].view(np.uint64) for part in memory]
        if Keep.TASK in self.keep:
            codes.append(rows.task)
        tasks = TaskTable(codes, side.comms)
        chains, chain = make_chains(rows, [stream for stream, _ in opened.streams])
        return Recording(
            byte_order=opened.order,
            events=events,
            samples=make_samples(rows, events, tasks if Keep.TASK in self.keep else None, chain),
            memory=make_memory(memory, events, tasks) if Keep.MEMORY in self.keep else None,
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
        records, samples = self.side.lost[RECORD_LOST], self.side.lost[RECORD_LOST_SAMPLES]
        # Where perf asks each event at the end how many samples it lost, it writes a second time
        # what the kernel has written already.
        counted_twice = any(event.read_format & FORMAT_LOST for event in self.opened.events)
        return Losses(
            records=max(records, samples) if counted_twice else records + samples,
            samples=samples,
            throttled=self.side.throttled,
            skipped=dict(skipped),
            unknown_ids=unknown,
        )

    def count_window(self, window: Window) -> _Counted:
        columns, unknown, short = self.splitter.split(window)
        rows, memory = [], []
        for part in columns:
            if has_members(part.layout):
                part, strangers = self.members.deliver(part)  # noqa: PLW2901 # perf's own samples.
                unknown += strangers
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
        # What a guest has mapped where the host does not know.
        spaces[columns.mode >= MODE_GUEST_KERNEL] = UNKNOWN_LINE
        (rows,) = np.nonzero((columns.mode == MODE_USER) | has_user)
        spaces[rows] = self.side.spaces_of.find(columns.pid[rows], columns.when[rows])
        return spaces

    def tasks_of(self, columns: Columns) -> Words:
        comms = self.side.comms_of.find(columns.tid, columns.when)
        nameless = NAMELESS | columns.tid.view(np.int64) & (NAMELESS - 1)
        names = np.where(comms == UNKNOWN_COMM, nameless, comms).view(np.uint64)
        return columns.pid << np.uint64(32) | names

    def memory_of(self, columns: Columns, order: str) -> dict[str, Column]:
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
            "place": columns.place,
        }
        whole = fields.pop("fits") != 0
        return {name: column[whole] for name, column in fields.items()}


def _each(
    function: Callable[[Window], _Counted], windows: Sequence[Window], workers: int
) -> Iterator[_Counted]:
    # In order. Threads, not processes: NumPy lets go of the interpreter's lock while it works, and
    # nothing has to be copied from one to the other.
    size = sum(int(window.offsets[-1]) for window in windows)
    if workers == 1 or size < _LEAST_PARALLEL_BYTES:
        yield from map(function, windows)
        return
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(function, windows)
