# SPDX-License-Identifier: GPL-2.0-or-later
"""Track address spaces: which file was mapped at which address, and when.

A space is the set of mappings of a process from one time on. Mappings are only added, because the
kernel reports no munmap; a later mapping covers an earlier one. A new space begins only if a
mapping overlaps another one. All other mappings are added to the current space, so that a JIT
compiler with 100,000 mappings has one space, and its samples are counted together.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from schedperf.inputs.perf_data.recording import KERNEL_SPACE, NO_FILE, Addresses, Integers

# The kernel's line, and the line of all processes without known mappings.
KERNEL_LINE = KERNEL_SPACE
UNKNOWN_LINE = 1
# A limit on the levels of inheritance (fork without exec); real processes have few.
_MOST_ANCESTORS = 64
# Later than the last mapping.
_NEVER = np.iinfo(np.int64).max
_LINE_SHIFT = 32


class Line(Struct, frozen=True):
    """Mappings of one process, and of its children until their first own mapping.

    :param parent: number of the line that it inherits mappings from; -1 for none
    :param since: number of the first mapping of ``parent`` that it does not inherit
    """

    parent: int
    since: int


class Maps(Struct, frozen=True):
    """All mappings in time order; shape (maps,). The index of a mapping is its number.

    :param line: number of the line that the mapping belongs to
    :param start: first address
    :param end: address after the last byte
    :param file: index of the file
    :param offset: offset in the file of the first address
    """

    line: Integers
    start: Addresses
    end: Addresses
    file: Integers
    offset: Addresses


class SpaceTable:
    """The spaces of all lines, and their mappings.

    :ivar starts_space: whether a new space begins with the mapping; shape (maps,)
    """

    def __init__(self, lines: Sequence[Line], maps: Maps) -> None:
        self.maps = maps
        self.lines = lines
        self.parents = np.array([line.parent for line in lines], np.int64)
        self.since = np.array([line.since for line in lines], np.int64)
        self.by_start = np.lexsort((maps.start, maps.line))
        group = self._overlapping()
        self.starts_space = self._changes(group)
        numbers = np.flatnonzero(self.starts_space)
        keys = np.concatenate(
            (np.arange(len(lines)) << _LINE_SHIFT, maps.line[numbers] << _LINE_SHIFT | numbers)
        )
        # Spaces 0 and 1 must be those of the first two lines; the kernel's space never changes.
        self.keys = np.sort(keys)
        self.line_of = self.keys >> _LINE_SHIFT
        following = np.append(self.keys[1:], -1)
        same = following >> _LINE_SHIFT == self.line_of
        self.limit_of = np.where(same, following & ((1 << _LINE_SHIFT) - 1), _NEVER)
        self.same_as = self._same_spaces()
        self._index(group)

    def space_at(self, line: Integers, number: Integers) -> Integers:
        """Return the space of a line just before a mapping, given by its number."""
        key = line << _LINE_SHIFT | np.maximum(number, 1)
        return self.same_as[np.searchsorted(self.keys, key) - 1]

    def _overlapping(self) -> Integers:
        # Number the groups of mappings of one line that overlap, in the order of by_start.
        maps, order = self.maps, self.by_start
        line, start, end = maps.line[order], maps.start[order], maps.end[order]
        if not len(order):
            return np.zeros(0, np.int64)
        begins = np.ones(len(order), bool)
        highest = _running_maximum(line, end)
        begins[1:] = (line[1:] != line[:-1]) | (start[1:] >= highest[:-1])
        return np.cumsum(begins) - 1

    def _changes(self, group: Integers) -> NDArray[np.bool_]:
        # A mapping that repeats the previous one of its group starts no space.
        maps = self.maps
        by_time = np.lexsort((self.by_start, group))
        ordered, groups = self.by_start[by_time], group[by_time]
        same = groups[1:] == groups[:-1]
        repeats = same.copy()
        for column in (maps.start, maps.end, maps.file, maps.offset):
            values = column[ordered]
            repeats &= values[1:] == values[:-1]
        changes = np.zeros(len(ordered), bool)
        changes[ordered[1:][same & ~repeats]] = True
        changes[maps.line == KERNEL_LINE] = False
        return changes

    def _same_spaces(self) -> Integers:
        # For each space, the first one with the same mappings: without address randomisation all
        # runs of a program have the same. Lines that inherit are not compared.
        maps, order = self.maps, self.by_start
        same = np.arange(len(self.keys))
        ends = np.searchsorted(maps.line[order], np.arange(len(self.lines)), side="right").tolist()
        columns = np.stack((maps.start, maps.end, maps.offset, maps.file.view(np.uint64)), axis=1)
        content = columns[order]
        first: dict[bytes, int] = {}
        only = (self.limit_of == _NEVER) & (self.keys & ((1 << _LINE_SHIFT) - 1) == 0)
        for space in np.flatnonzero(only & (self.parents[self.line_of] < 0)).tolist():
            line = int(self.line_of[space])
            if line > UNKNOWN_LINE:
                own = content[ends[line - 1] : ends[line]].tobytes()
                same[space] = first.setdefault(own, space)
        return same

    def _index(self, group: Integers) -> None:
        maps, order = self.maps, self.by_start
        self.points, ranks = np.unique(maps.start[order], return_inverse=True)
        self.stride = np.int64(len(self.points) + 1)
        first = np.flatnonzero(np.diff(group, prepend=-1))
        sizes = np.diff(np.append(first, len(order)))
        # Mappings that do not overlap others need one search for all queries.
        self.group_keys = maps.line[order][first] * self.stride + ranks[first]
        self.group_first = first
        self.is_single = sizes == 1
        self.trees: dict[int, _Tree] = {}
        for number in np.flatnonzero(sizes > 1).tolist():
            members = np.sort(order[first[number] : first[number] + sizes[number]])
            self.trees[number] = _Tree(members, maps.start[members], maps.end[members])

    def find(self, spaces: Integers, addresses: Addresses) -> tuple[Integers, Addresses]:
        """Return file and offset of each address, as ``recording.Spaces.find`` does."""
        mapping = np.full(len(spaces), -1)
        line, limit = self.line_of[spaces], self.limit_of[spaces]
        rows = np.arange(len(spaces)) if len(self.maps.line) else np.zeros(0, np.int64)
        for _ in range(_MOST_ANCESTORS):
            if not len(rows):
                break
            mapping[rows] = self._find_own(line[rows], limit[rows], addresses[rows])
            rows = rows[mapping[rows] < 0]
            limit[rows] = np.minimum(limit[rows], self.since[line[rows]])
            line[rows] = self.parents[line[rows]]
            rows = rows[line[rows] >= 0]
        maps = self.maps
        is_mapped = mapping >= 0
        files, offsets = np.full(len(spaces), NO_FILE), addresses.copy()
        files[is_mapped] = maps.file[mapping[is_mapped]]
        offsets[is_mapped] += maps.offset[mapping[is_mapped]] - maps.start[mapping[is_mapped]]
        return files, offsets

    def _find_own(self, line: Integers, limit: Integers, addresses: Addresses) -> Integers:
        rank = np.searchsorted(self.points, addresses, side="right") - 1
        group = np.searchsorted(self.group_keys, line * self.stride + rank, side="right") - 1
        usable = (group >= 0) & (rank >= 0)
        group[~usable] = 0
        number = self.by_start[self.group_first[group]]
        usable &= self.maps.line[number] == line
        single = usable & self.is_single[group] & (number < limit)
        inside = (addresses >= self.maps.start[number]) & (addresses < self.maps.end[number])
        mapping = np.where(single & inside, number, -1)
        for row in np.flatnonzero(usable & ~self.is_single[group]).tolist():
            mapping[row] = self.trees[group[row]].find(int(addresses[row]), int(limit[row]))
        return mapping


class _Tree:
    """Overlapping mappings of one line, as a segment tree.

    Each node has the numbers of the mappings that cover it, ascending. Finding the last mapping
    before a limit takes O(log n) binary searches, at any depth of overlap.
    """

    def __init__(self, numbers: Integers, starts: Addresses, ends: Addresses) -> None:
        borders = np.unique(np.concatenate((starts, ends)))
        self.borders: list[int] = borders.tolist()
        self.nodes: dict[int, list[int]] = {}
        lows = (np.searchsorted(borders, starts) + len(borders)).tolist()
        highs = (np.searchsorted(borders, ends) + len(borders)).tolist()
        for number, low, high in zip(numbers.tolist(), lows, highs, strict=True):
            self._add(number, low, high)

    def _add(self, number: int, low: int, high: int) -> None:
        while low < high:
            if low & 1:
                self.nodes.setdefault(low, []).append(number)
                low += 1
            if high & 1:
                high -= 1
                self.nodes.setdefault(high, []).append(number)
            low >>= 1
            high >>= 1

    def find(self, address: int, limit: int) -> int:
        """Return the number of the last mapping of an address before a limit; -1 if none."""
        index = bisect_right(self.borders, address) - 1
        node = index + len(self.borders) if index >= 0 else 0
        last = -1
        while node:
            numbers = self.nodes.get(node, ())
            before = bisect_left(numbers, limit)
            if before:
                last = max(last, numbers[before - 1])
            node >>= 1
        return last


def _running_maximum(line: Integers, end: Addresses) -> Addresses:
    # The highest end so far within each line, from keys of line and rank of the end.
    ranks = np.unique(end, return_inverse=True)
    keys = line * np.int64(len(ranks[0]) + 1) + ranks[1]
    highest = np.maximum.accumulate(keys) - line * np.int64(len(ranks[0]) + 1)
    ends: Addresses = ranks[0][np.maximum(highest, 0)]
    return ends
