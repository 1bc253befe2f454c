"""The tables of a layout comparison: what changed where, why, and every pair."""

from collections.abc import Iterator, Sequence

from schedperf.evidence.layout.record import (
    LayoutAlarm,
    LayoutCause,
    LayoutPairRow,
    LayoutShift,
    LayoutUnit,
)
from schedperf_reports.blocks import Cell, Column, Table, Tone
from schedperf_reports.evidence.layout._drawing import call_unit, list_names

_UNIT_COLUMNS = (
    Column(title="", code=True),
    Column(title="entries", align="right", priority=1),
    Column(title="new mates", align="right"),
    Column(title="lost", align="right"),
    Column(title="gained", align="right"),
    Column(title="added", align="right"),
    Column(title="gone", align="right"),
    Column(title="resized", align="right", priority=2),
    Column(title="slid lines", align="right", priority=3),
    Column(title="unknown heat", align="right"),
    Column(title="alarms", align="right"),
)
_CAUSE_COLUMNS = (
    Column(title="cause", code=True),
    Column(title="lost", align="right"),
    Column(title="gained", align="right"),
    Column(title="moves", priority=2),
)
_PAIR_COLUMNS = (
    Column(title="pair", code=True),
    Column(title="common line"),
    Column(title="base offsets", priority=1, code=True),
    Column(title="new offsets", priority=1, code=True),
)
_ALARM_COLUMNS = (
    Column(title="alarm", code=True),
    Column(title="rule"),
    Column(title="evidence"),
    Column(title="boundary", code=True),
    Column(title="base offsets", code=True),
    Column(title="new offsets", code=True),
    Column(title="touched by", code=True),
    Column(title="reference"),
)
# A hole that a table leaves where nobody can know a number.
_UNKNOWN = "unknown"


def units_table(changed: Sequence[LayoutUnit], unchanged: int, side: str, limit: int) -> Table:
    """Return the counts of each unit that changed.

    :param unchanged: how many units did not
    """
    return Table(
        caption=(
            f"changed in {side}: {len(changed)}, unchanged: {unchanged}; pairs of line mates lost "
            "and gained, lines that only slid are counted and not listed; unknown heat: of what "
            "moved or was added"
        ),
        columns=_UNIT_COLUMNS,
        rows=tuple(_unit_row(unit) for unit in changed),
        limit=limit,
    )


def _unit_row(unit: LayoutUnit) -> tuple[Cell, ...]:
    counts = unit.counts
    # Nobody is known to have grown where nobody's size is known.
    is_sized = counts.unsized < counts.common or not counts.common
    numbers = (
        counts.mates_changed,
        counts.separated,
        counts.joined,
        counts.added if unit.coverage_equal else None,
        counts.removed if unit.coverage_equal else None,
        counts.resized if is_sized else None,
        counts.slid_lines,
        counts.unknown_heat,
        counts.alarms,
    )
    tone: Tone = "warning" if counts.alarms else "plain"
    return (
        Cell(text=call_unit(unit.unit), tone=tone),
        Cell(text=_both(counts.entries_base, counts.entries_new)),
        *(Cell(text=_UNKNOWN if number is None else str(number)) for number in numbers),
    )


def _both(base: int, new: int) -> str:
    return str(base) if base == new else f"{base}, {new}"


def causes_table(changed: Sequence[LayoutUnit], limit: int) -> Table:
    """Return which edits explain the changed pairs, per unit the most pairs first."""
    explained = [unit for unit in changed if unit.causes]
    rows: list[tuple[Cell, ...]] = []
    for unit in explained:
        if len(explained) > 1:
            heading = Cell(text=call_unit(unit.unit), tone="strong")
            rows.append((heading, *[Cell(text="")] * (len(_CAUSE_COLUMNS) - 1)))
        rows += [_cause_row(cause) for cause in unit.causes]
    return Table(
        caption="causes: the pairs that come back when one edit alone is undone",
        columns=_CAUSE_COLUMNS,
        rows=tuple(rows),
        limit=limit,
    )


def _cause_row(cause: LayoutCause) -> tuple[Cell, ...]:
    return (
        Cell(text=cause.text),
        Cell(text=str(cause.counts.separated)),
        Cell(text=str(cause.counts.joined)),
        Cell(text="-" if cause.shift is None else _shift(cause.shift)),
    )


def _shift(shift: LayoutShift) -> str:
    smallest, largest = shift.smallest, shift.largest
    by = f"{smallest:+d}" if smallest == largest else f"{smallest:+d} to {largest:+d}"
    slide = f", all behind by {shift.slide:+d}" if shift.slide else ""
    return f"{shift.first} to {shift.last} by {by} bytes{slide}"


def alarms_table(alarms: Sequence[LayoutAlarm]) -> Table:
    """Return all alarms with their numbers, for who checks them."""
    return Table(
        caption="alarms with offsets and references",
        columns=_ALARM_COLUMNS,
        rows=tuple(_alarm_row(alarm) for alarm in alarms),
        limit=0,
        anchors=tuple(alarm.row for alarm in alarms),
    )


def _alarm_row(alarm: LayoutAlarm) -> tuple[Cell, ...]:
    entries = alarm.entries
    names = [entry.name for entry in entries]
    boundary = alarm.boundary
    return (
        Cell(text=f"{call_unit(alarm.unit)}: {list_names(names, len(names))}", tone="warning"),
        Cell(text=alarm.rule),
        Cell(text=alarm.grade),
        Cell(text="" if boundary is None else f"{boundary:x}"),
        Cell(text=_offsets([entry.base_offset for entry in entries])),
        Cell(text=_offsets([entry.new_offset for entry in entries])),
        Cell(text=", ".join(alarm.functions)),
        Cell(text=alarm.reference),
    )


def _offsets(offsets: Sequence[int | None]) -> str:
    return ", ".join("-" if offset is None else f"{offset:x}" for offset in offsets)


def pairs_tables(changed: Sequence[LayoutUnit]) -> Iterator[Table]:
    """Yield the pairs of each unit that lost or gained a common line, as reference tables."""
    for unit in changed:
        pairs = [("lost", pair) for pair in unit.separated]
        pairs += [("gained", pair) for pair in unit.joined]
        counts = unit.counts
        if pairs:
            total = counts.separated + counts.joined
            listed = "" if len(pairs) == total else f"; the first {len(pairs)} are listed"
            yield Table(
                caption=(
                    f"{call_unit(unit.unit)}: {counts.separated} pairs lost and "
                    f"{counts.joined} gained a common line{listed}"
                ),
                columns=_PAIR_COLUMNS,
                rows=tuple(_pair_row(change, pair) for change, pair in pairs),
                limit=0,
                anchors=tuple(pair.row for _, pair in pairs),
            )


def _pair_row(change: str, pair: LayoutPairRow) -> tuple[Cell, ...]:
    return (
        Cell(text=f"{pair.a} + {pair.b}", tone="strong" if pair.is_alarm else "plain"),
        Cell(text=change, tone="warning"),
        Cell(text=_offsets([pair.a_base_offset, pair.b_base_offset])),
        Cell(text=_offsets([pair.a_new_offset, pair.b_new_offset])),
    )
