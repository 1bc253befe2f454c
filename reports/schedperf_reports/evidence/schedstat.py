# SPDX-License-Identifier: GPL-2.0-or-later
"""Schedstat: what the scheduler did more or less of, and where in the kernel to look.

Readings of the rules come first, then one table a level.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from schedperf.evidence.schedstat.fields import FIELDS
from schedperf.evidence.schedstat.record import (
    Idle,
    LevelRow,
    ReadingRow,
    Schedstat,
    SchedstatRefusal,
    SchedstatRow,
    SchedstatSide,
)
from schedperf.model.comparison import Comparison
from schedperf.model.units import format_measure
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
from schedperf_reports.rates.cells import (
    MEANS,
    OPERATIONS,
    PER_COLUMN,
    Shown,
    change_of,
    describe_rate,
    distance,
    divisor_of,
    explain_gaps,
    gather_twins,
    lead,
    main_rows,
    tone_of,
    zeros_table,
)
from schedperf_reports.rates.cpu_maps import cpu_maps
from schedperf_reports.rates.details import opened
from schedperf_reports.rates.tables import (
    Rates,
    by_place,
    name_place,
    notes_below,
    state_changes,
)
from schedperf_reports.sections import record_of, report_section
from schedperf_reports.words.rows import count_of, merge_sides

# Of the CPUs; the page has all of them.
MOST_ROWS = 6
MOST_READINGS = 8
MOST_REFUSALS = 6
# Of a table of one level; the page has all.
MOST_CHANGED = 10

# Lines of the tree of domains: a level has four.
MOST_OF_TREE = 4
# Its column that a narrow screen keeps where nothing changed.
_FIRST_OF_TREE = "pulled"
# Rows of the CPUs that a page shows where nothing changed.
LEAST_SHOWN = 5

_COUNT = Column(title="count", code=True)
# Of one side alone the values are left.
_ALONE = (
    _COUNT,
    PER_COLUMN,
    Column(title="value", align="right"),
    Column(title="what", priority=1),
)
_IDLE_TYPES: Mapping[Idle, str] = {
    "busy": "busy CPUs",
    "idle": "idle CPUs",
    "newidle": "CPUs becoming idle",
}
# Columns of an idle type, then of a whole level; those of which nothing was counted are left out.
_FIELDS: Mapping[str, str] = {
    "lb_count": "attempts",
    "lb_balanced": "balanced",
    "lb_failed": "failed",
    "lb_gained": "pulled",
    "lb_imbalance": "imbalance",
    "lb_imbalance_load": "imbalance, load",
    "lb_imbalance_util": "imbalance, util",
    "lb_imbalance_task": "imbalance, tasks",
    "lb_imbalance_misfit": "imbalance, misfit",
    "alb_count": "active balances",
    "ttwu_wake_remote": "remote wakeups",
    "ttwu_move_affine": "affine wakeups",
}
_NOTHING = "0"


@report_section(
    "schedstat", title="Scheduler statistics", chapter="scheduler", order=10, is_analysis=True
)
def schedstat(comparison: Comparison) -> Iterator[Block]:
    """Show what the rules read in the counts, the domains, the counts of each level and CPU."""
    data = record_of(comparison, Schedstat)
    if isinstance(data, Text):
        yield data
        return
    yield from describe_counts(data, None, overview=MOST_ROWS)
    yield from cpu_maps(comparison, data.cpus)
    yield Text(text=f"sums over CPUs; {MEANS}; neither direction is better", tone="muted")


def describe_counts(
    data: Schedstat,
    limit: int | None,
    *,
    by_name: bool = False,
    overview: int | None = None,
) -> Iterator[Block]:
    """Yield the blocks of the section's data, or of the command's.

    :param limit: rows of a table that a terminal shows
    :param by_name: rows in the order of the kernel; else those that changed significantly first
    :param overview: rows of the CPUs that a terminal shows, with what changed of all levels; None:
        all tables are alike
    """
    yield from _readings(data)
    yield Text(text="; ".join(_describe_side(side) for side in data.sides), tone="muted")
    points = by_place(data.rows)
    shown: list[SchedstatRow] = []
    for (side, workload, point), found in points.items():
        what = name_place(workload, point) if len(points) > 1 else ""
        against = f", {side} vs base" if what and any(row.n_new for row in found) else ""
        most_of_tree = None if overview is None else MOST_OF_TREE
        for tree in _domain_tree(data.levels, found, side, what, most_of_tree):
            yield _state_tree(tree, found)
        for level in dict.fromkeys(row.level for row in found):
            of_level = [row for row in found if row.level == level]
            ordered = _order(of_level, by_name=by_name, has_details=overview is not None)
            most = limit if overview is None else _most_rows(ordered, 0 if level else overview)
            shown += [one.row for one in ordered[:most]]
            place = f"balancing and wakeups at {level}" if level else "CPUs"
            caption = f"{what}: {place}{against}" if what else place
            yield _table(caption, ordered, most)
    yield from explain_gaps(shown)
    yield from _refusals(data.not_compared)
    yield from zeros_table(data.zeros)
    yield from notes_below(merge_sides(data.notes))


def _describe_side(side: SchedstatSide) -> str:
    versions = " and ".join(map(str, side.versions))
    return f"{side.side}: {count_of(side.runs, 'run')}, schedstat version {versions}"


def _readings(data: Schedstat) -> Iterator[Block]:
    if not any(row.n_new for row in data.rows):
        return
    yield from lead(data.rows, _full_name)
    if data.readings:
        many = len({(reading.workload, reading.point) for reading in data.readings}) > 1
        yield Items(
            items=tuple(
                Item(
                    text=f"{_where(reading, many=many)}{reading.text}",
                    detail=f"{reading.meaning} (rule {reading.rule})",
                    evidence=(f"schedstat#{reading.row}",),
                )
                for reading in data.readings
            ),
            limit=MOST_READINGS,
        )
    else:
        yield Text(text="no finding uses these counts", tone="muted")


def _where(reading: ReadingRow, *, many: bool) -> str:
    return f"{reading.point or reading.workload}: " if many else ""


def _order(
    rows: Sequence[SchedstatRow], *, by_name: bool, has_details: bool
) -> Sequence[Shown[SchedstatRow]]:
    # What may be noise stays in the order of the kernel: its size says nothing. A terminal opens
    # no rows, so twins are rows behind the others.
    if by_name:
        return [Shown(row) for row in rows]
    ordered = sorted(gather_twins(rows), key=lambda shown: _rank(shown.row))
    if has_details:
        return ordered
    twins = [twin for shown in ordered for twin in shown.twins]
    return [replace(shown, twins=()) for shown in (*ordered, *twins)]


def _rank(row: SchedstatRow) -> tuple[bool, float]:
    return not row.changed, distance(row) if row.changed else 0.0


def _most_rows(ordered: Sequence[Shown[SchedstatRow]], others: int) -> int:
    # What changed, and so many rows at least.
    changed = sum(bool(shown.row.changed) for shown in ordered)
    return min(len(ordered), max(min(changed, MOST_CHANGED), others))


def _table(caption: str, ordered: Sequence[Shown[SchedstatRow]], limit: int | None) -> Table:
    if any(shown.row.n_new for shown in ordered):
        return RATES.table(caption, ordered, limit=limit, least=LEAST_SHOWN)
    return Table(
        caption=caption,
        columns=_ALONE,
        rows=tuple(map(_alone, ordered)),
        limit=limit,
        anchors=tuple(shown.row.row for shown in ordered),
        details=tuple(opened(shown, _about(shown.row)) for shown in ordered),
    )


def _state_tree(tree: Table, rows: Sequence[SchedstatRow]) -> Table:
    # Its lines are levels, so the numbers in them are counted. A narrow screen keeps what changed
    # beside the name, or else what the balancer moved.
    counts = [
        shown for shown in gather_twins(rows) if shown.row.level and shown.row.basis != "share"
    ]
    changed = [
        any(cell.tone == "strong" for cell in cells) for cells in zip(*tree.rows, strict=True)
    ]
    is_first = [column.title == _FIRST_OF_TREE for column in tree.columns]
    shown = changed if any(changed[1:]) else is_first
    return replace(
        tree,
        caption=state_changes(tree.caption, counts, _full_name),
        columns=tuple(
            column if place == 0 or shown[place] else replace(column, priority=1)
            for place, column in enumerate(tree.columns)
        ),
    )


def _name(row: SchedstatRow) -> str:
    return f"{row.idle} {row.field}".strip()


def _full_name(row: SchedstatRow) -> str:
    return f"{_name(row)} at {row.level}" if row.level else _name(row)


def _about(row: SchedstatRow) -> str:
    # The glossary: what one of it is, what counts it, and where it is another thing.
    field = FIELDS.get(row.field)
    split = f"; {field.split}" if field is not None and field.split else ""
    counted = f", counted in {row.function}" if row.function else ""
    return f"{_name(row)}: {row.meaning}{counted}{split}"


RATES: Rates[SchedstatRow] = Rates(
    first=_COUNT,
    name=_name,
    about=_about,
    more=(Column(title="what", priority=REFERENCE_PRIORITY),),
    more_cells=lambda row: (Cell(text=row.meaning, tone=tone_of(row)),),
)


def _alone(shown: Shown[SchedstatRow]) -> tuple[Cell, ...]:
    per, base, _ = describe_rate(shown)
    texts = (_name(shown.row), per, base, shown.row.meaning)
    return tuple(Cell(text=text) for text in texts)


def _refusals(entries: Sequence[SchedstatRefusal]) -> Iterator[Block]:
    if not entries:
        return
    yield Items(
        items=tuple(
            Item(text=f"not compared: {one.what} of {one.side}: {one.reason}", tone="muted")
            for one in entries
        ),
        limit=MOST_REFUSALS,
    )


def _domain_tree(
    levels: Sequence[LevelRow],
    rows: Sequence[SchedstatRow],
    side: str,
    what: str,
    limit: int | None,
) -> Iterator[Table]:
    """Yield the tree of one side at one point; nothing without levels or counts of them.

    :param levels: of the record, of base and of the side
    :param rows: of one point
    :param what: workload and point, "" where there is one
    :param limit: rows that a terminal shows
    """
    main = [row for row in main_rows(rows) if row.level and row.basis != "share"]
    described = {row.level: row for row in reversed(levels) if row.side in ("base", side)}
    order = list(dict.fromkeys(row.level for row in levels if row.side in ("base", side)))
    found = {(row.level, row.idle, row.field): row for row in main}
    fields = [field for field in _FIELDS if any(key[2] == field for key in found)]
    if not order or not fields:
        return
    per, times = _divisor(main)
    meanings = {row.field: f"{row.meaning}: {row.function}" for row in main}
    is_compared = any(row.n_new for row in main)
    values = f"per {per}, base -> {side}" if is_compared else f"per {per}"
    yield Table(
        caption=f"{what}{': ' if what else ''}the domains, smallest first: {values}; the change "
        "where it is significant",
        columns=(
            Column(title="domain"),
            *(
                Column(title=_FIELDS[field], align="right", explains=meanings[field])
                for field in fields
            ),
        ),
        rows=tuple(
            line
            for depth, level in enumerate(order)
            for line in _lines(described[level], depth, fields, found, times)
        ),
        limit=limit,
        details=tuple(one for level in order for one in _details(described[level])),
    )


def _divisor(rows: Sequence[SchedstatRow]) -> tuple[str, float]:
    # One for all cells, or nobody could compare them.
    per = divisor_of(rows[0])
    return (f"{OPERATIONS} {per}s", OPERATIONS) if rows[0].basis == "operation" else (per, 1.0)


def _lines(
    level: LevelRow,
    depth: int,
    fields: Sequence[str],
    found: Mapping[tuple[str, Idle, str], SchedstatRow],
    times: float,
) -> Iterator[tuple[Cell, ...]]:
    name, indent = level.level, "   " * depth
    cpus = "" if level.cpus is None else f", {count_of(level.cpus, 'CPU')}"
    domains = "" if level.domains is None else f", {count_of(level.domains, 'domain')}"
    branch = f"{indent}└ " if depth else ""
    whole = [_cell(found.get((name, "", field)), times, is_of_it=False) for field in fields]
    yield (Cell(text=f"{branch}{name}{cpus}{domains}", tone="strong"), *whole)
    for idle, words in _IDLE_TYPES.items():
        cells = [
            _cell(found.get((name, idle, field)), times, is_of_it=field.startswith("lb_"))
            for field in fields
        ]
        yield (Cell(text=f"{indent}   {words}"), *cells)


def _details(level: LevelRow) -> Iterator[tuple[Block, ...]]:
    # The line of the level opens to its flags, those of its idle types to nothing.
    flags = " ".join(level.flags or ("not captured",))
    yield (Text(text=f"flags of its domains: {flags}"),)
    yield from [()] * len(_IDLE_TYPES)


def _cell(row: SchedstatRow | None, times: float, *, is_of_it: bool) -> Cell:
    # What was 0 in all runs has no row.
    if row is None:
        return Cell(text=_NOTHING if is_of_it else "", tone="muted")
    base, new = (
        format_measure(None if one is None else times * one, "1") for one in (row.base, row.new)
    )
    text = base if row.new is None else f"{base} -> {new}"
    change = f" ({change_of(row)})" if row.changed else ""
    return Cell(text=f"{text}{change}", tone="strong" if change else "plain", sort=row.new)
