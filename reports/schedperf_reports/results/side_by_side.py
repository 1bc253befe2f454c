# SPDX-License-Identifier: GPL-2.0-or-later
"""Build one table of the results of three or more sides, a column per side."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from schedperf.model.comparison import Comparison
from schedperf.model.row_groups import Mover, SideBySide, SideCell, Step
from schedperf.model.rows import Family, Verdict
from schedperf.model.sides import SideSummary
from schedperf.model.units import MISSING, Scale, percent, scale_for
from schedperf.model.verdict import CHANGED, UNKNOWN
from schedperf_reports.blocks import Item, Items
from schedperf_reports.graphics.side_columns import SideColumns, SideFigures, SideRow, SideTitle
from schedperf_reports.words.quantities import format_change, format_interval
from schedperf_reports.words.rows import (
    VERDICT_TONES,
    count_of,
    describe_directions,
    name_direction,
    name_side,
)

# A label that is longer than this is replaced by the side's role; the verdict has both.
LONGEST_TITLE = 22
# Results that a terminal lists.
MOST_ROWS = 40
# Significant steps that a text of one screen and a mail list.
MOST_MOVERS = 6
# Printed after a change, because colour alone does not reach all readers.
MARKS: Mapping[Verdict, str] = {"regression": "*", "improvement": "*", "no-change": "="}


def draw_side_by_side(comparison: Comparison, family: Family, *, brief: bool) -> SideColumns | None:
    """Return the results of a family with a column per side.

    Return None for two sides, and for a family without results.

    :param brief: whether a brief text includes it
    """
    results = [result for result in comparison.side_by_side if result.family == family]
    if not results:
        return None
    return SideColumns(
        caption=_caption(comparison, results, family),
        sides=_titles(comparison.sides),
        rows=tuple(_rows(results)),
        brief=brief,
        limit=MOST_ROWS,
    )


def draw_movers(comparison: Comparison, family: Family, *, brief: bool) -> Items | None:
    """Return the significant steps of a family, from one side to the next; None without any.

    :param brief: whether a brief text includes the first ones
    """
    movers = [mover for mover in comparison.movers if mover.family == family]
    if not movers:
        return None
    labels = {side.name: name_side(side) for side in comparison.sides}
    results = [result for result in comparison.side_by_side if result.family == family]
    texts = [_describe_mover(mover, labels, results) for mover in movers]
    return Items(
        items=tuple(Item(text=text) for text in texts),
        limit=MOST_MOVERS,
        brief=MOST_MOVERS if brief else 0,
    )


def _describe_mover(mover: Mover, labels: Mapping[str, str], results: Sequence[SideBySide]) -> str:
    """Format a significant step.

    ``time changes at b: +41.0% [+30.0%, +53.0%] (step from a, p = 0.002 by Holm)``

    :param labels: label of each side
    """
    point = f" at {mover.point}" if mover.point else ""
    several = len({result.workload for result in results}) > 1
    name = f"{mover.metric} ({mover.workload})" if several else mover.metric
    interval = "" if mover.ci_low is None else f" {format_interval(mover.ci_low, mover.ci_high)}"
    change = f"{format_change(mover.ratio)}{interval}"
    corrected = "" if mover.p_corrected is None else f", {_probability(mover.p_corrected)} by Holm"
    step = f"step from {labels[mover.before]}{corrected}"
    return (
        f"{name}{point} changes at {labels[mover.side]}: {change} ({step}){_others(mover, results)}"
    )


def _probability(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"  # noqa: PLR2004 # digits that are printed


def _others(mover: Mover, results: Sequence[SideBySide]) -> str:
    """State that no other step of the same result is significant; "" if one is, or without any."""
    [result] = [
        result
        for result in results
        if (result.workload, result.point, result.metric, result.unit, result.better)
        == (mover.workload, mover.point, mover.metric, mover.unit, mover.better)
    ]
    others = [cell.step for cell in result.cells if cell.step and cell.side != mover.side]
    if not others or any(step.significant for step in others):
        return ""
    return f"; {count_of(len(others), 'other step')}: not significant"


def _titles(sides: Sequence[SideSummary]) -> tuple[SideTitle, ...]:
    labels = [name_side(side) for side in sides]
    # Without the text in brackets, if the rest distinguishes the sides.
    plain = [label.partition(" (")[0] for label in labels]
    shorter = [
        short if plain.count(short) == 1 else label
        for label, short in zip(labels, plain, strict=True)
    ]
    return tuple(
        SideTitle(
            name=side.name,
            label=label,
            short=short if len(short) <= LONGEST_TITLE else side.name,
        )
        for side, label, short in zip(sides, labels, shorter, strict=True)
    )


def _caption(comparison: Comparison, results: Sequence[SideBySide], family: Family) -> str:
    sides: Sequence[SideSummary] = comparison.sides
    rows = [row for row in comparison.rows if row.family == family]
    cells = [cell for result in results for cell in result.cells[1:]]
    verdicts = {cell.verdict for cell in cells}
    has_interval = any(cell.ci_low is not None for cell in cells)
    interval = ", its 95% CI" if has_interval else ""
    what = f"change vs {name_side(sides[0])}{interval}, step vs the previous column"
    parts = [
        f"{count_of(len(results), f'{family} result')} of {len(sides)} sides: {what}",
        describe_directions(rows) or "",
        _count(results),
    ]
    if verdicts & {*CHANGED}:
        parts.append(
            "*: significant (corrected for multiple testing over the results of all sides)"
        )
    if "no-change" in verdicts:
        margins = sorted({f"+-{percent(row.margin)}" for row in rows})
        parts.append(f"=: no change, within {' or '.join(margins)}")
    if any(result.best for result in results):
        by_mean = "ranked by the means, because significance is unknown"
        largest = "sides with the largest significant changes, or base if no change is significant"
        parts.append(f"best, worst: {largest if has_interval else by_mean}")
    return "; ".join(filter(None, parts))


def _count(results: Sequence[SideBySide]) -> str:
    counts = {cell.n for result in results for cell in result.cells}
    if None in counts:
        return f"n {UNKNOWN}"
    numbers = sorted(number for number in counts if number is not None)
    return f"n = {numbers[0]}{'' if len(numbers) == 1 else f' to {numbers[-1]}'} per side"


def _rows(results: Sequence[SideBySide]) -> Iterator[SideRow]:
    groups: dict[tuple[str, str], list[SideBySide]] = {}
    for result in results:
        groups.setdefault((result.workload, result.metric), []).append(result)
    many = Counter(metric for _, metric in groups)
    is_marked = len({result.better for result in results}) > 1
    for (workload, metric), members in groups.items():
        name = f"{metric} ({workload})" if many[metric] > 1 else metric
        direction = f", {name_direction(members[0].better)}" if is_marked else ""
        scales = [_scale(result) for result in members]
        units = {scale.unit for scale in scales}
        shared = f", {scales[0].unit}" if len(units) == 1 and scales[0].unit else ""
        if len(members) > 1:
            yield SideRow(name=f"{name}{shared}{direction}")
        for result, scale in zip(members, scales, strict=True):
            own = f", {scale.unit}" if scale.unit and not (shared and len(members) > 1) else ""
            point = f"  {result.point or 'no parameter'}" if len(members) > 1 else name
            point_direction = direction if len(members) == 1 else ""
            yield SideRow(
                name=f"{point}{own}{point_direction}",
                cells=tuple(_figures(result, index, scale) for index in range(len(result.cells))),
            )


def _scale(result: SideBySide) -> Scale:
    return scale_for(result.unit, *(cell.value for cell in result.cells))


def _figures(result: SideBySide, index: int, scale: Scale) -> SideFigures:
    cell = result.cells[index]
    value = MISSING if cell.value is None else scale.format(cell.value)
    extreme = {result.best: "best", result.worst: "worst"}.get(cell.side, "")
    if cell.verdict is None:
        return SideFigures(value=value, extreme=extreme, title=_title(cell))
    # The step of the first new side is its change from base.
    step = cell.step if index > 1 else None
    return SideFigures(
        value=value,
        change=_change(cell),
        interval="" if cell.ci_low is None else format_interval(cell.ci_low, cell.ci_high),
        step="" if step is None or step.ratio is None else format_change(step.ratio),
        step_interval=_interval_of(step),
        extreme=extreme,
        title=_title(cell),
        tone=VERDICT_TONES[cell.verdict] if cell.verdict in CHANGED else "plain",
    )


def _change(cell: SideCell) -> str:
    if cell.verdict is None or cell.verdict == "invalid":
        return cell.verdict or ""
    return f"{format_change(cell.ratio)}{MARKS.get(cell.verdict, '')}"


def _interval_of(step: Step | None) -> str:
    if step is None or step.ci_low is None:
        return ""
    return format_interval(step.ci_low, step.ci_high)


def _title(cell: SideCell) -> str:
    n = f"n = {UNKNOWN if cell.n is None else cell.n}"
    return n if cell.verdict is None else f"{cell.verdict}, {n}"
