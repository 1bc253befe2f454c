# SPDX-License-Identifier: GPL-2.0-or-later
"""Merge a hot symbol, a bouncing line, a layout change and a benchmark change into one finding.

Four things may be seen of one cache line, and each is an edge of the story only if it holds by
itself and goes the same way as the others:

* contention: loads that another CPU's write made slow rose, or fell, beyond their interval
* layout: a name now shares the line with a variable that other CPUs write, or no longer does
* symbol: the cost of a function that accesses the line changed significantly
* benchmark: a primary result of the same point got worse, or better

A story needs two of the first three. Edges that do not hold are left out; what was not measured is
listed. Without memory samples a layout and a symbol make a story of a lower grade; with samples
that show no change of the line they make none.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from schedperf.evidence import joined_finding
from schedperf.evidence.c2c.entries import entries_of
from schedperf.evidence.c2c.findings import Contention, Size, contentions
from schedperf.evidence.c2c.record import C2c, C2cLineRow, C2cPoint
from schedperf.evidence.layout.heat import heat_table
from schedperf.evidence.layout.record import Layout, LayoutAlarm, LayoutComparison, LayoutUnit
from schedperf.evidence.profile.record import Profile, ProfilePoint, ProfileRow
from schedperf.kernel.renames import newest_function
from schedperf.model.comparison import Finding, Row, Section, data_of
from schedperf.stats.verdicts import FALSE_DISCOVERY_RATE
from schedperf.symbols.places import KERNEL

# Of one side; more stories than these explain nothing.
MOST_FINDINGS = 5
# Functions, mates and results that one sentence names.
MOST_NAMED = 3

# How many of the four edges hold, in words; "not shown to cause" holds for all of them.
_GRADES = {
    4: "A: contention, symbol, layout and benchmark changed together",
    3: "B: three of contention, symbol, layout and benchmark changed together",
    2: "C: two of contention, symbol, layout and benchmark changed together",
}
_WITHOUT_SAMPLES = "D: no memory samples; a layout change and a symbol that accesses it"

# Workload and point.
_Place = tuple[str, str]


class _LayoutEdge(NamedTuple):
    """What a name on the line gained or lost.

    :param entry: as the layout calls it: ``struct task_group.load_avg``
    :param mates: variables on its line that other CPUs write, new where contention rose, else gone
    :param rows: pairs and alarms of the layout section that say so
    """

    entry: str
    mates: tuple[str, ...]
    rows: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Symbol:
    # A function at one point of the profile.
    row: ProfileRow
    point: ProfilePoint


@dataclass(frozen=True, kw_only=True, slots=True)
class _Story:
    # One line, or one alarm of the layout, and the edges that hold.
    side: str
    subject: str
    row: str
    contention: Contention | None
    layout: _LayoutEdge | None
    symbols: Sequence[_Symbol]
    results: Sequence[Row]
    rises: bool
    unseen: Sequence[str]

    @property
    def edges(self) -> int:
        return sum(map(bool, (self.contention, self.layout, self.symbols, self.results)))

    @property
    def is_told(self) -> bool:
        return sum(map(bool, (self.contention, self.layout, self.symbols))) > 1


@joined_finding("joined")
def joined(sections: Mapping[str, Section], rows: Sequence[Row]) -> Iterator[Finding]:
    """Yield the stories of each side, those with most edges first."""
    found = (data_of(sections, C2c), data_of(sections, Layout), data_of(sections, Profile))
    sides = dict.fromkeys(one.side for data in found if data for one in data.comparisons)
    for side in sides:
        scene = _Scene(sections, rows, side)
        stories = [story for story in scene.stories() if story.is_told]
        ranked = sorted(stories, key=lambda story: -story.edges)
        yield from (_tell(story) for story in ranked[:MOST_FINDINGS])


class _Scene:
    # What all sections say of one side.

    def __init__(self, sections: Mapping[str, Section], rows: Sequence[Row], side: str) -> None:
        self._sections = sections
        self._rows = [row for row in rows if row.side == side and row.family == "primary"]
        self._side = side
        lines, layout = data_of(sections, C2c), data_of(sections, Layout)
        profile = data_of(sections, Profile)
        self._points = next(
            (one.points for one in (lines.comparisons if lines else ()) if one.side == side), ()
        )
        self._layout = next(
            (one for one in (layout.comparisons if layout else ()) if one.side == side), None
        )
        self._events = next(
            (one.events for one in (profile.comparisons if profile else ()) if one.side == side), ()
        )

    def stories(self) -> Iterator[_Story]:
        """Yield what may be told of each line; without memory samples, of each alarm."""
        compared = [point for point in self._points if point.reason is None]
        for point in compared:
            yield from map(self._of_line, contentions(point))
        if not compared and self._layout is not None:
            why = _why_no_samples(self._sections, self._points)
            yield from self._of_alarms(self._layout.alarms, why)

    def _of_line(self, contention: Contention) -> _Story:
        point, line, rises = contention.point, contention.line, contention.rises
        place = (point.workload, point.point)
        symbols, unseen = self._symbols(place, touched(line), rises=rises)
        if self._layout is None or not _is_layout_known(self._layout, line):
            unseen = [
                *unseen,
                f"layout of the line: {self._why_no_layout()}",
            ]
        edges = () if self._layout is None else _layout_edges(self._layout, line, rises=rises)
        return _Story(
            side=self._side,
            subject=contention.subject,
            row=line.row,
            contention=contention,
            layout=next(iter(edges), None),
            symbols=symbols,
            results=self._results(place, rises=rises),
            rises=rises,
            unseen=unseen,
        )

    def _of_alarms(self, alarms: Sequence[LayoutAlarm], why: str) -> Iterator[_Story]:
        # Each alarm says that something became dearer, for those who touch it.
        for alarm in alarms:
            functions = {function.rpartition(":")[2] for function in alarm.functions}
            for place in self._places():
                symbols, unseen = self._symbols(place, functions, rises=True)
                yield _Story(
                    side=self._side,
                    subject=alarm.claim,
                    row=alarm.row,
                    contention=None,
                    layout=_LayoutEdge(
                        entry=alarm.names[0], mates=alarm.names[1:], rows=(alarm.row,)
                    ),
                    symbols=symbols,
                    results=self._results(place, rises=True),
                    rises=True,
                    unseen=[f"no memory samples: {why}", *unseen],
                )

    def _places(self) -> list[_Place]:
        found = ((point.workload, point.point) for one in self._events for point in one.points)
        return list(dict.fromkeys(found))

    def _symbols(
        self, place: _Place, functions: Collection[str], *, rises: bool
    ) -> tuple[list[_Symbol], list[str]]:
        # Changed rows of the functions, largest change first, and why there may be more.
        points = [
            point
            for event in self._events
            if event.sees_kernel
            for point in event.points
            if (point.workload, point.point) == place
        ]
        if not points:
            return [], [f"cost of the functions: {self._why_no_profile()}"]
        changed = [
            _Symbol(row=row, point=point)
            for point in points
            for row in point.rows
            if row.dso == KERNEL
            and newest_function(row.symbol) in functions
            and _moves(row, rises=rises)
        ]
        return sorted(changed, key=lambda symbol: -abs(symbol.row.share.change)), []

    def _why_no_profile(self) -> str:
        if data_of(self._sections, Profile) is None:
            return _why_unseen(self._sections, "profile")
        blind = next((one for one in self._events if not one.sees_kernel), None)
        return "no profile of this point" if blind is None else f"{blind.event} cannot see it"

    def _why_no_layout(self) -> str:
        seen = data_of(self._sections, Layout) is not None
        return (
            "its variables are not in the layout" if seen else _why_unseen(self._sections, "layout")
        )

    def _results(self, place: _Place, *, rises: bool) -> list[Row]:
        verdict = "regression" if rises else "improvement"
        return [
            row for row in self._rows
            if (row.workload, row.point) == place and row.verdict == verdict
        ]  # fmt: skip


def _why_no_samples(sections: Mapping[str, Section], points: Sequence[C2cPoint]) -> str:
    reason = points[0].reason if points else None
    return reason or _why_unseen(sections, "c2c")


def touched(line: C2cLineRow) -> set[str]:
    """Return the functions that touched a line on either side, under their newest names."""
    return {
        newest_function(one.symbol)
        for seen in line.seen
        for access in seen.accesses
        for one in access.symbols
    }


def _moves(row: ProfileRow, *, rises: bool) -> bool:
    # The cost of an operation decides; the share only where no operations are known.
    is_sure = row.changed if row.cost is None else _is_sure(row.cost.q)
    change = (row.cost or row.share).change
    return is_sure and (change > 0.0) == rises and change != 0.0


def _is_sure(q: float | None) -> bool:
    return q is not None and q < FALSE_DISCOVERY_RATE


def _tell(story: _Story) -> Finding:
    contention = story.contention
    parts = [] if contention is None else [contention.describe()]
    parts += map(_tell_symbol, story.symbols[:MOST_NAMED])
    parts += [] if story.layout is None or contention is None else [_tell_layout(story)]
    parts += [_tell_result(row) for row in story.results[:MOST_NAMED]]
    size = _size_of_symbol(story.symbols[0]) if contention is None else contention.size
    unseen = f"; not measured: {'; '.join(story.unseen)}" if story.unseen else ""
    return Finding(
        id=f"joined#{story.row}",
        side=story.side,
        claim=f"{story.subject}: {'; '.join(parts)}{unseen}",
        metric=size.metric,
        value=size.value,
        ci=size.interval,
        unit=size.unit,
        better="lower",
        n=size.n,
        evidence=tuple(_evidence(story)),
        replication=f"{size.n[0]}+{size.n[1]} runs",
        attribution=f"grade {_grade(story)}; causation not shown",
        edges=story.edges,
    )


def _grade(story: _Story) -> str:
    return _WITHOUT_SAMPLES if story.contention is None else _GRADES[story.edges]


def _tell_symbol(symbol: _Symbol) -> str:
    share, cost, unit = symbol.row.share, symbol.row.cost, symbol.point.cost_unit
    per = "" if cost is None else f" ({cost.base:.3g} -> {cost.new:.3g} {unit})"
    return f"{symbol.row.symbol} {share.base:.3g} -> {share.new:.3g}% of all CPUs{per}"


def _tell_layout(story: _Story) -> str:
    assert story.layout is not None
    verb = "gained" if story.rises else "lost"
    mates = _list_some(story.layout.mates, MOST_NAMED)
    return f"{story.layout.entry} {verb} {mates} on its cache line, which other CPUs write"


def _tell_result(row: Row) -> str:
    at = f" at {row.point}" if row.point else ""
    change = "" if row.ratio is None else f" {100.0 * (row.ratio - 1.0):+.1f}%"
    return f"{row.metric}{at}{change} ({row.verdict})"


def _size_of_symbol(symbol: _Symbol) -> Size:
    share, runs = symbol.row.share, symbol.point.runs
    low, high = share.ci_low, share.ci_high
    return Size(
        value=share.change,
        interval=None if low is None or high is None else (low, high),
        unit="pp",
        metric=f"share of {symbol.row.symbol}",
        n=(runs.base, runs.new),
    )


def _evidence(story: _Story) -> Iterator[str]:
    if story.contention is not None:
        yield f"c2c#{story.row}"
    yield from (f"profile#{symbol.row.row}" for symbol in story.symbols[:MOST_NAMED])
    if story.layout is not None:
        yield from (f"layout#{row}" for row in story.layout.rows or ("",))
    for row in story.results[:MOST_NAMED]:
        yield f"benchmarks#{row.metric} at {row.point}" if row.point else f"benchmarks#{row.metric}"


def _layout_edges(
    compared: LayoutComparison, line: C2cLineRow, *, rises: bool
) -> Iterator[_LayoutEdge]:
    """Yield what explains that a line bounces more, or less.

    :param compared: the layout section's comparison of a side
    :param line: of the section about cache lines
    """
    units = {unit.unit: unit for unit in compared.units}
    written = _written(line)
    for key in _keys(line):
        for name in line.names:
            for unit_name, entry in entries_of(key, name):
                unit = units.get(unit_name)
                edge = None if unit is None else _edge(unit, entry, written, rises=rises)
                if edge is not None:
                    alarms = _alarms(compared.alarms, unit_name, entry, edge.mates)
                    yield edge._replace(rows=(*alarms, *edge.rows))


def _is_layout_known(compared: LayoutComparison, line: C2cLineRow) -> bool:
    """Say whether the layout of something on the line was compared."""
    units = {unit.unit for unit in compared.units}
    return any(
        unit in units for key in _keys(line) for name in line.names
        for unit, _ in entries_of(key, name)
    )  # fmt: skip


def _keys(line: C2cLineRow) -> list[str]:
    return list(dict.fromkeys(seen.key for seen in line.seen))


def _written(line: C2cLineRow) -> set[tuple[str, str]]:
    # Entries that were seen to be written while others contended for the line.
    return {
        entry
        for seen in line.seen
        for access in seen.accesses
        if access.writes and access.name is not None
        for entry in entries_of(seen.key, access.name)
    }


def _edge(
    unit: LayoutUnit, entry: str, written: set[tuple[str, str]], *, rises: bool
) -> _LayoutEdge | None:
    changed = next((one for one in unit.entries if one.name == entry), None)
    if changed is None:
        return None
    mates = tuple(
        mate
        for mate in (changed.gained if rises else changed.lost)
        if (unit.unit, mate) in written or _is_written_by_others(unit.unit, mate)
    )
    if not mates:
        return None
    pairs = unit.joined if rises else unit.separated
    rows = tuple(pair.row for pair in pairs if _is_of(pair.a, pair.b, entry, mates))
    return _LayoutEdge(entry=f"{unit.unit}: {entry}", mates=mates, rows=rows)


def _is_written_by_others(unit: str, entry: str) -> bool:
    use = heat_table().find(unit, entry)
    return use is not None and use.written == "remote"


def _is_of(one: str, other: str, entry: str, mates: Sequence[str]) -> bool:
    return (one == entry and other in mates) or (other == entry and one in mates)


def _alarms(
    alarms: Sequence[LayoutAlarm], unit: str, entry: str, mates: Sequence[str]
) -> Iterator[str]:
    for alarm in alarms:
        pairs = alarm.pairs if alarm.unit == unit else ()
        if any(_is_of(one, other, entry, mates) for one, other in pairs):
            yield alarm.row


def _why_unseen(sections: Mapping[str, Section], name: str) -> str:
    """Say why a section has nothing."""
    section = sections.get(name)
    return (section.reason if section is not None else None) or "not analysed"


def _list_some(names: Sequence[str], most: int) -> str:
    """List the first names and count the others."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
