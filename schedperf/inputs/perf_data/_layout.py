# SPDX-License-Identifier: GPL-2.0-or-later
"""Locate the fields of a sample record, for each ``sample_type`` of an event.

``perf_output_sample`` in the kernel's ``kernel/events/core.c`` defines their order.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from schedperf_collectors.perf_header import Event

# PERF_SAMPLE_* of include/uapi/linux/perf_event.h.
(
    IP, TID, TIME, ADDR, READ, CALLCHAIN, ID, CPU, PERIOD, STREAM_ID, RAW, BRANCH_STACK,
    REGS_USER, STACK_USER, WEIGHT, DATA_SRC, IDENTIFIER, TRANSACTION, REGS_INTR, PHYS_ADDR,
) = (1 << bit for bit in range(20))  # fmt: skip
WEIGHT_STRUCT = 1 << 24
# In the order in which the kernel writes them; one 64-bit word each.
_FIXED = (IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU, PERIOD)
# The fields at the end of records that are not samples, in order.
_TRAILER = (TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER)

# PERF_FORMAT_*: the contents of the READ field.
FORMAT_TIMES = (1 << 0, 1 << 1)
FORMAT_ID = 1 << 2
FORMAT_GROUP = 1 << 3

_NO_EVENT = -1


class Layout(Struct, frozen=True):
    """Layout of the samples of an event, in 64-bit words.

    Events with the same sample format have equal layouts.
    """

    sample_type: int
    read_format: int
    branch_sample_type: int
    sample_regs_user: int
    sample_regs_intr: int

    @classmethod
    def of(cls, event: Event) -> "Layout":
        """Return the layout of an event's samples."""
        return cls(
            event.sample_type,
            event.read_format,
            event.branch_sample_type,
            event.sample_regs_user,
            event.sample_regs_intr,
        )

    def index(self, field: int) -> int | None:
        """Return the index of a field from the start of a sample; None if not requested.

        :param field: a ``PERF_SAMPLE_*`` bit of a field of one word, before all longer fields
        """
        if not self.sample_type & field:
            return None
        before = _FIXED[: _FIXED.index(field)]
        return 1 + sum(bool(self.sample_type & bit) for bit in before)

    @property
    def fixed_words(self) -> int:
        """Return the number of words, with the header, before the first field of variable size."""
        return 1 + sum(bool(self.sample_type & field) for field in _FIXED)

    @property
    def id_index(self) -> int | None:
        """Return the index of the event's id in a sample; None if not requested."""
        return self.index(IDENTIFIER) or self.index(ID)

    def index_from_end(self, field: int) -> int | None:
        """Return the index of a field from the end of records that are not samples.

        The last word has index 1. None if the field is not requested.
        """
        if not self.sample_type & field:
            return None
        after = _TRAILER[_TRAILER.index(field) :]
        return sum(bool(self.sample_type & bit) for bit in after)


class EventFinder:
    """Looks up the event of each sample by its id."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.single = len(events) == 1
        layouts = [Layout.of(event) for event in events]
        indices = sorted({layout.id_index for layout in layouts if layout.id_index is not None})
        self.tables = [
            (index, *_id_table(events, layouts, index, zero_is_first=layouts[0].id_index == index))
            for index in indices
        ]

    def find(
        self, words: NDArray[np.uint64], at: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the index of each sample's event, -1 if unknown; shape (samples,).

        All samples are of event 0 if there is only one event, or if samples have no ids.

        :param at: indices of the records in ``words``; shape (samples,)
        :param sizes: sizes of the records in words; shape (samples,)
        """
        if self.single or not self.tables:
            return np.zeros(len(at), np.int64)
        event = np.full(len(at), _NO_EVENT)
        for index, ids, events in self.tables:
            (open_,) = np.nonzero((event == _NO_EVENT) & (sizes > index))
            sample_ids = words[at[open_] + index]
            nearest = np.minimum(np.searchsorted(ids, sample_ids), len(ids) - 1)
            event[open_] = np.where(ids[nearest] == sample_ids, events[nearest], _NO_EVENT)
        return event


def _id_table(
    events: Sequence[Event], layouts: Sequence[Layout], index: int, *, zero_is_first: bool
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    # As in perf, id 0 is the first event.
    by_id = {0: 0} if zero_is_first else {}
    for number, (event, layout) in enumerate(zip(events, layouts, strict=True)):
        if layout.id_index == index:
            by_id |= dict.fromkeys(event.ids, number)
    ids = sorted(by_id) or [0]
    return np.array(ids, np.uint64), np.array(
        [by_id.get(event_id, _NO_EVENT) for event_id in ids], np.int64
    )
