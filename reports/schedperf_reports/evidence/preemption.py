# SPDX-License-Identifier: GPL-2.0-or-later
"""Report where the workload's tasks were preempted, by whom, and how long they then waited."""

from collections.abc import Iterator

from schedperf.evidence.preemption.record import By, Preemption, PreemptionRow, PreemptionSide
from schedperf.model.comparison import Comparison
from schedperf.model.sections import data_of
from schedperf_reports.blocks import Block, Column, Text
from schedperf_reports.rates.cells import MEANS, gather_twins, lead, state_of
from schedperf_reports.rates.probes import describe_probes
from schedperf_reports.rates.tables import Rates, by_subject, notes_below, titled
from schedperf_reports.sections import record_of, report_section
from schedperf_reports.words.rows import count_of, merge_sides
from schedperf_reports.words.states import State

MOST_ROWS = 8
MAIL_ROWS = 4
DIRECTION = "lower is better; slice left: neither direction is better"
TABLES: tuple[tuple[By, str], ...] = (
    ("place", "preemptions by place"),
    ("function", "preemptions by function"),
    ("preemptor", "preemptions by the task that ran instead"),
)


def _state(comparison: Comparison) -> State | None:
    data = data_of(comparison.sections, Preemption)
    return None if data is None else state_of(data.rows, _name, _can_explain)


@report_section(
    "preemption",
    title="Preemption",
    chapter="scheduler",
    order=22,
    is_analysis=True,
    mail_rows=MAIL_ROWS,
    state=_state,
)
def preemption(comparison: Comparison) -> Iterator[Block]:
    """Show preemptions of each workload and point: by place, by function and by preemptor."""
    data = record_of(comparison, Preemption)
    if isinstance(data, Text):
        yield data
        return
    yield from lead([row for row in data.rows if _can_explain(row)], _name)
    yield Text(text="; ".join(map(_describe_side, data.sides)), tone="muted")
    yield from describe_probes(data.sides)
    for _, subject, rows in by_subject(data.rows):
        for by, title in TABLES:
            kinds = (by, "all") if by == "place" else (by,)
            chosen = [row for row in rows if row.by in kinds]
            if chosen:
                yield from RATES.blocks(titled(subject, title), gather_twins(chosen), MOST_ROWS)
    yield Text(text=f"preemptions of the workload's tasks; {DIRECTION}; {MEANS}", tone="muted")
    yield from notes_below(merge_sides(data.notes))


def _describe_side(side: PreemptionSide) -> str:
    model = "" if side.model is None else f", preemption model {side.model}"
    hz = "" if side.hz is None else f", {side.hz} Hz"
    runs = count_of(side.runs, "run")
    return f"{side.side}: {count_of(side.preemptions, 'preemption')} in {runs}{model}{hz}"


def _can_explain(row: PreemptionRow) -> bool:
    return row.field != "slice left"


def _name(row: PreemptionRow) -> str:
    if row.by == "all":
        return f"all: {row.field}"
    if row.by == "place":
        return f"{row.place}: {row.field}"
    if row.by == "preemptor":
        return f"{row.preemptor}: {row.field}"
    program = f" [{row.program}]" if row.program else ""
    kernel = f" < {row.kernel_function}()" if row.kernel_function else ""
    return f"{row.function}{program}{kernel} ({row.place}): {row.field}"


def _about(row: PreemptionRow) -> str:
    if row.field == "slice left":
        return "mean of what the task had left of its slice when it was preempted"
    if row.by == "function":
        return (
            "the innermost function outside of the C library; whether it held a lock is not known"
        )
    return ""


RATES: Rates[PreemptionRow] = Rates(
    first=Column(title="where", code=True),
    name=_name,
    about=_about,
    direction=DIRECTION,
)
