"""Counters: what the machine counted in a run, base against new."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from schedperf.model import Comparison
from schedperf_reports._units import MISSING, format_change, format_interval, scale_for
from schedperf_reports._words import merge_sides
from schedperf_reports.blocks import REFERENCE_PRIORITY, Block, Cell, Column, Table, Text
from schedperf_reports.sections import report_section

Row = Mapping[str, Any]

# A terminal shows the events that changed, and some others to judge them by.
MOST_ROWS = 6
# More notes than these repeat each other.
MOST_NOTES = 5

COLUMNS = (
    Column(title="event", code=True),
    Column(title="base", align="right"),
    Column(title="new", align="right"),
    Column(title="change", align="right"),
    Column(title="95 % CI", align="right", priority=1),
    Column(title="change a second", align="right", priority=REFERENCE_PRIORITY),
    Column(title="runs", align="right", priority=REFERENCE_PRIORITY),
)


@report_section("counters", title="Counters", order=30)
def counters(comparison: Comparison) -> Iterator[Block]:
    """Show the counts of each workload and point, and what could not be counted."""
    section = comparison.sections.get("counters")
    if section is None or section.data is None:
        reason = None if section is None else section.reason
        yield Text(text=reason or "not analysed", tone="muted")
        return
    rows = cast("Sequence[Row]", section.data["rows"])
    for group in dict.fromkeys((row["side"], row["workload"], row["point"]) for row in rows):
        side, workload, point = group
        found = [row for row in rows if (row["side"], row["workload"], row["point"]) == group]
        yield _table(side, f"{workload} at {point}" if point else workload, found)
    yield Text(
        text="counts of the whole machine, means over the instrumented runs; more is neither "
        "better nor worse",
        tone="muted",
    )
    yield from _not_counted(cast("Sequence[Mapping[str, str]]", section.data["not_counted"]))
    yield from _notes(merge_sides(cast("Sequence[str]", section.data["notes"])))


def _table(side: str, what: str, rows: Sequence[Row]) -> Table:
    return Table(
        caption=f"{what}: events in a run, base against {side}",
        columns=COLUMNS,
        rows=tuple(_cells(row) for row in sorted(rows, key=_interest)),
        limit=MOST_ROWS,
    )


def _interest(row: Row) -> tuple[bool, bool]:
    # The whole machine before its nodes, what changed beyond chance before what may not have.
    low, high = row["total"]["ci_low"], row["total"]["ci_high"]
    return row["node"] is not None, low is None or low <= 0.0 <= high


def _cells(row: Row) -> tuple[Cell, ...]:
    total, rate = row["total"], row["per_second"]
    scale = scale_for(row["unit"], total["base"], total["new"])
    unit = f" {scale.unit}" if scale.unit else ""
    node = "" if row["node"] is None else f" (node {row['node']})"
    texts = (
        f"{row['event']}{node}{' (estimated)' if row['scaled'] else ''}",
        *(
            f"{scale.format(value)}{unit}" if value else MISSING if value is None else "0"
            for value in (total["base"], total["new"])
        ),
        format_change(total["ratio"]),
        _interval(total),
        format_change(rate["ratio"]),
        f"{row['n_base']} + {row['n_new']}",
    )
    return tuple(Cell(text=text) for text in texts)


def _interval(change: Mapping[str, float | None]) -> str:
    base, low, high = change["base"], change["ci_low"], change["ci_high"]
    if not base or low is None or high is None:
        return MISSING
    return format_interval(1.0 + low / base, 1.0 + high / base)


def _not_counted(entries: Sequence[Mapping[str, str]]) -> Iterator[Block]:
    # One sentence a reason: most events fail for the same one, and on all sides.
    sides: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        sides.setdefault((entry["event"], entry["reason"]), []).append(entry["side"])
    events: dict[tuple[str, str], list[str]] = {}
    for (event, reason), where in sides.items():
        events.setdefault((" and ".join(dict.fromkeys(where)), reason), []).append(event)
    for (place, reason), names in events.items():
        yield Text(text=f"not counted in {place} ({reason}): {', '.join(names)}", tone="muted")


def _notes(notes: Sequence[str]) -> Iterator[Block]:
    for note in notes[:MOST_NOTES]:
        yield Text(text=note, tone="warning")
    if len(notes) > MOST_NOTES:
        yield Text(text=f"{len(notes) - MOST_NOTES} more notes", tone="warning")
