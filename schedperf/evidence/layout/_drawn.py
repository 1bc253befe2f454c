"""Chooses the cache lines worth drawing, one column for each kernel."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from schedperf.evidence.layout._plain import MOST_LISTED, Plain, rank_of, rows_of_alarms, uses_plain
from schedperf.evidence.layout._unit_pairs import UnitPair
from schedperf.evidence.layout.model import Kernel
from schedperf.evidence.layout.ranking import Alarm
from schedperf.evidence.layout.windows import (
    MOST_WINDOW_LINES,
    NO_LINES,
    Lines,
    Sheet,
    Window,
    group_windows,
)

# More drawings than a reader looks at hide the first ones; the counts tell the whole.
MOST_WINDOWS = 6
# Pairs of one alarm that may start a drawing; the worst come first.
MOST_ALARM_PAIRS = 16


def draw_windows(
    roles: Sequence[str], kernels: Sequence[Kernel], compared: Sequence[Sequence[UnitPair]]
) -> list[Plain]:
    """Return drawings as data, those of alarms first.

    :param roles: "base", "new" …, one for each kernel
    :param kernels: base first
    :param compared: for each new kernel its units, compared with base
    """
    changed = {pair.name for pairs in compared for pair in pairs if not pair.change.is_unchanged}
    boards: dict[str, _Board] = {}
    for number, pairs in enumerate(compared, 1):
        for pair in pairs:
            if pair.name not in changed:
                continue
            # A kernel in which the unit is as in base has its column too.
            board = boards.setdefault(pair.name, _Board(roles, kernels, pair.name))
            board.add(number, pair)
    alarmed = [one for board in boards.values() for one in board.alarmed()]
    wanted = [window for _, window in sorted(alarmed, key=lambda one: rank_of(one[0]))]
    # Any other option moves hundreds of globals, so these are drawn only where nothing else was
    # asked for.
    is_alone = all(pair.name == "globals" for pairs in compared for pair in pairs)
    wanted += [
        window
        for name, board in boards.items()
        if name != "globals" or is_alone
        for window in board.changed()
    ]
    return [boards[window.unit].plain(window) for window in group_windows(wanted, MOST_WINDOWS)]


class _Board:
    # One unit on every kernel: where entries are, and what became of them.

    def __init__(self, roles: Sequence[str], kernels: Sequence[Kernel], name: str) -> None:
        self._roles, self._kernels, self._name = roles, kernels, name
        self._sheets: list[Sheet | None] = [None] * len(kernels)
        self._pairs: dict[int, UnitPair] = {}

    def add(self, number: int, pair: UnitPair) -> None:
        """Take the comparison of one new kernel."""
        self._pairs[number] = pair
        self._sheets[0], self._sheets[number] = pair.sheets

    def alarmed(self) -> Iterator[tuple[Alarm, Window]]:
        """Yield what each alarm is about."""
        for pair in self._pairs.values():
            alarms = pair.ranking.alarms
            rows = rows_of_alarms(pair.prefix, alarms)
            for alarm, row in zip(alarms, rows, strict=True):
                focuses = [*alarm.pairs[:MOST_ALARM_PAIRS], alarm.entries]
                for focus in focuses:
                    lines, hot = self._lines(focus), frozenset(alarm.entries)
                    yield alarm, Window(unit=self._name, lines=lines, alarms=(row,), hot=hot)

    def changed(self) -> Iterator[Window]:
        """Yield every other change."""
        for number, pair in self._pairs.items():
            lines = pair.change.lines
            for changed in (*lines.separated[:MOST_LISTED], *lines.joined[:MOST_LISTED]):
                yield self._window(changed)
            for side, entries in ((number, pair.change.added), (0, pair.change.removed)):
                for entry in entries[:MOST_LISTED]:
                    yield from self._around(entry.name, side, number)

    def _window(self, focus: Sequence[str]) -> Window:
        return Window(unit=self._name, lines=self._lines(focus))

    def _around(self, name: str, side: int, new: int) -> Iterator[Window]:
        # Where the mates of one are that only base or only this new kernel has. Without mates
        # nobody's line changed, and there is nothing to draw.
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
        # What a kernel calls entries that base calls otherwise.
        pair = self._pairs.get(number)
        return {} if pair is None else pair.new_names

    def _called(self, number: int, name: str) -> str:
        return self._names(number).get(name, name)

    def _lines(self, focus: Sequence[str], *, is_pair: bool = True) -> tuple[Lines, ...]:
        found = []
        for number, sheet in enumerate(self._sheets):
            names = [self._called(number, name) for name in focus]
            found.append(
                NO_LINES
                if sheet is None
                else sheet.closest(names)
                if is_pair
                else sheet.starts(names)
            )
        return self._filled(found)

    def _filled(self, lines: list[Lines]) -> tuple[Lines, ...]:
        # A kernel that has none of them shows where those are that they came between.
        donor = next((number for number, shown in enumerate(lines) if shown), None)
        sheet = None if donor is None else self._sheets[donor]
        if donor is None or sheet is None or all(lines):
            return tuple(lines)
        base_names = {own: name for name, own in self._names(donor).items()}
        near = [base_names.get(name, name) for name in sheet.tenants(lines[donor])]
        for number, other in enumerate(self._sheets):
            if other is not None and not lines[number]:
                there = other.starts([self._called(number, name) for name in near])
                lines[number] = there if len(there) <= MOST_WINDOW_LINES else NO_LINES
        return tuple(lines)

    def plain(self, window: Window) -> Plain:
        """Return one drawing as data."""
        drawn = [self._rows(number, window) for number in range(len(self._kernels))]
        shown = {row["name"] for rows in drawn for row in rows}
        added = dict.fromkeys(
            entry.name for pair in self._pairs.values() for entry in pair.change.added
        )
        return {
            "unit": self._name,
            "kind": next(sheet.unit.kind for sheet in self._sheets if sheet is not None),
            "alarms": list(window.alarms),
            "inserted": [name for name in added if name in shown],
            "columns": [
                self._column(number, rows, window.lines[number])
                for number, rows in enumerate(drawn)
            ],
            "uses": uses_plain(self._name, sorted(map(str, shown))),
        }

    def _rows(self, number: int, window: Window) -> list[Plain]:
        sheet = self._sheets[number]
        if sheet is None:
            return []
        hot = {self._called(number, name) for name in window.hot}
        return sheet.rows(window.lines[number], self._marks(number), hot)

    def _column(self, number: int, rows: list[Plain], lines: Lines) -> Plain:
        kernel, reason, sheet = self._kernels[number], None, self._sheets[number]
        if self._name not in kernel.units:
            reason = kernel.unknown.get(self._name, "was not read")
        return {
            "side": self._roles[number],
            "label": kernel.label,
            "rows": rows,
            "lines": [] if sheet is None else sheet.starts_of(lines),
            "bytes": None if sheet is None else sheet.unit.size,
            "reason": reason,
        }

    def _marks(self, number: int) -> dict[str, str]:
        if number == 0:
            gone = (entry.name for pair in self._pairs.values() for entry in pair.change.removed)
            return dict.fromkeys(gone, "removed")
        pair = self._pairs.get(number)
        if pair is None:
            return {}
        lines = pair.change.lines
        marks = self._marked(number, (one.name for one in lines.entries), "mates changed")
        marks |= self._marked(number, (one.base_name for one in pair.change.renamed), "renamed")
        # Whose mates left around it has new mates, but has not moved.
        gone = (one.name for one in lines.moved if not one.keeps_offset)
        marks |= self._marked(number, gone, "moved")
        return marks | self._marked(number, (one.name for one in pair.change.added), "added")

    def _marked(self, number: int, names: Iterable[str], mark: str) -> dict[str, str]:
        return dict.fromkeys((self._called(number, name) for name in names), mark)
