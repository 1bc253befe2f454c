# SPDX-License-Identifier: GPL-2.0-or-later
"""Report the schedulers of each side, and the runs that were discarded with their reasons."""

from collections.abc import Iterator, Sequence

from schedperf.evidence.sched_ext.record import FAIR, DiscardedRun, SchedExt, SchedulerRow
from schedperf.model.comparison import Comparison
from schedperf_reports.blocks import Block, Cell, Column, Table, Text
from schedperf_reports.rates.tables import notes_below
from schedperf_reports.sections import record_of, report_section
from schedperf_reports.words.rows import count_of

# Digits of a SHA-256, as git abbreviates commits.
HASH_CHARACTERS = 12
MOST_DISCARDED = 5


@report_section("sched_ext", title="sched_ext", chapter="scheduler", order=5, is_analysis=True)
def sched_ext(comparison: Comparison) -> Iterator[Block]:
    """Yield the schedulers of each side, and the runs that did not measure the right scheduler."""
    record = record_of(comparison, SchedExt)
    if isinstance(record, Text):
        yield record
        return
    yield _schedulers(record.rows)
    if record.discarded:
        yield _discarded(record.discarded)
    yield from notes_below(record.notes)


def _schedulers(rows: Sequence[SchedulerRow]) -> Table:
    return Table(
        caption=f"schedulers at the start of {count_of(sum(row.runs for row in rows), 'run')}",
        columns=(
            Column(title="side"),
            Column(title="scheduler", code=True),
            Column(title="runs", align="right"),
            Column(title="discarded", align="right"),
            Column(title="switches", priority=3, explains="which tasks the scheduler schedules"),
            Column(title="rejected", align="right", priority=4, explains="tasks that it refused"),
            Column(title="service", code=True, priority=2),
            Column(title="version", priority=1),
            Column(title="sha256", code=True, priority=5, explains="of the service's program"),
        ),
        rows=tuple(map(_scheduler, rows)),
        anchors=tuple(row.row for row in rows),
    )


def _scheduler(row: SchedulerRow) -> tuple[Cell, ...]:
    switches = {True: "all tasks", False: "SCHED_EXT tasks", None: "-"}[row.switch_all]
    return (
        Cell(text=row.side),
        Cell(text=row.scheduler or FAIR),
        Cell(text=str(row.runs)),
        Cell(text=str(row.discarded), tone="warning" if row.discarded else "plain"),
        Cell(text=switches),
        Cell(text="-" if row.rejected is None else str(row.rejected)),
        Cell(text=row.command or "-"),
        Cell(text=row.version or "-"),
        Cell(text=row.sha256[:HASH_CHARACTERS] if row.sha256 else "-"),
    )


def _discarded(runs: Sequence[DiscardedRun]) -> Table:
    return Table(
        caption=f"{count_of(len(runs), 'run')} discarded: not evaluated, and not counted as failed",
        columns=(
            Column(title="side"),
            Column(title="run", code=True, priority=2),
            Column(title="kind", priority=3),
            Column(title="reason"),
        ),
        rows=tuple(
            (
                Cell(text=each.side),
                Cell(text=each.run),
                Cell(text=each.kind),
                Cell(text=each.reason),
            )
            for each in runs
        ),
        limit=MOST_DISCARDED,
    )
