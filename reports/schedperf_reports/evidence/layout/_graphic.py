# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw cache lines to scale (``CacheLines``): positions of variables, and their moves."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from msgspec import Struct, field
from msgspec.structs import replace

from schedperf.evidence.layout.record import (
    LayoutAlarm,
    LayoutColumn,
    LayoutRow,
    LayoutUse,
    LayoutWindow,
    Pair,
)
from schedperf.model.text import join_names
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

# Pairs marked in a drawing; the table of pairs lists all.
MOST_PAIRS = 3
# Moves listed in a caption.
MOST_TOLD = 2
# Assumed bytes of the last variable of a line if its size is unknown: most are pointers.
USUAL_BYTES = 8
# Lines per drawing; further lines are counted here and listed in the text.
MOST_LINES = 48
_BYTE_BITS = 8

_ENTRY = "entry"
# Units whose bytes between names may belong to variables that no source lists.
SECTIONS = frozenset({"percpu", "globals"})

# Functions listed for a variable.
MOST_FUNCTIONS = 4

_WRITTEN = {
    "rarely": "rarely written",
    "own": "written by its own CPU",
    "remote": "written by other CPUs",
}
_MARKS = {"mates changed": "other variables joined or left the line"}
_READ = {"own": "read by its own CPU", "remote": "read by other CPUs"}

Rows = tuple[LineRow, ...]


class _Column(Struct, frozen=True, kw_only=True):
    # One side's lines of a unit, and the variables that moved within their line.
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
    """Return the drawing of one part of a unit: cache lines with a row per kernel.

    :param alarms: alarms of all comparisons; the pairs of those in this window are marked
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
    groups = tuple(_groups(columns, shifts, line_bytes, uses))
    return CacheLines(
        caption=_caption(window, drawing.caption, moves, pairs),
        line_bytes=line_bytes,
        sides=tuple(Badge(name=column.side, label=column.label) for column in window.columns),
        groups=groups,
        pairs=tuple(pairs[:MOST_PAIRS]),
        moves=moves,
        text=(drawing,),
        drawn={
            alarm.row: group for alarm in here if (group := _find_group(alarm, groups)) is not None
        },
    )


def _find_group(alarm: LayoutAlarm, groups: Sequence[LineGroup]) -> int | None:
    """Return the index of the first line with a variable of an alarm; None if none is drawn."""
    for number, group in enumerate(groups):
        occupants = (occupant for row in group.rows for occupant in row.occupants)
        if any(occupant.name in alarm.names for occupant in occupants):
            return number
    return None


def draw_rows(
    unit: str,
    column: LayoutColumn,
    caption: str,
    line_bytes: int,
    uses: Sequence[LayoutUse] = (),
) -> CacheLines:
    """Return the drawing of one kernel's lines that have entries, at most ``MOST_LINES``.

    :param uses: readers and writers of the entries, as far as they are known
    """
    text = draw_map(column, line_bytes, caption)
    starts = sorted({_line(row, line_bytes) for row in column.rows if row.kind == _ENTRY})
    drawn = _column(unit, column, starts[:MOST_LINES])
    hot_uses = {use.name: use for use in uses if use.paths}
    if len(starts) > MOST_LINES:
        caption += (
            f"; first {MOST_LINES} of {len(starts)} lines drawn; the text version lists all lines"
        )
    return CacheLines(
        caption=caption,
        line_bytes=line_bytes,
        sides=(Badge(name=column.side, label=column.label),),
        groups=tuple(_groups([drawn], [0], line_bytes, hot_uses)),
        text=(text,),
    )


def _caption(
    window: LayoutWindow, fallback: str, moves: Sequence[LineMove], pairs: Sequence[LinePair]
) -> str:
    # Changed hot pairs, then moves, then inserted variables.
    parted = [pair.text for pair in pairs if "bad" in pair.tones]
    more = len(parted) - MOST_TOLD
    changed = parted[:MOST_TOLD] + ([count_of(more, "more pair")] if more > 0 else [])
    went = [move.text for move in moves[:MOST_TOLD]]
    more = len(moves) - MOST_TOLD
    went += [count_of(more, "more move")] if more > 0 else []
    names = window.inserted
    came = [f"inserted: {list_names(names, len(names))}"] if names else []
    # The caption of the text, with the offset, is used only if nothing moved.
    said = [*changed, *went, *came] if changed or went else []
    return f"{call_unit(window.unit)}: {'; '.join(said)}" if said else fallback


def _line(row: LayoutRow, line_bytes: int) -> int:
    return row.address // line_bytes * line_bytes


def _shifts(columns: Sequence[_Column], line_bytes: int) -> list[int]:
    # By how many bytes most lines of each side moved as a whole relative to base, by majority of
    # the common names, so that corresponding lines are drawn in one group.
    base = {row.name: _line(row, line_bytes) for row in columns[0].entries}
    shifts = [0]
    for column in columns[1:]:
        common = [row for row in column.entries if row.name in base]
        # If there are alarms, only their variables vote.
        asked = [row for row in common if row.is_hot] or common
        votes = Counter(_line(row, line_bytes) - base[row.name] for row in asked)
        shifts.append(max(votes, key=lambda shift: (votes[shift], -abs(shift)), default=0))
    return shifts


def _slid(column: _Column, base: _Column, shift: int) -> Iterator[tuple[str, str]]:
    # Variables that moved within their line.
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
            skipped=f"{count_of(skipped, 'line')} not drawn" if skipped else "",
        )
        before = key


def _trimmed(drawn: Mapping[int, Rows]) -> list[tuple[int, Rows]]:
    # Lines before the first and after the last one with a mark are only in the text.
    marked = [number for number, rows in enumerate(drawn.values()) if _is_told(rows)]
    kept = list(drawn.items())
    return kept[marked[0] : marked[-1] + 1] if marked else kept


def _is_told(rows: Rows) -> bool:
    return any(occupant.is_hot or occupant.word for row in rows for occupant in row.occupants)


def _title(rows: Sequence[LineRow], key: int, line_bytes: int, *, is_first: bool) -> str:
    places = dict.fromkeys(row.offset for row in rows if row.offset)
    where = join_names(places) or f"0x{key:x}"
    if is_first:
        return f"{line_bytes} B line at {where}"
    return f"{line_bytes} B boundary at {where}"


def _row(column: _Column, start: int, line_bytes: int, uses: Mapping[str, LayoutUse]) -> LineRow:
    if column.reason:
        return LineRow(offset="", note=column.reason)
    if start not in column.lines:
        return LineRow(offset=f"0x{start:x}" if start >= 0 else "", note="not drawn")
    occupants = list(_occupants(column, start, line_bytes, uses))
    drawn, left = stack(occupants)
    is_known = all(occupant.is_sized for occupant in occupants)
    gaps = _gaps(occupants, start, line_bytes, column) if is_known else ()
    note = f"{left} overlapping variables are only in the text version" if left else ""
    return LineRow(offset=f"0x{start:x}", occupants=(*drawn, *gaps), note=note)


def _struct_end(column: _Column) -> int:
    # End of a struct with its padding; 0 for a section, whose last entry is unknown.
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
                facts=(*facts, f"moved by {slid} within its line") if slid else facts,
            )


def _bytes(row: LayoutRow, starts: Sequence[int]) -> tuple[float, float]:
    # First byte and the byte after the last; an unknown size extends to the next variable.
    if row.bits:
        first, count = row.bits
        return first / _BYTE_BITS, (first + count) / _BYTE_BITS
    first = row.address
    if row.size is not None:
        return first, first + row.size
    return first, next((start for start in starts if start > first), first + USUAL_BYTES)


def _gaps(
    occupants: Sequence[Occupant], start: int, line_bytes: int, column: _Column
) -> Iterator[Occupant]:
    # Bytes between the drawn variables: a hole or the padding of a struct; in a section they may
    # belong to a variable that no source lists.
    gaps, reach = [], 0.0
    for occupant in sorted(occupants, key=lambda entry: entry.start):
        gaps.append((reach, occupant.start))
        reach = max(reach, occupant.start + occupant.size)
    last = _struct_end(column) - start
    is_whole, ends = _is_whole(column), last <= line_bytes
    behind = min(max(last, reach), float(line_bytes))
    gaps += [(reach, behind), (behind, float(line_bytes))]
    for first, end in gaps:
        if end > first:
            kind = _kind_of_gap(first, reach, behind, ends=ends) if is_whole else "unnamed"
            what = {"unnamed": "no known variable"}.get(kind, kind)
            fact = f"{end - first:g} bytes at byte {first:g} of the line: {what}"
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
            text = f"{', '.join(names[:2])}{more} moved by {by:+d} bytes {where}"
            yield LineMove(name=names[0], side=side, text=text)


def _runs(
    moved: Sequence[LayoutRow], base: Mapping[str, LayoutRow], line_bytes: int
) -> Iterator[Sequence[LayoutRow]]:
    # Neighbours that moved equally far between the same two lines share one arrow.
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
    # Changed pairs first, in the order of the alarms (best evidence first); then unchanged pairs.
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
        # If the size is unknown, only the first byte counts.
        last = max(first, end - 1) if row.size is not None else first
        spans[row.name] = {int(first) // line_bytes, int(last) // line_bytes}
    return spans


def _pair(
    pair: Pair, together: Sequence[bool], columns: Sequence[_Column], *, is_alarm: bool
) -> LinePair:
    base = together[0]
    words = [
        "together" if base else "apart",
        *(_word(base, is_together) for is_together in together[1:]),
    ]
    tones: list[Tone] = ["plain"]
    tones += [
        "bad" if is_alarm and is_together != base else "plain" for is_together in together[1:]
    ]
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
    """Return type, size, offset, change, and readers and writers, one sentence each.

    :param row: an entry or a hole of the drawing
    :param use: its entry in the table of hot variables, if any
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
        yield "access frequency unknown: not in the table of hot variables"
        return
    yield f"{_WRITTEN[use.written]}, {_READ[use.read]}, on {', '.join(use.paths)} paths"
    names = [function.rpartition(":")[2] for function in use.functions]
    more = len(names) - MOST_FUNCTIONS
    tail = f" and {more} more" if more > 0 else ""
    yield f"accessed by {', '.join(names[:MOST_FUNCTIONS])}{tail}"


def _size(row: LayoutRow) -> str:
    if row.bits:
        return count_of(row.bits[1], "bit")
    return "size unknown" if row.size is None else count_of(row.size, "byte")
