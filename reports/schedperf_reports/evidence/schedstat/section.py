"""Schedstat: what the scheduler did more or less of, and where in the kernel to look.

Readings of the rules come first, then one table a level.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from schedperf.evidence.schedstat.fields import FIELDS
from schedperf.evidence.schedstat.record import (
    ReadingRow,
    Schedstat,
    SchedstatRefusal,
    SchedstatRow,
    SchedstatSide,
)
from schedperf.model.comparison import Comparison
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
from schedperf_reports.evidence.schedstat._domain_tree import domain_tree
from schedperf_reports.rates.cells import (
    MEANS,
    PER_COLUMN,
    Shown,
    describe_rate,
    distance,
    explain_gaps,
    gather_twins,
    lead,
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
    yield Text(text=f"sums over CPUs; {MEANS}; more is neither better nor worse", tone="muted")


def describe_counts(
    data: Schedstat,
    limit: int | None,
    *,
    by_name: bool = False,
    overview: int | None = None,
) -> Iterator[Block]:
    """Yield the blocks of the section's data, or of the command's.

    :param limit: rows of a table that a terminal shows
    :param by_name: rows in the order of the kernel; else those that changed beyond noise first
    :param overview: rows of the CPUs that a terminal shows, with what changed of all levels; None:
        all tables are alike
    """
    yield from _readings(data)
    yield Text(text="; ".join(_describe_side(side) for side in data.sides), tone="muted")
    points = by_place(data.rows)
    shown: list[SchedstatRow] = []
    for (side, workload, point), found in points.items():
        what = name_place(workload, point) if len(points) > 1 else ""
        against = f", base against {side}" if what and any(row.n_new for row in found) else ""
        most_of_tree = None if overview is None else MOST_OF_TREE
        for tree in domain_tree(data.levels, found, side, what, most_of_tree):
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
        yield Text(text="no finding is drawn from these counts", tone="muted")


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
