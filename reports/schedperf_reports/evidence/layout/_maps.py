# SPDX-License-Identifier: GPL-2.0-or-later
"""Render the layout of one kernel: cache lines of hot variables, advice, and sizes.

Sizes are those of structs and sections; those whose layout is unknown are listed.
"""

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
    """Yield the layout of one kernel: its units, advice, unknown units and notes.

    :param layout: layout of exactly one kernel
    :param limit: rows that a terminal shows of the table of units
    :raises ValueError: the layout has no kernel, or several
    """
    (kernel,) = layout.kernels
    line_bytes = layout.line_bytes.used
    for unit_map in layout.maps:
        if unit_map.rows:
            yield Text(text=_summary(unit_map, line_bytes), tone="strong")
            column = LayoutColumn(
                side=kernel.side,
                label=kernel.label,
                rows=unit_map.rows,
                lines=(),
                bytes=unit_map.bytes,
                reason=None,
            )
            yield draw_rows(unit_map.unit, column, _caption(unit_map), line_bytes, unit_map.hot)
            yield from _describe_hot(unit_map)
    yield from describe_advice(
        [(advice, kernel) for unit_map in layout.maps for advice in unit_map.advice]
    )
    if len(layout.maps) > 1:
        yield _table(layout.maps, limit)
    yield from describe_unknown(layout.missing)
    notes = [*layout.notes, *kernel.notes]
    notes += [note for unit_map in layout.maps for note in unit_map.notes]
    for note in dict.fromkeys(notes):
        yield Text(text=note, tone="muted")


def describe_unknown(missing: Sequence[LayoutMissingUnit]) -> Iterator[Block]:
    """Yield the units with an unknown layout, grouped by reason."""
    reasons: dict[str, list[LayoutMissingUnit]] = {}
    for unit in missing:
        # Reasons that differ only in the name of the unit are merged.
        reasons.setdefault(unit.reason.replace(unit.unit, "…"), []).append(unit)
    for alike in reasons.values():
        units = [call_unit(unit.unit) for unit in alike]
        more = "" if len(units) == 1 else " (the same reason for all of them)"
        names = list_names(units, len(units))
        reason = "; ".join(merge_sides(alike[0].reason.split("; ")))
        yield Text(text=f"unknown layout of {names}: {reason}{more}", tone="muted")


def _summary(unit_map: LayoutUnitMap, line_bytes: int) -> str:
    counts = unit_map.counts
    size = _UNKNOWN if unit_map.bytes is None else str(unit_map.bytes)
    parts = [
        f"{call_unit(unit_map.unit)}: {size} bytes",
        f"{counts.lines} lines of {line_bytes} bytes",
        f"{counts.entries} entries",
    ]
    if counts.holes is not None:
        parts.append(f"{count_of(counts.holes, 'hole')} ({counts.hole_bytes} bytes in total)")
    if counts.padding:
        parts.append(f"{counts.padding} bytes of padding")
    if unit_map.alignment is not None:
        origin = " (inferred)" if unit_map.is_alignment_inferred else ""
        parts.append(f"aligned to {unit_map.alignment} bytes{origin}")
    return ", ".join(parts)


def _caption(unit_map: LayoutUnitMap) -> str:
    named = (
        "the given variables" if unit_map.is_named else "variables accessed by hot scheduler paths"
    )
    count = count_of(unit_map.counts.hot_lines, "line")
    return f"{call_unit(unit_map.unit)}: {named} are on {count}"


def _describe_hot(unit_map: LayoutUnitMap) -> Iterator[Block]:
    unknown = [use.name for use in unit_map.hot if not use.paths]
    if unknown:
        names = list_names(unknown, len(unknown))
        yield Text(
            text=f"access frequency unknown (not in the table of hot variables): {names}",
            tone="muted",
        )
    for group in unit_map.groups:
        first, last = group.first, group.last
        yield Text(text=f"group {group.name}: bytes 0x{first:x} to 0x{last:x}", tone="muted")


def _table(maps: Sequence[LayoutUnitMap], limit: int) -> Table:
    return Table(
        caption="structs and sections; hot: variables accessed by hot scheduler paths",
        columns=_COLUMNS,
        rows=tuple(_row(unit_map) for unit_map in maps),
        limit=limit,
    )


def _row(unit_map: LayoutUnitMap) -> tuple[Cell, ...]:
    counts = unit_map.counts
    numbers = (
        unit_map.bytes,
        counts.lines,
        counts.entries,
        counts.hot,
        counts.hot_lines,
        counts.holes,
        counts.hole_bytes,
    )
    # Sections have no holes: bytes between variables may belong to unnamed variables.
    cells = (Cell(text="-" if number is None else str(number)) for number in numbers)
    return (Cell(text=call_unit(unit_map.unit)), *cells)


def describe_advice(
    advised: Sequence[tuple[LayoutAdvice, LayoutComparison | LayoutKernel]],
) -> Iterator[Block]:
    """Yield the advised orders of declarations, their conditions, and the predicted layouts.

    :param advised: each advice with the comparison or the kernel that it is for
    """
    for advice, kernel in advised:
        yield Text(text=_what_to_do(advice, kernel.label), tone="strong")
        yield from _conditions(advice)
        if advice.is_change:
            lines = f"{count_of(advice.lines_after, 'line')} instead of {advice.lines_before}"
            caption = f"{call_unit(advice.unit)}, predicted: {', '.join(advice.order)} on {lines}"
            column = LayoutColumn(
                side=kernel.side,
                label=f"{kernel.label}, advised order",
                rows=advice.predicted,
                lines=(),
                bytes=None,
                reason=None,
            )
            yield draw_rows(advice.unit, column, caption, advice.line_bytes, advice.uses)
    # Notes common to all advice are printed once.
    for note in dict.fromkeys(note for advice, _ in advised for note in advice.notes):
        yield Text(text=f"advice: {note}", tone="muted")


def _what_to_do(advice: LayoutAdvice, label: str) -> str:
    before, fewest, moved = advice.lines_before, advice.fewest, advice.moved
    names = ", ".join(advice.order)
    if not advice.is_change:
        why = (
            "no order of the variables needs fewer lines"
            if before <= fewest
            else f"all tried orders that need fewer lines (minimum by total size: {fewest}) "
            "separate variables that should share a line, or add false sharing"
        )
        return (
            f"advice for {label}: leave {names} as they are, on {count_of(before, 'line')}, "
            f"because {why}"
        )
    after = f"after {advice.after}" if advice.after else "at the start"
    aligned = ", the first with ____cacheline_aligned" if advice.is_aligned else ""
    others = "1 other entry moves" if moved == 1 else f"{moved} other entries move"
    return (
        f"advice for {label}: declare {names} in this order {after}{aligned}; this order needs "
        f"{count_of(advice.lines_after, 'line')} instead of {before} (minimum {fewest}), and "
        f"{others} to another line"
    )


def _conditions(advice: LayoutAdvice) -> Iterator[Block]:
    writers: dict[str, list[str]] = {}
    for member, reader in advice.joins:
        writers.setdefault(member, []).append(reader)
    for member, readers in writers.items():
        joined = list_names(readers, len(readers))
        yield Text(
            text=f"{member} may share a line with read-mostly {joined}, because only its own CPU "
            "writes it",
            tone="muted",
        )
    for variable in advice.left_out:
        yield Text(
            text=f"{variable.name} is not part of the advice: {variable.reason}", tone="muted"
        )
