# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw migrations between nodes: a matrix by cause, and a table and charts over time."""

from collections.abc import Iterator, Sequence
from itertools import product

from schedperf.evidence.placement.record import MeanRow, MovesRow, SeriesRow
from schedperf.model.units import MISSING, RATE_DIGITS, Scale, format_measure, format_number
from schedperf_reports.blocks import Block, Cell, Column, Table
from schedperf_reports.graphics.axes import Axis, linear_axis
from schedperf_reports.graphics.chart import Chart, Panel, Point, Series, ends_of
from schedperf_reports.graphics.matrix import (
    DIFFERENCE,
    Band,
    Matrix,
    MatrixCell,
    MatrixLabel,
    MatrixLine,
    largest_of,
    shade_of,
)
from schedperf_reports.rates.cells import OPERATIONS
from schedperf_reports.rates.cpu_maps import describe_place, difference_cell, shorten
from schedperf_reports.rates.tables import titled
from schedperf_reports.words.rows import count_compared, count_of

# With more nodes, three matrices side by side have no room for numbers.
MOST_WRITTEN_NODES = 8
# A wider matrix does not fit into text.
MOST_COLUMNS = 12
# Each step is an eighth of a character; 0 is a dot.
_BLOCKS = "▁▂▃▄▅▆▇█"
_NOTHING = "·"
# An interval needs two runs.
_UNKNOWN = "-"
_HEIGHT_PIXELS = 150
_TIME_AXIS = Axis(
    low=0.0,
    high=100.0,
    ticks=tuple((float(share), str(share)) for share in range(0, 101, 20)),
    title="% of the run",
)

_COLUMNS = (
    Column(title="event"),
    Column(title="side"),
    Column(title="moves per second", align="right"),
    Column(title="95% CI", align="right"),
    Column(title="maximum", align="right", priority=1),
    Column(title="n", align="right", priority=1),
    Column(title=f"start to end ({_NOTHING}: 0)", code=True),
)


def moves_matrix(moves: Sequence[MovesRow], side: str, where: str) -> Matrix:
    """Return the matrix of migrations between nodes at one point: base, a side and the difference.

    Without values of a new side, the matrix has base only.

    :param moves: rows of the record, all of one unit; not empty
    :param side: name of the new side
    :param where: workload and point; "" if there is only one
    """
    nodes = sorted({node for row in moves for pair in row.pairs for node in pair})
    scale = _scale(moves[0])
    is_compared = any(row.n_new for row in moves)
    names = ("base", side, DIFFERENCE) if is_compared else ("base",)
    words = {DIFFERENCE: f"{side} - base"}
    prefix = f"{where}: " if where else ""
    return Matrix(
        caption=f"{prefix}moves from node to node, {scale.unit}, {_describe(moves)}",
        corner="event",
        columns=tuple(
            MatrixLabel(text=f"to {node}", side=name, starts="node" if node == nodes[0] else "")
            for name, node in product(names, nodes)
        ),
        groups=tuple(
            (MatrixLabel(text=words.get(name, name), side=name), len(nodes)) for name in names
        ),
        bands=tuple(_band(row, nodes, names, scale) for row in moves),
        written=len(nodes) <= MOST_WRITTEN_NODES,
        words=tuple(_tables(moves, nodes, scale, prefix, is_compared=is_compared)),
    )


def _scale(row: MovesRow) -> Scale:
    per = row.unit.partition("/")[2]
    if per == "s":
        return Scale(factor=1.0, unit="per second")
    return Scale(factor=1.0 / OPERATIONS, unit=f"per {OPERATIONS} {per}s")


def name_of(row: MovesRow) -> str:
    """Return the name of an event with its cause, if known: ``migration by load_balance``."""
    return f"{row.event} by {row.cause}" if row.cause else row.event


def _describe(moves: Sequence[MovesRow]) -> str:
    first = moves[0]
    runs = count_compared(first)
    if not first.n_new:
        return f"{first.n_base} runs"
    tested = [changed for row in moves for changed in row.changed if changed is not None]
    if not tested:
        return f"significance unknown ({runs})"
    changed = sum(tested)
    number = count_of(len(tested), "rate")
    if not changed:
        return f"none of {number} changed significantly ({runs})"
    most = max(moves, key=lambda row: sum(map(bool, row.changed)))
    which = ": " if changed == 1 else "; most often: "
    return f"{changed} of {number} changed significantly ({runs}){which}{name_of(most)}"


def _band(row: MovesRow, nodes: Sequence[int], names: Sequence[str], scale: Scale) -> Band:
    index_of = {pair: index for index, pair in enumerate(row.pairs)}
    differences = _differences(row)
    marked = [
        value if changed else None for value, changed in zip(differences, row.changed, strict=True)
    ]
    largest = largest_of(row.base, row.new), largest_of(marked)

    def cell(start: int, name: str, to: int) -> MatrixCell:
        index = index_of.get((start, to))
        where = f"{name_of(row)}, from node {start} to node {to}"
        if index is None:
            return MatrixCell(text=MISSING, title=f"{where}: not counted", shade=0)
        title = f"{where}: {describe_place(row, index, scale)}"
        if name == DIFFERENCE:
            return difference_cell(differences[index], title, scale, marked[index], largest[1])
        value = (row.base if name == "base" else row.new)[index]
        return MatrixCell(
            text=shorten(value, scale), title=title, shade=shade_of(value, largest[0])
        )

    return Band(
        label=name_of(row),
        title="",
        lines=tuple(
            MatrixLine(
                label=MatrixLabel(text=f"from {start}"),
                cells=tuple(cell(start, name, to) for name, to in product(names, nodes)),
            )
            for start in nodes
        ),
    )


def _differences(row: MovesRow) -> list[float | None]:
    return [
        None if base is None or new is None else new - base
        for base, new in zip(row.base, row.new, strict=True)
    ]


def _tables(
    moves: Sequence[MovesRow], nodes: Sequence[int], scale: Scale, prefix: str, *, is_compared: bool
) -> Iterator[Table]:
    if len(nodes) > MOST_COLUMNS:
        return
    sides = ", base -> new" if is_compared else ""
    yield Table(
        caption=f"{prefix}moves from node to node, {scale.unit}{sides}",
        columns=(
            Column(title="event"),
            Column(title="from", align="right"),
            *(Column(title=f"to node {node}", align="right") for node in nodes),
        ),
        rows=tuple(
            (
                Cell(text=name_of(row)),
                Cell(text=f"node {start}"),
                *(_pair(row, (start, to), scale, is_compared=is_compared) for to in nodes),
            )
            for row in moves
            for start in nodes
        ),
        limit=None if any(any(row.changed) for row in moves) else 0,
    )


def _pair(row: MovesRow, pair: tuple[int, int], scale: Scale, *, is_compared: bool) -> Cell:
    if pair not in row.pairs:
        return Cell(text=MISSING)
    index = row.pairs.index(pair)
    base, new = (
        format_measure(None if value is None else value / scale.factor, "1")
        for value in (row.base[index], row.new[index])
    )
    return Cell(
        text=f"{base} -> {new}" if is_compared else base,
        tone="strong" if row.changed[index] else "plain",
    )


def describe_series(series: Sequence[SeriesRow], where: str) -> Iterator[Block]:
    """Yield a table of moves between nodes over time, and a chart per event; both are for the page.

    :param series: rows of all shown sides, base first; not empty
    :param where: workload and point; "" if there is only one
    """
    by_event: dict[str, list[SeriesRow]] = {}
    for row in series:
        by_event.setdefault(row.event, []).append(row)
    event, of_event = max(by_event.items(), key=lambda item: max(of.mean for of in item[1]))
    most = f"most frequent: {event}, {_means(of_event)}"
    yield Table(
        caption=titled(where, f"moves between nodes over time, {most}"),
        columns=_COLUMNS,
        rows=tuple(_line(row, sides) for sides in by_event.values() for row in sides),
        limit=0,
    )
    for event, of_event in by_event.items():
        yield _chart(event, of_event, where)


def _line(row: SeriesRow, beside: Sequence[SeriesRow]) -> tuple[Cell, ...]:
    largest = max(max(row_beside.rates) for row_beside in beside)
    texts = (
        row.event,
        row.side,
        _rate(row.mean),
        _interval(row),
        _rate(max(row.rates)),
        count_values(row),
        draw_blocks(row.rates, largest),
    )
    return tuple(Cell(text=text) for text in texts)


def draw_blocks(rates: Sequence[float], largest: float) -> str:
    """Draw numbers as a line of characters.

    >>> draw_blocks([0.0, 1.0, 4.0, 8.0], 8.0)
    '·▁▄█'

    :param largest: value of the highest block; positive
    """
    return "".join(
        _BLOCKS[min(len(_BLOCKS) - 1, max(0, round(rate / largest * len(_BLOCKS)) - 1))]
        if rate > 0.0
        else _NOTHING
        for rate in rates
    )


def _chart(event: str, series: Sequence[SeriesRow], where: str) -> Chart:
    most = " -> ".join(_rate(max(row.rates)) for row in series)
    caption = (
        f"{event}s between nodes over time, {_means(series)}, maximum {most} per second; "
        "error bars: 95% CI of the rate in each time interval"
    )
    lines = tuple(map(_line_of, series))
    panel = Panel(
        height=_HEIGHT_PIXELS,
        x=_TIME_AXIS,
        y=linear_axis(ends_of(lines), "moves per second", is_from_zero=True),
        series=lines,
    )
    return Chart(
        caption=titled(where, caption), sides=tuple(row.side for row in series), panels=(panel,)
    )


def _line_of(row: SeriesRow) -> Series:
    bins = len(row.rates)
    points = tuple(
        Point(x=100.0 * (index + 0.5) / bins, y=rate, low=low, high=high)
        for index, (rate, low, high) in enumerate(
            zip(row.rates, row.rates_low, row.rates_high, strict=True)
        )
    )
    return Series(side=row.side, parts=(points,), steps="around", has_points=False)


def _means(series: Sequence[SeriesRow]) -> str:
    # Base first: "12.1 [11.2, 13] -> 14.8 [14, 15.6] per second (95% CI; n = 5 + 5 runs)".
    means = " -> ".join(
        _rate(row.mean) + ("" if row.ci_low is None else f" {_interval(row)}") for row in series
    )
    has_interval = any(row.ci_low is not None for row in series)
    return f"{means} per second ({'95% CI; ' if has_interval else ''}{_count_sides(series)})"


def _count_sides(sides: Sequence[MeanRow]) -> str:
    """Format the sample sizes of the sides: ``n = 5 + 5 runs``, ``n = 5 runs + 2 boots``."""
    if len({side.replication for side in sides}) > 1:
        return f"n = {' + '.join(count_values(side) for side in sides)}"
    counts = [*(str(side.n) for side in sides[:-1]), count_values(sides[-1])]
    return f"n = {' + '.join(counts)}"


def count_values(row: MeanRow) -> str:
    """Format the number of values of a mean: ``1 run``, ``2 boots``."""
    return count_of(row.n, row.replication.removesuffix("s"))


def _interval(row: SeriesRow) -> str:
    if row.ci_low is None or row.ci_high is None:
        return _UNKNOWN
    return f"[{_rate(row.ci_low)}, {_rate(row.ci_high)}]"


def _rate(rate: float) -> str:
    return format_number(rate, RATE_DIGITS)
