"""Where tasks went, by cause, node and level; how long they waited; what the balancer answered."""

from collections.abc import Iterator, Sequence

from schedperf.evidence.placement.record import (
    DepthRow,
    PhasesRow,
    Placement,
    PlacementSide,
)
from schedperf.model.comparison import Comparison
from schedperf_reports.blocks import Block, Item, Items, Text
from schedperf_reports.evidence.placement._moves import count_values, describe_series, moves_matrix
from schedperf_reports.evidence.placement._tables import (
    count_tables,
    timers_table,
    told_once,
)
from schedperf_reports.rates.cells import MEANS, lead, zeros_table
from schedperf_reports.rates.histograms import mirror_of
from schedperf_reports.rates.tables import name_place, notes_below, titled
from schedperf_reports.sections import record_of, report_section
from schedperf_reports.words.rows import count_of, merge_sides
from schedperf_reports.words.units import format_number, format_share

# More notes and refusals than these repeat each other.
MOST_NOTES = 5
MOST_REFUSALS = 3

WHAT_IS_COUNTED = (
    f"counts of the whole machine, from the workload's start to its end; {MEANS}; waits are "
    "known to a factor of 2 and interpolated; more is neither better nor worse"
)
# Cgroups whose timers are drawn; the table has all of them.
MOST_PHASES = 4

# Side, workload and point.
_Point = tuple[str, str, str]


@report_section(
    "placement", title="Where tasks went", chapter="scheduler", order=20, is_analysis=True
)
def placement(comparison: Comparison) -> Iterator[Block]:
    """Show what changed, then the whole machine, and on the page all; and what was not seen."""
    data = record_of(comparison, Placement)
    if isinstance(data, Text):
        yield data
        return
    yield from lead(told_once(data.rows), lambda row: row.name)
    yield Text(text="; ".join(map(_describe_side, data.sides)), tone="muted")
    yield Text(text=WHAT_IS_COUNTED, tone="muted")
    points = dict.fromkeys((row.side, row.workload, row.point) for row in data.rows)
    for point in points:
        yield from _describe_point(data, point, has_others=len(points) > 1)
    yield from zeros_table(data.zeros)
    yield from _refusals(data)
    yield from notes_below(merge_sides(data.notes))


def _describe_side(side: PlacementSide) -> str:
    seen = " and ".join(side.mechanisms)
    return (
        f"{side.side}: {count_of(side.runs, 'run')} seen by {seen} on "
        f"{count_of(side.nodes, 'node')}"
    )


def _describe_point(data: Placement, at: _Point, *, has_others: bool) -> Iterator[Block]:
    side, workload, point = at
    is_compared = len(data.sides) > 1
    rows = [row for row in data.rows if (row.side, row.workload, row.point) == at]
    what = name_place(workload, point)
    caption = f"{what}, base against {side}" if is_compared else what
    caption = caption if has_others else ""
    yield from _drawings(data, at, caption)
    yield from count_tables(rows, caption, is_compared=is_compared)
    shown = [("base", workload, point), at]
    series = [one for one in data.series if (one.side, one.workload, one.point) in shown]
    if series:
        yield from describe_series(series, caption)
    timers = [one for one in data.timers if (one.side, one.workload, one.point) in shown]
    if timers:
        yield timers_table(timers, caption)
    depths = [one for one in data.depths if (one.side, one.workload, one.point) in shown]
    if any(one.depth for one in depths):
        yield Text(text=titled(caption, _describe_depths(depths)), tone="muted")


def _drawings(data: Placement, point: _Point, caption: str) -> Iterator[Block]:
    moves = [one for one in data.moves if (one.side, one.workload, one.point) == point]
    if moves:
        yield moves_matrix(moves, point[0], caption)
    for one in data.waits:
        if one.n_new and (one.side, one.workload, one.point) == point:
            title = titled(caption, "waits of runnable tasks")
            yield mirror_of(one, title, what="a task waits from", events="waits")
    phases = [one for one in data.phases if (one.side, one.workload, one.point) == point]
    for one in phases[:MOST_PHASES]:
        if one.n_new:
            yield _phases(one, phases[0].group, caption)


def _phases(one: PhasesRow, first: str, caption: str) -> Block:
    return mirror_of(
        one,
        titled(caption, f"bandwidth timer of {one.group}"),
        what="part of the period from",
        events="expiries",
        write=lambda part: f"{format_number(round(100.0 * (part - 0.5), 1))} %",
        note=f"0 % is when that of {first} expires in the mean",
    )


def _describe_depths(depths: Sequence[DepthRow]) -> str:
    sides: dict[str, list[DepthRow]] = {}
    for one in depths:
        sides.setdefault(one.side, []).append(one)
    told = "; ".join(
        f"{side} {', '.join(map(_describe_depth, found))}, n = {count_values(found[0])}"
        for side, found in sides.items()
    )
    return (
        "depth of the task groups of the workload's tasks, share of their switches with its "
        f"95 % CI: {told}"
    )


def _describe_depth(one: DepthRow) -> str:
    share = format_share(one.share)
    # Where all tasks of all runs were at one depth, there is nothing to doubt.
    if one.ci_low is None or one.ci_high is None or one.ci_low == one.ci_high:
        return f"{one.depth} ({share})"
    # A share is never more than all.
    ends = f"{format_share(one.ci_low)}..{format_share(min(1.0, one.ci_high))}"
    return f"{one.depth} ({share}, {ends})"


def _refusals(data: Placement) -> Iterator[Block]:
    # One line a reason: most parts are unseen for the same one, and on all sides.
    sides: dict[tuple[str, str], list[str]] = {}
    for program in data.programs:
        if program.reason is not None:
            what = f"{program.part} ({program.function})" if program.function else program.part
            sides.setdefault((what, program.reason), []).append(program.side)
    parts: dict[tuple[str, str], list[str]] = {}
    for (what, reason), where in sides.items():
        parts.setdefault((f"not seen on {' and '.join(where)}", reason), []).append(what)
    for one in data.not_compared:
        how = f"not compared with {one.side}"
        parts.setdefault((how, one.reason), []).append(one.what)
    if parts:
        yield Items(
            items=tuple(
                Item(text=f"{how}: {', '.join(names)}: {reason}", tone="muted")
                for (how, reason), names in parts.items()
            ),
            limit=MOST_REFUSALS,
        )
