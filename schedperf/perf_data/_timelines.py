"""What held for a process or a thread at a time: a value that changes now and then."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# PID_MAX_LIMIT of the kernel's include/linux/threads.h: real ids are smaller.
_ID_LIMIT = 1 << 22


class Timelines:
    """One value for each id, from one change to the next.

    :param changes: (id, time, value), in the order in which they came about
    :param unknown: the value of ids that never had one
    """

    def __init__(self, changes: Sequence[tuple[int, int, int]], unknown: int) -> None:
        self.unknown = unknown
        ids = np.array([one[0] for one in changes], np.uint64)
        times = np.array([one[1] for one in changes], np.uint64)
        values = np.array([one[2] for one in changes], np.int64)
        order = np.lexsort((times, ids))
        ids, self.values = ids[order], values[order]
        self.times, ranks = np.unique(times[order], return_inverse=True)
        self.ids, self.first, numbers = np.unique(ids, return_index=True, return_inverse=True)
        # A change is known by its id's number and the rank of its time.
        self.stride = np.int64(len(self.times) + 1)
        self.keys = numbers * self.stride + ranks
        # What most ids have: one value, always. Found without a search.
        counts = np.diff(np.append(self.first, len(ids)))
        small = self.ids[self.ids < _ID_LIMIT]
        self.number_of = np.full(int(small[-1]) + 1 if len(small) else 0, -1, np.int32)
        self.number_of[small] = np.arange(len(small))
        self.changes_often = counts > 1

    def find(self, ids: NDArray[np.uint64], times: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the value that each id had at each time.

        Before its first change an id has its first value: the kernel reports a change a little
        after it.
        """
        if not len(self.ids):
            return np.full(len(ids), self.unknown)
        numbers = self._numbers(ids)
        found = np.where(numbers < 0, self.unknown, self.values[self.first[numbers]])
        (rows,) = np.nonzero((numbers >= 0) & self.changes_often[numbers])
        if len(rows):
            number = numbers[rows]
            rank = np.searchsorted(self.times, times[rows], side="right") - 1
            key = number * self.stride + rank
            last = np.searchsorted(self.keys, key, side="right") - 1
            found[rows] = self.values[np.maximum(last, self.first[number])]
        return found

    def _numbers(self, ids: NDArray[np.uint64]) -> NDArray[np.int64]:
        if (ids < len(self.number_of)).all():
            return self.number_of[ids].astype(np.int64)
        nearest = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[nearest] == ids, nearest, -1)
