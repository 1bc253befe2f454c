"""Make the recording that others see of the rows that were counted."""

from collections.abc import Mapping, Sequence

import numpy as np

from schedperf.perf_data._bytes import words_of
from schedperf.perf_data._columns import Integers, Words
from schedperf.perf_data._count import Rows
from schedperf.perf_data._layout import CPU
from schedperf.perf_data._walk import Stream
from schedperf.perf_data.recording import (
    NO_CHAIN,
    NO_CPU,
    NO_TASK,
    Addresses,
    Chains,
    MemorySamples,
    Samples,
    Task,
)
from schedperf_collectors.perf_header import Event

# In a row's task: the thread has no name that is known, and the lower bits are its id.
NAMELESS = 1 << 31
# Far above PID_MAX_LIMIT of a 64-bit kernel (include/linux/threads.h): what is beyond is negative.
LARGEST_TID = 1 << 30
_HALF = 32

Column = Words | Integers


def cpus_of(events: Sequence[Event], event: Integers, cpu: Words) -> Integers:
    """Return the CPUs, ``NO_CPU`` where the event's samples do not say."""
    says = np.array([bool(one.sample_type & CPU) for one in events])
    return np.where(says[event], cpu.view(np.int64), NO_CPU)


class TaskTable:
    """Number the tasks of rows in the order of process and name."""

    def __init__(self, codes: Sequence[Words], comms: Sequence[str]) -> None:
        self.codes = np.unique(np.concatenate([np.zeros(0, np.uint64), *codes]))
        self.tasks = tuple(_task(code, comms) for code in self.codes.tolist())

    def find(self, codes: Words) -> Integers:
        """Return the indices of tasks by what stands for them in rows."""
        return np.searchsorted(self.codes, codes)


def _task(code: int, comms: Sequence[str]) -> Task:
    pid, name = code >> _HALF, code & 0xFFFFFFFF
    return Task(pid, _name_unknown(name) if name & NAMELESS else comms[name])


def _name_unknown(name: int) -> str:
    # perf's own way to show a thread that it does not know; one that is just exiting has tid -1.
    tid = name & ~NAMELESS
    return f":{tid - NAMELESS if tid > LARGEST_TID else tid}"


def make_samples(
    rows: Rows, events: Sequence[Event], tasks: TaskTable | None, chain: Integers
) -> Samples:
    """Return the rows as others see them."""
    event = rows.events()
    return Samples(
        event=event,
        mode=rows.modes(),
        cpu=cpus_of(events, event, rows.cpus().view(np.uint64)),
        task=np.full(len(rows), NO_TASK) if tasks is None else tasks.find(rows.task),
        space=rows.space,
        ip=rows.ip,
        chain=chain,
        count=rows.count,
        period=rows.period,
    )


def make_chains(rows: Rows, streams: Sequence[Stream]) -> tuple[Chains, Integers]:
    """Read each distinct chain once; return them and the index of each row's chain."""
    index = np.full(len(rows), NO_CHAIN)
    (with_chain,) = np.nonzero(rows.chain_hash)
    _, first, inverse = np.unique(
        rows.chain_hash[with_chain], return_index=True, return_inverse=True
    )
    # Numbered in the order of the rows, whatever the hashes are this time.
    by_row = np.argsort(first)
    number = np.empty_like(by_row)
    number[by_row] = np.arange(len(by_row))
    index[with_chain] = number[inverse]
    chosen = with_chain[first[by_row]]
    lengths = rows.chain_length[chosen]
    starts = np.concatenate(([0], np.cumsum(lengths)))
    words = _gather(streams, rows.chain_place[chosen], lengths, starts)
    return Chains(words=words, starts=starts), index


def _gather(
    streams: Sequence[Stream], places: Integers, lengths: Integers, starts: Integers
) -> Addresses:
    words = np.empty(int(starts[-1]), np.uint64)
    for stream in streams:
        offsets = places - stream.base
        inside = (offsets >= 0) & (offsets < len(stream.data))
        for alignment in range(8):
            (mine,) = np.nonzero(inside & (offsets & 7 == alignment))
            if not len(mine):
                continue
            source = words_of(stream.data, stream.order, alignment, len(stream.data))
            count = lengths[mine]
            within = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
            at = np.repeat((offsets[mine] - alignment) >> 3, count) + within
            words[np.repeat(starts[mine], count) + within] = source[at]
    return words


def make_memory(
    parts: Sequence[Mapping[str, Column]], events: Sequence[Event], tasks: TaskTable
) -> MemorySamples:
    """Return the memory samples of all windows in the order of the file."""

    def column(name: str) -> Column:
        found: Column = np.concatenate(
            [np.zeros(0, np.uint64), *(part[name].view(np.uint64) for part in parts)]
        )
        return found[order]

    order = np.argsort(
        np.concatenate([np.zeros(0, np.uint64), *(part["place"] for part in parts)]), kind="stable"
    )
    event = column("event").view(np.int64)
    return MemorySamples(
        event=event,
        mode=column("mode").view(np.int64),
        cpu=cpus_of(events, event, column("cpu").view(np.uint64)),
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
