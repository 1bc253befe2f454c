# SPDX-License-Identifier: GPL-2.0-or-later
"""Report what the workload's tasks waited for while they were blocked, where, and who woke them."""

from collections.abc import Iterator

from schedperf.evidence.blocking.record import (
    BlockedTrees,
    Blocking,
    BlockingRow,
    BlockingSide,
    By,
)
from schedperf.model.base_new import BASE
from schedperf.model.comparison import Comparison
from schedperf.model.sections import data_of
from schedperf.model.units import format_measure
from schedperf_reports.blocks import Block, Column, Text
from schedperf_reports.graphics.flames import Flames, caption_of_trees
from schedperf_reports.rates.cells import MEANS, gather_twins, lead, state_of
from schedperf_reports.rates.probes import describe_probes
from schedperf_reports.rates.tables import Rates, by_subject, notes_below, titled
from schedperf_reports.sections import record_of, report_section
from schedperf_reports.words.rows import count_of, merge_sides
from schedperf_reports.words.states import State

MOST_ROWS = 8
MAIL_ROWS = 4
# Functions of a stack in the name of its row; the details of the row have all.
MOST_FUNCTIONS = 4
DIRECTION = "lower is better"
TABLES: tuple[tuple[By, str], ...] = (
    ("cause", "blocked by cause"),
    ("function", "blocked by function"),
    ("waker", "blocked by the task that wakes"),
    ("stack", "blocked by stack"),
)


def _state(comparison: Comparison) -> State | None:
    data = data_of(comparison.sections, Blocking)
    return None if data is None else state_of(data.rows, _name, lambda row: row.by != "stack")


@report_section(
    "blocking",
    title="Blocked time",
    chapter="scheduler",
    order=23,
    is_analysis=True,
    mail_rows=MAIL_ROWS,
    state=_state,
)
def blocking(comparison: Comparison) -> Iterator[Block]:
    """Show blocked times of each workload and point: by cause, function, waker and stack."""
    data = record_of(comparison, Blocking)
    if isinstance(data, Text):
        yield data
        return
    yield from lead([row for row in data.rows if row.by != "stack"], _name)
    yield Text(text="; ".join(map(_describe_side, data.sides)), tone="muted")
    yield from describe_probes(data.sides)
    yield from _draw_stacks(comparison)
    for _, subject, rows in by_subject(data.rows):
        for by, title in TABLES:
            kinds = (by, "all") if by == "cause" else (by,)
            chosen = [row for row in rows if row.by in kinds]
            if chosen:
                yield from RATES.blocks(titled(subject, title), gather_twins(chosen), MOST_ROWS)
    yield Text(text=f"times of the workload's tasks; {DIRECTION}; {MEANS}", tone="muted")
    yield from notes_below(merge_sides(data.notes))


def _draw_stacks(comparison: Comparison) -> Iterator[Block]:
    trees = data_of(comparison.sections, BlockedTrees)
    for compared in () if trees is None else trees.comparisons:
        if compared.events:
            yield Flames(
                caption=f"Blocked stacks: {caption_of_trees(compared.events)}",
                trees=compared.events,
                sides=(BASE, compared.side),
                whole="",
            )


def _describe_side(side: BlockingSide) -> str:
    least = f" for {format_measure(side.least_s, 's')} or longer" if side.least_s else ""
    times = count_of(side.times, "time")
    return f"{side.side}: blocked {times}{least} in {count_of(side.runs, 'run')}"


def _name(row: BlockingRow) -> str:
    if row.by == "all":
        return f"all: {row.field}"
    if row.by == "cause":
        return f"{row.cause}: {row.field}"
    if row.by == "waker":
        return f"{row.waker}: {row.field}"
    if row.by == "stack":
        return f"{row.cause}: {' < '.join(row.stack[:MOST_FUNCTIONS])}: {row.field}"
    program = f" [{row.program}]" if row.program else ""
    return f"{row.cause} in {row.function}{program}: {row.field}"


def _about(row: BlockingRow) -> str:
    if row.by == "stack":
        return f"stack: {' < '.join(row.stack)}"
    if row.by == "waker":
        return (
            "an interrupt wakes as the task that it interrupted, e.g. swapper when the CPU was idle"
        )
    return ""


RATES: Rates[BlockingRow] = Rates(
    first=Column(title="waiting for", code=True),
    name=_name,
    about=_about,
    direction=DIRECTION,
)
