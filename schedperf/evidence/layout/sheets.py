# SPDX-License-Identifier: GPL-2.0-or-later
"""Arrange the entries of a unit as rows of a drawing, with a rule at each line boundary.

::

    sheet = Sheet(unit, 64)
    rows = sheet.rows(sheet.starts(["sd_llc_id"]))
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product

from schedperf.evidence.layout.cotenancy import Span, spans_of
from schedperf.evidence.layout.matching import match_entries
from schedperf.evidence.layout.model import Entry, Unit
from schedperf.evidence.layout.record import LayoutRow, Mark

# Largest number of rows of one column; a line of one-bit fields could have 512.
MOST_ROWS = 120

# Line numbers, counted from the unit's start.
Lines = frozenset[int]
NO_LINES: Lines = frozenset()
NO_MARKS: Mapping[str, Mark] = {}


class Sheet:
    """One unit with the lines of each of its entries.

    :ivar unit: the drawn unit
    :ivar entries: by offset; entries with equal names get distinct names
    :ivar spans: the bytes of every entry, by name
    """

    def __init__(self, unit: Unit, line_bytes: int) -> None:
        self.unit = unit
        self._line_bytes = line_bytes
        # The same order and names as in the comparison.
        self.entries = match_entries(unit, unit).base
        self.spans: Mapping[str, Span] = spans_of(self.entries, unit.kind, unit.size)
        self._on_line: dict[int, list[str]] | None = None

    def closest(self, names: Sequence[str]) -> Lines:
        """Return the lines on which these entries begin; for two entries, the closest lines.

        The closest lines of two entries are their common line, or the two nearest of their first
        and last lines. Names that are not in the unit are ignored.
        """
        ends = [self.ends(name) for name in names if name in self.spans]
        if len(ends) == 2:  # noqa: PLR2004 # a pair
            nearest = min(product(*ends), key=lambda pair: abs(pair[0] - pair[1]))
            return frozenset(nearest)
        return frozenset(first for first, _ in ends)

    def starts(self, names: Sequence[str]) -> Lines:
        """Return the lines on which these entries begin; names not in the unit are ignored."""
        return frozenset(self.ends(name)[0] for name in names if name in self.spans)

    def starts_of(self, lines: Lines) -> tuple[int, ...]:
        """Return the start of each of these lines, in bytes from the unit's start, in order."""
        return tuple(line * self._line_bytes for line in sorted(lines))

    def ends(self, name: str) -> tuple[int, int]:
        """Return the first and the last line of an entry.

        :raises KeyError: the unit has no such entry
        """
        return self.spans[name].lines(self._line_bytes)

    def mates(self, name: str) -> set[str]:
        """Return the other entries that begin or end on the first or last line of an entry."""
        return set(self.tenants(frozenset(self.ends(name)))) - {name}

    def tenants(self, lines: Lines) -> list[str]:
        """Return the entries that begin or end on these lines."""
        if self._on_line is None:
            self._on_line = {}
            for name in self.spans:
                for line in set(self.ends(name)):
                    self._on_line.setdefault(line, []).append(name)
        return [name for line in sorted(lines) for name in self._on_line.get(line, ())]

    def rows(
        self,
        shown: Lines,
        *,
        marks: Mapping[str, Mark] = NO_MARKS,
        hot: Collection[str] = (),
        most: int | None = MOST_ROWS,
    ) -> tuple[LayoutRow, ...]:
        """Return rows for the entries on these lines, with line ends, gaps and holes between them.

        :param marks: kinds of change, by name
        :param hot: names that are the reason for the drawing
        :param most: largest number of rows; one more row then counts the entries that are left
            out. None for all
        """
        rows = tuple(self._rows(shown, marks, hot))
        if most is None or len(rows) <= most:
            return rows
        left = sum(row.kind == "entry" for row in rows[most:])
        cut = LayoutRow(kind="gap", address=rows[most].address, name=f"{left} more")
        return (*rows[:most], cut)

    def _rows(
        self, shown: Lines, marks: Mapping[str, Mark], hot: Collection[str]
    ) -> Iterator[LayoutRow]:
        before: int | None = None
        end = 0
        for index, entry in enumerate(self.entries):
            span = self.spans[entry.name]
            if shown.isdisjoint(span.lines(self._line_bytes)):
                continue
            if before is not None:
                yield from self._between(before, index, end)
            yield _entry_row(entry, marks.get(entry.name, ""), is_hot=entry.name in hot)
            before = index
            end = max(end, span.end)

    def _between(self, before: int, index: int, end: int) -> Iterator[LayoutRow]:
        # Rows between two entries: hidden entries, unused bytes, a line's end.
        previous, entry = self.entries[before], self.entries[index]
        line = entry.offset // self._line_bytes
        skipped = index - before - 1
        if skipped:
            yield LayoutRow(kind="gap", address=previous.offset, name=f"{skipped} more")
        elif self.unit.kind == "struct" and previous.size is not None and entry.offset > end:
            yield LayoutRow(kind="hole", address=end, size=entry.offset - end)
        if line > previous.offset // self._line_bytes:
            yield LayoutRow(kind="boundary", address=line * self._line_bytes)


def _entry_row(entry: Entry, mark: Mark, *, is_hot: bool) -> LayoutRow:
    return LayoutRow(
        kind="entry",
        address=entry.offset,
        letter=entry.letter,
        type=entry.type,
        name=entry.name,
        size=entry.size,
        bits=entry.bits,
        mark=mark,
        is_hot=is_hot,
    )
