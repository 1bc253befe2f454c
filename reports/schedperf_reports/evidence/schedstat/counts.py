"""What the scheduler counted, as blocks: readings first, then one table a level."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from schedperf.evidence.schedstat.fields import FIELDS
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
    PER_COLUMN,
    describe_rate,
    distance,
    explain_gaps,
    gather_twins,
    lead,
    split_twins,
    tone_of,
    zeros_table,
)
from schedperf_reports.rates.details import opened
from schedperf_reports.rates.tables import (
    Pair,
    Rates,
    by_place,
    name_place,
    notes_below,
    state_changes,
)
from schedperf_reports.words.rows import count_of, merge_sides

Row = Mapping[str, Any]

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


def describe_counts(
    data: Mapping[str, Any],
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
    rows = cast("Sequence[Row]", data["rows"])
    yield from _readings(data, rows)
    yield Text(text="; ".join(_describe_side(side) for side in data["sides"]), tone="muted")
    points = by_place(rows)
    shown: list[Row] = []
    for (side, workload, point), found in points.items():
        what = name_place(workload, point) if len(points) > 1 else ""
        against = f", base against {side}" if what and any(row["n_new"] for row in found) else ""
        most_of_tree = None if overview is None else MOST_OF_TREE
        for tree in domain_tree(data["levels"], found, side, what, most_of_tree):
            yield _state_tree(tree, found)
        for level in dict.fromkeys(row["level"] for row in found):
            of_level = [row for row in found if row["level"] == level]
            ordered = _order(of_level, by_name=by_name, has_details=overview is not None)
            most = limit if overview is None else _most_rows(ordered, 0 if level else overview)
            shown += [row for row, _ in ordered[:most]]
            place = f"balancing and wakeups at {level}" if level else "CPUs"
            caption = f"{what}: {place}{against}" if what else place
            yield _table(caption, ordered, most)
    yield from explain_gaps(shown)
    yield from _refusals(cast("Sequence[Mapping[str, str]]", data["not_compared"]))
    yield from zeros_table(data["zeros"])
    yield from notes_below(merge_sides(cast("Sequence[str]", data["notes"])))


def _describe_side(side: Mapping[str, Any]) -> str:
    versions = " and ".join(map(str, side["versions"]))
    return f"{side['side']}: {count_of(side['runs'], 'run')}, schedstat version {versions}"


def _readings(data: Mapping[str, Any], rows: Sequence[Row]) -> Iterator[Block]:
    if not any(row["n_new"] for row in rows):
        return
    yield from lead(rows, _full_name)
    if data["readings"]:
        many = len({(one["workload"], one["point"]) for one in data["readings"]}) > 1
        yield Items(
            items=tuple(
                Item(
                    text=f"{_where(one, many=many)}{one['text']}",
                    detail=f"{one['meaning']} (rule {one['rule']})",
                    evidence=(f"schedstat#{one['row']}",),
                )
                for one in data["readings"]
            ),
            limit=MOST_READINGS,
        )
    else:
        yield Text(text="no finding is drawn from these counts", tone="muted")


def _where(reading: Mapping[str, str], *, many: bool) -> str:
    if not many:
        return ""
    return f"{reading['point'] or reading['workload']}: "


def _order(rows: Sequence[Row], *, by_name: bool, has_details: bool) -> Sequence[Pair]:
    # What may be noise stays in the order of the kernel: its size says nothing. A terminal opens
    # no rows, so twins are rows behind the others.
    if by_name:
        return [(row, ()) for row in rows]
    ordered = sorted(
        gather_twins(rows),
        key=lambda pair: (not pair[0]["changed"], distance(pair[0]) if pair[0]["changed"] else 0.0),
    )
    if has_details:
        return ordered
    twins = [twin for _, others in ordered for twin in others]
    return [(row, ()) for row in [*(row for row, _ in ordered), *twins]]


def _most_rows(pairs: Sequence[Pair], others: int) -> int:
    # What changed, and so many rows at least.
    changed = sum(bool(row["changed"]) for row, _ in pairs)
    return min(len(pairs), max(min(changed, MOST_CHANGED), others))


def _table(caption: str, pairs: Sequence[Pair], limit: int | None) -> Table:
    rows = [row for row, _ in pairs]
    if any(row["n_new"] for row in rows):
        return RATES.table(caption, pairs, limit=limit, least=LEAST_SHOWN)
    return Table(
        caption=caption,
        columns=_ALONE,
        rows=tuple(map(_alone, rows)),
        limit=limit,
        anchors=tuple(row["row"] for row in rows),
        details=tuple(opened(row, twins, _about(row)) for row, twins in pairs),
    )


def _state_tree(tree: Table, rows: Sequence[Row]) -> Table:
    # Its lines are levels, so the numbers in them are counted. A narrow screen keeps what changed
    # beside the name, or else what the balancer moved.
    told = [row for row in split_twins(rows)[0] if row["level"] and row["basis"] != "share"]
    changed = [
        any(cell.tone == "strong" for cell in cells) for cells in zip(*tree.rows, strict=True)
    ]
    is_first = [column.title == _FIRST_OF_TREE for column in tree.columns]
    shown = changed if any(changed[1:]) else is_first
    return replace(
        tree,
        caption=state_changes(tree.caption, told, _full_name),
        columns=tuple(
            column if place == 0 or shown[place] else replace(column, priority=1)
            for place, column in enumerate(tree.columns)
        ),
    )


def _name(row: Row) -> str:
    return f"{row['idle']} {row['field']}".strip()


def _full_name(row: Row) -> str:
    return f"{_name(row)} at {row['level']}" if row["level"] else _name(row)


def _about(row: Row) -> str:
    # The glossary: what one of it is, what counts it, and where it is another thing.
    field = FIELDS.get(row["field"])
    split = f"; {field.split}" if field is not None and field.split else ""
    counted = f", counted in {row['function']}" if row["function"] else ""
    return f"{_name(row)}: {row['meaning']}{counted}{split}"


RATES = Rates(
    first=_COUNT,
    name=_name,
    about=_about,
    more=(Column(title="what", priority=REFERENCE_PRIORITY),),
    more_cells=lambda row: (Cell(text=row["meaning"], tone=tone_of(row)),),
)


def _alone(row: Row) -> tuple[Cell, ...]:
    per, base, _ = describe_rate(row)
    return tuple(Cell(text=text) for text in (_name(row), per, base, row["meaning"]))


def _refusals(entries: Sequence[Mapping[str, str]]) -> Iterator[Block]:
    if not entries:
        return
    yield Items(
        items=tuple(
            Item(
                text=f"not compared: {one['what']} of {one['side']}: {one['reason']}", tone="muted"
            )
            for one in entries
        ),
        limit=MOST_REFUSALS,
    )
