# SPDX-License-Identifier: GPL-2.0-or-later
"""One kernel's layout: the lines of what is hot, advice on it, whole structs, what is unknown."""

from collections.abc import Iterator, Sequence

from schedperf.evidence.layout.record import (
    LayoutAdvice,
    LayoutColumn,
    LayoutComparison,
    LayoutKernel,
    LayoutMap,
    LayoutMissingUnit,
    LayoutUnitMap,
)
from schedperf_reports.blocks import Block, Cell, Column, Table, Text
from schedperf_reports.evidence.layout._graphic import draw_rows
from schedperf_reports.evidence.layout._text_drawing import call_unit, list_names
from schedperf_reports.words.rows import count_of, merge_sides

_COLUMNS = (
    Column(title="", code=True),
    Column(title="bytes", align="right"),
    Column(title="lines", align="right"),
    Column(title="entries", align="right"),
    Column(title="hot", align="right", priority=1),
    Column(title="on lines", align="right", priority=1),
    Column(title="holes", align="right", priority=2),
    Column(title="bytes in holes", align="right", priority=3),
)
_UNKNOWN = "unknown"


def describe_maps(layout: LayoutMap, limit: int) -> Iterator[Block]:
    """Yield what there is to say of one kernel.

    :param limit: table rows that a terminal shows
    """
    (kernel,) = layout.kernels
    line_bytes = layout.line_bytes.used
    for one in layout.maps:
        if one.rows:
            yield Text(text=_summary(one, line_bytes), tone="strong")
            column = LayoutColumn(
                side=kernel.side,
                label=kernel.label,
                rows=one.rows,
                lines=(),
                bytes=one.bytes,
                reason=None,
            )
            yield draw_rows(one.unit, column, _caption(one), line_bytes, one.hot)
            yield from _describe_hot(one)
    yield from describe_advice([(advice, kernel) for one in layout.maps for advice in one.advice])
    if len(layout.maps) > 1:
        yield _table(layout.maps, limit)
    yield from describe_unknown(layout.missing)
    notes = [*layout.notes, *kernel.notes]
    notes += [note for one in layout.maps for note in one.notes]
    for note in dict.fromkeys(notes):
        yield Text(text=note, tone="muted")


def describe_unknown(missing: Sequence[LayoutMissingUnit]) -> Iterator[Block]:
    """Yield what cannot be seen, and why; each reason once."""
    reasons: dict[str, list[LayoutMissingUnit]] = {}
    for one in missing:
        # A reason that names the unit itself is the same for the next one.
        reasons.setdefault(one.reason.replace(one.unit, "…"), []).append(one)
    for alike in reasons.values():
        units = [call_unit(one.unit) for one in alike]
        more = "" if len(units) == 1 else "; the others alike"
        names = list_names(units, len(units))
        reason = "; ".join(merge_sides(alike[0].reason.split("; ")))
        yield Text(text=f"unknown: {names}: {reason}{more}", tone="muted")


def _summary(one: LayoutUnitMap, line_bytes: int) -> str:
    counts = one.counts
    size = _UNKNOWN if one.bytes is None else str(one.bytes)
    parts = [
        f"{call_unit(one.unit)}: {size} bytes",
        f"{counts.lines} lines of {line_bytes} bytes",
        f"{counts.entries} entries",
    ]
    if counts.holes is not None:
        parts.append(f"{count_of(counts.holes, 'hole')} of {counts.hole_bytes} bytes in all")
    if counts.padding:
        parts.append(f"{counts.padding} bytes of padding")
    if one.alignment is not None:
        origin = " (inferred)" if one.is_alignment_inferred else ""
        parts.append(f"alignment {one.alignment}{origin}")
    return ", ".join(parts)


def _caption(one: LayoutUnitMap) -> str:
    named = "the named set" if one.is_named else "what the scheduler's hot paths access"
    count = count_of(one.counts.hot_lines, "line")
    return f"{call_unit(one.unit)}: {named} is on {count}"


def _describe_hot(one: LayoutUnitMap) -> Iterator[Block]:
    unknown = [use.name for use in one.hot if not use.paths]
    if unknown:
        names = list_names(unknown, len(unknown))
        yield Text(text=f"of unknown heat, not in the table: {names}", tone="muted")
    for group in one.groups:
        first, last = group.first, group.last
        yield Text(text=f"group {group.name}: bytes {first:x} to {last:x}", tone="muted")


def _table(maps: Sequence[LayoutUnitMap], limit: int) -> Table:
    return Table(
        caption="what this kernel has; hot is what the scheduler's hot paths access",
        columns=_COLUMNS,
        rows=tuple(_row(one) for one in maps),
        limit=limit,
    )


def _row(one: LayoutUnitMap) -> tuple[Cell, ...]:
    counts = one.counts
    numbers = (
        one.bytes,
        counts.lines,
        counts.entries,
        counts.hot,
        counts.hot_lines,
        counts.holes,
        counts.hole_bytes,
    )
    # Sections have no holes: what lies between variables may be a variable that nobody names.
    cells = (Cell(text="-" if number is None else str(number)) for number in numbers)
    return (Cell(text=call_unit(one.unit)), *cells)


def describe_advice(
    advised: Sequence[tuple[LayoutAdvice, LayoutComparison | LayoutKernel]],
) -> Iterator[Block]:
    """Yield what to declare where, what follows from it, and the predicted maps.

    :param advised: advice, and the kernel that it is about
    """
    for advice, kernel in advised:
        yield Text(text=_what_to_do(advice, kernel.label), tone="strong")
        yield from _conditions(advice)
        if advice.is_change:
            lines = f"{count_of(advice.lines_after, 'line')} instead of {advice.lines_before}"
            caption = f"{call_unit(advice.unit)} as predicted: {', '.join(advice.order)} on {lines}"
            column = LayoutColumn(
                side=kernel.side,
                label=f"{kernel.label}, with that order",
                rows=advice.predicted,
                lines=(),
                bytes=None,
                reason=None,
            )
            yield draw_rows(advice.unit, column, caption, advice.line_bytes, advice.uses)
    # What holds for all advice is said once.
    for note in dict.fromkeys(note for advice, _ in advised for note in advice.notes):
        yield Text(text=f"advice: {note}", tone="muted")


def _what_to_do(advice: LayoutAdvice, label: str) -> str:
    before, fewest, moved = advice.lines_before, advice.fewest, advice.moved
    names = ", ".join(advice.order)
    if not advice.is_change:
        why = (
            "no order needs fewer"
            if before <= fewest
            else f"{fewest} suffice, but not nearby without harm"
        )
        return (
            f"advice for {label}: leave {names} as they are, on {count_of(before, 'line')}: {why}"
        )
    after = f"after {advice.after}" if advice.after else "at the start"
    aligned = ", the first of them ____cacheline_aligned" if advice.is_aligned else ""
    others = "1 other entry goes" if moved == 1 else f"{moved} other entries go"
    return (
        f"advice for {label}: declare {names} in this order {after}{aligned}: "
        f"{count_of(advice.lines_after, 'line')} instead of {before}, fewest possible {fewest}; "
        f"{others} to another line"
    )


def _conditions(advice: LayoutAdvice) -> Iterator[Block]:
    writers: dict[str, list[str]] = {}
    for member, reader in advice.joins:
        writers.setdefault(member, []).append(reader)
    for member, readers in writers.items():
        joined = list_names(readers, len(readers))
        yield Text(
            text=f"{member} is written by its own CPU and shares the line of read-mostly {joined}",
            tone="muted",
        )
    for one in advice.left_out:
        yield Text(text=f"{one.name} is left out: {one.reason}", tone="muted")
