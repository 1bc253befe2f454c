# SPDX-License-Identifier: GPL-2.0-or-later
"""Report perf stat counters per run, new vs base."""

from collections.abc import Iterator, Mapping, Sequence

from schedperf.evidence.perf_stat.record import (
    CounterRow,
    Counters,
    CounterSide,
    NotCounted,
    Scope,
)
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

WHOSE: Mapping[Scope, str] = {
    "workload": "events of the workload",
    "machine": "events of the whole machine",
}
# Rows shown: events that changed, and some others for scale.
MOST_ROWS = 6

_TOTAL = "count per run: geometric mean over the runs (arithmetic mean if a count is 0)"
_TOTAL_COLUMNS = tuple(
    Column(title=f"{side}, per run", align="right", priority=REFERENCE_PRIORITY, explains=_TOTAL)
    for side in ("base", "new")
)


def _state(comparison: Comparison) -> State | None:
    data = data_of(comparison.sections, Counters)
    if data is None:
        return None
    knows_own = any(row.is_own for row in data.rows)
    return state_of(data.rows, _full_name, lambda row: row.is_own or not knows_own)


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
    yield from lead(rows, _full_name)
    sides = merge_sides([_describe_side(side) for side in data.sides])
    yield Text(text="; ".join(sides), tone="muted")
    for _, subject, of_point in by_subject(rows):
        for scope, whose in WHOSE.items():
            of_scope = [row for row in of_point if row.scope == scope]
            if of_scope:
                yield from _table(titled(subject, whose), of_scope)
    if rows:
        text = f"{MEANS}; neither direction is better"
        yield Text(text=text, tone="muted")
    for zeros, whose in ((data.workload_zeros, " of the workload"), (data.zeros, "")):
        if zeros:
            text = f"events{whose} with a count of 0 in all runs: {', '.join(zeros)}"
            yield Text(text=text, tone="muted")
    of_user = dict.fromkeys(row.event for row in rows if not row.perf_event.has_kernel)
    if of_user:
        yield Text(text=kernel_not_counted(of_user), tone="muted")
    yield from _not_counted(data.not_counted)
    for missing in data.missing:
        yield Text(text=f"no counters in {missing.side}: {missing.reason}", tone="muted")
    yield from notes_below(merge_sides(data.notes))


def _describe_side(side: CounterSide) -> str:
    runs = f"{side.side}: {count_of(side.runs, f'{side.kind} run')}"
    if side.no_workload is None:
        return runs
    if side.workload_runs:
        counted = f"events of the workload in {side.workload_runs} of them only"
    else:
        counted = "events of the whole machine only"
    return f"{runs}, {counted} ({side.no_workload})"


def _table(caption: str, rows: Sequence[CounterRow]) -> Iterator[Block]:
    ordered = sorted(gather_twins(rows), key=lambda shown: _interest(shown.row))
    yield RATES.table(caption, ordered, limit=MOST_ROWS, least=MOST_ROWS)
    yield from explain_gaps([shown.row for shown in ordered[:MOST_ROWS]])


def _interest(row: CounterRow) -> tuple[bool, bool, bool]:
    # Rates per operation come before rates per second, which depend on the speed of the workload;
    # the whole machine comes before its nodes.
    return row.basis != "operation", row.node is not None, not row.changed


def _name(row: CounterRow) -> str:
    node = "" if row.node is None else f" (node {row.node})"
    share = ", share of all core types" if row.basis == "share" else ""
    return f"{row.event}{share}{node}{' (estimated)' if row.scaled else ''}"


def _full_name(row: CounterRow) -> str:
    whose = "" if row.is_own or row.node is not None else " (whole machine)"
    return f"{_name(row)}{whose}"


def _kind(row: CounterRow) -> str:
    if row.is_own:
        return "rows of the workload"
    return "machine-wide rows" if row.node is None else "per-node rows"


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
    kind=_kind,
)


def _not_counted(entries: Sequence[NotCounted]) -> Iterator[Block]:
    of_machine = {(entry.side, entry.event) for entry in entries if entry.scope == "machine"}
    # An event that perf does not support is missing in both.
    listed = [
        entry
        for entry in entries
        if entry.scope == "machine" or (entry.side, entry.event) not in of_machine
    ]
    for scope, whose in (("workload", " for the workload"), ("machine", "")):
        for sides, reason, events in group_by_reason(
            (entry.side, entry.event, entry.reason) for entry in listed if entry.scope == scope
        ):
            text = f"not counted{whose} in {sides} ({reason}): {', '.join(events)}"
            yield Text(text=text, tone="muted")
