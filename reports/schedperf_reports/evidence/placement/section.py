# SPDX-License-Identifier: GPL-2.0-or-later
"""Report task placement by cause, node and level, waiting times, and load-balancer results."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from schedperf.evidence.placement.record import (
    DepthRow,
    Part,
    PhasesRow,
    Placement,
    PlacementRow,
    PlacementSide,
    TimersRow,
)
from schedperf.model.comparison import Comparison
from schedperf.model.sections import data_of
from schedperf.model.text import join_names
from schedperf.model.units import scale_for
from schedperf_reports.blocks import (
    REFERENCE_PRIORITY,
    Block,
    Cell,
    Column,
    Item,
    Items,
    Table,
    Text,
)
from schedperf_reports.evidence.placement._moves import count_values, describe_series, moves_matrix
from schedperf_reports.rates.cells import (
    COMPARED,
    MEANS,
    PER_COLUMN,
    RUNS_COLUMN,
    Shown,
    compared_cells,
    describe_rate,
    distance,
    divisor_of,
    explain_gaps,
    gather_twins,
    lead,
    move_n_to_caption,
    per_cell,
    runs_cell,
    state_of,
    tone_of,
    zeros_table,
)
from schedperf_reports.rates.details import opened
from schedperf_reports.rates.histograms import mirror_of
from schedperf_reports.rates.tables import name_point, notes_below, state_changes, titled
from schedperf_reports.sections import record_of, report_section
from schedperf_reports.words.quantities import MISSING, format_number, format_share
from schedperf_reports.words.rows import count_of, merge_sides
from schedperf_reports.words.states import State

# Further notes and refusals repeat the first ones.
MOST_NOTES = 5
MOST_REFUSALS = 3

WHAT_IS_COUNTED = (
    f"counts on all CPUs, from the start to the end of the workload; {MEANS}; percentiles of "
    "waits are interpolated within log2 bins; neither direction is better"
)
# Cgroups whose timers are drawn; the table lists all.
MOST_PHASES = 4

# Side, workload and point.
_Point = tuple[str, str, str]
# Rows of significant changes that a terminal shows; the page has all.
_MOST_CHANGED = 10
_MOST_TIMERS = 6
_MOST_OF_TYPES = 6
_MOVES: tuple[Part, ...] = ("fork", "exec", "wakeup", "migration", "cause")
# Title of each further table, and the parts in it.
_GROUPS: Mapping[str, tuple[Part, ...]] = {
    "moves by level and node": _MOVES,
    "run-queue latency, and depth of task groups": ("latency", "depth"),
    "results of load balancing by domain level": (
        "destination", "source", "attempts", "pinned", "migratable", "group_imbalance",
    ),
    "bandwidth timers": ("timers",),
}  # fmt: skip
# Rows about the whole machine; True to show a share or a time, False to show a count.
_OVERVIEW: Mapping[tuple[Part, str], bool] = {
    **{(part, "count"): False for part in _MOVES},
    ("latency", "p50"): True,
    ("latency", "p99"): True,
    ("attempts", "count"): False,
    ("attempts", "pulled"): False,
    ("pinned", "some_pinned"): True,
    ("group_imbalance", "count"): False,
}
_PAIR = len(("from", "to"))

_COUNT = (Column(title="what", code=True), PER_COLUMN)
_REFERENCE = (
    RUNS_COLUMN,
    Column(
        title="in the kernel",
        priority=REFERENCE_PRIORITY,
        code=True,
        explains="kernel function in which the event occurs",
    ),
)
_BETWEEN = Column(title="between nodes", align="right", priority=3)
_COMPARED = (
    *_COUNT,
    *COMPARED,
    Column(title="events per run", align="right", priority=REFERENCE_PRIORITY),
    *_REFERENCE,
)
_VALUE = Column(title="value", align="right")
_MEANING = Column(title="meaning", priority=1)
_ALONE = (*_COUNT, _VALUE, _MEANING)


def _state(comparison: Comparison) -> State | None:
    data = data_of(comparison.sections, Placement)
    return None if data is None else state_of(_told_once(data.rows), lambda row: row.name)


@report_section(
    "placement",
    title="Task placement",
    chapter="scheduler",
    order=20,
    is_analysis=True,
    state=_state,
)
def placement(comparison: Comparison) -> Iterator[Block]:
    """Yield significant changes, rows of the whole machine, other rows, and what was not measured.

    Only a page shows the other rows: those of single levels, nodes and types of CPU cores.
    """
    data = record_of(comparison, Placement)
    if isinstance(data, Text):
        yield data
        return
    yield from lead(_told_once(data.rows), lambda row: row.name)
    yield Text(text="; ".join(map(_describe_side, data.sides)), tone="muted")
    yield Text(text=WHAT_IS_COUNTED, tone="muted")
    points = dict.fromkeys((row.side, row.workload, row.point) for row in data.rows)
    for point in points:
        yield from _describe_point(data, point, has_others=len(points) > 1)
    yield from zeros_table(data.zeros)
    yield from _refusals(data)
    yield from notes_below(merge_sides(data.notes))


def _describe_side(side: PlacementSide) -> str:
    mechanisms = join_names(side.mechanisms)
    return (
        f"{side.side}: {count_of(side.runs, 'run')} recorded with {mechanisms} on "
        f"{count_of(side.nodes, 'NUMA node')}"
    )


def _describe_point(data: Placement, at: _Point, *, has_others: bool) -> Iterator[Block]:
    side, workload, point = at
    is_compared = len(data.sides) > 1
    rows = [row for row in data.rows if (row.side, row.workload, row.point) == at]
    what = name_point(workload, point)
    caption = f"{what}, {side} vs base" if is_compared else what
    caption = caption if has_others else ""
    yield from _drawings(data, at, caption)
    yield from _count_tables(rows, caption, is_compared=is_compared)
    shown = [("base", workload, point), at]
    series = [row for row in data.series if (row.side, row.workload, row.point) in shown]
    if series:
        yield from describe_series(series, caption)
    timers = [row for row in data.timers if (row.side, row.workload, row.point) in shown]
    if timers:
        yield _timers_table(timers, caption)
    depths = [row for row in data.depths if (row.side, row.workload, row.point) in shown]
    if any(row.depth for row in depths):
        yield Text(text=titled(caption, _describe_depths(depths)), tone="muted")


def _drawings(data: Placement, point: _Point, caption: str) -> Iterator[Block]:
    moves = [row for row in data.moves if (row.side, row.workload, row.point) == point]
    if moves:
        yield moves_matrix(moves, point[0], caption)
    for row in data.waits:
        if row.n_new and (row.side, row.workload, row.point) == point:
            title = titled(caption, "waits of runnable tasks")
            yield mirror_of(row, title, what="wait time, lower edge of the bin", events="waits")
    phases = [row for row in data.phases if (row.side, row.workload, row.point) == point]
    for row in phases[:MOST_PHASES]:
        if row.n_new:
            yield _phases(row, phases[0].group, caption)


def _phases(row: PhasesRow, first: str, caption: str) -> Block:
    return mirror_of(
        row,
        titled(caption, f"bandwidth timer of {row.group}"),
        what="timer phase (% of the period), lower edge of the bin",
        events="expiries",
        write=lambda part: f"{format_number(round(100.0 * (part - 0.5), 1))}%",
        note=f"0%: mean phase of the timer of {first}",
    )


def _describe_depths(depths: Sequence[DepthRow]) -> str:
    sides: dict[str, list[DepthRow]] = {}
    for row in depths:
        sides.setdefault(row.side, []).append(row)
    shares = "; ".join(
        f"{side} {', '.join(map(_describe_depth, of_side))}, n = {count_values(of_side[0])}"
        for side, of_side in sides.items()
    )
    return (
        "task-group depth of the workload's tasks (share of context switches with 95% CI): "
        f"{shares}"
    )


def _describe_depth(row: DepthRow) -> str:
    share = format_share(row.share)
    # If all tasks of all runs were at one depth, there is no CI to print.
    if row.ci_low is None or row.ci_high is None or row.ci_low == row.ci_high:
        return f"{row.depth} ({share})"
    # A share is at most 100%.
    return (
        f"{row.depth} ({share} [{format_share(row.ci_low)}, {format_share(min(1.0, row.ci_high))}])"
    )


def _refusals(data: Placement) -> Iterator[Block]:
    # One line per reason: most parts are missing for the same reason, on all sides.
    sides: dict[tuple[str, str], list[str]] = {}
    for program in data.programs:
        if program.reason is not None:
            what = f"{program.part} ({program.function})" if program.function else program.part
            sides.setdefault((what, program.reason), []).append(program.side)
    parts: dict[tuple[str, str], list[str]] = {}
    for (what, reason), where in sides.items():
        parts.setdefault((f"not measured on {join_names(where)}", reason), []).append(what)
    for refused in data.not_compared:
        how = f"not compared with {refused.side}"
        parts.setdefault((how, refused.reason), []).append(refused.what)
    if parts:
        yield Items(
            items=tuple(
                Item(text=f"{how}: {', '.join(names)}: {reason}", tone="muted")
                for (how, reason), names in parts.items()
            ),
            limit=MOST_REFUSALS,
        )


def _count_tables(
    rows: Sequence[PlacementRow], where: str, *, is_compared: bool
) -> Iterator[Block]:
    """Yield significant changes and the whole machine; on the page also all levels and nodes.

    :param rows: rows of one side, compared or alone, in the order of the section
    :param where: workload and point; "" if there is only one
    :param is_compared: whether rows have a base and a new side
    """
    gathered = gather_twins(_told_once(rows))
    changed = sorted(
        (shown for shown in gathered if shown.row.changed), key=lambda shown: distance(shown.row)
    )
    if changed:
        caption = titled(where, "significant changes")
        yield move_n_to_caption(_table(caption, changed, _MOST_CHANGED, is_compared=True))
    overview = [entry for entry in gathered if _is_overview(entry.row) and not entry.row.changed]
    if overview:
        yield move_n_to_caption(_overview(overview, gathered, where, is_compared=is_compared))
    yield from explain_gaps([shown.row for shown in (*changed[:_MOST_CHANGED], *overview)])
    listed = {shown.row.row for shown in (*changed, *overview)}
    # Node pairs are in the matrix; those that changed also have a row, with the CI.
    others = (
        entry for entry in gathered if entry.row.row not in listed and not _is_pair(entry.row)
    )
    rest = sorted(others, key=lambda shown: _is_placed(shown.row))
    of_types = [shown for shown in rest if shown.row.types]
    if of_types:
        caption = titled(where, "moves and waits by type of CPU core")
        yield move_n_to_caption(_table(caption, of_types, _MOST_OF_TYPES, is_compared=is_compared))
    rest = [shown for shown in rest if not shown.row.types]
    for title, parts in _GROUPS.items():
        of_group = [shown for shown in rest if shown.row.part in parts]
        if of_group:
            # A compared caption states the number of rows with the number of changes.
            count = "" if is_compared else f", {count_of(len(of_group), 'row')}"
            caption = titled(where, f"other {title}{count}")
            yield move_n_to_caption(_table(caption, of_group, 0, is_compared=is_compared))


def _told_once(rows: Iterable[PlacementRow]) -> list[PlacementRow]:
    """Return the rows without those at the level NUMA that repeat a row of moves between nodes.

    Moves at the level NUMA are exactly those between nodes.
    """
    all_rows = list(rows)
    are_crossing = {row.part for row in all_rows if row.field == "crossing"}
    return [row for row in all_rows if row.level != "NUMA" or row.part not in are_crossing]


def _is_overview(row: PlacementRow) -> bool:
    # Return whether a row is about the whole machine and in the first table.
    is_share = _OVERVIEW.get((row.part, row.field))
    return is_share is not None and not _is_placed(row) and is_share == (row.basis == "share")


def _is_placed(row: PlacementRow) -> bool:
    return bool(row.level or row.nodes or row.groups or row.types or row.idle)


def _is_pair(row: PlacementRow) -> bool:
    return len(row.nodes) == _PAIR and row.basis != "share"


def _name(row: PlacementRow) -> str:
    return row.name


def _table(
    caption: str, rows: Sequence[Shown[PlacementRow]], limit: int, *, is_compared: bool
) -> Table:
    return Table(
        caption=state_changes(caption, rows, _name),
        columns=_COMPARED if is_compared else _ALONE,
        rows=tuple(_compared(shown) if is_compared else _alone(shown) for shown in rows),
        limit=limit,
        anchors=tuple(shown.row.row for shown in rows),
        details=tuple(opened(shown, _about(shown.row)) for shown in rows) if is_compared else (),
    )


def _about(row: PlacementRow) -> str:
    return f"{row.name}: {row.meaning}, by {row.function}"


def _compared(shown: Shown[PlacementRow]) -> tuple[Cell, ...]:
    row = shown.row
    events = " -> ".join(map(_events, (row.events_base, row.events_new)))
    return (
        Cell(text=row.name, tone=tone_of(row)),
        per_cell(shown),
        *compared_cells(shown),
        Cell(text=events, tone=tone_of(row), sort=row.events_new),
        runs_cell(row),
        Cell(text=row.function, tone=tone_of(row)),
    )


def _alone(shown: Shown[PlacementRow]) -> tuple[Cell, ...]:
    per, base, _ = describe_rate(shown)
    return tuple(Cell(text=text) for text in (shown.row.name, per, base, shown.row.meaning))


def _events(events: float | None) -> str:
    return MISSING if events is None else format_number(events)


# By part and cause: the share of migrations that are between nodes.
_Crossings = Mapping[tuple[Part, str], Shown[PlacementRow]]


def _overview(
    rows: Sequence[Shown[PlacementRow]],
    beside: Sequence[Shown[PlacementRow]],
    where: str,
    *,
    is_compared: bool,
) -> Table:
    crossings = {
        (shown.row.part, shown.row.cause): shown
        for shown in beside
        if shown.row.field == "crossing" and shown.row.basis == "share"
    }
    pers = sorted({divisor_of(shown.row) for shown in rows if shown.row.basis != "share"})
    values = "events per run"
    if is_compared and pers:
        values += f", change in events per {' or '.join(pers)}"
    columns = (*COMPARED, *_REFERENCE) if is_compared else (_VALUE, _MEANING)
    between = (_BETWEEN,) if crossings else ()
    names = _short_names([shown.row for shown in rows])
    return Table(
        caption=state_changes(titled(where, f"whole machine: {values}"), rows, _name),
        columns=(Column(title="what", code=True), *columns, *between),
        rows=tuple(
            (
                Cell(text=name, tone=tone_of(shown.row)),
                *_overview_cells(shown, is_compared=is_compared),
                *(
                    Cell(text=_between(crossings, shown.row, is_compared=is_compared))
                    for _ in between
                ),
            )
            for name, shown in zip(names, rows, strict=True)
        ),
        anchors=tuple(shown.row.row for shown in rows),
    )


def _overview_cells(shown: Shown[PlacementRow], *, is_compared: bool) -> tuple[Cell, ...]:
    row = shown.row
    is_count = row.basis != "share"
    values = map(_events, (row.events_base, row.events_new))
    base, new = values if is_count else describe_rate(shown)[1:]
    if not is_compared:
        return Cell(text=base), Cell(text=row.meaning)
    events = (row.events_base, row.events_new) if is_count else (row.base, row.new)
    tone = tone_of(row)
    return (
        Cell(text=base, tone=tone, sort=events[0]),
        Cell(text=new, tone=tone, sort=events[1]),
        *compared_cells(shown)[2:],
        runs_cell(row),
        Cell(text=row.function, tone=tone),
    )


def _short_names(rows: Iterable[PlacementRow]) -> Iterator[str]:
    # Below "migrations" the name "by wakeup" is enough, and the row stays on one line.
    head = ""
    for row in rows:
        rest = row.name.removeprefix(head).lstrip(": ")
        is_below = bool(head and rest) and row.name.startswith((f"{head} ", f"{head}:"))
        yield f" {rest}" if is_below else row.name
        head = head if is_below else row.name


def _between(crossings: _Crossings, row: PlacementRow, *, is_compared: bool) -> str:
    crossing = crossings.get((row.part, row.cause))
    if crossing is None:
        return ""
    base, new = describe_rate(crossing)[1:]
    return f"{base.removesuffix(' %')} -> {new}" if is_compared else base


_TIMER_COLUMNS = (
    Column(title="side"),
    Column(title="cgroups", code=True),
    Column(title="expire"),
    Column(title="distance", align="right"),
    Column(title="period", align="right", priority=1),
    Column(title="resolution", align="right", priority=2),
    Column(title="runs", align="right", priority=REFERENCE_PRIORITY),
)


def _timers_table(timers: Sequence[TimersRow], where: str) -> Table:
    """Return whether bandwidth timers expire together, a row per pair of cgroups and side."""
    ordered = sorted(timers, key=lambda row: row.groups)
    return Table(
        caption=titled(where, "bandwidth timers: time of expiry within the period"),
        columns=_TIMER_COLUMNS,
        rows=tuple(_timer(row) for row in ordered),
        limit=_MOST_TIMERS,
    )


def _timer(row: TimersRow) -> tuple[Cell, ...]:
    scale = scale_for("s", row.period_s)
    texts = (
        row.side,
        join_names(row.groups),
        "together in some runs" if row.word == "mixed" else row.word,
        *(
            f"{scale.format(seconds)} {scale.unit}"
            for seconds in (row.distance_s, row.period_s, row.resolution_s)
        ),
        str(row.runs),
    )
    return tuple(Cell(text=text) for text in texts)
