"""Hot symbols: which functions took how much of the CPUs, base beside new, and on which node."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from schedperf.model import Comparison
from schedperf_reports._units import MISSING
from schedperf_reports._words import count_of, merge_sides
from schedperf_reports.blocks import REFERENCE_PRIORITY, Block, Cell, Column, Table, Text
from schedperf_reports.sections import report_section

# With base and one new side, a sentence need not say which new side it means.
MOST_UNNAMED_SIDES = 2
# Rows that a terminal shows of a point.
MOST_ROWS = 10

_DENOMINATORS = (
    "base %, new %: of all samples of all CPUs, idle included, as in perf report --no-children, "
    "mean of the runs; change and interval in percentage points"
)
_BY_NODE = (
    "by node: least and largest share of a NUMA node, each of that node's own samples without idle"
)
_SIDES = ("base", "new")

_NODE_COLUMNS = (
    Column(title="base by node", align="right", priority=REFERENCE_PRIORITY),
    Column(title="new by node", align="right", priority=REFERENCE_PRIORITY),
)

Entry = Mapping[str, Any]


@report_section("profile", title="Hot symbols", order=50)
def profile(comparison: Comparison) -> Iterator[Block]:
    """Yield what the samples rest on, then a table for each point."""
    section = comparison.sections.get("profile")
    if section is None or section.status != "ok":
        reason = None if section is None else section.reason
        yield Text(text=reason or "not analysed", tone="muted")
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
        if any(_has_nodes(point) for event in compared["events"] for point in event["points"]):
            yield Text(text=_BY_NODE, tone="muted")
        for note in merge_sides(compared["notes"]):
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
                f"{_where(blind)}recorded with {event['event']}, blind to most of the scheduler: "
                f"{event['blind_reason'][blind[0]]}; that update_cfs_group, update_load_avg or "
                "enqueue_task_fair are missing below proves nothing"
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
            Column(title="symbol", code=True),
            Column(title="base %", align="right"),
            Column(title="new %", align="right"),
            Column(title="change, pp", align="right"),
            Column(title="95 % CI", align="right", priority=1),
            *(_NODE_COLUMNS if _has_nodes(point) else ()),
            Column(title="object", priority=REFERENCE_PRIORITY, code=True),
        ),
        rows=tuple(_cells(row, with_nodes=_has_nodes(point)) for row in point["rows"]),
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
            Column(title="symbol", code=True),
            Column(title="base by node", align="right"),
            Column(title="new by node", align="right"),
            Column(title="q", align="right", priority=1),
        ),
        rows=tuple(
            (
                Cell(text=row["symbol"], tone="strong"),
                *_node_cells(row),
                Cell(text=f"{row['q']:.2g}"),
            )
            for row in rows
        ),
        limit=MOST_ROWS,
    )


def _cells(row: Entry, *, with_nodes: bool) -> tuple[Cell, ...]:
    name = f"{row['symbol']} (idle)" if row["idle"] else row["symbol"]
    return (
        Cell(text=name, tone="strong" if row["scheduler"] else "plain"),
        Cell(text=f"{row['base']:.2f}"),
        Cell(text=f"{row['new']:.2f}"),
        Cell(text=f"{row['change_pp']:+.2f}", tone="strong" if row["changed"] else "plain"),
        Cell(text=_interval(row)),
        *(_node_cells(row) if with_nodes else ()),
        Cell(text=row["dso"], tone="muted"),
    )


def _has_nodes(point: Entry) -> bool:
    # On one node the range is a single share.
    return any(len(row[f"{side}_nodes"]) > 1 for row in point["rows"] for side in _SIDES)


def _node_cells(row: Entry) -> tuple[Cell, ...]:
    return tuple(
        Cell(text=_over_nodes(row[f"{side}_range"], len(row[f"{side}_nodes"]))) for side in _SIDES
    )


def _interval(row: Entry) -> str:
    if row["ci_low"] is None:
        return MISSING
    return f"{row['ci_low']:+.2f}..{row['ci_high']:+.2f}"


def _over_nodes(ends: tuple[float, float] | None, nodes: int) -> str:
    if ends is None:
        return MISSING
    low, high = (f"{end:.2f} %" for end in ends)
    return low if nodes == 1 else f"{low} - {high}"
