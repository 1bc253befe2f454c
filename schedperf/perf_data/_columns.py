# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the fields of samples as columns: those in front, values of a group, and the memory access.

What varies in size is stepped over for all samples at once. The order is that of
``perf_output_sample`` of the kernel's ``kernel/events/core.c``.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from schedperf.perf_data._bytes import high_half, low_half, words_of
from schedperf.perf_data._layout import (
    ADDR,
    BRANCH_STACK,
    CALLCHAIN,
    CPU,
    DATA_SRC,
    FORMAT_GROUP,
    FORMAT_ID,
    FORMAT_LOST,
    FORMAT_TIMES,
    IP,
    PERIOD,
    PHYS_ADDR,
    RAW,
    READ,
    REGS_INTR,
    REGS_USER,
    STACK_USER,
    TID,
    TIME,
    TRANSACTION,
    WEIGHT,
    WEIGHT_STRUCT,
    EventFinder,
    Layout,
)
from schedperf.perf_data._walk import Window
from schedperf_collectors.perf_header import Event

_MODE_MASK = 7
# A record's size is a 16-bit number.
RECORD_MOST_BYTES = 1 << 16

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]
# PERF_SAMPLE_BRANCH_HW_INDEX and PERF_SAMPLE_BRANCH_COUNTERS.
_BRANCH_HW_INDEX = 1 << 17
_BRANCH_COUNTERS = 1 << 19
# struct perf_branch_entry: from, to, flags.
_BRANCH_WORDS = 3
# PERF_SAMPLE_WEIGHT_STRUCT: the latency is the first 32 bits by value, in either byte order.
_LATENCY_MASK = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, kw_only=True, slots=True)
class Columns:
    """Samples of one layout; shape (samples,).

    :param words: what ``at``, ``stop`` and ``chain`` are indices of
    :param at: where the record starts
    :param stop: where it ends
    :param chain: the first word of the call chain
    :param length: of the call chain, in words
    :param when: time of the sample, else its place in the file
    :param place: of the record in the file
    """

    layout: Layout
    words: Words
    at: Integers
    stop: Integers
    chain: Integers
    length: Integers
    event: Integers
    mode: Integers
    cpu: Words
    pid: Words
    tid: Words
    when: Words
    ip: Words
    period: Integers
    place: Integers

    def take(self, rows: Integers, *, event: Integers, period: Integers) -> "Columns":
        """Return some of the samples, or some of them twice, as others' with other periods."""
        one_a_sample = (
            "at", "stop", "chain", "length", "mode", "cpu", "pid", "tid", "when", "ip", "place"
        )  # fmt: skip
        taken: dict[str, Any] = {name: getattr(self, name)[rows] for name in one_a_sample}
        return replace(self, event=event, period=period, **taken)


class Splitter:
    """Split the samples of windows into columns, one set for each layout and alignment."""

    def __init__(self, events: Sequence[Event], *, timed: bool) -> None:
        self.events = events
        self.finder = EventFinder(events)
        self.layouts = tuple(dict.fromkeys(Layout.of(event) for event in events))
        self.layout_of = np.array([self.layouts.index(Layout.of(event)) for event in events])
        # A missing period is the one that was asked for, as in perf report.
        self.rates = np.array([event.rate for event in events], np.uint64).view(np.int64)
        self.timed = timed

    def split(self, window: Window) -> tuple[list[Columns], int, int]:
        """Return the columns, and how many samples have no event and how many are too short."""
        columns, unknown, short = [], 0, 0
        for view, at in _views(window):
            sizes = _sizes(view.words[at], view.order)
            events = self.finder.find(view.words, at, sizes)
            unknown += int(np.count_nonzero(events < 0))
            for number, layout in enumerate(self.layouts):
                mine = (events >= 0) & (self.layout_of[events] == number)
                part = self._whole(view, layout, *_chosen(mine, at, sizes, events))
                if part is not None:
                    columns.append(part)
                short += int(np.count_nonzero(mine)) - (0 if part is None else len(part.at))
        return columns, unknown, short

    def _whole(
        self, view: "_View", layout: Layout, at: Integers, sizes: Integers, events: Integers
    ) -> Columns | None:
        # The samples whose fields fit and can be, if there are any.
        at, sizes, events = _chosen(sizes >= layout.fixed_words, at, sizes, events)
        if not len(at):
            return None
        columns = self._columns(view, layout, at, sizes, events)
        # No event counts 2**63 from one sample to the next.
        fits = (columns.length >= 0) & (columns.period >= 0)
        if fits.all():
            return columns
        if not fits.any():
            return None
        return self._columns(view, layout, *_chosen(fits, at, sizes, events))

    def _columns(
        self, view: "_View", layout: Layout, at: Integers, sizes: Integers, events: Integers
    ) -> Columns:
        words, order = view.words, view.order
        # All fields of a sample at once: each word by itself would come from memory again.
        fields = sliding_window_view(words, layout.fixed_words)[at]

        def take(field: int) -> Words | None:
            place = layout.place(field)
            return None if place is None else fields[:, place]

        none = np.zeros(len(at), np.uint64)
        task, cpu, period = take(TID), take(CPU), take(PERIOD)
        misc = fields[:, 0] >> np.uint64(32 if order == "<" else 16)
        file_place = view.place + at * 8
        time = take(TIME) if self.timed else None
        ip = take(IP)
        stop = at + sizes
        chain, length = _chains(layout, words, at, stop)
        return Columns(
            layout=layout,
            words=words,
            at=at,
            stop=stop,
            chain=chain,
            length=length,
            event=events,
            mode=(misc & np.uint64(_MODE_MASK)).view(np.int64),
            cpu=none if cpu is None else low_half(cpu, order),
            pid=none if task is None else low_half(task, order),
            tid=none if task is None else high_half(task, order),
            when=file_place.view(np.uint64) if time is None else time,
            ip=none if ip is None else ip,
            period=self.rates[events] if period is None else period.view(np.int64),
            place=file_place,
        )


def _chosen(flags: NDArray[np.bool_], *columns: Integers) -> tuple[Integers, ...]:
    # Nearly always all of them.
    return columns if flags.all() else tuple(column[flags] for column in columns)


@dataclass(frozen=True, slots=True)
class _View:
    # Bytes as words; ``place`` is that of the first of them in the recording.
    words: Words
    order: str
    place: int


def _views(window: Window) -> Iterator[tuple[_View, Integers]]:
    # Records of odd sizes shift those behind them: one view for each alignment, and where in it
    # samples start. Nearly always there is one.
    stream = window.stream
    offsets = window.offsets.astype(np.int64)
    end = min(window.start + int(offsets[-1]) + RECORD_MOST_BYTES, stream.end)
    alignments = offsets & 7
    for alignment in np.flatnonzero(np.bincount(alignments)).tolist():
        start = window.start + alignment
        words = words_of(stream.data, stream.order, start, end).astype(np.uint64, copy=False)
        (aligned,) = _chosen(alignments == alignment, offsets)
        at = (aligned - alignment) >> 3
        yield _View(words, stream.order, stream.base + start), at


def _sizes(headers: Words, order: str) -> Integers:
    sizes = headers >> np.uint64(51) if order == "<" else (headers & np.uint64(0xFFFF)) >> 3
    return sizes.view(np.int64)


def _chains(
    layout: Layout, words: Words, at: Integers, stop: Integers
) -> tuple[Integers, Integers]:
    # Where the call chains start and how long they are; -1 where a sample is too short for it.
    chain = at + layout.fixed_words
    last = len(words) - 1
    if layout.sample_type & READ:
        chain = chain + read_words(layout, words, chain, stop)
    if not layout.sample_type & CALLCHAIN:
        return chain, np.where(chain > stop, -1, 0)
    room = stop - chain - 1
    length = words[np.minimum(chain, last)]
    fits = (room >= 0) & (length <= np.maximum(room, 0).view(np.uint64))
    return chain + 1, np.where(fits, length.view(np.int64), -1)


def read_words(layout: Layout, words: Words, at: Integers, stop: Integers) -> Integers | int:
    """Return how many words the values of the event or of its group take.

    :param at: where they start; shape (samples,)
    """
    asked = layout.read_format
    times = sum(bool(asked & bit) for bit in FORMAT_TIMES)
    each = 1 + bool(asked & FORMAT_ID) + bool(asked & FORMAT_LOST)
    if not asked & FORMAT_GROUP:
        return times + each
    members = words[np.minimum(at, len(words) - 1)]
    # More than the record has room for is as bad as one more.
    room = np.maximum(stop - at, 0).view(np.uint64)
    counted: Integers = np.minimum(members, room).view(np.int64)
    return 1 + times + each * counted


def is_memory_layout(layout: Layout) -> bool:
    """Tell whether samples say what data they accessed."""
    return bool(layout.sample_type & ADDR and layout.sample_type & DATA_SRC)


class _Behind:
    # Steps over the fields behind the call chain, in all samples alike.

    def __init__(self, columns: Columns, order: str) -> None:
        self.words, self.stop, self.order = columns.words, columns.stop, order
        self.layout = columns.layout
        self.at = columns.chain + columns.length
        self.fits = self.at <= self.stop

    def word(self) -> Words:
        """Return one word of each sample, 0 where there is none, and stay in front of it."""
        inside = self.fits & (self.at < self.stop)
        return np.where(inside, self.words[np.minimum(self.at, len(self.words) - 1)], np.uint64(0))

    def next(self) -> Words:
        """Return one word of each sample and go behind it."""
        word = self.word()
        self.skip(1)
        return word

    def skip(self, count: Integers | int) -> None:
        """Go on by some words."""
        self.at = np.minimum(self.at + count, self.stop + 1)
        self.fits &= self.at <= self.stop

    def limited(self, count: Words) -> Integers:
        """Return a count from the file, at most one more than there is room for."""
        room = np.maximum(self.stop - self.at, 0).view(np.uint64) + np.uint64(1)
        limited: Integers = np.minimum(count, room).view(np.int64)
        return limited

    def skip_raw(self) -> None:
        """Go behind the bytes of a tracepoint: a 32-bit size, padded with them to words."""
        size = low_half(self.word(), self.order).view(np.int64)
        self.skip((size + 4 + 7) >> 3)

    def skip_branches(self) -> None:
        """Go behind the last branches."""
        count = self.limited(self.next())
        asked = self.layout.branch_sample_type
        self.skip(bool(asked & _BRANCH_HW_INDEX))
        self.skip(count * (_BRANCH_WORDS + bool(asked & _BRANCH_COUNTERS)))

    def skip_registers(self, mask: int) -> None:
        """Go behind registers: none where their number of bits is 0."""
        self.skip(np.where(self.next() == 0, 0, mask.bit_count()))

    def skip_stack(self) -> None:
        """Go behind a copy of the stack, and how much of it was in use."""
        size = self.next()
        words = self.limited((size >> np.uint64(3)) + np.uint64(1))
        self.skip(np.where(size == 0, 0, words))


def memory_fields(columns: Columns, order: str) -> dict[str, Words | Integers]:
    """Return address, data source, weight and physical address; shape (samples,) each.

    ``fits`` is false where a sample is too short for what it says that it has.
    """
    layout, behind = columns.layout, _Behind(columns, order)
    asked = layout.sample_type
    place = layout.place(ADDR)
    found: dict[str, Words | Integers] = {
        "address": columns.words[columns.at + (place or 0)],
        **dict.fromkeys(("data_src", "weight", "physical"), np.zeros(len(columns.at), np.uint64)),
    }
    steps: tuple[tuple[int, Callable[[], object]], ...] = (
        (RAW, behind.skip_raw),
        (BRANCH_STACK, behind.skip_branches),
        (REGS_USER, lambda: behind.skip_registers(layout.sample_regs_user)),
        (STACK_USER, behind.skip_stack),
        (WEIGHT, lambda: found.update(weight=behind.next())),
        (WEIGHT_STRUCT, lambda: found.update(weight=behind.next() & _LATENCY_MASK)),
        (DATA_SRC, lambda: found.update(data_src=behind.next())),
        (TRANSACTION, lambda: behind.skip(1)),
        (REGS_INTR, lambda: behind.skip_registers(layout.sample_regs_intr)),
        (PHYS_ADDR, lambda: found.update(physical=behind.next())),
    )
    for field, step in steps:
        if asked & field:
            step()
    return found | {"fits": behind.fits.astype(np.int64)}


def has_members(layout: Layout) -> bool:
    """Tell whether samples hold values and say whose they are."""
    return bool(layout.sample_type & READ and layout.read_format & FORMAT_ID)


class Members:
    """Make samples of the members of an event's group: one for each, as perf does.

    The leader fires, and the kernel reads all members. perf takes what each counted since the last
    time as the period of a sample of its own, and drops it where that is nothing. Windows must
    come in the order of the file.
    """

    def __init__(self, events: Sequence[Event]) -> None:
        event_of = {number: index for index, event in enumerate(events) for number in event.ids}
        self.ids = np.array(sorted(event_of) or [0], np.uint64)
        self.events = np.array([event_of.get(one, -1) for one in self.ids.tolist()], np.int64)
        self.last = np.zeros(len(self.ids), np.uint64)

    def deliver(self, columns: Columns) -> tuple[Columns, int]:
        """Return the members' samples, and how many belong to no event of the file."""
        sample, value_at, id_at = _members(columns)
        ids = columns.words[id_at]
        number = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        known = (self.ids[number] == ids) & (self.events[number] >= 0)
        sample, number = sample[known], number[known]
        period = self._differences(number, columns.words[value_at[known]])
        counted = period != 0
        sample = sample[counted]
        delivered = columns.take(sample, event=self.events[number[counted]], period=period[counted])
        return delivered, len(known) - int(np.count_nonzero(known))

    def _differences(self, number: Integers, values: np.ndarray) -> Integers:
        # What each member counted since it was last read, here or in the window before.
        order = np.argsort(number, kind="stable")
        number, values = number[order], values[order]
        before = np.empty_like(values)
        before[1:] = values[:-1]
        first = np.flatnonzero(np.diff(number, prepend=-1))
        before[first] = self.last[number[first]]
        last = np.append(first[1:], len(number)) - 1 if len(number) else first
        self.last[number[last]] = values[last]
        differences = np.empty(len(order), np.int64)
        differences[order] = (values - before).view(np.int64)
        return differences


def _members(columns: Columns) -> tuple[Integers, Integers, Integers]:
    # For each member: the index of its sample, and where its value and its id are.
    layout = columns.layout
    start = columns.at + layout.fixed_words
    times = sum(bool(layout.read_format & bit) for bit in FORMAT_TIMES)
    if not layout.read_format & FORMAT_GROUP:
        return np.arange(len(start)), start, start + 1 + times
    count = columns.words[start].view(np.int64)
    each = 2 + bool(layout.read_format & FORMAT_LOST)
    sample = np.repeat(np.arange(len(start)), count)
    within = np.arange(len(sample)) - np.repeat(np.cumsum(count) - count, count)
    value_at = start[sample] + 1 + times + each * within
    return sample, value_at, value_at + 1
