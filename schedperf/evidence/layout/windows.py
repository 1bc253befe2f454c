"""Draws cache lines: the entries of a unit in order, with a rule wherever a line ends.

::

    rows = draw_lines(unit, lines_of(unit, ["sd_llc_id"], 64), 64)

A window holds the lines of several kernels that one group of changes touches, one column
each, so a pair that was on one line in base is seen there, and on its two lines in new.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from schedperf.evidence.layout.cotenancy import Span, spans_of
from schedperf.evidence.layout.matching import match_entries
from schedperf.evidence.layout.model import Entry, Unit

# Lines of one column in one window: some 40 rows of text where eight variables share a line.
MOST_WINDOW_LINES = 6
# Rows of one column; a line of one-bit fields alone could have 512.
MOST_ROWS = 120

Row = dict[str, object]
Lines = frozenset[int]
NO_LINES: Lines = frozenset()


class Sheet:
    """One unit with the lines of each of its entries.

    :ivar unit: whose entries they are
    :ivar entries: by offset; those of one name are told apart
    :ivar spans: the bytes of every entry, by name
    """

    def __init__(self, unit: Unit, line_bytes: int) -> None:
        self.unit = unit
        self._line_bytes = line_bytes
        # The comparison's own order and names.
        self.entries = match_entries(unit, unit).base
        self.spans: Mapping[str, Span] = spans_of(self.entries, unit.kind, unit.size)
        self._on_line: dict[int, list[str]] | None = None

    def closest(self, names: Sequence[str]) -> Lines:
        """Return the lines of these entries; of two the common line, or where they come closest.

        Names that the unit does not have are left out.
        """
        ends = [self.ends(name) for name in names if name in self.spans]
        if len(ends) == 2:  # noqa: PLR2004 # a pair
            nearest = min(product(*ends), key=lambda pair: abs(pair[0] - pair[1]))
            return frozenset(nearest)
        return frozenset(first for first, _ in ends)

    def starts(self, names: Sequence[str]) -> Lines:
        """Return the lines on which these entries begin, as far as the unit has them."""
        return frozenset(self.ends(name)[0] for name in names if name in self.spans)

    def starts_of(self, lines: Lines) -> list[int]:
        """Return the first byte of each of these lines, in order."""
        return [line * self._line_bytes for line in sorted(lines)]

    def ends(self, name: str) -> tuple[int, int]:
        """Return the first and the last line of an entry."""
        return self.spans[name].lines(self._line_bytes)

    def mates(self, name: str) -> set[str]:
        """Return who else has a first or last byte on the first or last line of an entry."""
        return set(self.tenants(frozenset(self.ends(name)))) - {name}

    def tenants(self, lines: Lines) -> list[str]:
        """Return who has a first or last byte on some lines."""
        if self._on_line is None:
            self._on_line = {}
            for name in self.spans:
                for line in set(self.ends(name)):
                    self._on_line.setdefault(line, []).append(name)
        return [name for line in sorted(lines) for name in self._on_line.get(line, ())]

    def rows(
        self,
        shown: Lines,
        marks: Mapping[str, str],
        hot: Collection[str],
        *,
        most: int = MOST_ROWS,
    ) -> list[Row]:
        """Return the entries on these lines in order, with lines' ends, gaps and holes between.

        :param marks: what changed, by name
        :param hot: names that are the reason for the drawing
        :param most: how many rows before the others are only counted
        """
        rows = list(self._rows(shown, marks, hot))
        if len(rows) > most:
            left = sum(row["kind"] == "entry" for row in rows[most:])
            rows[most:] = [_row("gap", rows[most]["address"], f"{left} more")]
        return rows

    def _rows(self, shown: Lines, marks: Mapping[str, str], hot: Collection[str]) -> Iterator[Row]:
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

    def _between(self, before: int, index: int, end: int) -> Iterator[Row]:
        # What stands between two entries: others that are not shown, unused bytes, a line's end.
        one, other = self.entries[before], self.entries[index]
        line = other.offset // self._line_bytes
        skipped = index - before - 1
        if skipped:
            yield _row("gap", one.offset, f"{skipped} more")
        elif self.unit.kind == "struct" and one.size is not None and other.offset > end:
            yield {**_row("hole", end, ""), "size": other.offset - end}
        if line > one.offset // self._line_bytes:
            yield _row("boundary", line * self._line_bytes, "")


def lines_of(unit: Unit, names: Sequence[str], line_bytes: int) -> Lines:
    """Return the lines on which entries of a unit begin, as far as it has them."""
    return Sheet(unit, line_bytes).starts(names)


def draw_lines(
    unit: Unit,
    lines: Lines,
    line_bytes: int,
    *,
    marks: Mapping[str, str] | None = None,
    hot: Collection[str] = (),
    most: int = MOST_ROWS,
) -> list[Row]:
    """Return the rows of a drawing of some lines of one unit.

    :param lines: numbers of lines, counted from the unit's start
    :param most: how many rows before the others are only counted
    :return: ``{kind, address, letter, type, name, size, bits, mark, is_hot}`` each; kind is
        "entry", "boundary" where a line begins, "hole" or "gap": entries that are not shown
    """
    return Sheet(unit, line_bytes).rows(lines, marks or {}, hot, most=most)


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """Lines of one unit on every kernel that belong together.

    :param lines: one set for each kernel
    :param alarms: rows of the alarms that it shows
    :param hot: entries of these, as base calls them
    """

    unit: str
    lines: tuple[Lines, ...]
    alarms: tuple[str, ...] = ()
    hot: frozenset[str] = frozenset()

    @property
    def is_readable(self) -> bool:
        """Whether it has a line, and no column has more than a reader follows."""
        return 0 < max(len(lines) for lines in self.lines) <= MOST_WINDOW_LINES

    def touches(self, other: "Window") -> bool:
        """Whether both show one line of one kernel."""
        pairs = zip(self.lines, other.lines, strict=True)
        return self.unit == other.unit and any(one & two for one, two in pairs)

    def joined_with(self, others: Iterable["Window"]) -> "Window":
        """Return one window for all of them."""
        lines, alarms, hot = self.lines, self.alarms, self.hot
        for other in others:
            lines = tuple(one | two for one, two in zip(lines, other.lines, strict=True))
            alarms, hot = (*other.alarms, *alarms), hot | other.hot
        return Window(unit=self.unit, lines=lines, alarms=tuple(dict.fromkeys(alarms)), hot=hot)


def group_windows(wanted: Iterable[Window], most: int) -> list[Window]:
    """Join windows that touch a line in common, as long as they stay readable.

    :param wanted: the most important first
    :param most: how many to return
    """
    windows: list[Window] = []
    for window in wanted:
        touching = [one for one in windows if one.touches(window)]
        joined = window.joined_with(touching)
        if joined.is_readable and touching:
            place = windows.index(touching[0])
            windows = [one for one in windows if one not in touching]
            windows.insert(place, joined)
        elif window.is_readable and len(windows) < most:
            windows.append(window)
    return windows


def _entry_row(entry: Entry, mark: str, *, is_hot: bool) -> Row:
    return {
        **_row("entry", entry.offset, entry.name),
        "letter": entry.letter,
        "type": entry.type,
        "size": entry.size,
        "bits": None if entry.bits is None else list(entry.bits),
        "mark": mark,
        "is_hot": is_hot,
    }


def _row(kind: str, address: object, name: str) -> Row:
    return {
        "kind": kind,
        "address": address,
        "letter": "",
        "type": None,
        "name": name,
        "size": None,
        "bits": None,
        "mark": "",
        "is_hot": False,
    }
