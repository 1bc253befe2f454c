# SPDX-License-Identifier: GPL-2.0-or-later
"""Report schedstat counters: changed rates, and the kernel functions to look at.

Results of the rules come first, then the tree of scheduling domains, the counts of all CPUs, and
one table per level.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from schedperf.evidence.schedstat.record import (
    CoreTypeRow,
    Idle,
    LevelRow,
    ReadingRow,
    Schedstat,
    SchedstatRefusal,
    SchedstatRow,
    SchedstatSide,
)
from schedperf.model.comparison import Comparison
from schedperf.model.sections import data_of
from schedperf.model.text import join_names
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
    state_of,
    tone_of,
    zeros_table,
)
from schedperf_reports.rates.cpu_maps import cpu_maps
from schedperf_reports.rates.details import opened
from schedperf_reports.rates.tables import (
    Rates,
    by_point,
    by_subject,
    name_point,
    notes_below,
    state_changes,
    titled,
)
from schedperf_reports.sections import record_of, report_section
from schedperf_reports.words.rows import count_of, merge_sides
from schedperf_reports.words.states import State

# Rows of the CPUs that a terminal shows; the page has all.
MOST_ROWS = 6
MOST_READINGS = 8
MOST_REFUSALS = 6
# Changed rows of one level that a terminal shows; the page has all.
MOST_CHANGED = 10

# Rows of the domain tree that a terminal shows; a level has four.
MOST_OF_TREE = 4
# The column of the domain tree that a narrow screen keeps if nothing changed.
_FIRST_OF_TREE = "pulled"
# Rows of the CPUs that a page shows if nothing changed.
LEAST_SHOWN = 5

_COUNT = Column(title="count", code=True)
# Columns of a single side.
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
# Columns of an idle type, then of a whole level; columns without counts are left out.
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


def _state(comparison: Comparison) -> State | None:
    data = data_of(comparison.sections, Schedstat)
    return None if data is None else state_of(_all_rows(data), _named)


@report_section(
    "schedstat",
    title="Scheduler statistics",
    chapter="scheduler",
    order=10,
    is_analysis=True,
    state=_state,
)
def schedstat(comparison: Comparison) -> Iterator[Block]:
    """Show the results of the rules, the domains, and the counts of each level and CPU."""
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
    """Yield the blocks for the report section, or for the output of ``schedperf schedstat``.

    :param limit: number of rows of each table that a terminal shows, if ``overview`` is None; None
        for all
    :param by_name: True for the order of the kernel; False for significant changes first
    :param overview: None for the command. For the report section: a terminal shows the changed rows
        of each table, at most ``MOST_CHANGED``; of the table of CPUs at least this many rows
    """
    yield from _readings(data)
    yield Text(text="; ".join(_describe_side(side) for side in data.sides), tone="muted")
    points = by_point(data.rows)
    shown: list[SchedstatRow] = []
    for (side, workload, point), of_point in points.items():
        what = name_point(workload, point) if len(points) > 1 else ""
        against = f", {side} vs base" if what and any(row.n_new for row in of_point) else ""
        most_of_tree = None if overview is None else MOST_OF_TREE
        for tree in _domain_tree(data.levels, of_point, side, what, most_of_tree):
            yield _state_tree(tree, of_point)
        for level in dict.fromkeys(row.level for row in of_point):
            of_level = [row for row in of_point if row.level == level]
            ordered = _order(of_level, by_name=by_name, has_details=overview is not None)
            most = limit if overview is None else _most_rows(ordered, 0 if level else overview)
            shown += [entry.row for entry in ordered[:most]]
            title = f"load balancing and wakeups at {level}" if level else "CPUs"
            caption = f"{what}: {title}{against}" if what else title
            yield _table(caption, ordered, most)
    yield from _core_types(data.core_types)
    yield from explain_gaps(shown)
    yield from _refusals(data.not_compared)
    yield from zeros_table(data.zeros)
    yield from notes_below(merge_sides(data.notes))


def _describe_side(side: SchedstatSide) -> str:
    versions = join_names(map(str, side.versions))
    return f"{side.side}: {count_of(side.runs, 'run')}, schedstat version {versions}"


def _readings(data: Schedstat) -> Iterator[Block]:
    if not any(row.n_new for row in data.rows):
        return
    yield from lead(_all_rows(data), _named)
    if data.readings:
        many = len({(reading.workload, reading.point) for reading in data.readings}) > 1
        yield Items(
            items=tuple(
                Item(
                    text=f"{_where(reading, many=many)}{reading.text}: look at {reading.look_at}",
                    detail=f"{reading.meaning} (rule {reading.rule})",
                    evidence=(f"schedstat#{reading.row}",),
                )
                for reading in data.readings
            ),
            limit=MOST_READINGS,
        )
    else:
        yield Text(text="no rule applies to these changes", tone="muted")


def _where(reading: ReadingRow, *, many: bool) -> str:
    return f"{reading.point or reading.workload}: " if many else ""


def _order(
    rows: Sequence[SchedstatRow], *, by_name: bool, has_details: bool
) -> Sequence[Shown[SchedstatRow]]:
    # Rows without a significant change keep the order of the kernel. A terminal cannot expand rows,
    # so the same counts with another denominator become rows at the end.
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
    # The changed rows, but at least this many rows.
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
    # The caption counts the numbers of the tree. A narrow screen keeps the changed columns, or
    # pulled tasks if nothing changed.
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
            column if index == 0 or shown[index] else replace(column, priority=1)
            for index, column in enumerate(tree.columns)
        ),
    )


def _name(row: SchedstatRow) -> str:
    return f"{row.idle} {row.field}".strip()


def _all_rows(data: Schedstat) -> Sequence[SchedstatRow | CoreTypeRow]:
    return (*data.rows, *data.core_types)


def _named(row: SchedstatRow | CoreTypeRow) -> str:
    return _type_name(row) if isinstance(row, CoreTypeRow) else _full_name(row)


def _full_name(row: SchedstatRow) -> str:
    return f"{_name(row)} at {row.level}" if row.level else _name(row)


def _about(row: SchedstatRow) -> str:
    # The meaning of a field, a function that decides it, and its variants.
    split = f"; {row.split}" if row.split else ""
    counted = f", see {row.function}" if row.function else ""
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


def _core_types(rows: Sequence[CoreTypeRow]) -> Iterator[Table]:
    """Yield shares and waits of each type of CPU core; nothing on machines with one type."""
    for _, subject, of_point in by_subject(rows):
        caption = titled(subject, "types of CPU cores")
        shown = gather_twins(of_point)
        if any(row.n_new for row in of_point):
            yield TYPE_RATES.table(caption, shown, limit=None, least=len(shown))
        else:
            cells = (
                (_type_name(each.row), *describe_rate(each)[:2], each.row.meaning) for each in shown
            )
            yield Table(
                caption=caption,
                columns=_ALONE,
                rows=tuple(tuple(Cell(text=text) for text in texts) for texts in cells),
            )


def _type_name(row: CoreTypeRow) -> str:
    return f"{row.core_type} {row.field}"


TYPE_RATES: Rates[CoreTypeRow] = Rates(
    first=_COUNT,
    name=_type_name,
    about=lambda row: f"{_type_name(row)}: {row.meaning}",
    more=(Column(title="what", priority=REFERENCE_PRIORITY),),
    more_cells=lambda row: (Cell(text=row.meaning, tone=tone_of(row)),),
)


def _refusals(entries: Sequence[SchedstatRefusal]) -> Iterator[Block]:
    if not entries:
        return
    yield Items(
        items=tuple(
            Item(text=f"not compared: {entry.what} of {entry.side}: {entry.reason}", tone="muted")
            for entry in entries
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
    """Yield the tree of domains of one side at one point; nothing without levels or their counts.

    :param levels: levels of the record; those of base and of the side are used
    :param rows: rows of one point
    :param what: workload and point; "" if there is only one
    :param limit: rows that a terminal shows; None for all
    """
    main = [row for row in main_rows(rows) if row.level and row.basis != "share"]
    described = {row.level: row for row in reversed(levels) if row.side in ("base", side)}
    order = list(dict.fromkeys(row.level for row in levels if row.side in ("base", side)))
    row_of = {(row.level, row.idle, row.field): row for row in main}
    fields = [field for field in _FIELDS if any(key[2] == field for key in row_of)]
    if not order or not fields:
        return
    per, times = _divisor(main)
    meanings = {row.field: f"{row.meaning}: {row.function}" for row in main}
    is_compared = any(row.n_new for row in main)
    values = f"per {per}, base -> {side}" if is_compared else f"per {per}"
    yield Table(
        caption=f"{what}{': ' if what else ''}scheduling domains, smallest first: {values}; "
        "significant changes in parentheses",
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
            for line in _lines(described[level], depth, fields, row_of, times)
        ),
        limit=limit,
        details=tuple(block for level in order for block in _details(described[level])),
    )


def _divisor(rows: Sequence[SchedstatRow]) -> tuple[str, float]:
    # The same divisor for all cells, so that they are comparable.
    per = divisor_of(rows[0])
    return (f"{OPERATIONS} {per}s", OPERATIONS) if rows[0].basis == "operation" else (per, 1.0)


def _lines(
    level: LevelRow,
    depth: int,
    fields: Sequence[str],
    row_of: Mapping[tuple[str, Idle, str], SchedstatRow],
    times: float,
) -> Iterator[tuple[Cell, ...]]:
    name, indent = level.level, "   " * depth
    cpus = "" if level.cpus is None else f", {count_of(level.cpus, 'CPU')}"
    domains = "" if level.domains is None else f", {count_of(level.domains, 'domain')}"
    branch = f"{indent}└ " if depth else ""
    whole = [_cell(row_of.get((name, "", field)), times, is_of_it=False) for field in fields]
    yield (Cell(text=f"{branch}{name}{cpus}{domains}", tone="strong"), *whole)
    for idle, words in _IDLE_TYPES.items():
        cells = [
            _cell(row_of.get((name, idle, field)), times, is_of_it=field.startswith("lb_"))
            for field in fields
        ]
        yield (Cell(text=f"{indent}   {words}"), *cells)


def _details(level: LevelRow) -> Iterator[tuple[Block, ...]]:
    # The row of a level has its flags as details; the rows of idle types have none.
    flags = " ".join(level.flags or ("not recorded",))
    yield (Text(text=f"domain flags: {flags}"),)
    yield from [()] * len(_IDLE_TYPES)


def _cell(row: SchedstatRow | None, times: float, *, is_of_it: bool) -> Cell:
    # Counts that are 0 in all runs have no row.
    if row is None:
        return Cell(text=_NOTHING if is_of_it else "", tone="muted")
    base, new = (
        format_measure(None if mean is None else times * mean, "1") for mean in (row.base, row.new)
    )
    text = base if row.new is None else f"{base} -> {new}"
    change = f" ({change_of(row)})" if row.changed else ""
    return Cell(text=f"{text}{change}", tone="strong" if change else "plain", sort=row.new)
