# SPDX-License-Identifier: GPL-2.0-or-later
"""Choose the cache lines to draw, one column per kernel.

A window contains the lines of all kernels that a group of changes affects: a separated pair is on
one line in the column of base, and on two lines in the column of new.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from schedperf.evidence.layout.heat import known_uses
from schedperf.evidence.layout.model import Kernel
from schedperf.evidence.layout.ranking import rank_of
from schedperf.evidence.layout.record import (
    LayoutAlarm,
    LayoutColumn,
    LayoutRow,
    LayoutWindow,
    Mark,
)
from schedperf.evidence.layout.sheets import NO_LINES, Lines, Sheet
from schedperf.evidence.layout.unit_pairs import UnitPair

# Largest number of lines per column of a window: about 40 rows of text if eight variables share a
# line.
MOST_WINDOW_LINES = 6
# Largest number of drawings; the counts in the record are complete.
MOST_WINDOWS = 6
# Number of changes of a kind from which drawings are chosen; two unrelated kernels differ in
# thousands.
MOST_CHANGES = 100
# Largest number of pairs per alarm that may start a drawing, the first pairs of the alarm.
MOST_ALARM_PAIRS = 16


class Window(Struct, frozen=True, kw_only=True):
    """Corresponding lines of one unit in every kernel.

    :param lines: one set of line numbers for each kernel
    :param alarms: ids of the alarms that it shows
    :param hot: entries of these alarms, by name in base
    """

    unit: str
    lines: tuple[Lines, ...]
    alarms: tuple[str, ...] = ()
    hot: frozenset[str] = frozenset()

    @property
    def is_readable(self) -> bool:
        """Whether a column has lines, and none more than :data:`MOST_WINDOW_LINES`."""
        return 0 < max(len(lines) for lines in self.lines) <= MOST_WINDOW_LINES

    def touches(self, window: "Window") -> bool:
        """Return whether both show a common line of one unit in some kernel."""
        pairs = zip(self.lines, window.lines, strict=True)
        return self.unit == window.unit and any(own & theirs for own, theirs in pairs)

    def joined_with(self, others: Iterable["Window"]) -> "Window":
        """Return the union of this window and others of the same unit."""
        lines, alarms, hot = self.lines, self.alarms, self.hot
        for window in others:
            lines = tuple(own | theirs for own, theirs in zip(lines, window.lines, strict=True))
            alarms, hot = (*window.alarms, *alarms), hot | window.hot
        return Window(unit=self.unit, lines=lines, alarms=tuple(dict.fromkeys(alarms)), hot=hot)


def group_windows(candidates: Iterable[Window], most: int) -> list[Window]:
    """Join windows with a common line, as long as they stay readable.

    Windows that are not readable are left out, and so are further ones once there are ``most``.

    :param candidates: the most important first
    :param most: largest number of returned windows
    """
    windows: list[Window] = []
    for window in candidates:
        touching = [drawn for drawn in windows if drawn.touches(window)]
        joined = window.joined_with(touching)
        if joined.is_readable and touching:
            index = windows.index(touching[0])
            windows = [drawn for drawn in windows if drawn not in touching]
            windows.insert(index, joined)
        elif window.is_readable and len(windows) < most:
            windows.append(window)
    return windows


def draw_windows(
    roles: Sequence[str], kernels: Sequence[Kernel], compared: Sequence[Sequence[UnitPair]]
) -> tuple[LayoutWindow, ...]:
    """Return at most :data:`MOST_WINDOWS` drawings of changed units, those of alarms first.

    Changes of global variables without an alarm are drawn only if no other unit is compared.

    :param roles: "base", "new" …, one for each kernel
    :param kernels: base first
    :param compared: for each new kernel, the comparisons of its units with base
    """
    changed = {pair.name for pairs in compared for pair in pairs if not pair.change.is_unchanged}
    boards: dict[str, _Board] = {}
    for number, pairs in enumerate(compared, 1):
        for pair in pairs:
            if pair.name not in changed:
                continue
            # A kernel with an unchanged unit has a column, too.
            board = boards.setdefault(pair.name, _Board(roles, kernels, pair.name))
            board.add(number, pair)
    alarmed = [alarm for board in boards.values() for alarm in board.alarmed()]
    candidates = [window for _, window in sorted(alarmed, key=lambda alarm: rank_of(alarm[0]))]
    # Almost any configuration change moves hundreds of globals, so these are drawn only if no other
    # unit was requested.
    is_alone = all(pair.name == "globals" for pairs in compared for pair in pairs)
    candidates += [
        window
        for name, board in boards.items()
        if name != "globals" or is_alone
        for window in board.changed()
    ]
    grouped = group_windows(candidates, MOST_WINDOWS)
    return tuple(boards[window.unit].draw(window) for window in grouped)


class _Board:
    # One unit in every kernel: positions and changes of its entries.

    def __init__(self, roles: Sequence[str], kernels: Sequence[Kernel], name: str) -> None:
        self._roles, self._kernels, self._name = roles, kernels, name
        self._sheets: list[Sheet | None] = [None] * len(kernels)
        self._pairs: dict[int, UnitPair] = {}

    def add(self, number: int, pair: UnitPair) -> None:
        """Add the comparison of one new kernel.

        :param number: index of this kernel; base is 0
        """
        self._pairs[number] = pair
        self._sheets[0], self._sheets[number] = pair.sheets

    def alarmed(self) -> Iterator[tuple[LayoutAlarm, Window]]:
        """Yield each alarm with each of its windows: for its first pairs, and for all its entries.

        At most :data:`MOST_ALARM_PAIRS` pairs have a window.
        """
        for pair in self._pairs.values():
            for alarm in pair.ranking.alarms:
                rows, hot = (alarm.row,), frozenset(alarm.names)
                for focus in (*alarm.pairs[:MOST_ALARM_PAIRS], alarm.names):
                    lines = self._lines(focus)
                    yield alarm, Window(unit=self._name, lines=lines, alarms=rows, hot=hot)

    def changed(self) -> Iterator[Window]:
        """Yield a window for each separated or joined pair, and each added or removed entry.

        Added and removed entries without common neighbours on their lines have no window. Each kind
        of change has at most :data:`MOST_CHANGES` windows per new kernel.
        """
        for number, pair in self._pairs.items():
            lines = pair.change.lines
            for changed in (*lines.separated[:MOST_CHANGES], *lines.joined[:MOST_CHANGES]):
                yield self._window(changed)
            for side, entries in ((number, pair.change.added), (0, pair.change.removed)):
                for entry in entries[:MOST_CHANGES]:
                    yield from self._around(entry.name, side, number)

    def _window(self, focus: Sequence[str]) -> Window:
        return Window(unit=self._name, lines=self._lines(focus))

    def _around(self, name: str, side: int, new: int) -> Iterator[Window]:
        # The lines of the mates of an entry that only base or only this new kernel has. Without
        # mates no other entry's line changed, and there is nothing to draw.
        sheet, called = self._sheets[side], self._called(side, name)
        if sheet is None or called not in sheet.spans:
            return
        base_names = {own: name for name, own in self._names(side).items()}
        mates = {base_names.get(mate, mate) for mate in sheet.mates(called)}
        mates &= self._pairs[new].matching.common
        if mates:
            lines = list(self._lines(sorted(mates), is_pair=False))
            lines[side] = frozenset(sheet.ends(called))
            yield Window(unit=self._name, lines=tuple(lines))

    def _names(self, number: int) -> Mapping[str, str]:
        # Names in a kernel of entries that have a different name in base.
        pair = self._pairs.get(number)
        return {} if pair is None else pair.new_names

    def _called(self, number: int, name: str) -> str:
        return self._names(number).get(name, name)

    def _lines(self, focus: Sequence[str], *, is_pair: bool = True) -> tuple[Lines, ...]:
        lines = []
        for number, sheet in enumerate(self._sheets):
            names = [self._called(number, name) for name in focus]
            lines.append(
                NO_LINES
                if sheet is None
                else sheet.closest(names)
                if is_pair
                else sheet.starts(names)
            )
        return self._filled(lines)

    def _filled(self, lines: list[Lines]) -> tuple[Lines, ...]:
        # A kernel without these entries shows the entries between which they were inserted.
        donor = next((number for number, shown in enumerate(lines) if shown), None)
        sheet = None if donor is None else self._sheets[donor]
        if donor is None or sheet is None or all(lines):
            return tuple(lines)
        base_names = {own: name for name, own in self._names(donor).items()}
        near = [base_names.get(name, name) for name in sheet.tenants(lines[donor])]
        for number, target in enumerate(self._sheets):
            if target is not None and not lines[number]:
                there = target.starts([self._called(number, name) for name in near])
                lines[number] = there if len(there) <= MOST_WINDOW_LINES else NO_LINES
        return tuple(lines)

    def draw(self, window: Window) -> LayoutWindow:
        """Return the drawing of a window, with a column for each kernel."""
        drawn = [self._rows(number, window) for number in range(len(self._kernels))]
        shown = {row.name for rows in drawn for row in rows}
        added = dict.fromkeys(
            entry.name for pair in self._pairs.values() for entry in pair.change.added
        )
        return LayoutWindow(
            unit=self._name,
            kind=next(sheet.unit.kind for sheet in self._sheets if sheet is not None),
            alarms=window.alarms,
            inserted=tuple(name for name in added if name in shown),
            columns=tuple(
                self._column(number, rows, window.lines[number])
                for number, rows in enumerate(drawn)
            ),
            uses=known_uses(self._name, sorted(shown)),
        )

    def _rows(self, number: int, window: Window) -> tuple[LayoutRow, ...]:
        sheet = self._sheets[number]
        if sheet is None:
            return ()
        hot = {self._called(number, name) for name in window.hot}
        return sheet.rows(window.lines[number], marks=self._marks(number), hot=hot)

    def _column(self, number: int, rows: tuple[LayoutRow, ...], lines: Lines) -> LayoutColumn:
        kernel, reason, sheet = self._kernels[number], None, self._sheets[number]
        if self._name not in kernel.units:
            reason = kernel.unknown.get(self._name, "was not read")
        return LayoutColumn(
            side=self._roles[number],
            label=kernel.label,
            rows=rows,
            lines=() if sheet is None else sheet.starts_of(lines),
            bytes=None if sheet is None else sheet.unit.size,
            reason=reason,
        )

    def _marks(self, number: int) -> dict[str, Mark]:
        if number == 0:
            gone = (entry.name for pair in self._pairs.values() for entry in pair.change.removed)
            return self._marked(0, gone, "removed")
        pair = self._pairs.get(number)
        if pair is None:
            return {}
        lines = pair.change.lines
        marks = self._marked(number, (entry.name for entry in lines.entries), "mates changed")
        marks |= self._marked(
            number, (rename.base_name for rename in pair.change.renamed), "renamed"
        )
        # An entry whose mates left has changed mates, but has not moved.
        gone = (entry.name for entry in lines.moved if not entry.keeps_offset)
        marks |= self._marked(number, gone, "moved")
        return marks | self._marked(number, (entry.name for entry in pair.change.added), "added")

    def _marked(self, number: int, names: Iterable[str], mark: Mark) -> dict[str, Mark]:
        return dict.fromkeys((self._called(number, name) for name in names), mark)
