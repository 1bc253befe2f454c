# SPDX-License-Identifier: GPL-2.0-or-later
"""Report changed cache-line layouts: what moved onto or off a shared line, why, and the effect.

::

    20230 D sd_llc_shared                   20230 D sd_llc_shared
                                            20238 D sd_cluster  <- added
                                            ------------- 64 B cacheline boundary
    20238 D sd_llc_id                       20244 D sd_llc_id  <- moved

Addresses are bytes from the start of the per-CPU section or struct, in hexadecimal without leading
zeros, so that base and new fit side by side in 78 columns.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeVar

from msgspec.structs import replace

from schedperf.evidence.layout.record import (
    Layout,
    LayoutAlarm,
    LayoutCause,
    LayoutColumn,
    LayoutComparison,
    LayoutHotSet,
    LayoutPairRow,
    LayoutShift,
    LayoutUnit,
)
from schedperf.model.comparison import Comparison
from schedperf.model.sections import data_of
from schedperf_reports.blocks import (
    Block,
    Cell,
    Column,
    Drawing,
    Headline,
    Item,
    Items,
    Table,
    Text,
    Tone,
)
from schedperf_reports.evidence.layout._graphic import draw_lines
from schedperf_reports.evidence.layout._maps import describe_advice, describe_maps, describe_unknown
from schedperf_reports.evidence.layout._text_drawing import call_unit, list_names
from schedperf_reports.graphics.cache_lines import CacheLines
from schedperf_reports.sections import record_of, report_section
from schedperf_reports.words.rows import count_of, merge_sides
from schedperf_reports.words.states import State

__all__ = ["describe_layout", "describe_maps", "layout"]

# Alarms that a terminal prints, best evidence first.
MOST_ALARMS = 8
# Names of unknown access frequency that a sentence lists; the others are counted.
MOST_UNKNOWN = 6
# Functions that one alarm names.
MOST_FUNCTIONS = 4
# Structs that the first sentence lists; more are counted.
MOST_NAMED = 3
_UNIT_COLUMNS = (
    Column(title="", code=True),
    Column(title="entries", align="right", priority=1),
    Column(title="new neighbours", align="right"),
    Column(title="lost", align="right"),
    Column(title="gained", align="right"),
    Column(title="added", align="right"),
    Column(title="removed", align="right"),
    Column(title="resized", align="right", priority=2),
    Column(title="slid lines", align="right", priority=3),
    Column(title="use unknown", align="right"),
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
    Column(title="accessed by", code=True),
    Column(title="reference"),
)
# What a table shows where a number is unknown.
_UNKNOWN = "unknown"


def _state(comparison: Comparison) -> State | None:
    record = data_of(comparison.sections, Layout)
    if record is None or not record.comparisons:
        return None
    counts = [compared.counts for compared in record.comparisons]
    total = sum(each.units for each in counts)
    unchanged = sum(each.unchanged_units for each in counts)
    alarms = sum(each.alarms for each in counts)
    note = f"{count_of(alarms, 'alarm')}: cache lines of hot variables changed" if alarms else ""
    return State(changed=total - unchanged, total=total, noun="unit", note=note)


@report_section(
    "layout",
    title="Cache lines",
    chapter="memory",
    order=10,
    is_analysis=True,
    is_brief=True,
    state=_state,
)
def layout(comparison: Comparison) -> Iterator[Block]:
    """Yield alarms, drawings, advice and counts."""
    record = record_of(comparison, Layout)
    if isinstance(record, Text):
        yield record
        return
    labels = {side.name: side.label for side in comparison.sides}
    blocks = describe_layout(_with_labels(record, labels))
    # Without results, the layouts are the main content.
    yield from blocks if comparison.rows else _with_first_drawing(blocks)
    for missing in record.missing:
        yield Text(text=f"{missing.side}: {missing.reason}", tone="muted")


def _with_first_drawing(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the blocks, and mark the text of the first cache-line drawing as brief.

    The text report of one screen then includes this drawing.
    """
    is_first = True
    for block in blocks:
        if is_first and isinstance(block, CacheLines):
            yield replace(block, text=tuple(map(_as_brief, block.text)))
            is_first = False
        else:
            yield block


def _as_brief(block: Block) -> Block:
    return replace(block, brief=True) if isinstance(block, Drawing) else block


_Labelled = TypeVar("_Labelled", LayoutColumn, LayoutComparison)


def _with_labels(layout: Layout, labels: Mapping[str, str]) -> Layout:
    # The section uses the roles of the sides; readers know their labels.
    def label(labelled: _Labelled) -> _Labelled:
        return replace(labelled, label=labels.get(labelled.side, labelled.label))

    return replace(
        layout,
        windows=tuple(
            replace(window, columns=tuple(map(label, window.columns))) for window in layout.windows
        ),
        comparisons=tuple(map(label, layout.comparisons)),
    )


def describe_layout(layout: Layout, limit: int = MOST_ALARMS) -> Iterator[Block]:
    """Yield the comparison of the layouts of two or more kernels.

    :param limit: alarms and table rows that a terminal shows
    """
    comparisons = layout.comparisons
    line_bytes = layout.line_bytes.used
    for compared in comparisons:
        yield from _describe_verdict(compared, line_bytes, is_alone=len(comparisons) == 1)
    alarms = [alarm for compared in comparisons for alarm in compared.alarms]
    for window in layout.windows:
        yield draw_lines(window, line_bytes, alarms)
    for compared in comparisons:
        yield from _describe_alarms(compared.alarms, limit)
    yield from describe_advice(
        [(advice, compared) for compared in comparisons for advice in compared.advice]
    )
    for compared in comparisons:
        yield from _describe_rest(compared, limit)
    yield from _describe_sources(layout)
    for compared in comparisons:
        yield from describe_unknown(compared.missing)


def _describe_verdict(
    compared: LayoutComparison, line_bytes: int, *, is_alone: bool
) -> Iterator[Block]:
    tone: Tone = "warning" if compared.alarms else "plain"
    if compared.alarms:
        first = compared.alarms[0]
        cause = first.cause
        why = f", because of {cause.text}{_together(cause)}" if cause else ""
        yield Text(text=f"{_where(first)}{first.claim}{why}", tone="strong")
    verdict = _verdict(compared, line_bytes)
    if is_alone:
        yield Text(text=verdict, tone=tone)
    else:
        yield Headline(word=compared.label, text=verdict, tone=tone)


def _where(alarm: LayoutAlarm) -> str:
    return "" if alarm.unit == "percpu" else f"{call_unit(alarm.unit)}: "


def _describe_alarms(alarms: Sequence[LayoutAlarm], limit: int) -> Iterator[Block]:
    if not alarms:
        return
    common = set.intersection(*(set(alarm.limits) for alarm in alarms))
    yield Items(
        items=tuple(_alarm_item(alarm, common) for alarm in alarms), ordered=True, limit=limit
    )
    # Limits common to all alarms are printed once, in the order of the first alarm.
    said = [text for text in alarms[0].limits if text in common]
    yield Text(text="; ".join(said), tone="muted")


def _verdict(compared: LayoutComparison, line_bytes: int) -> str:
    counts, units = compared.counts, compared.units
    seen = f"{_units_in_words(units)}; {line_bytes}-byte lines"
    if compared.is_unchanged:
        return f"layout unchanged: {seen}"
    unchanged = f"{counts.unchanged_units} of {len(units)} layouts unchanged ({seen})"
    if len(units) == 1:
        unchanged = seen
    if counts.alarms:
        return f"{count_of(counts.alarms, 'alarm')}; {unchanged}"
    changed = sum(unit.counts.mates_changed for unit in units)
    if not changed:
        return f"no alarm: no variable moved to or from a shared line; {unchanged}"
    return (
        f"no alarm: {count_of(changed, 'variable')} now on a line with a different set of "
        f"variables, but no alarm rule matches; {unchanged}"
    )


def _units_in_words(units: Sequence[LayoutUnit]) -> str:
    structs = [unit.unit for unit in units if unit.kind == "struct"]
    parts = [call_unit(unit.unit) for unit in units if unit.kind != "struct"]
    parts += structs if len(structs) <= MOST_NAMED else [f"{len(structs)} structs"]
    return ", ".join(parts)


def _alarm_item(alarm: LayoutAlarm, common: AbstractSet[str]) -> Item:
    cause = alarm.cause
    parts = [f"cause: {cause.text}{_together(cause)}" if cause else "", _evidence(alarm)]
    if alarm.adjacent:
        parts.append(f"still on the same pair of adjacent lines ({2 * alarm.line_bytes} bytes)")
    if alarm.functions:
        count = len(alarm.functions)
        names = list_names(alarm.functions, count, MOST_FUNCTIONS)
        parts.append(f"accessed by {names} ({', '.join(alarm.paths)})")
    parts += [limit for limit in alarm.limits if limit not in common]
    return Item(text=f"{_where(alarm)}{alarm.claim}", detail="; ".join(filter(None, parts)))


def _together(cause: LayoutCause) -> str:
    if cause.together_with:
        return f", together with {list_names(cause.together_with, len(cause.together_with))}"
    return "" if cause.is_sufficient else ", in part"


def _evidence(alarm: LayoutAlarm) -> str:
    words = f"{alarm.rule}, {alarm.grade}"
    if alarm.hitm is not None:
        words += f" ({count_of(alarm.hitm, 'HITM sample')})"
    return f"{words}: {alarm.effect}" if alarm.effect else words


def _describe_rest(compared: LayoutComparison, limit: int) -> Iterator[Block]:
    changed = [unit for unit in compared.units if not unit.is_unchanged]
    if changed:
        yield _units_table(changed, len(compared.units) - len(changed), compared.label, limit)
    if any(unit.causes for unit in changed):
        yield _causes_table(changed, limit)
    if compared.alarms:
        yield _alarms_table(compared.alarms)
    yield from _pairs_tables(changed)
    for unit in changed:
        yield from _describe_names(unit)
    for hot in compared.hot:
        yield Text(text=_hot_set(hot))
    for pair in compared.regained:
        names = list_names(pair.names, len(pair.names))
        yield Text(text=f"{names} share a line again: {pair.effect}", tone="good")
    for note in compared.notes:
        yield Text(text=note, tone="muted")


def _hot_set(hot: LayoutHotSet) -> str:
    lines = hot.lines
    names = ", ".join(hot.names)
    text = f"hot variables {names}: {count_of(lines.base, 'line')} in base, {lines.new} in new"
    for what, changed in (
        ("no longer on one line", hot.separated),
        ("now on one line", hot.joined),
    ):
        if changed:
            pairs = [" + ".join(pair) for pair in changed]
            text += f"; {what}: {list_names(pairs, len(pairs))}"
    return text


def _describe_names(unit: LayoutUnit) -> Iterator[Block]:
    counts, called = unit.counts, call_unit(unit.unit)
    gone_or_come = (
        ("added", unit.added, counts.added),
        ("removed", unit.removed, counts.removed),
    )
    for what, tenants, count in gone_or_come:
        if count:
            names = list_names([tenant.name for tenant in tenants], count)
            yield Text(text=f"{called}: {what}: {names}")
    renamed = [f"{variable.base_name} -> {variable.new_name}" for variable in unit.renamed]
    if renamed:
        yield Text(text=f"{called}: renamed: {list_names(renamed, counts.renamed)}")
    if unit.only_read:
        pairs = [" + ".join(pair) for pair in unit.only_read]
        yield Text(
            text=(
                f"{called}: no longer on one line: {list_names(pairs, len(pairs))}; no alarm, "
                "because these entries are only read at run time"
            ),
            tone="muted",
        )
    if counts.unknown_heat:
        names = list_names(unit.unknown_heat, counts.unknown_heat, MOST_UNKNOWN)
        yield Text(
            text=(
                f"{called}: moved or added, but not in the table of hot variables, so no alarm is "
                f"raised: {names}"
            ),
            tone="muted",
        )


def _describe_sources(layout: Layout) -> Iterator[Block]:
    units = {unit.unit: unit for compared in layout.comparisons for unit in compared.units}
    if "percpu" in units:
        sources = units["percpu"].sources
        base, new = map(", sizes from ".join, sources)
        said = base if base == new else f"{base} in base, and from {new} in new"
        yield Text(text=f"the per-CPU section was read from {said}", tone="muted")
    notes = list(layout.notes)
    notes += [f"{kernel.side}: {note}" for kernel in layout.kernels for note in kernel.notes]
    notes += [
        f"{call_unit(unit.unit)}: {note}"
        for unit in units.values()
        if not unit.is_unchanged
        for note in unit.notes
    ]
    for note in merge_sides(list(dict.fromkeys(notes))):
        yield Text(text=note, tone="muted")


def _units_table(changed: Sequence[LayoutUnit], unchanged: int, side: str, limit: int) -> Table:
    """Return the table of changed units, with the counts of each.

    :param unchanged: number of units that did not change
    :param side: label of the compared side
    """
    return Table(
        caption=(
            f"structs and sections: {len(changed)} changed in {side}, {unchanged} unchanged; lost "
            "and gained: pairs of "
            "variables that stopped and started sharing a line; slid lines: lines that moved as a "
            "whole; use unknown: moved or added variables that are not in the table of hot "
            "variables"
        ),
        columns=_UNIT_COLUMNS,
        rows=tuple(_unit_row(unit) for unit in changed),
        limit=limit,
    )


def _unit_row(unit: LayoutUnit) -> tuple[Cell, ...]:
    counts = unit.counts
    # Growth requires sizes, which some kernels do not record.
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


def _causes_table(changed: Sequence[LayoutUnit], limit: int) -> Table:
    """Return the table of edits that explain the changed pairs, in the order of the record."""
    explained = [unit for unit in changed if unit.causes]
    rows: list[tuple[Cell, ...]] = []
    for unit in explained:
        if len(explained) > 1:
            heading = Cell(text=call_unit(unit.unit), tone="strong")
            rows.append((heading, *[Cell(text="")] * (len(_CAUSE_COLUMNS) - 1)))
        rows += [_cause_row(cause) for cause in unit.causes]
    return Table(
        caption="causes: edits, with the number of lost and gained pairs that each edit explains",
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
    slide = f", all later entries by {shift.slide:+d}" if shift.slide else ""
    return f"{shift.first} to {shift.last} by {by} bytes{slide}"


def _alarms_table(alarms: Sequence[LayoutAlarm]) -> Table:
    """Return all alarms with offsets and references."""
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


def _pairs_tables(changed: Sequence[LayoutUnit]) -> Iterator[Table]:
    """Yield the pairs of each unit that lost or gained a common line, as reference tables."""
    for unit in changed:
        pairs = [("lost", pair) for pair in unit.separated]
        pairs += [("gained", pair) for pair in unit.joined]
        counts = unit.counts
        if pairs:
            total = counts.separated + counts.joined
            listed = "" if len(pairs) == total else f"; first {len(pairs)} listed"
            yield Table(
                caption=(
                    f"{call_unit(unit.unit)}: {count_of(counts.separated, 'pair')} of variables "
                    f"stopped sharing a line (lost), {counts.joined} started (gained){listed}"
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
