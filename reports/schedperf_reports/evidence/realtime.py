# SPDX-License-Identifier: GPL-2.0-or-later
"""Report real-time latency: samples of at least a threshold, and maxima, new vs base."""

from collections.abc import Iterator, Sequence

from schedperf.evidence.realtime.record import (
    ExceedanceRow,
    MaximumRow,
    Realtime,
    write_seconds,
)
from schedperf.model.comparison import Comparison
from schedperf.model.sections import data_of
from schedperf.model.units import format_number
from schedperf.model.verdict import FALSE_DISCOVERY_RATE, count_units
from schedperf_reports.blocks import REFERENCE_PRIORITY, Block, Cell, Column, Table, Text, Tone
from schedperf_reports.rates.cells import FEW_MAXIMA, RULE
from schedperf_reports.rates.tables import name_point, notes_below
from schedperf_reports.sections import record_of, report_section
from schedperf_reports.words.quantities import MISSING, format_change, format_interval
from schedperf_reports.words.rows import count_of
from schedperf_reports.words.states import Noted, State

CHANGED = "*"
# A change from 0 has no ratio.
FROM_ZERO = "from 0"
PER_MILLION = 1e6
# Rows that a terminal shows.
MOST_ROWS = 16

INTERVAL = "95% CI, over runs or boots (column n), not over samples"
N_COLUMN = Column(
    title="n",
    align="right",
    priority=REFERENCE_PRIORITY,
    explains="sample size, base+new: runs, boots or interleaved pairs",
)
CHANGE_COLUMNS = (
    Column(
        title="change",
        align="right",
        explains=f"change of new vs base; {CHANGED}: significant, q < {FALSE_DISCOVERY_RATE:g}",
    ),
    Column(title="95% CI", align="right", priority=1, explains=f"{INTERVAL}, of the change"),
)
PER_MILLION_TITLE = "per million samples"

_Row = ExceedanceRow | MaximumRow


def _rows(data: Realtime) -> tuple[_Row, ...]:
    return (*data.exceedances, *data.maxima)


def _state(comparison: Comparison) -> State | None:
    data = data_of(comparison.sections, Realtime)
    if data is None:
        return None
    rows = _rows(data)
    return State(
        changed=sum(bool(row.changed) for row in rows)
        if any(row.changed is not None for row in rows)
        else None,
        total=len(rows),
        noted=tuple(_note(row) for row in rows if row.changed),
    )


def _note(row: _Row) -> Noted:
    return Noted(
        name=_name(row),
        anchor=row.row,
        ratio=row.ratio or 1.0,
        ci_low=row.ci_low or 0.0,
        ci_high=row.ci_high or float("inf"),
        is_significant=True,
    )


def _name(row: _Row) -> str:
    if isinstance(row, MaximumRow):
        return f"{row.metric} max"
    return f"{row.metric} >= {write_seconds(row.threshold_s)}"


@report_section(
    "realtime",
    title="Real-time latency: exceedances and maxima",
    chapter="latency",
    order=20,
    is_analysis=True,
    is_brief=True,
    state=_state,
)
def realtime(comparison: Comparison) -> Iterator[Block]:
    """Yield how many samples reach each threshold, and the largest latency of each side."""
    data = record_of(comparison, Realtime)
    if isinstance(data, Text):
        yield data
        return
    yield Text(
        text="a real-time system fails by one late sample, so samples of at least a threshold and "
        "maxima are compared, not means; not used for the verdict",
        tone="muted",
    )
    for side in dict.fromkeys(row.side for row in data.maxima):
        exceedances = [row for row in data.exceedances if row.side == side]
        if exceedances:
            yield _exceedance_table(side, exceedances)
        yield _maximum_table(side, [row for row in data.maxima if row.side == side])
    yield Text(
        text="a maximum grows with the number of samples, so maxima are compared only if the runs "
        "of both sides have about as many; one more run like the n runs of a side exceeds their "
        "maximum with a probability of 1 / (n + 1)",
        tone="muted",
    )
    for invalid in dict.fromkeys(row.why_invalid for row in data.maxima if row.why_invalid):
        yield Text(text=f"maxima are not compared: {invalid}", tone="warning")
    if any(row.ratio and row.ci_low is None for row in data.maxima):
        yield Text(text=FEW_MAXIMA, tone="muted")
    yield from notes_below(data.notes)


def _exceedance_table(side: str, rows: Sequence[ExceedanceRow]) -> Table:
    changed = [row for row in rows if row.changed]
    columns = (
        Column(title="latency"),
        Column(title="threshold", align="right"),
        Column(title="base", align="right", explains="samples of at least the threshold"),
        Column(title=side, align="right", explains="samples of at least the threshold"),
        Column(
            title="base, 95% CI",
            align="right",
            priority=2,
            explains=f"{INTERVAL}, {PER_MILLION_TITLE}",
        ),
        Column(
            title=f"{side}, 95% CI",
            align="right",
            priority=2,
            explains=f"{INTERVAL}, {PER_MILLION_TITLE}",
        ),
        *CHANGE_COLUMNS,
        N_COLUMN,
    )
    samples = f"{_range([row.samples_base for row in rows])} samples of base, "
    samples += f"{_range([row.samples_new for row in rows])} of {side}"
    return Table(
        caption=f"samples of at least a threshold, {side} vs base: {len(changed)} of "
        f"{count_of(len(rows), 'row')} changed significantly; {samples}; CIs of the sides are "
        f"{PER_MILLION_TITLE}",
        columns=columns,
        rows=tuple(_exceedance_cells(row, has_points=_has_points(rows)) for row in rows),
        limit=MOST_ROWS,
        anchors=tuple(row.row for row in rows),
        brief=True,
    )


def _range(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low}" if low == high else f"{low} to {high}"


def _has_points(rows: Sequence[_Row]) -> bool:
    return len({(row.workload, row.point) for row in rows}) > 1


def _subject(row: _Row, *, has_points: bool) -> str:
    return f"{name_point(row.workload, row.point)}: {row.metric}" if has_points else row.metric


def _exceedance_cells(row: ExceedanceRow, *, has_points: bool) -> tuple[Cell, ...]:
    return (
        Cell(text=_subject(row, has_points=has_points), tone=_tone(row)),
        Cell(text=write_seconds(row.threshold_s), sort=row.threshold_s),
        Cell(text=f"{row.above_base}", sort=row.above_base),
        Cell(text=f"{row.above_new}", sort=row.above_new),
        Cell(text=_per_million(row.share_low_base, row.share_high_base)),
        Cell(text=_per_million(row.share_low_new, row.share_high_new)),
        *_change_cells(row),
    )


def _per_million(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return MISSING
    return f"[{format_number(low * PER_MILLION, 3)}, {format_number(high * PER_MILLION, 3)}]"


def _change_cells(row: _Row) -> tuple[Cell, ...]:
    mark = f"{CHANGED} " if row.changed else ""
    change = FROM_ZERO if row.changed else MISSING
    if row.ratio is not None:
        change = format_change(row.ratio)
    interval = format_interval(row.ci_low, row.ci_high)
    if row.ci_low and row.ci_high is None:
        interval = f"above {format_change(row.ci_low)}"
    return (
        Cell(text=f"{mark}{change}", tone=_tone(row), sort=row.ratio),
        Cell(text=interval),
        Cell(text=count_units(row.n_base, row.n_new, row.replication)),
    )


def _tone(row: _Row) -> Tone:
    return "strong" if row.changed else "plain"


def _maximum_table(side: str, rows: Sequence[MaximumRow]) -> Table:
    largest = "largest latency of all runs"
    changed = sum(bool(row.changed) for row in rows)
    return Table(
        caption=f"largest latencies, {side} vs base: {changed} of {count_of(len(rows), 'row')} "
        "changed significantly (rank test of the maxima of the runs)",
        columns=(
            Column(title="latency"),
            Column(title="base", align="right", explains=largest),
            Column(title=side, align="right", explains=largest),
            Column(
                title="typical change",
                align="right",
                explains="typical ratio of the maximum of a run of new to one of base (Hodges and "
                f"Lehmann); {CHANGED}: significant, {RULE}",
            ),
            CHANGE_COLUMNS[1],
            N_COLUMN,
        ),
        rows=tuple(
            (
                Cell(text=_subject(row, has_points=_has_points(rows)), tone=_tone(row)),
                Cell(text=write_seconds(row.base), sort=row.base),
                Cell(text=write_seconds(row.new), sort=row.new),
                *_change_cells(row),
            )
            for row in rows
        ),
        limit=MOST_ROWS,
        anchors=tuple(row.row for row in rows),
        brief=True,
    )
