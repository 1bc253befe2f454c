# SPDX-License-Identifier: GPL-2.0-or-later
"""Build tables of a profile comparison: shares, nodes, costs per operation, function classes."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from schedperf.evidence.profile.record import (
    MOST_NODES,
    SMALLEST_CHANGE_PP,
    CpuShares,
    ProfileChange,
    ProfileClassRow,
    ProfilePoint,
    ProfileRow,
    ProfileTest,
    Shares,
    ends_of_nodes,
    list_commands,
)
from schedperf.model.base_new import BaseNew
from schedperf.model.place import OTHER_LOAD
from schedperf.model.units import MISSING, RATE_DIGITS, Scale, cost_scale, scale_for
from schedperf.model.verdict import FALSE_DISCOVERY_RATE
from schedperf_reports.blocks import (
    REFERENCE_PRIORITY,
    SET_PRIORITY,
    Block,
    Cell,
    Column,
    Item,
    Items,
    Table,
)
from schedperf_reports.graphics.calls import Calls
from schedperf_reports.rates.cells import CHANGED
from schedperf_reports.words.quantities import format_p, format_points
from schedperf_reports.words.rows import count_of

# Rows that a terminal shows of a table.
MOST_ROWS = 10
# Node columns that a terminal has room for beside each other.
MOST_BESIDE = 3
# Changed rows that a caption lists; the table has all.
MOST_NAMED = 3
# Relative rounding error of floats; counts of samples differ by more.
FLOAT_NOISE = 1e-12

_OF_NODES = "base -> new on {where}, in % of the event's count there, idle excluded; mean over runs"
_OF_ALL = (
    "share of the event's count on all CPUs, idle included; samples are weighted by their period; "
    "mean over runs"
)
_SHARE_COLUMNS = (
    Column(title="base %", align="right", priority=1, explains=_OF_ALL),
    Column(title="new %", align="right", explains=_OF_ALL),
    Column(
        title="change, pp",
        align="right",
        explains="new - base, in percentage points; "
        f"{CHANGED}: significant (q < {FALSE_DISCOVERY_RATE:g} and a change of "
        f"{SMALLEST_CHANGE_PP:g} pp or more)",
    ),
    Column(title="95% CI", align="right", priority=1, explains="95% CI of the change"),
    Column(
        title="q",
        align="right",
        priority=2,
        explains="p after correction for multiple testing (all tested rows of the table); -: not "
        "tested, for the reason in the caption",
    ),
)

_CLASS_COLUMN = Column(
    title="class",
    priority=REFERENCE_PRIORITY,
    explains='purpose of the function; "scheduler" marks functions of kernel/sched/',
)

AnyRow = ProfileRow | ProfileClassRow


def shares_table(
    event: str, point: ProfilePoint, calls: Mapping[tuple[str, str], Calls] | None = None
) -> Table:
    """Return the table of symbols: their shares of the event's count on all CPUs, and the changes.

    :param calls: callers and callees by symbol and file, for the details of the rows; None without
        call stacks
    """
    hidden = point.symbols - len(point.rows)
    more = f"; {hidden} symbols with smaller shares omitted" if hidden else ""
    nodes = _nodes_of(point.rows)
    rows = point.rows
    # If nothing changed, no rows are hidden.
    has_changed = any(row.changed for row in rows)
    return Table(
        caption=f"{describe_point(event, point)}; {_state_changes(rows)}{more}",
        columns=(
            Column(title="symbol", code=True),
            *_SHARE_COLUMNS,
            _CLASS_COLUMN,
            *_node_columns(nodes, priority=SET_PRIORITY),
        ),
        rows=tuple(_share_row(row, nodes) for row in rows),
        limit=MOST_ROWS,
        anchors=tuple(row.row for row in rows),
        quiet=tuple(
            has_changed and not row.changed and index >= MOST_ROWS for index, row in enumerate(rows)
        ),
        quiet_word="colder, unchanged",
        details=tuple(_describe_place(row, point, calls or {}) for row in rows),
    )


def _describe_place(
    row: ProfileRow, point: ProfilePoint, calls: Mapping[tuple[str, str], Calls]
) -> tuple[Block, ...]:
    # Details of a symbol: its file, why it has no q, its spread over CPUs and nodes, and its calls.
    kind = f", class: {row.class_}" if row.class_ else ""
    facts = [f"binary: {row.dso}{kind}"]
    if row.symbol == OTHER_LOAD.symbol:
        facts = [f"command, in % of the busy time: {each}" for each in list_commands(point.others)]
    facts += [f"not tested: {_why_untested(row)}"] if row.share.q is None else []
    facts += [
        f"{side} share by CPU: {_over_cpus(cpus)} CPUs"
        for side, cpus in row.cpus.items()
        if cpus is not None
    ]
    if len(_nodes_of([row])) > MOST_NODES:
        facts += [
            f"{side} share by node: {_list_nodes(nodes)}" for side, nodes in row.nodes.items()
        ]
    of_row = calls.get((row.symbol, row.dso))
    items = Items(items=tuple(Item(text=fact) for fact in facts))
    return (items,) if of_row is None else (items, of_row)


def describe_point(event: str, point: ProfilePoint) -> str:
    """Return workload, event, number of runs and samples, and idle share."""
    runs, samples, busy = point.runs, point.samples, point.busy
    title = f"{point.workload} at {point.point}" if point.point else point.workload
    boots = " (unit of replication: boot)" if point.independent == "boots" else ""
    return (
        f"{title}: {event}, n = {runs.base} + {runs.new} runs{boots}, "
        f"{samples.base} + {samples.new} samples, "
        f"idle {100.0 - busy.base:.1f}% in base and {100.0 - busy.new:.1f}% in new"
    )


def nodes_table(rows: Sequence[ProfileRow], caption: str) -> Table:
    """Return the table of the shares on each node, one row per symbol.

    With more than ``MOST_NODES`` nodes, it has the largest and the smallest share only. A narrow
    page has no room for these columns in the table of :func:`shares_table`.
    """
    nodes = _nodes_of(rows)
    only = [_describe_where(row) for row in rows]
    where = (Column(title="changed on", priority=1),) if any(only) else ()
    return Table(
        caption=caption,
        columns=(
            Column(title="symbol", code=True),
            *_node_columns(nodes, priority=0),
            *where,
            Column(title="q", align="right", priority=2),
        ),
        rows=tuple(
            (
                Cell(text=row.name, tone="strong" if row.changed else "plain"),
                *_node_cells(row, nodes),
                *(Cell(text=text) for _ in where),
                Cell(text=format_p(row.share.q)),
            )
            for row, text in zip(rows, only, strict=True)
        ),
        limit=MOST_ROWS,
        quiet=tuple(False for _ in rows),
        repeated=1 if len(nodes) > MOST_BESIDE else 0,
    )


def hottest_nodes_table(point: ProfilePoint) -> Table | None:
    """Return the node shares of changed symbols and of the hottest scheduler functions.

    Return None for a single node, or without such symbols.
    """
    changed = [row for row in point.rows if row.changed]
    room = max(MOST_ROWS - len(changed), 0)
    others = [row for row in point.rows if _is_hot_scheduler(row) and not row.changed][:room]
    if not _nodes_of([*changed, *others]):
        return None
    return nodes_table(
        [*changed, *others],
        f"{_name_rows(len(changed), len(others))}: base -> new on each NUMA node, in % of the "
        "event's count on that node, idle excluded",
    )


def _is_hot_scheduler(row: ProfileRow) -> bool:
    # Without a q, the event may not sample it.
    return row.scheduler and not row.idle and row.share.q is not None


def _name_rows(changed: int, others: int) -> str:
    if not changed:
        return f"{count_of(others, 'scheduler function')} without a significant change in share"
    and_others = f" and {count_of(others, 'other scheduler function')}" if others else ""
    return (
        f"{count_of(changed, 'function')} with a significant change in share{and_others}, summed "
        "over all call paths"
    )


def costs_table(point: ProfilePoint) -> Table | None:
    """Return the costs per operation, largest change first; None if they are unknown."""
    costs = [(row, row.cost) for row in point.rows if not row.idle and row.cost is not None]
    operations = point.operations
    if not costs or operations is None or point.cost_unit is None:
        return None
    scale = cost_scale(
        point.cost_unit, *(mean for _, cost in costs for mean in (cost.base, cost.new))
    )
    about = "" if operations.exact else " (estimated as printed rate times run time)"
    ranked = sorted(costs, key=lambda symbol_cost: -abs(symbol_cost[1].change))
    count = scale_for("count", operations.base)
    totals = tuple(_total_row(point.busy_cost, scale))
    rows = (*totals, *(_cost_row(row, cost, scale) for row, cost in ranked))
    return Table(
        caption=(
            f"cost in {scale.unit}, without idle time: "
            f"{count.format(operations.base)}{count.unit} {operations.unit}s per run{about}; "
            f"{_state_costs(ranked, scale)}"
        ),
        columns=(
            Column(title="symbol", code=True),
            Column(title="base", align="right"),
            Column(title="new", align="right"),
            Column(
                title="change",
                align="right",
                explains=f"{CHANGED}: significant (q < {FALSE_DISCOVERY_RATE:g})",
            ),
            Column(title="95% CI", align="right", priority=1),
            Column(title="q", align="right", priority=2),
        ),
        rows=rows,
        limit=MOST_ROWS,
        quiet=(*(False for _ in totals), *(not _is_changed_cost(cost) for _, cost in ranked)),
    )


def classes_table(point: ProfilePoint) -> Table | None:
    """Return the table of function classes, hottest first; None if there are none."""
    rows = point.classes
    if not rows:
        return None
    nodes = _nodes_of(rows)
    return Table(
        caption=f"by function class (classes do not overlap): {_state_changes(rows)}",
        columns=(
            Column(title="class"),
            *_SHARE_COLUMNS,
            *_node_columns(nodes, priority=SET_PRIORITY),
            Column(title="largest changes", priority=REFERENCE_PRIORITY, code=True),
        ),
        rows=tuple(_class_row(row, nodes, point) for row in rows),
        limit=MOST_ROWS,
        # A page folds it if no row changed.
        quiet=tuple(False for _ in rows),
        anchors=tuple(row.row for row in rows),
    )


def _state_changes(rows: Sequence[AnyRow]) -> str:
    # How many shares changed, and the largest changes, for a caption.
    changed = [row for row in rows if row.changed]
    changed.sort(key=lambda row: -abs(row.share.change))
    names = [f"{_name_of(row)} {row.share.change:+.2f} pp" for row in changed]
    untested = Counter(_why_untested(row) for row in rows if row.share.q is None)
    return _count_changes(names, len(rows), untested)


def _name_of(row: AnyRow) -> str:
    return row.name if isinstance(row, ProfileRow) else row.class_


def _why_untested(row: AnyRow) -> str:
    # The rules of schedperf.evidence.profile.family; classes are tested whatever their share.
    share = row.share
    if isinstance(row, ProfileRow) and row.idle:
        return "idle time"
    if isinstance(row, ProfileRow) and share.base + share.new < SMALLEST_CHANGE_PP:
        return f"share below {SMALLEST_CHANGE_PP:g}% (sum of base and new)"
    if share.ci_low is None:
        return "no CI, because a side has one run or all runs have the same value"
    return "time with interrupts off is attributed to it"


def _without_noise(cost: ProfileChange) -> float:
    # Ignore a rounding difference of two sums of floats.
    are_equal = math.isclose(cost.base, cost.new, rel_tol=FLOAT_NOISE)
    return 0.0 if are_equal else cost.change


def _state_costs(ranked: Sequence[tuple[ProfileRow, ProfileTest]], scale: Scale) -> str:
    names = [
        f"{row.name} {scale.format_change(cost.change, RATE_DIGITS)}"
        for row, cost in ranked
        if _is_changed_cost(cost)
    ]
    untested = Counter(_why_untested(row) for row, cost in ranked if cost.q is None)
    return _count_changes(names, len(ranked), untested)


def _count_changes(names: Sequence[str], rows: int, untested: Counter[str]) -> str:
    # The largest changes by name, and the number of untested rows.
    more = [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
    listed = ", ".join([*names[:MOST_NAMED], *more])
    left = untested.total()
    if len(untested) == 1:
        why = next(iter(untested))
    else:
        why = ", ".join(f"{reason} ({count})" for reason, count in untested.most_common())
    if rows and left == rows:
        return f"none of {count_of(rows, 'row')} was tested for significance ({why})"
    count = count_of(rows - left, "tested row") if left else count_of(rows, "row")
    text = f"{len(names)} of {count} changed significantly"
    text = f"{text}: {listed}" if listed else text
    return f"{text}; {left} not tested: {why}" if left else text


def format_cost(value: float, unit: str) -> str:
    """Format a cost with its unit: ``1.25 us per message``."""
    scale = cost_scale(unit, value)
    return f"{scale.format(value)} {scale.unit}"


def _share_row(row: ProfileRow, nodes: Sequence[int]) -> tuple[Cell, ...]:
    name = f"{row.name} (idle)" if row.idle else row.name
    if row.base_symbol is not None:
        name = f"{name} ({row.base_symbol} in base)"
    return (
        Cell(text=name, tone="strong" if row.changed else "plain"),
        *_share_cells(row),
        Cell(text=_class_of(row), tone="muted"),
        *_node_cells(row, nodes),
    )


def _class_of(row: ProfileRow) -> str:
    kind = row.class_ or ""
    is_said = not row.scheduler or kind.startswith("scheduler")
    return kind if is_said else f"scheduler: {kind}".removesuffix(": ")


def _class_row(row: ProfileClassRow, nodes: Sequence[int], point: ProfilePoint) -> tuple[Cell, ...]:
    is_other = row.class_ == OTHER_LOAD.symbol
    functions = (
        ", ".join(list_commands(point.others))
        if is_other
        else ", ".join(f"{function.name} {function.change:+.2f}" for function in row.functions)
    )
    return (
        Cell(text=row.class_, tone="strong" if row.changed else "plain"),
        *_share_cells(row),
        *_node_cells(row, nodes),
        Cell(text=functions, tone="muted"),
    )


def _share_cells(row: AnyRow) -> tuple[Cell, ...]:
    share = row.share
    return (
        Cell(text=f"{share.base:.2f}"),
        Cell(text=f"{share.new:.2f}"),
        Cell(
            text=_marked(f"{share.change:+.2f}", is_changed=row.changed),
            tone="strong" if row.changed else "plain",
            sort=share.change,
        ),
        Cell(text=format_points(share.ci_low, share.ci_high)),
        Cell(text=format_p(share.q)),
    )


def _total_row(busy: ProfileChange | None, scale: Scale) -> tuple[tuple[Cell, ...], ...]:
    if busy is None:
        return ()
    return (
        (
            Cell(text="all but idle and other load"),
            *_cost_cells(busy, scale, is_changed=False),
            Cell(text=""),
        ),
    )


def _cost_row(row: ProfileRow, cost: ProfileTest, scale: Scale) -> tuple[Cell, ...]:
    is_changed = _is_changed_cost(cost)
    return (
        Cell(text=row.name, tone="strong" if is_changed else "plain"),
        *_cost_cells(cost, scale, is_changed=is_changed),
        Cell(text=format_p(cost.q)),
    )


def _is_changed_cost(cost: ProfileTest) -> bool:
    is_sure = cost.q is not None and cost.q < FALSE_DISCOVERY_RATE
    return is_sure and _without_noise(cost) != 0.0


def _marked(change: str, *, is_changed: bool) -> str:
    return f"{CHANGED} {change}" if is_changed else change


def _cost_cells(cost: ProfileChange, scale: Scale, *, is_changed: bool) -> tuple[Cell, ...]:
    ends = [cost.ci_low, cost.ci_high]
    bounds = [scale.format_change(end, RATE_DIGITS) for end in ends if end is not None]
    return (
        Cell(text=scale.format(cost.base, RATE_DIGITS)),
        Cell(text=scale.format(cost.new, RATE_DIGITS)),
        Cell(
            text=_marked(
                scale.format_change(_without_noise(cost), RATE_DIGITS), is_changed=is_changed
            ),
            sort=cost.change,
        ),
        Cell(text=f"[{', '.join(bounds)}]" if bounds else MISSING),
    )


def _nodes_of(rows: Iterable[AnyRow]) -> tuple[int, ...]:
    # () for a single node, whose shares are those of all CPUs.
    nodes = sorted({node for row in rows for shares in row.nodes for node in shares})
    return tuple(nodes) if len(nodes) > 1 else ()


def _node_columns(nodes: Sequence[int], *, priority: int) -> tuple[Column, ...]:
    """Return a column per node.

    With more than ``MOST_NODES`` nodes, return two columns: for the node with the largest and for
    that with the smallest share of a row.
    """
    if len(nodes) > MOST_NODES:
        where = {
            "most on, %": "the node with the largest share (mean of base and new)",
            "least on, %": "the node with the smallest share (mean of base and new)",
        }
    else:
        where = {f"node {node}, %": f"NUMA node {node}" for node in nodes}
    return tuple(
        Column(title=title, align="right", priority=priority, explains=_OF_NODES.format(where=node))
        for title, node in where.items()
    )


def _node_cells(row: AnyRow, nodes: Sequence[int]) -> Iterator[Cell]:
    if len(nodes) <= MOST_NODES:
        yield from (_node_cell(row.nodes, node) for node in nodes)
        return
    ends = ends_of_nodes(row.nodes)
    for node in (None, None) if ends is None else ends:
        yield Cell(text=MISSING) if node is None else _node_cell(row.nodes, node, f"node {node} ")


def _node_cell(shares: BaseNew[Shares], node: int, name: str = "") -> Cell:
    base, new = (side.get(node) for side in shares)
    if base is None and new is None:
        return Cell(text=MISSING, sort=math.nan)
    written = (MISSING if share is None else f"{share:.2f}" for share in (base, new))
    change = math.nan if base is None or new is None else new - base
    return Cell(text=f"{name}{' -> '.join(written)}", sort=change)


def _describe_where(row: ProfileRow) -> str:
    return "" if row.one_node is None else f"node {row.one_node} only"


def _list_nodes(shares: Shares) -> str:
    return ", ".join(f"node {node} {share:.2f}%" for node, share in shares.items())


def _over_cpus(spread: CpuShares) -> str:
    return f"{spread.least:.2f}% - {spread.largest:.2f}% over {spread.cpus}"
