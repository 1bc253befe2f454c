# SPDX-License-Identifier: GPL-2.0-or-later
"""Report what the workload's own tasks did with their time, and what changed."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from schedperf.evidence.account.record import (
    ALL_PARTS,
    ON_CPU,
    Account,
    AccountPoint,
    AccountRow,
    AccountSide,
    Contributed,
    DividedPoint,
    Kind,
    OtherLoad,
    Part,
    SampledWaiting,
    describe_coverage,
    describe_others,
)
from schedperf.model.base_new import BASE
from schedperf.model.comparison import Comparison
from schedperf.model.sections import data_of
from schedperf.model.units import format_measure
from schedperf.model.verdict import count_units
from schedperf_reports.blocks import Block, Cell, Column, Item, Items, Table, Text
from schedperf_reports.evidence._divided_waits import (
    describe_divided,
    list_parts,
    tables_of_divided,
    write_contribution,
)
from schedperf_reports.graphics.parts import Parts, PartsBar, Segment
from schedperf_reports.rates.cells import explain_gaps, gather_twins, state_of
from schedperf_reports.rates.tables import Rates, by_subject, name_point, notes_below, titled
from schedperf_reports.sections import record_of, report_section
from schedperf_reports.words.quantities import format_change, format_interval
from schedperf_reports.words.rows import count_of, has_changed, merge_sides, side_place
from schedperf_reports.words.states import State

TITLE = "Where the time went"
# Lines that a text of one screen shows.
MOST_LINES = 3
MOST_ROWS = 10
# Points of a sweep that are drawn.
MOST_DRAWN = 6
# Rows that a page shows even if they did not change: CPU time and its parts.
LEAST_ROWS = 5

PART_NAMES: Mapping[Part, str] = {
    "cpu": "on a CPU",
    "user": "user",
    "system": "system",
    "exiting": "exiting",
    "waiting": "waiting for a CPU",
    "blocked": "blocked",
}
KIND_NAMES: Mapping[Kind, str] = {
    "cpu": "CPU time",
    "user": "user time",
    "system": "system time",
    "exiting": "CPU time of exiting tasks",
    "waiting": "waiting for a CPU",
    "blocked": "blocked",
    "tasks": "tasks that ended",
}
MEANING = (
    "thread-time is the sum over the workload's own tasks; exiting: on a CPU after the last record "
    "of a task; waiting: runnable, but not running; "
    "blocked: waiting for I/O, a lock or other tasks; lower is better"
)
SAMPLED = "sampled in instrumented runs"
COVERAGE = (
    "coverage: CPU time of the sampled tasks, as last seen, / all CPU time of the workload; what "
    "was not seen waited, too"
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


SAMPLED_RATES: Rates[SampledWaiting] = Rates(
    first=Column(title="of the workload's tasks"),
    name=lambda _: "waiting for a CPU, at least",
    about=lambda _: COVERAGE,
    more=(Column(title="coverage", align="right", explains=COVERAGE),),
    more_cells=lambda row: (Cell(text=_coverage_of(row)),),
    direction="lower is better",
)


def _coverage_of(row: SampledWaiting) -> str:
    return describe_coverage(row).partition(" ")[2]


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
    subjects = dict.fromkeys((point.workload, point.point) for point in data.points)
    for workload, at in list(subjects)[:MOST_DRAWN]:
        yield draw_points(
            [each for each in data.points if (each.workload, each.point) == (workload, at)]
        )
    if len(subjects) > MOST_DRAWN:
        left = count_of(len(subjects) - MOST_DRAWN, "more point")
        yield Text(text=f"{left}: in the table", tone="muted")
    yield Text(text="; ".join(map(_describe_side, data.sides)), tone="muted")
    for _, subject, rows in by_subject(data.rows):
        ordered = gather_twins(rows)
        title = titled(subject, "the workload's tasks")
        yield RATES.table(title, ordered, limit=MOST_ROWS, least=LEAST_ROWS)
        yield from explain_gaps(rows)
    for _, subject, sampled in by_subject(data.sampled):
        title = titled(subject, SAMPLED)
        yield SAMPLED_RATES.table(title, gather_twins(sampled), limit=MOST_ROWS, least=LEAST_ROWS)
        yield from explain_gaps(sampled)
    yield from tables_of_divided(data.divided_rows, MOST_ROWS)
    yield from _tables_of_others(data)
    yield Text(text=f"{MEANING}; {NOT_OF_RESULT}", tone="muted")
    yield from notes_below(merge_sides(data.notes))


def time_lines(comparison: Comparison) -> Items | None:
    """Return the change of the thread-time of each point; None without it, and without results."""
    data = data_of(comparison.sections, Account)
    if data is None or not data.points or not comparison.rows:
        return None
    lines = [line for point in data.points for line in describe_point(point, data)]
    lines += _lines_of_divided(data)
    # Without a change to explain, a text of one screen has more important lines. Imported traces
    # have no results beside their times.
    is_traced = all(side.imported for side in comparison.sides)
    brief = MOST_LINES if is_traced or has_changed(comparison) else 0
    return Items(items=tuple(Item(text=line) for line in lines), brief=brief)


def describe_point(point: AccountPoint, data: Account) -> Iterator[str]:
    """Yield the change of the thread-time with its parts, and who else used the CPUs.

    If the tasks' waiting was only sampled, its lower bound is a line of its own.
    """
    where = _where(point, data.points)
    parts = list_parts((PART_NAMES[part], text) for part, text in contributions_of(point))
    sampled = sampled_of(point, data)
    missing = " or ".join(PART_NAMES[part] for part in missing_parts(point, data))
    unknown = f"; {missing}: not measured" if missing else ""
    whose = "" if not point.missing else " of the workload's tasks"
    yield (
        f"{where}{name_quantity(point, whose)} {change_of(point)}: {parts}{unknown} "
        f"({count_sample(point)})"
    )
    yield from (f"{where}{_describe_sampled(row)}" for row in sampled)
    yield from filter(None, [name_others(point, data)])


def name_quantity(point: AccountPoint, whose: str = "") -> str:
    """Return what the parts of a point add up to: ``thread-time per message``.

    :param whose: words after the name of the time
    """
    what = "CPU time" if point.missing else "thread-time"
    return f"{what}{whose} per {point.unit.partition('/')[2]}"


def change_of(point: AccountPoint) -> str:
    """Return the change of all parts together: ``+47.5%``."""
    return format_change(1.0 + point.all.contribution)


def contributions_of(
    point: AccountPoint, most_intervals: int = len(ALL_PARTS)
) -> Iterator[tuple[Part, str]]:
    """Yield each part with its contribution and its main reason, the largest first.

    ``+25 pp [-5.1, +54] (mostly preempted)``

    :param most_intervals: number of the first parts that have their interval
    """
    changes = sorted(point.parts, key=lambda change: -abs(change.contribution))
    for rank, change in enumerate(changes):
        if change.part is not None:
            text = write_contribution(change, has_interval=rank < most_intervals)
            yield change.part, f"{text} ({change.remark})" if change.remark else text


def sampled_of(point: AccountPoint, data: Account) -> list[SampledWaiting]:
    """Return the lower bounds of the waiting time of a point."""
    names = ("side", "workload", "point", "basis")
    return [
        row
        for row in data.sampled
        if all(getattr(row, name) == getattr(point, name) for name in names)
    ]


def missing_parts(point: AccountPoint, data: Account) -> tuple[Part, ...]:
    """Return the parts of which nothing is known: neither measured nor sampled."""
    has_bounds = bool(sampled_of(point, data))
    return tuple(part for part in point.missing if not (has_bounds and part == "waiting"))


def count_sample(point: AccountPoint) -> str:
    """Return how many units were compared: ``8 pairs``."""
    n = count_units(point.n_base, point.n_new, point.replication)
    return f"{n}, no interval" if point.all.ci_low is None else n


def name_others(point: AccountPoint, data: Account) -> str:
    """Return who used more CPU time than in base, if the tasks waited longer for a CPU; or ""."""
    waiting = sum(each.contribution for each in point.parts if each.part == "waiting")
    return describe_others(point, data) if waiting > 0.0 else ""


def _where(
    point: AccountPoint | DividedPoint, points: Sequence[AccountPoint | DividedPoint]
) -> str:
    """Return the start of a line: side and point, ``new2: groups=4: ``, if there are several."""
    has_workloads = len({each.workload for each in points}) > 1
    at = name_point(point.workload, point.point) if has_workloads else point.point
    named = f"{at}: " if at else ""
    has_sides = len({each.side for each in points}) > 1
    return f"{point.side}: {named}" if has_sides else named


def _lines_of_divided(data: Account) -> Iterator[str]:
    for point in data.divided:
        yield from describe_divided(point, _where(point, data.divided), PART_NAMES)


def _describe_sampled(row: SampledWaiting) -> str:
    """Return the lower bounds: ``waiting for a CPU: at least 1.2 s -> 3.4 s per run, …``."""
    base, new = (
        format_measure(value, row.unit, row.base, row.new) for value in (row.base, row.new)
    )
    per = row.unit.partition("/")[2]
    change = ""
    # Otherwise tasks that were not sampled may explain the change.
    if row.changed and row.ratio is not None:
        interval = format_interval(row.ci_low, row.ci_high)
        change = f", {format_change(row.ratio)} {interval}"
    n = count_units(row.n_base, row.n_new, row.replication)
    return (
        f"{PART_NAMES['waiting']}: at least {base} -> {new} per {per}{change}, sampled in "
        f"instrumented runs ({describe_coverage(row)}; {n})"
    )


def draw_points(points: Sequence[AccountPoint], names: Mapping[str, str] | None = None) -> Parts:
    """Return stacked bars of base and of each new side, over one scale.

    Sides whose parts or unit differ from those of the first one are left out.

    :param points: points of one workload and point, one per new side; not empty
    :param names: label of each side; None for the names of the sides
    """
    first = points[0]
    alike = [each for each in points if (each.missing, each.unit) == (first.missing, first.unit)]
    totals = [first.all.base, *(each.all.new for each in alike)]
    bars = [_bar(BASE, [change.base for change in first.parts], first, totals)]
    bars += [_bar(each.side, [change.new for change in each.parts], each, totals) for each in alike]
    if names is not None:
        bars = [replace(bar, label=names[bar.label]) for bar in bars]
    subject = ", ".join(filter(None, (first.workload, first.point)))
    per = first.unit.partition("/")[2]
    return Parts(caption=f"{subject}: time of its tasks per {per}", bars=tuple(bars))


def _bar(
    side: str, amounts: Sequence[float], point: AccountPoint, totals: Sequence[float]
) -> PartsBar:
    """Return the bar of one side.

    :param amounts: its time in each part of the point, in s
    :param totals: thread-times of all sides, in s
    """
    whole = point.all.base if side == BASE else point.all.new
    return PartsBar(
        label=side,
        place=side_place(side),
        total=format_measure(whole, "s", *totals),
        segments=tuple(
            Segment(
                number=ALL_PARTS.index(change.part),
                name=PART_NAMES[change.part],
                width=round(100.0 * amount / max(totals), 2),
                text=format_measure(amount, "s", *totals),
            )
            for change, amount in zip(point.parts, amounts, strict=True)
            if change.part is not None
        ),
    )


def _describe_side(side: AccountSide) -> str:
    return f"{side.side}: {count_of(side.runs, f'{side.kind} run')}"


def _tables_of_others(data: Account) -> Iterator[Block]:
    for total in data.other_load:
        at = total.side, total.workload, total.point
        commands = [each for each in data.others if (each.side, each.workload, each.point) == at]
        rows: list[tuple[str, Contributed | OtherLoad]] = []
        rows += [("all together", total.of_busy)] if total.of_busy is not None else []
        rows += [(each.command, each) for each in commands]
        where = ", ".join(filter(None, (total.workload, total.point)))
        per = "per second of a run"
        yield Table(
            caption=f"{where}: CPU time of other commands {per}, base and {total.side}",
            columns=(
                Column(title="command", code=True),
                Column(title="base", align="right"),
                Column(title=total.side, align="right"),
            ),
            rows=tuple(
                (
                    Cell(text=name),
                    Cell(text=format_measure(each.base, "s", each.base, each.new)),
                    Cell(text=format_measure(each.new, "s", each.base, each.new)),
                )
                for name, each in rows
            ),
            anchors=(total.row, *[""] * (len(rows) - 1)),
        )
