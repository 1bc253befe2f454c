# SPDX-License-Identifier: GPL-2.0-or-later
"""Report the results of the load: the second workload that ran beside the first, new vs base."""

from collections.abc import Iterator

from schedperf.evidence.load.record import Load, LoadRow
from schedperf.model.comparison import Comparison
from schedperf.model.sections import data_of
from schedperf_reports.blocks import Block, Cell, Column, Text
from schedperf_reports.rates.cells import explain_gaps, gather_twins, state_of
from schedperf_reports.rates.tables import Rates, by_subject, notes_below, titled
from schedperf_reports.sections import record_of, report_section
from schedperf_reports.words.states import State

# Rows that a terminal shows; stress-ng has three per stressor.
MOST_ROWS = 12


def _name(row: LoadRow) -> str:
    return row.metric


RATES: Rates[LoadRow] = Rates(
    first=Column(title="result of the load"),
    name=_name,
    about=lambda row: row.definition or "",
    direction="the column `better` says which direction is better",
    more=(Column(title="better", priority=1),),
    more_cells=lambda row: (Cell(text=row.better),),
)


def _state(comparison: Comparison) -> State | None:
    data = data_of(comparison.sections, Load)
    return None if data is None else state_of(data.rows, _name)


@report_section(
    "load",
    title="Load beside the workload",
    chapter="benchmarks",
    order=60,
    is_analysis=True,
    is_brief=True,
    state=_state,
)
def load(comparison: Comparison) -> Iterator[Block]:
    """Show the results of the load for each workload and point."""
    record = record_of(comparison, Load)
    if isinstance(record, Text):
        yield record
        return
    yield Text(
        text=f"every run of the workload was made beside `{record.command}`, which ran from before "
        "the run until after it; its results are not used for the verdict",
        brief=True,
    )
    for _, subject, rows in by_subject(record.rows):
        title = titled(subject, f"{record.command} beside the workload")
        shown = gather_twins(rows)
        yield RATES.table(title, shown, limit=MOST_ROWS, least=len(rows))
        yield from explain_gaps(rows)
    yield from notes_below(record.notes)
