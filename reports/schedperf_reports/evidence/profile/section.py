# SPDX-License-Identifier: GPL-2.0-or-later
"""Report hot symbols: CPU share of each function in base and new, in total and by node."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap

from msgspec import Struct

from schedperf.evidence.profile.flame_record import (
    FlameComparison,
    FlameTrees,
    place_of_tree,
)
from schedperf.evidence.profile.record import (
    ExplainedChange,
    Profile,
    ProfileClassRow,
    ProfileComparison,
    ProfileEvent,
    ProfilePoint,
    blind_anchor,
    explained_anchor,
)
from schedperf.model.base_new import BASE
from schedperf.model.comparison import Comparison
from schedperf.model.place import name_frame
from schedperf.model.sections import Finding, data_of
from schedperf.model.text import clean_line
from schedperf_reports.blocks import Block, Cell, Column, Item, Items, Table, Text, Tone
from schedperf_reports.evidence.profile._tables import (
    classes_table,
    costs_table,
    format_cost,
    hottest_nodes_table,
    shares_table,
)
from schedperf_reports.graphics.calls import Calls, index_calls
from schedperf_reports.graphics.flames import (
    Flames,
    Sum,
    caption_of_trees,
    describe_flames,
)
from schedperf_reports.sections import record_of, report_section
from schedperf_reports.words.rows import count_of, merge_boots, merge_sides
from schedperf_reports.words.states import State

# With base and one new side, a sentence need not say which new side it means.
MOST_UNNAMED_SIDES = 2

_DENOMINATORS = (
    "base %, new %: share of the event's count on all CPUs, idle included, as in perf report "
    "--no-children (samples weighted by their period); mean over runs; change and CI in percentage "
    "points; *: significant"
)
_BY_NODE = (
    "node 0, node 1, …: base -> new share on a NUMA node, in % of the event's count on that node, "
    "idle excluded"
)
# Anchor of the first row, the target of the link in the warning above the tables.
_BASIS = "samples"


def _state(comparison: Comparison) -> State | None:
    data = data_of(comparison.sections, Profile)
    if data is None:
        return None
    events = [event for compared in data.comparisons for event in compared.events]
    rows = [row for event in events for point in event.points for row in point.rows]
    is_tested = any(row.share.q is not None for row in rows)
    return State(
        changed=sum(bool(row.changed) for row in rows) if is_tested else None,
        total=len(rows),
        noun="function",
        note=""
        if all(event.sees_kernel for event in events)
        else "code with interrupts off not sampled",
    )


@report_section(
    "profile",
    title="Hot symbols",
    chapter="profile",
    order=10,
    is_analysis=True,
    mail_rows=8,
    state=_state,
)
def profile(comparison: Comparison) -> Iterator[Block]:
    """Yield what was sampled, the flame graph, then the tables of each point."""
    data = record_of(comparison, Profile)
    if isinstance(data, Text):
        yield data
        return
    is_first = True
    figures = 0
    for compared in data.comparisons:
        if len(comparison.sides) > MOST_UNNAMED_SIDES:
            yield Text(text=f"{compared.side} vs base", tone="strong")
        trees = _stacks_of(comparison, compared.side)
        yield from _describe_comparison(
            comparison, compared, _Drawn(trees=trees, figure=figures), has_anchor=is_first
        )
        figures += trees is not None
        is_first = False
    for missing in data.missing:
        yield Text(text=missing.reason, tone="muted")


class _Drawn(Struct, frozen=True, kw_only=True):
    # The call trees of a side, and the number of their flame graph in the section.
    trees: FlameComparison | None
    figure: int

    def calls_of(self, event: str, point: ProfilePoint) -> Mapping[tuple[str, str], Calls]:
        """Return the callers and callees of functions at a point, by symbol and file.

        Return {} if the point has no call tree.
        """
        number = self.tree_of(event, point)
        if self.trees is None or number is None:
            return {}
        return index_calls(self.figure, number, self.trees.events[number])

    def tree_of(self, event: str, point: ProfilePoint) -> int | None:
        """Return the index of the call tree of a point in ``trees.events``; None without one."""
        place = clean_line(place_of_tree(event, point.workload, point.point))
        trees = () if self.trees is None else self.trees.events
        for number, tree in enumerate(trees):
            if tree.event == clean_line(event) and tree.place in ("", place):
                return number
        return None


def _describe_comparison(
    comparison: Comparison, compared: ProfileComparison, drawn: _Drawn, *, has_anchor: bool
) -> Iterator[Block]:
    yield from _describe_sights(compared.events)
    cautions = (text for event in compared.events for text in _cautions_of(event))
    yield from (Text(text=text, tone="warning") for text in dict.fromkeys(cautions))
    trees = drawn.trees
    if trees is not None:
        yield from _draw_stacks(trees, compared, drawn, comparison.findings)
    for event in compared.events:
        yield from _describe_event(event, drawn)
    if trees is None:
        yield Text(text=f"no flame graph: {_why_no_stacks(comparison)}", tone="muted")
    else:
        yield from _describe_stacks(trees)
    if compared.events:
        yield _basis_table(compared.events, has_anchor=has_anchor)
    yield from _describe_rest(compared)


def _describe_rest(compared: ProfileComparison) -> Iterator[Block]:
    points = [point for event in compared.events for point in event.points]
    if points:
        yield Text(text=_DENOMINATORS, tone="muted")
    if any(len(row.base_nodes) > 1 for point in points for row in point.rows):
        yield Text(text=_BY_NODE, tone="muted")
    for reason in dict.fromkeys(point.cost_reason for point in points if point.cost_reason):
        yield Text(text=f"no cost per operation: {reason}", tone="muted")
    for note in merge_sides(merge_boots(compared.notes)):
        yield Text(text=note, tone="muted")


def _cautions_of(event: ProfileEvent) -> Iterator[str]:
    for point in event.points:
        yield from point.cautions


def _describe_event(event: ProfileEvent, drawn: _Drawn) -> Iterator[Block]:
    for point in event.points:
        if point.explained is not None:
            yield Text(text=describe_explained(point.explained, point), tone="strong")
        tables = (
            shares_table(event.event, point, drawn.calls_of(event.event, point)),
            hottest_nodes_table(point),
            classes_table(point),
            costs_table(point),
        )
        yield from (table for table in tables if table is not None)
        for side, losses in point.losses.items():
            if losses:
                yield Text(text=f"{side}: {losses}", tone="warning")


def _describe_sights(events: Sequence[ProfileEvent]) -> Iterator[Block]:
    # One line per event; a table below has the reason and what to record instead.
    said = [_describe_sight(event) for event in events]
    if said:
        yield Items(
            items=tuple(
                Item(text=text, tone=tone, evidence=(f"profile#{_BASIS}",)) for text, tone in said
            )
        )


def _describe_sight(event: ProfileEvent) -> tuple[str, Tone]:
    name = event.event
    without = [side for side, levels in event.excluded.items() if "kernel" in levels]
    if without:
        what = (
            "which does not count the kernel, so the functions listed below cannot include "
            "scheduler functions"
        )
        return f"{_where(without)}recorded with {name}, {what}", "warning"
    blind = [side for side, is_blind in event.blind.items() if is_blind]
    unknown = [side for side, is_blind in event.blind.items() if is_blind is None]
    if blind:
        what = (
            "which cannot sample most of the scheduler, so hot functions may be missing from the "
            "list below"
        )
        return f"{_where(blind)}recorded with {name}, {what}", "warning"
    if unknown:
        what = "which may not sample code that runs with interrupts off"
        return f"{_where(unknown)}recorded with {name}, {what}", "warning"
    return f"recorded with {name}, which also samples code that runs with interrupts off", "plain"


def _where(sides: list[str]) -> str:
    return "" if len(sides) > 1 else f"{sides[0]} was "


def describe_explained(explained: ExplainedChange, point: ProfilePoint) -> str:
    """State how much of the change in CPU time per operation a few functions account for.

    ::

        3 symbols (…) account for 71% of the change in cycles per message (95% CI [60%, 83%])

    If the percentage is unknown, the sentence states the reason.
    """
    # A changed cost has a unit, and a part has an interval.
    assert point.cost_unit is not None
    unit, symbols = point.cost_unit, explained.names
    listed = f"{', '.join(symbols)}: {format_cost(explained.change, unit)}"
    counted, _, operation = unit.partition(" per ")
    whole = "CPU time" if counted == "ns" else counted
    subject = count_of(len(symbols), "symbol")
    if explained.part is None or explained.ci_low is None or explained.ci_high is None:
        return (
            f"{subject} changed in cost ({whole} per {operation}), but the share of the total "
            f"change is unknown ({explained.reason}): {listed}"
        )
    low, high = (f"{100.0 * end:.0f}" for end in (explained.ci_low, explained.ci_high))
    verb = "accounts for" if len(symbols) == 1 else "account for"
    return (
        f"{subject} ({listed}) {verb} {100.0 * explained.part:.0f}% of the change in {whole} per "
        f"{operation} (95% CI [{low}%, {high}%])"
    )


def _stacks_of(comparison: Comparison, side: str) -> FlameComparison | None:
    """Return the call trees of a side and base; None if there are none."""
    data = data_of(comparison.sections, FlameTrees)
    compared = () if data is None else data.comparisons
    return next((trees for trees in compared if trees.side == side and trees.events), None)


def _why_no_stacks(comparison: Comparison) -> str:
    """Return why the flame graph is missing."""
    section = comparison.sections.get(FlameTrees.section)
    if section is None or section.status == "ok":
        return "no workload was sampled with call chains and the same parameters in base and new"
    return section.reason or "not analysed"


def _draw_stacks(
    trees: FlameComparison,
    compared: ProfileComparison,
    drawn: _Drawn,
    findings: Sequence[Finding],
) -> Iterator[Block]:
    """Yield the flame graph."""
    yield Flames(
        caption=f"Call stacks: {caption_of_trees(trees.events)}",
        trees=trees.events,
        sides=(BASE, compared.side),
        rows=dict(_rows_of_trees(compared, drawn, findings)),
        sums=tuple(_sums_of_classes(compared, drawn)),
    )


def _rows_of_trees(
    compared: ProfileComparison, drawn: _Drawn, findings: Sequence[Finding]
) -> Iterator[tuple[str, tuple[int, tuple[str, ...]]]]:
    # The rows that evidence refers to: the section, an event, and rows; with several points, those
    # of the first.
    yield "", (0, ())
    for event in compared.events:
        trees = [(point, drawn.tree_of(event.event, point)) for point in event.points]
        found = [(point, tree) for point, tree in trees if tree is not None]
        anchor = blind_anchor(compared.side, event)
        named = [(tree, _named_beside(anchor, point, findings)) for point, tree in found]
        if named:
            yield anchor, next((each for each in named if each[1]), named[0])
        for point, tree in found:
            for row, functions in _functions_of_rows(compared.side, event, point):
                yield row, (tree, functions)


def _named_beside(anchor: str, point: ProfilePoint, findings: Sequence[Finding]) -> tuple[str, ...]:
    """Return the functions of a point that are cited by the findings that cite an anchor.

    :param anchor: the part after ``profile#`` in evidence
    """
    frames = {f"profile#{row.row}": name_frame(row.symbol, row.name) for row in point.rows}
    cited = [
        evidence
        for finding in findings
        if f"profile#{anchor}" in finding.evidence
        for evidence in finding.evidence
    ]
    return tuple(dict.fromkeys(frames[evidence] for evidence in cited if evidence in frames))


def _functions_of_rows(
    side: str, event: ProfileEvent, point: ProfilePoint
) -> Iterator[tuple[str, tuple[str, ...]]]:
    for function in point.rows:
        yield function.row, (name_frame(function.symbol, function.name),)
    for row in point.classes:
        yield row.row, _frames_of(row)
    if point.explained is not None:
        explained = zip(point.explained.symbols, point.explained.names, strict=True)
        yield explained_anchor(side, event, point), tuple(starmap(name_frame, explained))


def _frames_of(row: ProfileClassRow) -> tuple[str, ...]:
    return tuple(name_frame(function.symbol, function.name) for function in row.functions)


def _sums_of_classes(compared: ProfileComparison, drawn: _Drawn) -> Iterator[Sum]:
    for event in compared.events:
        for point in event.points:
            tree = drawn.tree_of(event.event, point)
            if tree is None:
                continue
            for row in point.classes:
                yield Sum(
                    tree=tree,
                    name=row.class_,
                    functions=_frames_of(row),
                    base=row.share.base,
                    new=row.share.new,
                )


def _describe_stacks(trees: FlameComparison) -> Iterator[Block]:
    """Yield tables of changed, vanished and new frames, and the points without a flame graph."""
    yield from describe_flames(trees.events)
    if trees.left_out:
        yield Text(
            text="not drawn on this page (use schedperf profile --point … --flamegraph): "
            f"{'; '.join(trees.left_out)}",
            tone="muted",
        )


def _basis_table(events: Sequence[ProfileEvent], *, has_anchor: bool) -> Table:
    """Return the table of what each event can sample on each side, with remedies and caveats.

    :param has_anchor: whether the first row gets the anchor ``_BASIS``
    """
    rows = [row for event in events for row in _rows_of(event)]
    return Table(
        caption=f"sampled events: {'; '.join(_said_of(event) for event in events)}",
        columns=(Column(title="event"), Column(title="side"), Column(title="coverage")),
        rows=tuple(rows),
        quiet=tuple(False for _ in rows),
        anchors=(_BASIS if has_anchor else "", *[""] * (len(rows) - 1)),
    )


def _rows_of(event: ProfileEvent) -> Iterator[tuple[Cell, ...]]:
    name, (base, new) = event.event, _sights_of(event)
    # Equal texts of both sides are printed once.
    if base == new:
        yield _row(name, "base and new", base)
    else:
        yield _row(name, "base", base)
        yield _row(name, "new", new)
    if event.remedy:
        yield _row(name, "instead", event.remedy)
    for caveat in event.caveats:
        yield _row(name, "caveat", caveat)


def _sights_of(event: ProfileEvent) -> tuple[str, str]:
    base, new = (
        f"{_SEES[blind]}: {reason}"
        for blind, reason in zip(event.blind, event.blind_reason, strict=True)
    )
    return base, new


_SEES: Mapping[bool | None, str] = {
    True: "cannot sample code that runs with interrupts off (most of the scheduler)",
    False: "also samples code that runs with interrupts off",
    None: "may not sample code that runs with interrupts off",
}


def _said_of(event: ProfileEvent) -> str:
    # The side with the lower coverage.
    sights = tuple(event.blind)
    worst = True if True in sights else None if None in sights else False
    return f"{event.event}: {_SEES[worst]}"


def _row(name: str, side: str, text: str) -> tuple[Cell, ...]:
    return (Cell(text=name), Cell(text=side), Cell(text=text))
