# SPDX-License-Identifier: GPL-2.0-or-later
"""Render the output of ``schedperf profile``: what was sampled, and the table of rows."""

from collections.abc import Iterator, Sequence

from msgspec import UNSET

from schedperf.evidence.profile.document import (
    ComparedRow,
    ProfileDocument,
    ProfileSide,
    ProfileSight,
    SampleCost,
    SampledEvent,
    SampleRow,
    SortKey,
)
from schedperf.model.place import Place, ShownNames
from schedperf.model.units import RATE_DIGITS, Scale, cost_scale
from schedperf_reports.blocks import Block, Cell, Column, Table, Text
from schedperf_reports.words.quantities import MISSING, format_percent, format_points
from schedperf_reports.words.rows import count_of, merge_sides

# Columns with names from the kernel and from tools.
_CODE_KEYS = ("comm", "dso", "symbol")
# The manual page, for details that do not fit on one line.
_MANUAL = "docs/profile.md"
# The mark of a significant change; narrow pages have no room for q.
_CHANGED = "* "


def describe_samples(data: ProfileDocument, limit: int) -> Iterator[Block]:
    """Yield the sources of the samples, a table per event, and what to record instead.

    :param limit: rows of a table that a terminal shows
    """
    yield from _describe_sources(data)
    for event in data.events:
        yield from _describe_event(event)
        yield _table(data, event, limit)
    yield from _describe_marks(data)
    remedies = [
        f"{event.event}: {sight.reason}; {sight.remedy}"
        for event in data.events
        for sight in event.sight
        if sight.remedy and (sight.clock is not None or "kernel" in sight.excluded)
    ]
    for text in dict.fromkeys((*remedies, *_notes(data))):
        yield Text(text=text, tone="muted")


def describe_basis(data: ProfileDocument) -> Iterator[Block]:
    """Yield what was sampled: runs, losses, and for each event the code that it cannot sample."""
    yield from _describe_sources(data)
    for event in data.events:
        yield from _describe_event(event)
    for note in _notes(data):
        yield Text(text=note, tone="muted")


def list_limits(data: ProfileDocument) -> Iterator[str]:
    """Yield losses, warnings and notes as texts: files for other viewers cannot contain them."""
    for side in data.sides:
        if side.loss:
            yield _describe_side(side)
    yield from data.cautions
    for event in data.events:
        for sight in event.sight:
            for block in _describe_sight(event.event, sight):
                if isinstance(block, Text) and block.tone == "warning":
                    yield block.text
    yield from _notes(data)


def _describe_sources(data: ProfileDocument) -> Iterator[Block]:
    for side in data.sides:
        yield Text(text=_describe_side(side))
    yield from (Text(text=text, tone="warning") for text in data.cautions)


def _notes(data: ProfileDocument) -> list[str]:
    # With two sides each note names its side, as only one of them may lack symbols.
    notes = [
        note if side.side is None else f"{side.side}: {note}"
        for side in data.sides
        for note in side.notes
    ]
    return list(dict.fromkeys(merge_sides(notes)))


def _describe_marks(data: ProfileDocument) -> Iterator[Block]:
    rows = [row for row in data.rows if isinstance(row, ComparedRow)]
    costs = [row.cost for row in rows if row.cost is not None]
    if any(row.changed for row in rows) or any(cost.changed for cost in costs):
        drift = "" if data.took_turns else " (drift not excluded)"
        of_costs = f"; cost per {data.operation}: q < 0.05, regardless of size" if costs else ""
        yield Text(
            text=f"{_CHANGED}significant{drift}: q < 0.05 and a change of 0.1 pp or more{of_costs}",
            tone="muted",
        )


def _describe_side(side: ProfileSide) -> str:
    of_point = f", {count_of(side.runs, 'run')} of {side.point}" if side.point else ""
    name = "" if side.side is None else f"{side.side}: "
    loss = f"; {side.loss}" if side.loss else ""
    return f"{name}{side.label}{of_point}{loss}"


def _describe_event(event: SampledEvent) -> Iterator[Block]:
    for sight in event.sight:
        yield from _describe_sight(event.event, sight)
    if len(event.n) > 1 and min(event.n.values()) == 1:
        counts = " + ".join(map(str, event.n.values()))
        yield Text(
            text=f"{event.event}: no CI with n = {counts}; record several runs",
            tone="warning",
        )


def _describe_sight(event: str, sight: ProfileSight) -> Iterator[Block]:
    where = f"{sight.side} was " if sight.side else ""
    if "kernel" in sight.excluded:
        text = (
            f"recorded with {event}, which does not count the kernel, so the profile contains no "
            "scheduler code"
        )
        yield Text(text=f"{where}{text} ({_MANUAL})", tone="warning")
    elif sight.clock is None:
        yield Text(text=f"{where}recorded with {event}, whose samples count events, not CPU time")
    elif sight.blind is False:
        text = f"recorded with {event}, which also samples code that runs with interrupts off"
        yield Text(text=f"{where}{text}: {sight.reason}")
    else:
        sees = "cannot sample" if sight.blind else "may not sample"
        instead = (
            "record cycles on a machine with a PMU"
            if sight.clock == "hrtimer"
            else "see the notes below"
        )
        yield Text(
            text=(
                f"{where}recorded with {event}, which {sees} code that runs with interrupts off "
                f"(most of the scheduler); {instead} ({_MANUAL})"
            ),
            tone="warning",
        )
    if sight.caveats:
        yield Text(text="; ".join(sight.caveats), tone="muted")


def _table(data: ProfileDocument, event: SampledEvent, limit: int | None) -> Table:
    keys = [key for key in data.sort if key != "event" or len(data.events) == 1]
    rows = [row for row in data.rows if row.event in (UNSET, event.event)]
    samples = " + ".join(f"{n} samples" for n in event.samples.values())
    key_columns = tuple(_key_column(key, keys) for key in keys)
    compared = [row for row in rows if isinstance(row, ComparedRow)]
    if len(data.sides) > 1:
        scale = _cost_scale(data, event, compared)
        names = ShownNames(_place_of(row) for row in compared)
        return Table(
            caption=f"{event.event}: {samples}; {_OF_TWO}",
            columns=(*key_columns, *_compared_columns(scale)),
            rows=tuple(
                (*_key_cells(row, keys, names), *_compared_cells(row, scale)) for row in compared
            ),
            limit=limit,
        )
    return Table(
        caption=f"{event.event}: {samples}; {_OF_ONE}",
        columns=(*key_columns, *_ONE_SIDE),
        rows=tuple(
            (*_key_cells(row, keys), *_cells(row)) for row in rows if isinstance(row, SampleRow)
        ),
        limit=limit,
    )


_OF_TWO = "% of the event's count (samples weighted by their period), change in percentage points"
_OF_ONE = (
    "% of the event's count (samples weighted by their period), as in perf report --no-children"
)


def _key_cells(
    row: SampleRow | ComparedRow, keys: Sequence[SortKey], names: ShownNames | None = None
) -> Iterator[Cell]:
    for key in keys:
        value = row.value(key)
        if key == "symbol" and names is not None:
            value = names.of(_place_of(row))
        yield Cell(text=MISSING if value is None else str(value))


def _place_of(row: SampleRow | ComparedRow) -> Place:
    # A row has the keys that were asked for.
    symbol, dso = ("" if value in (None, UNSET) else str(value) for value in (row.symbol, row.dso))
    return Place(symbol, dso)


# On narrow lines q is dropped first. A cost has a CI of its own, so the CI of the share is dropped
# next.
_FILE_PRIORITY, _BASE_PRIORITY, _CI_PRIORITY, _Q_PRIORITY = 1, 2, 3, 4

_ONE_SIDE = (
    Column(title="%", align="right"),
    Column(title="samples", align="right", priority=2),
    Column(title="period", align="right", priority=3),
)


def _cells(row: SampleRow) -> tuple[Cell, ...]:
    return (
        Cell(text=format_percent(row.share)),
        Cell(text=str(row.samples)),
        Cell(text=str(row.period)),
    )


def _cost_scale(
    data: ProfileDocument, event: SampledEvent, rows: Sequence[ComparedRow]
) -> Scale | None:
    # One unit for the whole column; None if the operations of the runs are unknown.
    changes = [row.cost.change for row in rows if row.cost is not None]
    unit = f"{event.sight[0].unit} per {data.operation}"
    return cost_scale(unit, *changes) if changes else None


def _compared_columns(scale: Scale | None) -> tuple[Column, ...]:
    columns = () if scale is None else (_cost_column(scale),)
    base, ci = (0, 0) if scale is None else (_BASE_PRIORITY, _CI_PRIORITY)
    return (
        Column(title="base %", align="right", priority=base),
        Column(title="new %", align="right"),
        Column(title="change, pp", align="right"),
        Column(title="95% CI", align="right", priority=ci),
        Column(title="q", align="right", priority=_Q_PRIORITY),
        *columns,
    )


def _cost_column(scale: Scale) -> Column:
    return Column(
        title=f"{scale.unit} [95% CI]", align="right", explains="change of the cost per operation"
    )


def _compared_cells(row: ComparedRow, scale: Scale | None) -> tuple[Cell, ...]:
    interval, q = row.interval, row.q
    mark = _CHANGED if row.changed else ""
    change = MISSING if row.change is None else f"{mark}{row.change:+.2f}"
    costs = () if scale is None else (_cost_cell(row.cost, scale),)
    return (
        Cell(text=format_percent(row.base.share)),
        Cell(text=format_percent(row.new.share)),
        Cell(text=change, tone="strong" if row.changed else "plain"),
        Cell(text=format_points(*interval) if interval else MISSING),
        Cell(text=MISSING if q is None else f"{q:.2g}"),
        *costs,
    )


def _cost_cell(cost: SampleCost | None, scale: Scale) -> Cell:
    if cost is None or cost.change is None:
        return Cell(text=MISSING)
    mark = _CHANGED if cost.changed else ""
    ends = ", ".join(scale.format_change(end, RATE_DIGITS) for end in cost.interval or ())
    interval = f" [{ends}]" if ends else ""
    return Cell(
        text=f"{mark}{scale.format_change(cost.change, RATE_DIGITS)}{interval}",
        tone="strong" if cost.changed else "plain",
        sort=cost.change,
    )


def _key_column(key: SortKey, keys: Sequence[SortKey]) -> Column:
    is_code = key in _CODE_KEYS
    return Column(
        title=key,
        align="left" if is_code else "right",
        priority=_FILE_PRIORITY if key == "dso" and "symbol" in keys else 0,
        code=is_code,
    )
