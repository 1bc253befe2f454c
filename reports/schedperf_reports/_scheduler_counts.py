"""What the scheduler counted, as blocks: readings first, then one table a level."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from schedperf_reports._rate_cells import (
    change_of,
    describe_rate,
    explain_gaps,
    interval_of,
    split_twins,
    zeros_table,
)
from schedperf_reports._words import count_changes, count_of, merge_sides
from schedperf_reports.blocks import (
    REFERENCE_PRIORITY,
    Block,
    Cell,
    Column,
    Item,
    Items,
    Table,
    Text,
    Tone,
)

Row = Mapping[str, Any]

MOST_READINGS = 8
MOST_REFUSALS = 6
# Of a table of one level; the page has all.
MOST_CHANGED = 10
# More notes than these repeat each other.
MOST_NOTES = 5

# With these a table compares two sides; of one side alone the values are left.
_COUNT = (Column(title="count", code=True), Column(title="per", priority=1))
_COMPARED = (
    *_COUNT,
    Column(title="base", align="right"),
    Column(title="new", align="right"),
    Column(title="change", align="right"),
    Column(title="95 % CI", align="right", priority=2),
    Column(title="n", align="right", priority=REFERENCE_PRIORITY),
    Column(title="what", priority=REFERENCE_PRIORITY),
)
_ALONE = (*_COUNT, Column(title="value", align="right"), Column(title="what", priority=1))


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
    yield Text(text="; ".join(_describe_side(side) for side in data["sides"]), tone="muted")
    yield from _readings(data, rows)
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        key = tuple(row[name] for name in ("side", "workload", "point", "level"))
        groups.setdefault(key, []).append(row)
    shown: list[Row] = []
    has_others = len({key[:-1] for key in groups}) > 1
    for (side, workload, point, level), found in groups.items():
        ordered = found if by_name else _order(found)
        most = limit if overview is None else _most_rows(ordered, 0 if level else overview)
        shown += ordered[:most]
        what = f"{workload} at {point}" if point else workload
        yield _table(side, what if has_others else "", level, ordered, most)
    yield from explain_gaps(shown)
    yield from _refusals(cast("Sequence[Mapping[str, str]]", data["not_compared"]))
    yield from zeros_table(data["zeros"])
    notes = merge_sides(cast("Sequence[str]", data["notes"]))
    for note in notes[:MOST_NOTES]:
        yield Text(text=note, tone="warning")
    if len(notes) > MOST_NOTES:
        yield Text(text=count_of(len(notes) - MOST_NOTES, "more note"), tone="warning")


def _describe_side(side: Mapping[str, Any]) -> str:
    versions = " and ".join(map(str, side["versions"]))
    return f"{side['side']}: {count_of(side['runs'], 'run')}, schedstat version {versions}"


def _readings(data: Mapping[str, Any], rows: Sequence[Row]) -> Iterator[Block]:
    if not any(row["n_new"] for row in rows):
        return
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
        yield Text(text=f"no rule reads a change: {count_changes(split_twins(rows)[0])}")


def _where(reading: Mapping[str, str], *, many: bool) -> str:
    if not many:
        return ""
    return f"{reading['point'] or reading['workload']}: "


def _order(rows: Sequence[Row]) -> list[Row]:
    main, twins = split_twins(rows)
    return [*sorted(main, key=_interest), *twins]


def _most_rows(rows: Sequence[Row], others: int) -> int:
    # What changed, and so many rows at least.
    main = split_twins(rows)[0]
    changed = sum(bool(row["changed"]) for row in main)
    return min(len(main), max(min(changed, MOST_CHANGED), others))


def _interest(row: Row) -> tuple[bool, float]:
    # What may be noise stays in the order of the kernel: its size says nothing.
    if not row["changed"]:
        return True, 0.0
    return False, -abs(math.log(row["ratio"])) if row["ratio"] else -math.inf


def _table(side: str, what: str, level: str, rows: Sequence[Row], limit: int | None) -> Table:
    is_compared = any(row["n_new"] for row in rows)
    place = f"balancing and wakeups at {level}" if level else "CPUs"
    against = f", base against {side}" if is_compared and what else ""
    return Table(
        caption=f"{what}: {place}{against}" if what else place,
        columns=_COMPARED if is_compared else _ALONE,
        rows=tuple(_compared(row) if is_compared else _alone(row) for row in rows),
        limit=limit,
        anchors=tuple(row["row"] for row in rows),
    )


def _name(row: Row) -> str:
    return f"{row['idle']} {row['field']}".strip()


def _compared(row: Row) -> tuple[Cell, ...]:
    texts = (
        _name(row),
        *describe_rate(row),
        change_of(row),
        interval_of(row),
        f"{row['n_base']} + {row['n_new']}",
        row["meaning"],
    )
    tone: Tone = "strong" if row["changed"] else "plain"
    return tuple(Cell(text=text, tone=tone) for text in texts)


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
