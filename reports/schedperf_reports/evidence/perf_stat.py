# SPDX-License-Identifier: GPL-2.0-or-later
"""Report perf stat counters per run, new vs base."""

from collections.abc import Iterator, Sequence

from schedperf.evidence.perf_stat.record import CounterRow, Counters, CounterSide, NotCounted
from schedperf.model.comparison import Comparison
from schedperf.model.perf_event import kernel_not_counted
from schedperf.model.sections import data_of
from schedperf.model.units import RATE_DIGITS, format_measure
from schedperf_reports.blocks import REFERENCE_PRIORITY, Block, Cell, Column, Text
from schedperf_reports.rates.cells import (
    MEANS,
    explain_gaps,
    gather_twins,
    lead,
    state_of,
    tone_of,
)
from schedperf_reports.rates.tables import Rates, by_subject, notes_below, titled
from schedperf_reports.sections import record_of, report_section
from schedperf_reports.words.rows import count_of, group_by_reason, merge_sides
from schedperf_reports.words.states import State

# Rows shown: events that changed, and some others for scale.
MOST_ROWS = 6

_TOTAL = "count per run: geometric mean over the runs (arithmetic mean if a count is 0)"
_TOTAL_COLUMNS = tuple(
    Column(title=f"{side}, per run", align="right", priority=REFERENCE_PRIORITY, explains=_TOTAL)
    for side in ("base", "new")
)


def _state(comparison: Comparison) -> State | None:
    data = data_of(comparison.sections, Counters)
    return None if data is None else state_of(data.rows, _name)


@report_section(
    "counters",
    title="Counters",
    chapter="scheduler",
    order=50,
    is_analysis=True,
    mail_rows=4,
    state=_state,
)
def counters(comparison: Comparison) -> Iterator[Block]:
    """Show the counts of each workload and point, and the events that were not counted."""
    data = record_of(comparison, Counters)
    if isinstance(data, Text):
        yield data
        return
    rows = data.rows
    yield from lead(rows, _name)
    yield Text(text="; ".join(_describe_side(side) for side in data.sides), tone="muted")
    for _, subject, of_point in by_subject(rows):
        yield from _table(subject, of_point)
    if rows:
        text = f"{MEANS}; neither direction is better"
        yield Text(text=text, tone="muted")
    if data.zeros:
        yield Text(
            text=f"events with a count of 0 in all runs: {', '.join(data.zeros)}", tone="muted"
        )
    of_user = dict.fromkeys(row.event for row in rows if not row.perf_event.has_kernel)
    if of_user:
        yield Text(text=kernel_not_counted(of_user), tone="muted")
    yield from _not_counted(data.not_counted)
    for missing in data.missing:
        yield Text(text=f"no counters in {missing.side}: {missing.reason}", tone="muted")
    yield from notes_below(merge_sides(data.notes))


def _describe_side(side: CounterSide) -> str:
    kind = f"{side.kind} run"
    return f"{side.side}: {count_of(side.runs, kind)}"


def _table(subject: str, rows: Sequence[CounterRow]) -> Iterator[Block]:
    ordered = sorted(gather_twins(rows), key=lambda shown: _interest(shown.row))
    yield RATES.table(titled(subject, "events"), ordered, limit=MOST_ROWS, least=MOST_ROWS)
    yield from explain_gaps([shown.row for shown in ordered[:MOST_ROWS]])


def _interest(row: CounterRow) -> tuple[bool, bool, bool]:
    # Rates per operation come before rates per second, which depend on the speed of the workload;
    # the whole machine comes before its nodes.
    return row.basis != "operation", row.node is not None, not row.changed


def _name(row: CounterRow) -> str:
    node = "" if row.node is None else f" (node {row.node})"
    share = ", share of all core types" if row.basis == "share" else ""
    return f"{row.event}{share}{node}{' (estimated)' if row.scaled else ''}"


def _total_cells(row: CounterRow) -> tuple[Cell, ...]:
    # Only events of PMUs have shares, and their counts have no unit.
    counted = "1" if row.basis == "share" else row.unit.partition("/")[0]
    totals = row.total_base, row.total_new
    return tuple(
        Cell(
            text=format_measure(total, counted, *totals, digits=RATE_DIGITS),
            tone=tone_of(row),
            sort=total,
        )
        for total in totals
    )


RATES: Rates[CounterRow] = Rates(
    first=Column(title="event", code=True),
    name=_name,
    about=lambda _: "",
    more=_TOTAL_COLUMNS,
    more_cells=_total_cells,
    kind=lambda row: "machine-wide rows" if row.node is None else "per-node rows",
)


def _not_counted(entries: Sequence[NotCounted]) -> Iterator[Block]:
    for sides, reason, events in group_by_reason(
        (entry.side, entry.event, entry.reason) for entry in entries
    ):
        yield Text(text=f"not counted in {sides} ({reason}): {', '.join(events)}", tone="muted")
