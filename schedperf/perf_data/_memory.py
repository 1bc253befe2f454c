"""The fields of samples behind the call chain: what a memory access was, and how long it took.

Each field that varies in size is stepped over for all samples at once. The order is
that of ``perf_output_sample`` of the kernel's ``kernel/events/core.c``.
"""

from collections.abc import Callable

import numpy as np

from schedperf.perf_data._bytes import low_half
from schedperf.perf_data._columns import Columns, Integers, Words
from schedperf.perf_data._layout import (
    ADDR,
    BRANCH_STACK,
    DATA_SRC,
    PHYS_ADDR,
    RAW,
    REGS_INTR,
    REGS_USER,
    STACK_USER,
    TRANSACTION,
    WEIGHT,
    WEIGHT_STRUCT,
    Layout,
)

# PERF_SAMPLE_BRANCH_HW_INDEX and PERF_SAMPLE_BRANCH_COUNTERS.
_BRANCH_HW_INDEX = 1 << 17
_BRANCH_COUNTERS = 1 << 19
# struct perf_branch_entry: from, to, flags.
_BRANCH_WORDS = 3
# PERF_SAMPLE_WEIGHT_STRUCT: the latency is the first 32 bits by value, in either byte order.
_LATENCY_MASK = np.uint64(0xFFFFFFFF)


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
