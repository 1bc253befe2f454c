# SPDX-License-Identifier: GPL-2.0-or-later
"""Report waits for locks of the kernel: by lock, node, waiting functions and releasing ones."""

from collections.abc import Iterator

from schedperf.evidence.locks.record import LockRow, Locks, LocksSide
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
# Functions of a stack in the name of its row; the details of the row have all.
MOST_FUNCTIONS = 3
DIRECTION = "lower is better"
NAMED_BY = {
    "symbol": "the lock is this variable of the kernel",
    "class": "a lock of this structure; there may be many",
    "caller": "the lock itself is unknown: this is the function that waits for it, as in perf lock "
    "contention",
}


def _state(comparison: Comparison) -> State | None:
    data = data_of(comparison.sections, Locks)
    return None if data is None else state_of(data.rows, _name, _is_lower_better)


@report_section(
    "locks",
    title="Kernel locks",
    chapter="scheduler",
    order=24,
    is_analysis=True,
    mail_rows=MAIL_ROWS,
    state=_state,
)
def locks(comparison: Comparison) -> Iterator[Block]:
    """Show the waits for locks of each workload and point: locks, then their stacks and owners."""
    data = record_of(comparison, Locks)
    if isinstance(data, Text):
        yield data
        return
    of_locks = [row for row in data.rows if row.is_whole]
    yield from lead(of_locks, _name)
    yield Text(text="; ".join(map(_describe_side, data.sides)), tone="muted")
    yield from describe_probes(data.sides)
    for _, subject, rows in by_subject(data.rows):
        for title, chosen in (
            ("waits for locks", [row for row in rows if row.is_whole]),
            ("waits by function", [row for row in rows if row.functions]),
            ("waits by owner", [row for row in rows if row.released_in]),
        ):
            if chosen:
                yield from RATES.blocks(titled(subject, title), gather_twins(chosen), MOST_ROWS)
    yield Text(text=f"waits of the workload's tasks; {DIRECTION}; {MEANS}", tone="muted")
    if data.left_out:
        text = f"{count_of(data.left_out, 'lock')} with shorter waits: only in the sum of all locks"
        yield Text(text=text, tone="muted")
    yield from notes_below(merge_sides(data.notes))


def _describe_side(side: LocksSide) -> str:
    return f"{side.side}: {count_of(side.waits, 'wait')} in {count_of(side.runs, 'run')}"


def _is_lower_better(row: LockRow) -> bool:
    return row.is_whole


def _name(row: LockRow) -> str:
    lock = f"{row.lock} ({row.type})" if row.lock else "all locks"
    if row.named_by == "caller" and row.lock:
        lock = f"{row.type} in {row.lock}()"
    if row.functions:
        functions = row.functions[1:] if row.named_by == "caller" else row.functions
        path = " < ".join(functions[:MOST_FUNCTIONS])
        lock = f"{lock} < {path}" if path else lock
    if row.released_in:
        lock = f"{lock} until {row.owner} in {row.released_in}()"
    node = "" if row.node is None else f" on node {row.node}"
    return f"{lock}{node}: {row.field}"


def _about(row: LockRow) -> str:
    parts = [] if not row.lock else [NAMED_BY[row.named_by]]
    if row.functions:
        parts.append(f"waiting stack: {' < '.join(row.functions)}")
    if row.released_in:
        parts.append(f"waits that ended when {row.owner} released the lock in {row.released_in}()")
    return "; ".join(parts)


RATES: Rates[LockRow] = Rates(
    first=Column(title="lock", code=True),
    name=_name,
    about=_about,
    direction=DIRECTION,
)
