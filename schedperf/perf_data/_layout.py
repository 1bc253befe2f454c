# SPDX-License-Identifier: GPL-2.0-or-later
"""Locate the fields of a sample record, for each combination an event may request.

The order is that of ``perf_output_sample`` of the kernel's ``kernel/events/core.c``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schedperf_collectors.perf_header import Event

# PERF_SAMPLE_* of include/uapi/linux/perf_event.h.
(
    IP, TID, TIME, ADDR, READ, CALLCHAIN, ID, CPU, PERIOD, STREAM_ID, RAW, BRANCH_STACK,
    REGS_USER, STACK_USER, WEIGHT, DATA_SRC, IDENTIFIER, TRANSACTION, REGS_INTR, PHYS_ADDR,
) = (1 << bit for bit in range(20))  # fmt: skip
WEIGHT_STRUCT = 1 << 24
# In the order in which the kernel writes them; each takes one word of 64 bits.
_FIXED = (IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU, PERIOD)
# The same at the end of records that are no samples.
_TRAILER = (TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER)

# PERF_FORMAT_*: what the READ field holds.
FORMAT_TIMES = (1 << 0, 1 << 1)
FORMAT_ID = 1 << 2
FORMAT_GROUP = 1 << 3
FORMAT_LOST = 1 << 4

_NO_EVENT = -1


@dataclass(frozen=True, slots=True)
class Layout:
    """How to find the fields in one event's samples, counted in words of 64 bits.

    Events whose samples are laid out alike have equal layouts.
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

    def place(self, field: int) -> int | None:
        """Return the index of a field from the start of the record; None: not asked for."""
        if not self.sample_type & field:
            return None
        before = _FIXED[: _FIXED.index(field)]
        return 1 + sum(bool(self.sample_type & other) for other in before)

    @property
    def fixed_words(self) -> int:
        """Return how many words a sample has in front of the first field of varying size."""
        return 1 + sum(bool(self.sample_type & field) for field in _FIXED)

    @property
    def id_place(self) -> int | None:
        """Return the index of the event's id in a sample."""
        return self.place(IDENTIFIER) or self.place(ID)

    def place_from_end(self, field: int) -> int | None:
        """Return the index of a field from the end of a record that is not a sample."""
        if not self.sample_type & field:
            return None
        behind = _TRAILER[_TRAILER.index(field) :]
        return sum(bool(self.sample_type & other) for other in behind)


class EventFinder:
    """Find the event of each sample, by the id in it."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.single = len(events) == 1
        layouts = [Layout.of(event) for event in events]
        places = sorted({layout.id_place for layout in layouts if layout.id_place is not None})
        self.tables = [
            (place, *_id_table(events, layouts, place, zero_is_first=layouts[0].id_place == place))
            for place in places
        ]

    def find(
        self, words: NDArray[np.uint64], at: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the index of each sample's event, -1 where the file does not say.

        :param at: indices of the records in ``words``; ``sizes`` in words; shape (samples,)
        """
        if self.single or not self.tables:
            return np.zeros(len(at), np.int64)
        found = np.full(len(at), _NO_EVENT)
        for place, ids, events in self.tables:
            (open_,) = np.nonzero((found == _NO_EVENT) & (sizes > place))
            wanted = words[at[open_] + place]
            nearest = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
            found[open_] = np.where(ids[nearest] == wanted, events[nearest], _NO_EVENT)
        return found


def _id_table(
    events: Sequence[Event], layouts: Sequence[Layout], place: int, *, zero_is_first: bool
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    # Like perf: id 0 belongs to the first event.
    by_id = {0: 0} if zero_is_first else {}
    for index, (event, layout) in enumerate(zip(events, layouts, strict=True)):
        if layout.id_place == place:
            by_id |= dict.fromkeys(event.ids, index)
    ids = sorted(by_id) or [0]
    return np.array(ids, np.uint64), np.array([by_id.get(one, _NO_EVENT) for one in ids], np.int64)
