# SPDX-License-Identifier: GPL-2.0-or-later
"""Report the statistics of the sched_ext schedulers: counts, levels and histograms."""

from collections.abc import Iterator, Sequence

from schedperf.evidence.scx_stats.record import ScxHistogram, ScxOther, ScxRow, ScxSide, ScxStats
from schedperf.model.comparison import Comparison
from schedperf.model.sections import data_of
from schedperf.model.units import format_measure
from schedperf_reports.blocks import REFERENCE_PRIORITY, Block, Cell, Column, Table, Text
from schedperf_reports.rates.cells import CHANGED, MEANS, RULE, gather_twins, lead, state_of
from schedperf_reports.rates.histograms import mirror_of, write_time
from schedperf_reports.rates.tables import Rates, by_subject, name_point, notes_below, titled
from schedperf_reports.sections import record_of, report_section
from schedperf_reports.words.quantities import MISSING, format_number
from schedperf_reports.words.rows import count_of, merge_sides
from schedperf_reports.words.states import State

# Rows that a terminal shows; a page has all.
MOST_ROWS = 10
MOST_OTHERS = 8

WHAT = (
    "counted by the scheduler itself, for all tasks of the machine, from the start to the end of "
    f"the run; {MEANS}; levels are means over the time of a run; neither direction is better"
)


def _state(comparison: Comparison) -> State | None:
    data = data_of(comparison.sections, ScxStats)
    return None if data is None else state_of(data.rows, _name, lambda _: True)


@report_section(
    "scx_stats",
    title="Statistics of the sched_ext scheduler",
    chapter="scheduler",
    order=6,
    is_analysis=True,
    state=_state,
)
def scx_stats(comparison: Comparison) -> Iterator[Block]:
    """Show the compared fields of each workload and point, then the informational ones."""
    data = record_of(comparison, ScxStats)
    if isinstance(data, Text):
        yield data
        return
    yield from lead(data.rows, _name)
    yield Text(text="; ".join(map(_describe_side, data.sides)), tone="muted")
    if data.rows:
        yield Text(text=WHAT, tone="muted")
    if any(row.changed for row in data.rows):
        yield Text(text=f"{CHANGED}: significant, {RULE}", tone="muted")
    for key, subject, rows in by_subject(data.rows):
        ordered = sorted(gather_twins(rows), key=lambda shown: not shown.row.changed)
        yield from RATES.blocks(subject, ordered, MOST_ROWS)
        yield from _drawings(data.histograms, key, subject)
    yield from _others(data.others)
    if data.zeros:
        yield Text(text=f"0 in all samples: {', '.join(data.zeros)}", tone="muted")
    yield from notes_below(merge_sides(data.notes))


def _describe_side(side: ScxSide) -> str:
    if not side.runs:
        return f"{side.side}: no statistics"
    left_out = f", {count_of(side.left_out, 'sample')} left out" if side.left_out else ""
    runs, samples = count_of(side.runs, f"{side.kind} run"), count_of(side.samples, "sample")
    return f"{side.side}: {runs}, {samples}{left_out}"


def _name(row: ScxRow) -> str:
    return row.field


RATES: Rates[ScxRow] = Rates(
    first=Column(title="field", code=True),
    name=_name,
    about=lambda row: row.meaning,
    more=(Column(title="description by the scheduler", priority=REFERENCE_PRIORITY),),
    more_cells=lambda row: (Cell(text=row.meaning or MISSING),),
)


def _drawings(
    histograms: Sequence[ScxHistogram], key: tuple[str, str, str], subject: str
) -> Iterator[Block]:
    for row in histograms:
        if (row.side, row.workload, row.point) == key:
            is_time = row.unit == "s"
            yield mirror_of(
                row,
                titled(subject, row.field),
                what="lower edge of the bin" if is_time else "number of the bin",
                events="events",
                write=write_time if is_time else format_number,
                note=row.meaning,
            )


def _others(others: Sequence[ScxOther]) -> Iterator[Table]:
    points: dict[tuple[str, str, str], list[ScxOther]] = {}
    for row in others:
        points.setdefault((row.side, row.workload, row.point), []).append(row)
    for (side, workload, point), rows in points.items():
        where = "" if len(points) == 1 else f"{name_point(workload, point)}, {side} vs base: "
        yield Table(
            caption=f"{where}{count_of(len(rows), 'field')} not compared (informational)",
            columns=(
                Column(title="field", code=True),
                Column(title="per", priority=2, explains="denominator of the values"),
                Column(title="base", align="right", explains="arithmetic mean over the runs"),
                Column(title=side, align="right", explains="arithmetic mean over the runs"),
                Column(title="why not compared", priority=1),
                Column(title="description by the scheduler", priority=REFERENCE_PRIORITY),
            ),
            rows=tuple(map(_other, rows)),
            limit=MOST_OTHERS,
        )


def _other(row: ScxOther) -> tuple[Cell, ...]:
    per = "second" if row.unit == "1/s" else ""
    return (
        Cell(text=row.field),
        Cell(text=per or MISSING),
        Cell(text=format_measure(row.base, row.unit), sort=row.base),
        Cell(text=format_measure(row.new, row.unit), sort=row.new),
        Cell(text=row.reason),
        Cell(text=row.meaning or MISSING),
    )
