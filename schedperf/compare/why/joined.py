# SPDX-License-Identifier: GPL-2.0-or-later
"""Merge a hot symbol, a bouncing line, a layout change and a benchmark change into one finding.

Four kinds of evidence about one cache line are merged if each is significant and all have the same
direction:

* contention: loads slowed by writes of other CPUs increased, or decreased, significantly
* layout: a variable now shares the line with one that other CPUs write, or no longer does
* symbol: the cost of a function that accesses the line changed significantly
* benchmark: a primary result of the same point got worse, or better

A merged finding needs two of the first three. Evidence that was not measured is listed. Without
memory samples a layout and a symbol make a finding of a lower grade; with samples that show no
change of the line they make none.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from msgspec import Struct

from schedperf.evidence import joined_finding
from schedperf.evidence.c2c.entries import entries_of
from schedperf.evidence.c2c.findings import Contention, Size, contentions
from schedperf.evidence.c2c.record import C2c, C2cLineRow, C2cPoint
from schedperf.evidence.layout.heat import heat_table
from schedperf.evidence.layout.record import Layout, LayoutAlarm, LayoutComparison, LayoutUnit
from schedperf.evidence.profile.record import Profile, ProfilePoint, ProfileRow
from schedperf.inputs.kernel.renames import newest_function
from schedperf.inputs.symbols.functions import function_name
from schedperf.inputs.symbols.places import KERNEL
from schedperf.model.rows import Row
from schedperf.model.sections import Finding, Section, data_of
from schedperf.model.text import list_some
from schedperf.model.verdict import FALSE_DISCOVERY_RATE

# Number of merged findings per side.
MOST_FINDINGS = 5
# Number of functions, neighbours and results that one sentence lists.
MOST_NAMED = 3

_KINDS = "cache contention, function CPU time, layout, benchmark"
# Grade and text by the number of kinds of evidence.
_GRADES = {
    4: "A: cache contention, function CPU time, layout and benchmark changed together",
    3: f"B: three of these four changed together: {_KINDS}",
    2: f"C: two of these four changed together: {_KINDS}",
}
_WITHOUT_SAMPLES = "D: no memory samples"
_CHANGED_WITHOUT_SAMPLES = (
    "a data layout and the CPU time of a function that accesses it changed together"
)

# Workload and point.
_Place = tuple[str, str]


class _Comparison(Protocol):
    @property
    def side(self) -> str: ...


_ComparisonT = TypeVar("_ComparisonT", bound=_Comparison)


class _LayoutEdge(NamedTuple):
    """Variables that newly share a cache line with a variable, or no longer do.

    :param entry: its name in the layout section: ``struct task_group.load_avg``
    :param mates: variables on its line that other CPUs write: added if contention rose, removed if
        it fell
    :param rows: identifiers of the pairs and alarms of the layout section
    """

    entry: str
    mates: tuple[str, ...]
    rows: tuple[str, ...]


class _Symbol(Struct, frozen=True, kw_only=True):
    # A function at one point of the profile.
    row: ProfileRow
    point: ProfilePoint


class _Merged(Struct, frozen=True, kw_only=True):
    # One cache line, or one alarm of the layout, and its evidence.
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
    def is_reported(self) -> bool:
        return sum(map(bool, (self.contention, self.layout, self.symbols))) > 1


@joined_finding("joined")
def joined(sections: Mapping[str, Section], rows: Sequence[Row]) -> Iterator[Finding]:
    """Yield the merged findings of each side, at most five, most kinds of evidence first."""
    records = (data_of(sections, C2c), data_of(sections, Layout), data_of(sections, Profile))
    sides = dict.fromkeys(
        comparison.side for data in records if data for comparison in data.comparisons
    )
    for side in sides:
        evidence = _SideEvidence(sections, rows, side)
        candidates = [merged for merged in evidence.merged() if merged.is_reported]
        ranked = sorted(candidates, key=lambda merged: -merged.edges)
        yield from (_finding(merged) for merged in ranked[:MOST_FINDINGS])


def _of_side(comparisons: Sequence[_ComparisonT], side: str) -> _ComparisonT | None:
    return next((comparison for comparison in comparisons if comparison.side == side), None)


class _SideEvidence:
    # The evidence of all sections about one side.

    def __init__(self, sections: Mapping[str, Section], rows: Sequence[Row], side: str) -> None:
        self._sections = sections
        self._rows = [row for row in rows if row.side == side and row.family == "primary"]
        self._side = side
        lines, layout = data_of(sections, C2c), data_of(sections, Layout)
        profile = data_of(sections, Profile)
        memory = _of_side(lines.comparisons if lines else (), side)
        functions = _of_side(profile.comparisons if profile else (), side)
        self._points = memory.points if memory else ()
        self._layout = _of_side(layout.comparisons if layout else (), side)
        self._events = functions.events if functions else ()

    def merged(self) -> Iterator[_Merged]:
        """Yield the merged evidence of each line whose contention changed.

        Without memory samples, yield that of each layout alarm at each point of the profile.
        """
        compared = [point for point in self._points if point.reason is None]
        for point in compared:
            yield from map(self._of_line, contentions(point))
        if not compared and self._layout is not None:
            why = _why_no_samples(self._sections, self._points)
            yield from self._of_alarms(self._layout.alarms, why)

    def _of_line(self, contention: Contention) -> _Merged:
        point, line, rises = contention.point, contention.line, contention.rises
        at = (point.workload, point.point)
        symbols, unseen = self._symbols(at, touched(line), rises=rises)
        if self._layout is None or not _is_layout_known(self._layout, line):
            unseen = [
                *unseen,
                f"layout of the line: {self._why_no_layout()}",
            ]
        edges = () if self._layout is None else _layout_edges(self._layout, line, rises=rises)
        return _Merged(
            side=self._side,
            subject=contention.subject,
            row=line.row,
            contention=contention,
            layout=next(iter(edges), None),
            symbols=symbols,
            results=self._results(at, rises=rises),
            rises=rises,
            unseen=unseen,
        )

    def _of_alarms(self, alarms: Sequence[LayoutAlarm], why: str) -> Iterator[_Merged]:
        # Each alarm is about a line that became more expensive for functions that access it.
        for alarm in alarms:
            functions = {newest_function(each.rpartition(":")[2]) for each in alarm.functions}
            for at in self._places():
                symbols, unseen = self._symbols(at, functions, rises=True)
                yield _Merged(
                    side=self._side,
                    subject=alarm.claim,
                    row=alarm.row,
                    contention=None,
                    layout=_LayoutEdge(
                        entry=alarm.names[0], mates=alarm.names[1:], rows=(alarm.row,)
                    ),
                    symbols=symbols,
                    results=self._results(at, rises=True),
                    rises=True,
                    unseen=[f"no memory samples: {why}", *unseen],
                )

    def _places(self) -> list[_Place]:
        points = ((point.workload, point.point) for event in self._events for point in event.points)
        return list(dict.fromkeys(points))

    def _symbols(
        self, at: _Place, functions: Collection[str], *, rises: bool
    ) -> tuple[list[_Symbol], list[str]]:
        # Changed rows of the functions, largest change first, and why there may be further ones.
        points = [
            point
            for event in self._events
            if event.sees_kernel
            for point in event.points
            if (point.workload, point.point) == at
        ]
        if not points:
            return [], [f"CPU time of the functions: {self._why_no_profile()}"]
        changed = [
            _Symbol(row=row, point=point)
            for point in points
            for row in point.rows
            if row.dso == KERNEL
            and newest_function(function_name(row.symbol)) in functions
            and _moves(row, rises=rises)
        ]
        return sorted(changed, key=lambda symbol: -abs(symbol.row.share.change)), []

    def _why_no_profile(self) -> str:
        if data_of(self._sections, Profile) is None:
            return _why_missing(self._sections, "profile")
        blind = next((event for event in self._events if not event.sees_kernel), None)
        if blind is None:
            return "no profile was recorded with this workload and these parameters"
        verb = "cannot sample" if True in blind.blind else "may not sample"
        return f"{blind.event} {verb} kernel code that runs with interrupts off"

    def _why_no_layout(self) -> str:
        seen = data_of(self._sections, Layout) is not None
        return (
            "the layouts do not contain the variables of this line"
            if seen
            else _why_missing(self._sections, "layout")
        )

    def _results(self, at: _Place, *, rises: bool) -> list[Row]:
        verdict = "regression" if rises else "improvement"
        return [
            row for row in self._rows
            if (row.workload, row.point) == at and row.verdict == verdict
        ]  # fmt: skip


def _why_no_samples(sections: Mapping[str, Section], points: Sequence[C2cPoint]) -> str:
    reason = points[0].reason if points else None
    return reason or _why_missing(sections, "c2c")


def touched(line: C2cLineRow) -> set[str]:
    """Return the functions that accessed the line on either side, under their newest names."""
    return {
        newest_function(function_name(symbol.symbol))
        for seen in line.seen
        for access in seen.accesses
        for symbol in access.symbols
    }


def _moves(row: ProfileRow, *, rises: bool) -> bool:
    # The cost per operation is used; the share only if operations are unknown.
    is_sure = row.changed if row.cost is None else _is_sure(row.cost.q)
    change = (row.cost or row.share).change
    return is_sure and (change > 0.0) == rises and change != 0.0


def _is_sure(q: float | None) -> bool:
    return q is not None and q < FALSE_DISCOVERY_RATE


def _finding(merged: _Merged) -> Finding:
    contention = merged.contention
    parts = [] if contention is None else [contention.clause]
    parts += map(_describe_symbol, merged.symbols[:MOST_NAMED])
    parts += [] if merged.layout is None or contention is None else [_describe_layout(merged)]
    parts += [_describe_result(row) for row in merged.results[:MOST_NAMED]]
    size = _size_of_symbol(merged.symbols[0]) if contention is None else contention.size
    has_samples = contention is not None
    support = f"grade {_GRADES[merged.edges] if has_samples else _WITHOUT_SAMPLES}"
    more = "" if has_samples else _CHANGED_WITHOUT_SAMPLES
    unseen = f"; not measured: {'; '.join(merged.unseen)}" if merged.unseen else ""
    return Finding(
        id=f"joined#{merged.row}",
        side=merged.side,
        clause=f"{merged.subject}: {parts[0]}",
        change="" if contention is None else contention.interval,
        details=f"{''.join(f'; {part}' for part in parts[1:])}{unseen}",
        metric=size.metric,
        value=size.value,
        ci=size.interval,
        unit=size.unit,
        better="lower",
        n=size.n,
        evidence=tuple(_evidence(merged)),
        replication=f"{size.n[0]}+{size.n[1]} runs",
        attribution="; ".join(filter(None, (support, more, "causation not shown"))),
        support=support,
        edges=merged.edges,
    )


def _describe_symbol(symbol: _Symbol) -> str:
    share, cost, unit = symbol.row.share, symbol.row.cost, symbol.point.cost_unit
    per = "" if cost is None else f" ({cost.base:.3g} -> {cost.new:.3g} {unit})"
    return f"{symbol.row.symbol} {share.base:.3g} -> {share.new:.3g}% of all CPUs{per}"


def _describe_layout(merged: _Merged) -> str:
    assert merged.layout is not None
    verb = "now" if merged.rises else "no longer"
    mates = list_some(merged.layout.mates, MOST_NAMED)
    return (
        f"{merged.layout.entry} {verb} shares its cache line with {mates}, which other CPUs write"
    )


def _describe_result(row: Row) -> str:
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


def _evidence(merged: _Merged) -> Iterator[str]:
    if merged.contention is not None:
        yield f"c2c#{merged.row}"
    yield from (f"profile#{symbol.row.row}" for symbol in merged.symbols[:MOST_NAMED])
    if merged.layout is not None:
        yield from (f"layout#{row}" for row in merged.layout.rows or ("",))
    for row in merged.results[:MOST_NAMED]:
        yield f"benchmarks#{row.metric} at {row.point}" if row.point else f"benchmarks#{row.metric}"


def _layout_edges(
    compared: LayoutComparison, line: C2cLineRow, *, rises: bool
) -> Iterator[_LayoutEdge]:
    """Yield layout changes that explain more, or less, contention for a line.

    :param compared: the layout section's comparison of a side
    :param line: a line of the cache-line section
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
    """Return whether the layout of any variable on the line was compared."""
    units = {unit.unit for unit in compared.units}
    return any(
        unit in units for key in _keys(line) for name in line.names
        for unit, _ in entries_of(key, name)
    )  # fmt: skip


def _keys(line: C2cLineRow) -> list[str]:
    return list(dict.fromkeys(seen.key for seen in line.seen))


def _written(line: C2cLineRow) -> set[tuple[str, str]]:
    # Entries that were written while other CPUs contended for the line.
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
    changed = next((candidate for candidate in unit.entries if candidate.name == entry), None)
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


def _is_of(a: str, b: str, entry: str, mates: Sequence[str]) -> bool:
    return (a == entry and b in mates) or (b == entry and a in mates)


def _alarms(
    alarms: Sequence[LayoutAlarm], unit: str, entry: str, mates: Sequence[str]
) -> Iterator[str]:
    for alarm in alarms:
        pairs = alarm.pairs if alarm.unit == unit else ()
        if any(_is_of(a, b, entry, mates) for a, b in pairs):
            yield alarm.row


def _why_missing(sections: Mapping[str, Section], name: str) -> str:
    """Return why a section has no data."""
    section = sections.get(name)
    return (section.reason if section is not None else None) or "not analysed"
