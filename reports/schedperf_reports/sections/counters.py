"""Counters: what the machine counted in a run, base against new."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from schedperf.model import Comparison
from schedperf.quantities import format_measure
from schedperf_reports._units import format_change, format_interval
from schedperf_reports._words import count_changes, count_of, merge_sides
from schedperf_reports.blocks import REFERENCE_PRIORITY, Block, Cell, Column, Table, Text, Tone
from schedperf_reports.sections import report_section

Row = Mapping[str, Any]

# A terminal shows the events that changed, and some others to judge them by.
MOST_ROWS = 6
# More notes than these repeat each other.
MOST_NOTES = 5

COLUMNS = (
    Column(title="event", code=True),
    Column(title="per", priority=1),
    Column(title="base", align="right"),
    Column(title="new", align="right"),
    Column(title="change", align="right"),
    Column(title="95 % CI", align="right", priority=2),
    Column(title="n", align="right", priority=REFERENCE_PRIORITY),
    Column(title="base, a run", align="right", priority=REFERENCE_PRIORITY),
    Column(title="new, a run", align="right", priority=REFERENCE_PRIORITY),
)


@report_section("counters", title="Counters", order=30, is_analysis=True)
def counters(comparison: Comparison) -> Iterator[Block]:
    """Show the counts of each workload and point, and what could not be counted."""
    section = comparison.sections.get("counters")
    if section is None or section.data is None:
        reason = None if section is None else section.reason
        yield Text(text=reason or "not analysed", tone="muted")
        return
    data: Any = section.data
    yield Text(text="; ".join(_describe_side(side) for side in data["sides"]), tone="muted")
    rows = cast("Sequence[Row]", data["rows"])
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["side"], row["workload"], row["point"]), []).append(row)
    for (side, workload, point), found in groups.items():
        yield _table(side, f"{workload} at {point}" if point else workload, found)
    if rows:
        text = f"means over runs; {count_changes(rows)}; more is neither better nor worse"
        yield Text(text=text, tone="muted")
    if data["zeros"]:
        yield Text(text=f"0 in all runs: {', '.join(data['zeros'])}", tone="muted")
    yield from _not_counted(data["not_counted"])
    for one in data["missing"]:
        yield Text(text=f"nothing counted in {one['side']}: {one['reason']}", tone="muted")
    yield from _notes(merge_sides(data["notes"]))


def _describe_side(side: Mapping[str, Any]) -> str:
    kind = f"{side['kind']} run"
    return f"{side['side']}: {count_of(side['runs'], kind)}"


def _table(side: str, what: str, rows: Sequence[Row]) -> Table:
    ordered = sorted(rows, key=_interest)
    return Table(
        caption=f"{what}: events, base against {side}",
        columns=COLUMNS,
        rows=tuple(_cells(row) for row in ordered),
        limit=MOST_ROWS,
        anchors=tuple(row["row"] for row in ordered),
    )


def _interest(row: Row) -> tuple[bool, bool, bool]:
    # What an operation costs tells more than what happened in a second, which depends on how
    # many operations fit into it; the whole machine tells more than one of its nodes.
    return row["basis"] != "operation", row["node"] is not None, not row["changed"]


def _cells(row: Row) -> tuple[Cell, ...]:
    counted = str(row["unit"]).partition("/")[0]
    node = "" if row["node"] is None else f" (node {row['node']})"
    texts = (
        f"{row['event']}{node}{' (estimated)' if row['scaled'] else ''}",
        _per(row),
        *_pair(row["base"], row["new"], row["unit"]),
        format_change(row["ratio"]),
        format_interval(row["ci_low"], row["ci_high"]),
        _count_values(row),
        *_pair(row["total_base"], row["total_new"], counted),
    )
    tone: Tone = "strong" if row["changed"] else "plain"
    return tuple(Cell(text=text, tone=tone) for text in texts)


def _pair(base: float | None, new: float | None, unit: str) -> tuple[str, str]:
    return format_measure(base, unit, new), format_measure(new, unit, base)


def _per(row: Row) -> str:
    per = str(row["unit"]).partition("/")[2]
    return "second" if per == "s" else per


def _count_values(row: Row) -> str:
    # A round has a value of both sides, so rounds are one number.
    if row["replication"] == "rounds":
        return f"{row['n_base']} rounds"
    return f"{row['n_base']} + {row['n_new']} {row['replication']}"


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
        yield Text(text=count_of(len(notes) - MOST_NOTES, "more note"), tone="warning")
