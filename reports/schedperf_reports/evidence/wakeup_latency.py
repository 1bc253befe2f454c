# SPDX-License-Identifier: GPL-2.0-or-later
"""Report wakeup latency: percentiles per command, distributions of both sides, and CPUs."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from schedperf.evidence.wakeup_latency.record import (
    QUANTILES,
    WAITS,
    WaitsBelow,
    WakeupLatency,
    WakeupRow,
    WakeupSide,
    WakeupTypeRow,
)
from schedperf.model.comparison import Comparison
from schedperf.model.sections import data_of
from schedperf.model.text import join_names
from schedperf_reports.blocks import Block, Cell, Column, Table, Text
from schedperf_reports.graphics.axes import linear_axis, log_axis
from schedperf_reports.graphics.chart import Chart, Panel, Point, Series, ends_of
from schedperf_reports.graphics.ratio_axis import value_marks
from schedperf_reports.rates.cells import (
    COMPARED,
    QUIET_WORD,
    RUNS_COLUMN,
    Shown,
    compared_cells,
    explain_gaps,
    lead,
    move_n_to_caption,
    quiet_rows,
    runs_cell,
    state_of,
    tone_of,
)
from schedperf_reports.rates.cpu_maps import cpu_maps
from schedperf_reports.rates.details import opened
from schedperf_reports.rates.histograms import write_time
from schedperf_reports.rates.tables import Rates, by_subject, notes_below, state_changes, titled
from schedperf_reports.sections import record_of, report_section
from schedperf_reports.words.quantities import MISSING, format_number, scale_for
from schedperf_reports.words.rows import count_of, merge_sides
from schedperf_reports.words.states import State

# Rows that a terminal shows, and that a page shows if nothing changed: two commands.
MOST_ROWS, LEAST_SHOWN = 15, 10
# Heights of the panels with the distribution functions and with their difference, in pixels.
HEIGHTS = (220, 120)
PERCENT = 100.0

_SIDE_CI = "95% CI of the mean of this side over its runs or boots; of maxima, of their median"
_BASE, _NEW, _CHANGE, _CI = COMPARED
_COLUMNS = (
    Column(title="command", code=True),
    Column(title="wait"),
    _BASE,
    Column(title="CI of base", align="right", priority=4, explains=_SIDE_CI),
    _NEW,
    Column(title="CI of new", align="right", priority=4, explains=_SIDE_CI),
    replace(
        _CHANGE,
        explains=_CHANGE.explains.replace("neither an increase nor a decrease", "lower"),
    ),
    _CI,
    RUNS_COLUMN,
    Column(title="waits per run", align="right", priority=3, explains="mean over the runs"),
)
_ALONE = (
    *_COLUMNS[:2],
    Column(title="value", align="right"),
    Column(title="95% CI", align="right", priority=1, explains=_SIDE_CI),
    *_COLUMNS[-2:],
)


def _state(comparison: Comparison) -> State | None:
    data = data_of(comparison.sections, WakeupLatency)
    return None if data is None else state_of(_main(data.rows), _name)


@report_section(
    "wakeup_latency",
    title="Wakeup latency",
    chapter="latency",
    order=20,
    is_analysis=True,
    is_brief=True,
    state=_state,
)
def wakeup_latency(comparison: Comparison) -> Iterator[Block]:
    """Show the percentiles of each command, the distributions, the CPUs, and what was lost."""
    data = record_of(comparison, WakeupLatency)
    if isinstance(data, Text):
        yield data
        return
    yield from lead(_main(data.rows), _name)
    for text in merge_sides([_describe_side(side) for side in data.sides]):
        yield Text(text=text, tone="muted")
    yield Text(text=_explain(data), tone="muted")
    for reason in dict.fromkeys(row.reason for row in data.rows if row.reason is not None):
        yield Text(text=f"not compared: {reason}", tone="warning")
    for point, subject, rows in by_subject(data.rows):
        main = _main(rows)
        # Without a subject, these are the rows that the section has just counted.
        table = _table(subject, main, MOST_ROWS, is_counted=not subject)
        # Imported waits have no results beside them, so a short report shows the waits.
        yield replace(table, brief=not comparison.rows)
        yield from explain_gaps(main)
        yield from _name_rare(main)
        by_node = [row for row in rows if row.node is not None]
        if by_node:
            yield _table(titled(subject, "by NUMA node"), by_node, 0)
        for distribution in data.distributions:
            if (distribution.side, distribution.workload, distribution.point) == point:
                yield _draw(distribution, subject, main)
    for _, subject, types in by_subject(data.core_types):
        shown_types = [Shown(row) for row in types]
        caption = titled(subject, "types of CPU cores")
        yield TYPE_RATES.table(caption, shown_types, limit=None, least=len(types))
    yield from cpu_maps(comparison, [row for row in data.cpus if row.n_new])
    yield from notes_below(merge_sides(data.notes))


def _name_rare(rows: Sequence[WakeupRow]) -> Iterator[Text]:
    """Name percentiles that only some runs have, because the others had too few waits."""
    most = max(row.n_base for row in rows), max(row.n_new for row in rows)
    compared = (row for row in rows if row.n_base and row.n_new)
    rare = [
        f"{_name(row)} ({row.n_base}+{row.n_new})"
        for row in compared
        if row.n_base < most[0] or row.n_new < most[1]
    ]
    if rare:
        yield Text(
            text=f"of {most[0]}+{most[1]} runs fewer have enough waits for {join_names(rare)}",
            tone="muted",
        )


def _type_name(row: WakeupTypeRow) -> str:
    return f"{row.core_type}: {row.quantile}"


TYPE_RATES: Rates[WakeupTypeRow] = Rates(
    first=Column(title="type", code=True),
    name=_type_name,
    about=lambda row: f"{row.quantile} of the time {WAITS[row.event][1]} on {row.core_type}",
)


def _main(rows: Iterable[WakeupRow]) -> list[WakeupRow]:
    # Rows of one node are part of the rows of all nodes.
    return [row for row in rows if row.node is None]


def _name(row: WakeupRow) -> str:
    return f"{_subject(row)} {_statistic(row)}"


def _subject(row: WakeupRow) -> str:
    if row.node is None:
        return row.command or "all commands"
    return f"{row.command or 'all'}, node {row.node}"


def _statistic(row: WakeupRow) -> str:
    # Only rtla measures several latencies of one command.
    wait = "" if row.event in ("wakeup", "runnable") else f"{WAITS[row.event][0]} "
    return f"{wait}{row.quantile}"


def _describe_side(side: WakeupSide) -> str:
    source = {"bpf": "BPF"}
    by = join_names([source.get(name, name) for name in side.sources])
    waits = f", {count_of(side.waits, 'wait')}" if side.waits else ""
    resolution = ""
    if side.resolution_s:
        scale = scale_for("s", side.resolution_s)
        resolution = f", resolution {scale.format(side.resolution_s)} {scale.unit}"
    return f"{side.side}: {count_of(side.runs, 'run')} measured with {by}{waits}{resolution}"


def _explain(data: WakeupLatency) -> str:
    events = dict.fromkeys(row.event for row in data.rows)
    meanings = "; ".join(f"{WAITS[event][0]}: time {WAITS[event][1]}" for event in events)
    parts = [meanings]
    if any(row.quantile != "max" for row in data.rows):
        parts.append("percentiles: geometric means over the runs, each within 1/16 of its value")
    parts.append("maxima: medians over the runs, compared by ranks")
    return "; ".join((*parts, "lower is better"))


def _table(
    subject: str, rows: Sequence[WakeupRow], limit: int, *, is_counted: bool = False
) -> Table:
    shown = [Shown(row) for row in rows]
    is_compared = any(row.n_new for row in rows)
    has_percentiles = any(row.quantile != "max" for row in rows)
    caption = subject or ("percentiles and maxima" if has_percentiles else "maxima")
    if is_compared and not is_counted:
        caption = state_changes(subject, shown, _name)
    table = Table(
        caption=caption,
        columns=_COLUMNS if is_compared else _ALONE,
        rows=tuple((_compared if is_compared else _alone)(item) for item in shown),
        limit=limit,
        anchors=tuple(row.row for row in rows),
        quiet=quiet_rows(rows, LEAST_SHOWN),
        quiet_word=QUIET_WORD,
        details=tuple(opened(item, _about(item.row)) for item in shown),
    )
    return move_n_to_caption(table)


def _about(row: WakeupRow) -> str:
    what = "maximum" if row.quantile == "max" else row.quantile
    return f"{what} of the time {WAITS[row.event][1]}, {_subject(row)}"


def _compared(shown: Shown[WakeupRow]) -> tuple[Cell, ...]:
    row = shown.row
    base, new, change, interval = compared_cells(shown)
    tone = tone_of(row)
    return (
        Cell(text=_subject(row), tone=tone),
        Cell(text=_statistic(row), tone=tone, sort=QUANTILES.get(row.quantile, 1.0)),
        base,
        Cell(text=_side_interval(row.base_low, row.base_high)),
        new,
        Cell(text=_side_interval(row.new_low, row.new_high)),
        change,
        interval,
        runs_cell(row),
        Cell(text=f"{_count(row.waits_base)} -> {_count(row.waits_new)}", sort=row.waits_new),
    )


def _alone(shown: Shown[WakeupRow]) -> tuple[Cell, ...]:
    row = shown.row
    scale = scale_for("s", row.base)
    return (
        Cell(text=_subject(row)),
        Cell(text=_statistic(row), sort=QUANTILES.get(row.quantile, 1.0)),
        Cell(text=f"{scale.format(row.base)} {scale.unit}", sort=row.base),
        Cell(text=_side_interval(row.base_low, row.base_high)),
        runs_cell(row),
        Cell(text=_count(row.waits_base), sort=row.waits_base),
    )


def _side_interval(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return MISSING
    scale = scale_for("s", low, high)
    return f"[{scale.format(low)}, {scale.format(high)}] {scale.unit}"


def _count(waits: float) -> str:
    return format_number(float(f"{waits:.3g}"))


def _draw(row: WaitsBelow, subject: str, percentiles: Sequence[WakeupRow]) -> Chart:
    """Draw the distribution functions of base and new, and below them the difference with its CI.

    Without a new side, draw one function only.

    :param percentiles: rows of percentiles; those of other commands and waits are ignored
    """
    # A logarithmic axis has no 0; this is shorter than any wait.
    indices = [index for index, edge in enumerate(row.edges) if edge > 0.0]
    scale = scale_for("s", *(row.edges[index] for index in indices))
    times = [row.edges[index] / scale.factor for index in indices]
    sides = ("base", row.side) if row.n_new else (row.side,)
    curves = tuple(
        _curve(name, times, [values[index] for index in indices])
        for name, values in zip(sides, (row.base, row.new), strict=False)
    )
    axis = log_axis(times, value_marks(times))
    panels = [
        Panel(
            height=HEIGHTS[0],
            x=axis,
            y=linear_axis((0.0, PERCENT), "% of the waits that are shorter"),
            series=curves,
        )
    ]
    if row.n_new:
        difference = _difference(row, indices, times)
        panels.append(
            Panel(
                height=HEIGHTS[1],
                x=replace(axis, title=f"wait, {scale.unit}"),
                y=linear_axis([0.0, *ends_of([difference])], f"{row.side} - base, pp"),
                series=(difference,),
            )
        )
    else:
        panels[0] = replace(panels[0], x=replace(axis, title=f"wait, {scale.unit}"))
    compared = [
        each
        for each in percentiles
        if (each.command, each.event) == (row.command, row.event) and each.quantile != "max"
    ]
    summary = _largest(row, compared) if row.n_new else "share of the waits that are shorter"
    caption = f"{row.command or 'all commands'}, {WAITS[row.event][0]}: {summary}"
    return Chart(caption=titled(subject, caption), sides=sides, panels=tuple(panels))


def _curve(name: str, times: Sequence[float], values: Sequence[float | None]) -> Series:
    points = tuple(
        Point(x=time, y=PERCENT * value)
        for time, value in zip(times, values, strict=True)
        if value is not None
    )
    return Series(side=name, parts=(points,), has_points=False)


def _difference(row: WaitsBelow, indices: Sequence[int], times: Sequence[float]) -> Series:
    points = []
    for index, time in zip(indices, times, strict=True):
        base, new, low, high = (
            values[index] for values in (row.base, row.new, row.ci_low, row.ci_high)
        )
        if base is not None and new is not None:
            ends = (None if end is None else PERCENT * end for end in (low, high))
            low, high = ends
            points.append(Point(x=time, y=PERCENT * (new - base), low=low, high=high))
    return Series(side=row.side, parts=(tuple(points),), has_points=False)


def _largest(row: WaitsBelow, percentiles: Sequence[WakeupRow]) -> str:
    """State where the distribution functions differ most.

    If no percentile changed significantly, state this instead.
    """
    if not any(each.changed for each in percentiles):
        is_known = any(each.changed is not None for each in percentiles)
        return "no percentile changed significantly" if is_known else "significance unknown"
    differences = [
        (abs(new - base), index)
        for index, (base, new) in enumerate(zip(row.base, row.new, strict=True))
        if base is not None and new is not None
    ]
    _, index = max(differences)
    base, new = (PERCENT * (values[index] or 0.0) for values in (row.base, row.new))
    edge = write_time(row.edges[index])
    return (
        f"{base:.1f}% of the waits of base and {new:.1f}% of {row.side} are shorter than {edge}, "
        "the largest difference; bars are its 95% CI"
    )
