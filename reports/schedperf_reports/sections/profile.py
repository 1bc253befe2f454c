"""Hot symbols: which functions took how much of the CPUs, base beside new, and on which node."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from schedperf.model import Comparison
from schedperf_reports._units import MISSING
from schedperf_reports._words import count_of
from schedperf_reports.blocks import Block, Cell, Column, Table, Text
from schedperf_reports.sections import report_section

# With base and one new side, a sentence need not say which new side it means.
MOST_UNNAMED_SIDES = 2
# Rows that a terminal shows of a point.
MOST_ROWS = 10

_DENOMINATORS = (
    "base and new: per cent of all samples of all CPUs, idle time included, as in perf report "
    "--no-children, averaged over runs; nodes: least and largest share of a NUMA node, each in "
    "per cent of that node's own samples without idle time; change in percentage points with "
    "its 95 % interval"
)
_SIDES = ("base", "new")

Entry = Mapping[str, Any]


@report_section("profile", title="Hot symbols", order=50)
def profile(comparison: Comparison) -> Iterator[Block]:
    """Yield what the samples rest on, then a table for each point."""
    section = comparison.sections.get("profile")
    if section is None or section.status != "ok":
        reason = None if section is None else section.reason
        yield Text(text=f"no hot symbols: {reason or 'they were not analysed'}", tone="muted")
        return
    # The section's own JSON Schema vouches for the shape.
    data: Any = section.data
    for compared in data["comparisons"]:
        if len(comparison.sides) > MOST_UNNAMED_SIDES:
            yield Text(text=f"{compared['side']} against base", tone="strong")
        for event in compared["events"]:
            yield from _describe_event(event)
        if compared["events"]:
            yield Text(text=_DENOMINATORS, tone="muted")
        for note in compared["notes"]:
            yield Text(text=note, tone="muted")
    for missing in data["missing"]:
        yield Text(text=missing["reason"], tone="muted")


def _describe_event(event: Entry) -> Iterator[Block]:
    sight = event["blind"]
    blind = [side for side in _SIDES if sight[side]]
    unknown = [side for side in _SIDES if sight[side] is None]
    if blind:
        yield Text(
            text=(
                f"{_where(blind)}recorded with {event['event']}, which is blind to most of the "
                f"scheduler: {event['blind_reason'][blind[0]]}. That update_cfs_group, "
                "update_load_avg or enqueue_task_fair are not in the table proves nothing"
            ),
            tone="warning",
        )
    elif unknown:
        yield Text(
            text=(
                f"{_where(unknown)}recorded with {event['event']}, and whether that sees code "
                f"that runs with interrupts off is not known: "
                f"{event['blind_reason'][unknown[0]]}"
            ),
            tone="warning",
        )
    else:
        yield Text(
            text=(
                f"recorded with {event['event']}, which sees code that runs with interrupts off "
                f"too: {event['blind_reason']['new']}"
            )
        )
    for point in event["points"]:
        yield _table(event["event"], point)
        changed = [row for row in point["rows"] if row["changed"]]
        if changed and len(changed[0]["new_nodes"]) > 1:
            yield _nodes_table(changed)
        if any(point["lost"].values()):
            lost = " in base and ".join(count_of(point["lost"][s], "record") for s in _SIDES)
            yield Text(text=f"lost while recording: {lost} in new", tone="warning")


def _where(sides: list[str]) -> str:
    return "" if len(sides) > 1 else f"{sides[0]} was "


def _table(event: str, point: Entry) -> Table:
    runs, samples, idle = point["runs"], point["samples"], point["idle"]
    place = f"{point['workload']} at {point['point']}" if point["point"] else point["workload"]
    hidden = point["symbols"] - len(point["rows"])
    more = f"; {hidden} colder symbols are left out" if hidden else ""
    return Table(
        caption=(
            f"{place}: {event}, n = {runs['base']} + {runs['new']} runs, "
            f"{samples['base']} + {samples['new']} samples, "
            f"idle {idle['base']:.1f} % in base and {idle['new']:.1f} % in new{more}"
        ),
        columns=(
            Column(title="symbol"),
            Column(title="base %", align="right"),
            Column(title="new %", align="right"),
            Column(title="change, pp", align="right"),
            Column(title="base, over nodes", align="right", priority=1),
            Column(title="new, over nodes", align="right", priority=1),
            Column(title="in", priority=2),
        ),
        rows=tuple(_cells(row) for row in point["rows"]),
        limit=MOST_ROWS,
        anchors=tuple(row["row"] for row in point["rows"]),
    )


def _nodes_table(rows: Sequence[Entry]) -> Table:
    # A narrow page has no room for these columns in the large table.
    return Table(
        caption=(
            f"{count_of(len(rows), 'scheduler function')} changed beyond chance; "
            "least and largest share of a node:"
        ),
        columns=(
            Column(title="symbol"),
            Column(title="base, over nodes", align="right"),
            Column(title="new, over nodes", align="right"),
            Column(title="q", align="right", priority=1),
        ),
        rows=tuple(
            (
                Cell(text=row["symbol"], tone="strong"),
                Cell(text=_over_nodes(row["base_range"], len(row["base_nodes"]))),
                Cell(text=_over_nodes(row["new_range"], len(row["new_nodes"]))),
                Cell(text=f"{row['q']:.2g}"),
            )
            for row in rows
        ),
        limit=MOST_ROWS,
    )


def _cells(row: Entry) -> tuple[Cell, ...]:
    name = f"{row['symbol']} (idle)" if row["idle"] else row["symbol"]
    return (
        Cell(text=name, tone="strong" if row["scheduler"] else "plain"),
        Cell(text=f"{row['base']:.2f}"),
        Cell(text=f"{row['new']:.2f}"),
        Cell(text=_change(row), tone="strong" if row["changed"] else "plain"),
        Cell(text=_over_nodes(row["base_range"], len(row["base_nodes"]))),
        Cell(text=_over_nodes(row["new_range"], len(row["new_nodes"]))),
        Cell(text=row["dso"], tone="muted"),
    )


def _change(row: Entry) -> str:
    change = f"{row['change_pp']:+.2f}"
    if row["ci_low"] is None:
        return change
    return f"{change} [{row['ci_low']:+.2f}..{row['ci_high']:+.2f}]"


def _over_nodes(ends: tuple[float, float] | None, nodes: int) -> str:
    if ends is None:
        return MISSING
    low, high = (f"{end:.2f} %" for end in ends)
    return low if nodes == 1 else f"{low} - {high}"
