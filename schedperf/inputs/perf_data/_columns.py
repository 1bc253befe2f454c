# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the fields of samples as columns: fixed fields, group values and memory accesses.

Fields of variable size are skipped in all samples at once. ``perf_output_sample`` in the kernel's
``kernel/events/core.c`` defines the order of the fields.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from schedperf.inputs.perf_data._bytes import high_half, low_half, words_of
from schedperf.inputs.perf_data._layout import (
    ADDR,
    BRANCH_STACK,
    CALLCHAIN,
    CPU,
    DATA_SRC,
    FORMAT_GROUP,
    FORMAT_ID,
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
from schedperf.inputs.perf_data._walk import Window
from schedperf_collectors.perf_header import FORMAT_LOST, Event

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
# PERF_SAMPLE_WEIGHT_STRUCT: the latency is in the low 32 bits, in either byte order.
_LATENCY_MASK = np.uint64(0xFFFFFFFF)


class Columns(Struct, frozen=True, kw_only=True):
    """Samples of one layout; shape (samples,).

    :param words: words of the window
    :param at: index of the first word of the record
    :param stop: index after its last word
    :param chain: index of the first word of the call chain
    :param length: length of the call chain, in words
    :param when: time of the sample; its offset in the file if samples have no time
    :param offset: offset of the record in the file
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
    offset: Integers

    def take(self, rows: Integers, *, event: Integers, period: Integers) -> "Columns":
        """Return selected samples, with new events and periods.

        :param rows: indices of the samples, which may repeat
        """
        per_sample = (
            "at", "stop", "chain", "length", "mode", "cpu", "pid", "tid", "when", "ip", "offset"
        )  # fmt: skip
        taken: dict[str, Any] = {name: getattr(self, name)[rows] for name in per_sample}
        return replace(self, event=event, period=period, **taken)


class Splitter:
    """Splits the samples of windows into columns, one set for each layout and alignment."""

    def __init__(self, events: Sequence[Event], *, timed: bool) -> None:
        self.events = events
        self.finder = EventFinder(events)
        numbers: dict[Layout, int] = {}
        self.layout_of = np.array(
            [numbers.setdefault(Layout.of(event), len(numbers)) for event in events]
        )
        self.layouts = tuple(numbers)
        # A missing period is the requested one, as in perf report.
        self.rates = np.array([event.rate for event in events], np.uint64).view(np.int64)
        self.timed = timed

    def split(self, window: Window) -> tuple[list[Columns], int, int]:
        """Return the columns, the number of samples of unknown events, and of invalid samples."""
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
        # The samples with valid fields; None if all samples are invalid.
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
        # Read all fields of a sample at once, to read each cache line only once.
        fields = sliding_window_view(words, layout.fixed_words)[at]

        def take(field: int) -> Words | None:
            index = layout.index(field)
            return None if index is None else fields[:, index]

        none = np.zeros(len(at), np.uint64)
        task, cpu, period = take(TID), take(CPU), take(PERIOD)
        misc = fields[:, 0] >> np.uint64(32 if order == "<" else 16)
        file_offset = view.offset + at * 8
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
            when=file_offset.view(np.uint64) if time is None else time,
            ip=none if ip is None else ip,
            period=self.rates[events] if period is None else period.view(np.int64),
            offset=file_offset,
        )


def _chosen(flags: NDArray[np.bool_], *columns: Integers) -> tuple[Integers, ...]:
    # In most windows all samples are selected.
    return columns if flags.all() else tuple(column[flags] for column in columns)


class _View(Struct, frozen=True):
    """Bytes as words; ``offset`` is the offset of the first word in the recording."""

    words: Words
    order: str
    offset: int


def _views(window: Window) -> Iterator[tuple[_View, Integers]]:
    # Records of odd sizes change the alignment of later records: yield one view per alignment, and
    # the indices of its samples. Most windows have one alignment.
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
    # Start and length of each call chain; length -1 if the sample is too short.
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
    """Return the number of words of the READ field, per sample or for all.

    :param at: index of its first word; shape (samples,)
    """
    asked = layout.read_format
    times = sum(bool(asked & bit) for bit in FORMAT_TIMES)
    each = 1 + bool(asked & FORMAT_ID) + bool(asked & FORMAT_LOST)
    if not asked & FORMAT_GROUP:
        return times + each
    members = words[np.minimum(at, len(words) - 1)]
    # Limit the count to the size of the record, which is then too short.
    room = np.maximum(stop - at, 0).view(np.uint64)
    counted: Integers = np.minimum(members, room).view(np.int64)
    return 1 + times + each * counted


def is_memory_layout(layout: Layout) -> bool:
    """Return whether samples have a data address and a data source."""
    return bool(layout.sample_type & ADDR and layout.sample_type & DATA_SRC)


class _Behind:
    """Reads the fields after the call chain, one field of all samples at a time."""

    def __init__(self, columns: Columns, order: str) -> None:
        self.words, self.stop, self.order = columns.words, columns.stop, order
        self.layout = columns.layout
        self.at = columns.chain + columns.length
        self.fits = self.at <= self.stop

    def word(self) -> Words:
        """Return the next word of each sample without advancing; 0 after the end."""
        inside = self.fits & (self.at < self.stop)
        return np.where(inside, self.words[np.minimum(self.at, len(self.words) - 1)], np.uint64(0))

    def next(self) -> Words:
        """Return the next word of each sample and advance."""
        word = self.word()
        self.skip(1)
        return word

    def skip(self, count: Integers | int) -> None:
        """Skip words; ``fits`` becomes False for samples that are shorter.

        :param count: number of words, for all samples or per sample; shape (samples,)
        """
        self.at = np.minimum(self.at + count, self.stop + 1)
        self.fits &= self.at <= self.stop

    def limited(self, count: Words) -> Integers:
        """Return a count from the file, limited to one more than the remaining words."""
        room = np.maximum(self.stop - self.at, 0).view(np.uint64) + np.uint64(1)
        limited: Integers = np.minimum(count, room).view(np.int64)
        return limited

    def skip_raw(self) -> None:
        """Skip raw data of a tracepoint: a 32-bit size and the data, padded to 8 bytes."""
        size = low_half(self.word(), self.order).view(np.int64)
        self.skip((size + 4 + 7) >> 3)

    def skip_branches(self) -> None:
        """Skip the branch stack."""
        count = self.limited(self.next())
        asked = self.layout.branch_sample_type
        self.skip(bool(asked & _BRANCH_HW_INDEX))
        self.skip(count * (_BRANCH_WORDS + bool(asked & _BRANCH_COUNTERS)))

    def skip_registers(self, mask: int) -> None:
        """Skip registers; there are none if the ABI is 0 (PERF_SAMPLE_REGS_ABI_NONE)."""
        self.skip(np.where(self.next() == 0, 0, mask.bit_count()))

    def skip_stack(self) -> None:
        """Skip the copy of the user stack and its dynamic size."""
        size = self.next()
        words = self.limited((size >> np.uint64(3)) + np.uint64(1))
        self.skip(np.where(size == 0, 0, words))


def memory_fields(columns: Columns, order: str) -> dict[str, Words | Integers]:
    """Return columns by name: address, data_src, weight, physical and fits; shape (samples,) each.

    ``fits`` is 0 for samples that are shorter than their fields. Other columns are 0 if the field
    was not requested.

    :param columns: samples for which :func:`is_memory_layout` is True
    """
    layout, behind = columns.layout, _Behind(columns, order)
    asked = layout.sample_type
    address = layout.index(ADDR) or 0
    values: dict[str, Words | Integers] = {
        "address": columns.words[columns.at + address],
        **dict.fromkeys(("data_src", "weight", "physical"), np.zeros(len(columns.at), np.uint64)),
    }
    steps: tuple[tuple[int, Callable[[], object]], ...] = (
        (RAW, behind.skip_raw),
        (BRANCH_STACK, behind.skip_branches),
        (REGS_USER, lambda: behind.skip_registers(layout.sample_regs_user)),
        (STACK_USER, behind.skip_stack),
        (WEIGHT, lambda: values.update(weight=behind.next())),
        (WEIGHT_STRUCT, lambda: values.update(weight=behind.next() & _LATENCY_MASK)),
        (DATA_SRC, lambda: values.update(data_src=behind.next())),
        (TRANSACTION, lambda: behind.skip(1)),
        (REGS_INTR, lambda: behind.skip_registers(layout.sample_regs_intr)),
        (PHYS_ADDR, lambda: values.update(physical=behind.next())),
    )
    for field, step in steps:
        if asked & field:
            step()
    return values | {"fits": behind.fits.astype(np.int64)}


def has_members(layout: Layout) -> bool:
    """Return whether samples have READ values with event ids."""
    return bool(layout.sample_type & READ and layout.read_format & FORMAT_ID)


class Members:
    """Makes a sample for each member of an event group, as perf does.

    When the leader overflows, the kernel reads all members. As in perf, the period of a member's
    sample is its count since the previous sample; samples with period 0 are dropped. Windows must
    be read in file order.
    """

    def __init__(self, events: Sequence[Event]) -> None:
        event_of = {number: index for index, event in enumerate(events) for number in event.ids}
        self.ids = np.array(sorted(event_of) or [0], np.uint64)
        self.events = np.array(
            [event_of.get(event_id, -1) for event_id in self.ids.tolist()], np.int64
        )
        self.last = np.zeros(len(self.ids), np.uint64)

    def deliver(self, columns: Columns) -> tuple[Columns, int]:
        """Return the members' samples, and the number of values with unknown event ids."""
        sample, value_at, id_at = _members(columns)
        ids = columns.words[id_at]
        number = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        has_event = (self.ids[number] == ids) & (self.events[number] >= 0)
        sample, number = sample[has_event], number[has_event]
        period = self._differences(number, columns.words[value_at[has_event]])
        counted = period != 0
        sample = sample[counted]
        delivered = columns.take(sample, event=self.events[number[counted]], period=period[counted])
        return delivered, len(has_event) - int(np.count_nonzero(has_event))

    def _differences(self, number: Integers, values: np.ndarray) -> Integers:
        # The count of each member since its previous value, here or in the previous window.
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
    # For each member: the index of its sample, and the indices of its value and id.
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
