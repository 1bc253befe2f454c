# SPDX-License-Identifier: GPL-2.0-or-later
"""Report what the workload's own tasks did with their time, and what changed."""

from collections.abc import Iterator, Mapping, Sequence

from schedperf.evidence.account.record import (
    ON_CPU,
    PARTS,
    Account,
    AccountPoint,
    AccountRow,
    AccountSide,
    Kind,
    OtherLoad,
    Part,
    PartChange,
    describe_others,
    write_points,
)
from schedperf.model.comparison import Comparison
from schedperf.model.sections import data_of
from schedperf.model.units import format_measure
from schedperf.model.verdict import count_units
from schedperf_reports.blocks import Block, Cell, Column, Item, Items, Table, Text
from schedperf_reports.graphics.parts import Parts, PartsBar, Segment
from schedperf_reports.rates.cells import explain_gaps, gather_twins, state_of
from schedperf_reports.rates.tables import Rates, by_subject, name_point, notes_below, titled
from schedperf_reports.sections import record_of, report_section
from schedperf_reports.words.quantities import format_change
from schedperf_reports.words.rows import count_of, has_changed, merge_sides, side_place
from schedperf_reports.words.states import State

TITLE = "Where the time went"
# The ends of a wider interval of a contribution, as a fraction, say nothing.
WIDEST = 2.0
# Lines that a text of one screen shows.
MOST_LINES = 3
MOST_ROWS = 10
# Rows that a page shows even if they did not change: CPU time and its parts.
LEAST_ROWS = 5

PART_NAMES: Mapping[Part, str] = {
    "user": "user",
    "system": "system",
    "waiting": "waiting for a CPU",
    "blocked": "blocked",
}
KIND_NAMES: Mapping[Kind, str] = {
    "cpu": "CPU time (user and system)",
    "user": "user time",
    "system": "system time",
    "waiting": "waiting for a CPU",
    "blocked": "blocked",
    "tasks": "tasks that ended",
}
MEANING = (
    "thread-time is the sum over the workload's own tasks; waiting: runnable, but not running; "
    "blocked: waiting for I/O, a lock or other tasks; lower is better"
)
NOT_OF_RESULT = "contributions add up to the change of thread-time, not to that of the result"


def _name(row: AccountRow) -> str:
    return KIND_NAMES.get(row.kind, row.kind)


RATES: Rates[AccountRow] = Rates(
    first=Column(title="of the workload's tasks"),
    name=_name,
    about=lambda _: "",
    direction="lower is better",
)


def _state(comparison: Comparison) -> State | None:
    data = data_of(comparison.sections, Account)
    return None if data is None else state_of(data.rows, _name, lambda row: row.kind not in ON_CPU)


@report_section(
    "account",
    title=TITLE,
    chapter="benchmarks",
    order=15,
    is_analysis=True,
    is_brief=True,
    state=_state,
)
def account(comparison: Comparison) -> Iterator[Block]:
    """Show the parts of the thread-time of each point, and their contributions to its change."""
    data = record_of(comparison, Account)
    if isinstance(data, Text):
        yield data
        return
    lines = time_lines(comparison)
    if lines:
        yield lines
    for point in data.points:
        yield draw_point(point)
    yield Text(text="; ".join(map(_describe_side, data.sides)), tone="muted")
    for _, subject, rows in by_subject(data.rows):
        ordered = gather_twins(rows)
        title = titled(subject, "the workload's tasks")
        yield RATES.table(title, ordered, limit=MOST_ROWS, least=LEAST_ROWS)
        yield from explain_gaps(rows)
    yield from _tables_of_others(data.others)
    yield Text(text=f"{MEANING}; {NOT_OF_RESULT}", tone="muted")
    yield from notes_below(merge_sides(data.notes))


def time_lines(comparison: Comparison) -> Items | None:
    """Return the change of the thread-time of each point; None without it, and without results."""
    data = data_of(comparison.sections, Account)
    if data is None or not data.points or not comparison.rows:
        return None
    lines = [line for point in data.points for line in describe_point(point, data)]
    # Without a change to explain, a text of one screen has more important lines.
    brief = MOST_LINES if has_changed(comparison) else 0
    return Items(items=tuple(Item(text=line) for line in lines), brief=brief)


def describe_point(point: AccountPoint, data: Account) -> Iterator[str]:
    """Yield the change of the thread-time with its parts, and who else used the CPUs."""
    has_workloads = len({each.workload for each in data.points}) > 1
    at = name_point(point.workload, point.point) if has_workloads else point.point
    named = f"{at}: " if at else ""
    has_sides = len({each.side for each in data.points}) > 1
    side = f"{point.side}: " if has_sides else ""
    per = point.unit.partition("/")[2]
    what = "thread-time" if not point.missing else "CPU time of the workload's tasks"
    parts = sorted(point.parts, key=lambda change: -abs(change.contribution))
    missing = [PART_NAMES[part] for part in point.missing]
    unknown = f"; {' or '.join(missing)}: not measured" if missing else ""
    n = count_units(point.n_base, point.n_new, point.replication)
    alone = ", no interval" if point.all.ci_low is None else ""
    yield (
        f"{side}{named}{what} per {per} {format_change(1.0 + point.all.contribution)}: "
        f"{', '.join(map(_contribution, parts))}{unknown} ({n}{alone})"
    )
    waiting = sum(each.contribution for each in point.parts if each.part == "waiting")
    others = describe_others(point, data.others)
    if others and waiting > 0.0:
        yield others


def _contribution(change: PartChange) -> str:
    assert change.part is not None
    interval = ""
    if change.ci_low is not None and change.ci_high is not None:
        ends = f"{write_points(change.ci_low)}, {write_points(change.ci_high)}"
        is_wide = change.ci_high - change.ci_low > WIDEST
        interval = f" [{'too wide' if is_wide else ends}]"
    return f"{PART_NAMES[change.part]} {write_points(change.contribution)} pp{interval}"


def draw_point(point: AccountPoint) -> Parts:
    """Return the stacked bars of base and of the new side."""
    longest = max(point.all.base, point.all.new)
    bars = [
        PartsBar(
            label=side,
            place=side_place(side),
            total=_measure(_amount(point.all, side), point),
            segments=tuple(
                Segment(
                    number=PARTS.index(change.part),
                    name=PART_NAMES[change.part],
                    width=round(100.0 * _amount(change, side) / longest, 2),
                    text=_measure(_amount(change, side), point),
                )
                for change in point.parts
                if change.part is not None
            ),
        )
        for side in ("base", point.side)
    ]
    subject = ", ".join(filter(None, (point.workload, point.point)))
    per = point.unit.partition("/")[2]
    return Parts(caption=f"{subject}: time of its tasks per {per}", bars=tuple(bars))


def _amount(change: PartChange, side: str) -> float:
    return change.base if side == "base" else change.new


def _measure(seconds: float, point: AccountPoint) -> str:
    return format_measure(seconds, "s", point.all.base, point.all.new)


def _describe_side(side: AccountSide) -> str:
    return f"{side.side}: {count_of(side.runs, f'{side.kind} run')}"


def _tables_of_others(others: Sequence[OtherLoad]) -> Iterator[Block]:
    subjects = dict.fromkeys((each.side, each.workload, each.point) for each in others)
    for subject in subjects:
        rows = [each for each in others if (each.side, each.workload, each.point) == subject]
        side, workload, point = subject
        where = ", ".join(filter(None, (workload, point)))
        yield Table(
            caption=f"{where}: CPU time per run of other commands, base and {side}",
            columns=(
                Column(title="command", code=True),
                Column(title="base", align="right"),
                Column(title=side, align="right"),
            ),
            rows=tuple(
                (
                    Cell(text=each.command or "all together"),
                    Cell(text=format_measure(each.base, "s", each.base, each.new)),
                    Cell(text=format_measure(each.new, "s", each.base, each.new)),
                )
                for each in rows
            ),
        )
