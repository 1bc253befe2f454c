# SPDX-License-Identifier: GPL-2.0-or-later
"""Cache lines as the graphic ``CacheLines``, to scale: where variables were, and which moved."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from schedperf.evidence.layout.record import (
    LayoutAlarm,
    LayoutColumn,
    LayoutRow,
    LayoutUse,
    LayoutWindow,
    Pair,
)
from schedperf_reports.blocks import Tone
from schedperf_reports.evidence.layout._text_drawing import (
    call_unit,
    draw_map,
    draw_window,
    list_names,
)
from schedperf_reports.graphics.cache_lines import (
    Badge,
    CacheLines,
    LineGroup,
    LineMove,
    LinePair,
    LineRow,
    Occupant,
    OccupantKind,
    stack,
)
from schedperf_reports.words.rows import count_of

# Pairs that a drawing marks; the table of pairs has all.
MOST_PAIRS = 3
# Moves that a caption tells.
MOST_TOLD = 2
# Bytes of the last one of a line whose size is not known: most are pointers.
USUAL_BYTES = 8
# Lines of one drawing; what follows is counted, and the text has it.
MOST_LINES = 48
_BYTE_BITS = 8

_ENTRY = "entry"
# Units whose bytes between names may have a name that no source tells.
SECTIONS = frozenset({"percpu", "globals"})

# Functions that are named.
MOST_FUNCTIONS = 4

_WRITTEN = {
    "rarely": "rarely written",
    "own": "written by its own CPU",
    "remote": "written by other CPUs",
}
_MARKS = {"mates changed": "shares its line with other variables now"}
_READ = {"own": "read by its own CPU", "remote": "read by other CPUs"}

Rows = tuple[LineRow, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Column:
    # One side's lines of a unit, and who is on the same line as in base but at other bytes of it.
    unit: str
    side: str
    rows: Sequence[LayoutRow]
    lines: Sequence[int]
    bytes: int | None
    reason: str | None
    slid: Mapping[str, str] = field(default_factory=dict)

    @property
    def entries(self) -> list[LayoutRow]:
        return [row for row in self.rows if row.kind == _ENTRY]


def _column(unit: str, column: LayoutColumn, lines: Sequence[int]) -> _Column:
    return _Column(
        unit=unit,
        side=column.side,
        rows=column.rows,
        lines=lines,
        bytes=column.bytes,
        reason=column.reason,
    )


def draw_lines(window: LayoutWindow, line_bytes: int, alarms: Sequence[LayoutAlarm]) -> CacheLines:
    """Return one stretch of a unit as every kernel has it.

    :param alarms: of all comparisons; those of this window are marked
    """
    drawing = draw_window(window, line_bytes)
    columns = [_column(window.unit, column, column.lines) for column in window.columns]
    here = [alarm for alarm in alarms if alarm.row in window.alarms]
    uses = {use.name: use for use in window.uses}
    shifts = _shifts(columns, line_bytes)
    columns = [
        replace(column, slid=dict(_slid(column, columns[0], shift)))
        for column, shift in zip(columns, shifts, strict=True)
    ]
    pairs = list(_pairs(here, columns, line_bytes))
    moves = tuple(_moves(columns, shifts, line_bytes))
    return CacheLines(
        caption=_caption(window, drawing.caption, moves, pairs),
        line_bytes=line_bytes,
        sides=tuple(Badge(name=one.side, label=one.label) for one in window.columns),
        groups=tuple(_groups(columns, shifts, line_bytes, uses)),
        pairs=tuple(pairs[:MOST_PAIRS]),
        moves=moves,
        text=(drawing,),
    )


def draw_rows(
    unit: str,
    column: LayoutColumn,
    caption: str,
    line_bytes: int,
    uses: Sequence[LayoutUse] = (),
) -> CacheLines:
    """Return the rows of one kernel alone, on whatever lines they are.

    :param uses: who touches them, as far as it is known
    """
    text = draw_map(column, line_bytes, caption)
    starts = sorted({_line(row, line_bytes) for row in column.rows if row.kind == _ENTRY})
    drawn = _column(unit, column, starts[:MOST_LINES])
    known = {use.name: use for use in uses if use.paths}
    if len(starts) > MOST_LINES:
        caption += f"; the first {MOST_LINES} of {len(starts)} lines, all of them as text"
    return CacheLines(
        caption=caption,
        line_bytes=line_bytes,
        sides=(Badge(name=column.side, label=column.label),),
        groups=tuple(_groups([drawn], [0], line_bytes, known)),
        text=(text,),
    )


def _caption(
    window: LayoutWindow, told: str, moves: Sequence[LineMove], pairs: Sequence[LinePair]
) -> str:
    # Which hot pairs changed, then who went where, then who came.
    parted = [pair.text for pair in pairs if "bad" in pair.tones]
    more = len(parted) - MOST_TOLD
    found = parted[:MOST_TOLD] + ([count_of(more, "more pair")] if more > 0 else [])
    went = [move.text for move in moves[:MOST_TOLD]]
    more = len(moves) - MOST_TOLD
    went += [count_of(more, "more move")] if more > 0 else []
    names = window.inserted
    came = [f"inserted: {list_names(names, len(names))}"] if names else []
    # What the text says of where it is helps only where nothing moved.
    said = [*found, *went, *came] if found or went else []
    return f"{call_unit(window.unit)}: {'; '.join(said)}" if said else told


def _line(row: LayoutRow, line_bytes: int) -> int:
    return row.address // line_bytes * line_bytes


def _shifts(columns: Sequence[_Column], line_bytes: int) -> list[int]:
    # By how many bytes the lines of each side slid against base's as wholes: what most of the names
    # say that both have, so that the same line of both stands in one group.
    base = {row.name: _line(row, line_bytes) for row in columns[0].entries}
    shifts = [0]
    for column in columns[1:]:
        common = [row for row in column.entries if row.name in base]
        # What the drawing is about stands in one group where it can.
        asked = [row for row in common if row.is_hot] or common
        votes = Counter(_line(row, line_bytes) - base[row.name] for row in asked)
        shifts.append(max(votes, key=lambda shift: (votes[shift], -abs(shift)), default=0))
    return shifts


def _slid(column: _Column, base: _Column, shift: int) -> Iterator[tuple[str, str]]:
    # Who is on the same line as in base, but not at the same bytes of it.
    before = {row.name: row.address for row in base.entries}
    for row in column.entries:
        by = row.address - shift - before.get(row.name, row.address - shift)
        if by and row.mark in ("", "mates changed"):
            yield row.name, f"{by:+d} B"


def _groups(
    columns: Sequence[_Column],
    shifts: Sequence[int],
    line_bytes: int,
    uses: Mapping[str, LayoutUse],
) -> Iterator[LineGroup]:
    keys = sorted(
        {start - shift for column, shift in zip(columns, shifts, strict=True)
         for start in column.lines}
    )  # fmt: skip
    drawn = {
        key: tuple(
            _row(column, key + shift, line_bytes, uses)
            for column, shift in zip(columns, shifts, strict=True)
        )
        for key in keys
    }
    before = None
    for key, rows in _trimmed(drawn):
        skipped = 0 if before is None else (key - before) // line_bytes - 1
        yield LineGroup(
            title=_title(rows, key, line_bytes, is_first=before is None),
            rows=rows,
            skipped=f"{count_of(skipped, 'line')} between, not drawn" if skipped else "",
        )
        before = key


def _trimmed(drawn: Mapping[int, Rows]) -> list[tuple[int, Rows]]:
    # Lines before the first and behind the last about which there is something to say are left to
    # the text.
    told = [number for number, rows in enumerate(drawn.values()) if _is_told(rows)]
    kept = list(drawn.items())
    return kept[told[0] : told[-1] + 1] if told else kept


def _is_told(rows: Rows) -> bool:
    return any(one.is_hot or one.word for row in rows for one in row.occupants)


def _title(rows: Sequence[LineRow], key: int, line_bytes: int, *, is_first: bool) -> str:
    places = dict.fromkeys(row.place for row in rows if row.place)
    where = " and ".join(places) or f"0x{key:x}"
    if is_first:
        return f"line of {line_bytes} B from {where}"
    return f"{line_bytes} B boundary at {where}"


def _row(column: _Column, start: int, line_bytes: int, uses: Mapping[str, LayoutUse]) -> LineRow:
    if column.reason:
        return LineRow(place="", note=column.reason)
    if start not in column.lines:
        return LineRow(place=f"0x{start:x}" if start >= 0 else "", note="is not drawn")
    found = list(_occupants(column, start, line_bytes, uses))
    drawn, left = stack(found)
    is_known = all(one.is_sized for one in found)
    gaps = _gaps(found, start, line_bytes, column) if is_known else ()
    note = f"{left} more on the same bytes, see the text" if left else ""
    return LineRow(place=f"0x{start:x}", occupants=(*drawn, *gaps), note=note)


def _struct_end(column: _Column) -> int:
    # After the padding of a struct; 0 of a section, whose last entry is unknown.
    return 0 if column.unit in SECTIONS else column.bytes or 0


def _occupants(
    column: _Column, start: int, line_bytes: int, uses: Mapping[str, LayoutUse]
) -> Iterator[Occupant]:
    rows = [row for row in column.rows if row.kind in (_ENTRY, "hole")]
    starts = sorted({row.address for row in rows})
    for row in rows:
        first, end = _bytes(row, starts)
        is_here = first < start + line_bytes and (end > start or start <= first)
        if is_here:
            low, high = max(first, start), min(end, start + line_bytes)
            is_entry = row.kind == _ENTRY
            slid = column.slid.get(row.name, "") if is_entry else ""
            facts = _describe_occupant(row, line_bytes, uses.get(row.name))
            yield Occupant(
                name=row.name if is_entry else "",
                kind="entry" if is_entry else "hole",
                start=low - start,
                size=max(high - low, 0),
                is_sized=row.size is not None or bool(row.bits),
                before=first < start,
                after=end > start + line_bytes,
                word=row.mark if row.mark != "mates changed" else "",
                slid=slid,
                is_hot=row.is_hot,
                facts=(*facts, f"{slid} from where it is in base") if slid else facts,
            )


def _bytes(row: LayoutRow, starts: Sequence[int]) -> tuple[float, float]:
    # First byte and behind the last; without a known size it is drawn up to what follows.
    if row.bits:
        first, count = row.bits
        return first / _BYTE_BITS, (first + count) / _BYTE_BITS
    first = row.address
    if row.size is not None:
        return first, first + row.size
    return first, next((one for one in starts if one > first), first + USUAL_BYTES)


def _gaps(
    occupants: Sequence[Occupant], start: int, line_bytes: int, column: _Column
) -> Iterator[Occupant]:
    # What lies between those that are drawn. In a struct it is a hole, or padding behind the end;
    # in a section it may have a name that no source tells.
    gaps, reach = [], 0.0
    for one in sorted(occupants, key=lambda one: one.start):
        gaps.append((reach, one.start))
        reach = max(reach, one.start + one.size)
    last = _struct_end(column) - start
    is_whole, ends = _is_whole(column), last <= line_bytes
    behind = min(max(last, reach), float(line_bytes))
    gaps += [(reach, behind), (behind, float(line_bytes))]
    for first, end in gaps:
        if end > first:
            kind = _kind_of_gap(first, reach, behind, ends=ends) if is_whole else "unnamed"
            what = {"unnamed": "no variable drawn here"}.get(kind, kind)
            fact = f"{end - first:g} bytes from byte {first:g} of the line: {what}"
            yield Occupant(name="", kind=kind, start=first, size=end - first, facts=(fact,))


def _kind_of_gap(first: float, reach: float, behind: float, *, ends: bool) -> OccupantKind:
    if first < reach:
        return "hole"
    if first >= behind:
        return "unnamed"
    return "padding" if ends else "hole"


def _is_whole(column: _Column) -> bool:
    # A struct whose rows were not cut off.
    return _struct_end(column) > 0 and column.rows[-1].kind != "gap"


def _moves(
    columns: Sequence[_Column], shifts: Sequence[int], line_bytes: int
) -> Iterator[LineMove]:
    base = {row.name: row for row in columns[0].entries}
    for side, column in enumerate(columns[1:], 1):
        moved = [row for row in column.entries if row.mark == "moved" and row.name in base]
        for run in _runs(moved, base, line_bytes):
            by, old, line = _went(run[0], base, line_bytes)
            if old == line - shifts[side]:
                continue
            names = [row.name for row in run]
            more = f" and {len(names) - 2} more" if len(names) > 2 else ""  # noqa: PLR2004 # named
            where = f"to the line at 0x{line:x}"
            text = f"{', '.join(names[:2])}{more} moved by {by:+d} bytes, {where}"
            yield LineMove(name=names[0], side=side, text=text)


def _runs(
    moved: Sequence[LayoutRow], base: Mapping[str, LayoutRow], line_bytes: int
) -> Iterator[Sequence[LayoutRow]]:
    # Neighbours that went equally far from one line to one line are one arrow.
    run: list[LayoutRow] = []
    for row in moved:
        key = _went(row, base, line_bytes)
        if run and _went(run[-1], base, line_bytes) != key:
            yield run
            run = []
        run.append(row)
    if run:
        yield run


def _went(row: LayoutRow, base: Mapping[str, LayoutRow], line_bytes: int) -> tuple[int, int, int]:
    old = base[row.name]
    return row.address - old.address, _line(old, line_bytes), _line(row, line_bytes)


def _pairs(
    alarms: Sequence[LayoutAlarm], columns: Sequence[_Column], line_bytes: int
) -> Iterator[LinePair]:
    # Those that changed first, best evidence first, as the alarms come; then those that stayed.
    changed = dict.fromkeys(pair for alarm in alarms for pair in alarm.pairs)
    others = dict.fromkeys(
        pair
        for alarm in alarms
        for pair in combinations(alarm.names, 2)
        if pair not in changed and pair[::-1] not in changed
    )
    spans = [_spans(column, line_bytes) for column in columns]
    for pair in (*changed, *others):
        if all(name in lines for name in pair for lines in spans):
            together = [bool(lines[pair[0]] & lines[pair[1]]) for lines in spans]
            yield _pair(pair, together, columns, is_alarm=pair in changed)


def _spans(column: _Column, line_bytes: int) -> dict[str, set[int]]:
    starts = sorted({row.address for row in column.entries})
    spans = {}
    for row in column.entries:
        first, end = _bytes(row, starts)
        # Where a size is unknown only the first byte is known to be there.
        last = max(first, end - 1) if row.size is not None else first
        spans[row.name] = {int(first) // line_bytes, int(last) // line_bytes}
    return spans


def _pair(
    pair: Pair, together: Sequence[bool], columns: Sequence[_Column], *, is_alarm: bool
) -> LinePair:
    base = together[0]
    words = ["together" if base else "apart", *(_word(base, one) for one in together[1:])]
    tones: list[Tone] = ["plain"]
    tones += ["bad" if is_alarm and one != base else "plain" for one in together[1:]]
    said = [f"{word} in {column.side}" for word, column in zip(words, columns, strict=True)]
    return LinePair(
        names=pair,
        words=tuple(words),
        tones=tuple(tones),
        text=f"{pair[0]} and {pair[1]}: {', '.join(said)}",
    )


def _word(base: bool, new: bool) -> str:  # noqa: FBT001 # two of one kind
    if base == new:
        return "kept together" if new else "kept apart"
    return "joined" if new else "separated"


def _describe_occupant(row: LayoutRow, line_bytes: int, use: LayoutUse | None) -> tuple[str, ...]:
    """Return type, size, place, what became of it, and who touches it, one sentence each.

    :param row: an entry or a hole of the analysis' drawing
    :param use: what the table of hot variables knows of it; None: nothing
    """
    if row.kind == "hole":
        return (f"hole of {count_of(row.size or 0, 'byte')} at 0x{row.address:x}",)
    return tuple(_facts_of(row, line_bytes, use))


def _facts_of(row: LayoutRow, line_bytes: int, use: LayoutUse | None) -> Iterator[str]:
    yield ", ".join([row.type or "type unknown", _size(row)])
    yield f"at 0x{row.address:x}, byte {row.address % line_bytes} of its line"
    if row.mark:
        yield _MARKS.get(row.mark, row.mark)
    if use is None or use.written is None or use.read is None:
        yield "heat unknown: not in the table of hot variables"
        return
    yield f"{_WRITTEN[use.written]}, {_READ[use.read]}, on {', '.join(use.paths)} paths"
    names = [one.rpartition(":")[2] for one in use.functions]
    more = len(names) - MOST_FUNCTIONS
    tail = f" and {more} more" if more > 0 else ""
    yield f"touched by {', '.join(names[:MOST_FUNCTIONS])}{tail}"


def _size(row: LayoutRow) -> str:
    if row.bits:
        return count_of(row.bits[1], "bit")
    return "size unknown" if row.size is None else count_of(row.size, "byte")
