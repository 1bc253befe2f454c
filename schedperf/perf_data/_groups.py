"""Samples that hold the values of their event's group: one for each member, as in perf.

The leader fires, and the kernel reads all members. perf takes what each counted since
the last time as the period of a sample of its own, and drops it where that is nothing.
"""

from collections.abc import Sequence

import numpy as np

from schedperf.perf_data._columns import Columns, Integers
from schedperf.perf_data._layout import (
    FORMAT_GROUP,
    FORMAT_ID,
    FORMAT_LOST,
    FORMAT_TIMES,
    READ,
    Layout,
)
from schedperf_collectors.perf_header import Event


def has_members(layout: Layout) -> bool:
    """Tell whether samples hold values and say whose they are."""
    return bool(layout.sample_type & READ and layout.read_format & FORMAT_ID)


class Members:
    """Make samples of members; windows must come in the order of the file."""

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
