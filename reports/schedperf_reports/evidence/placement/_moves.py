# SPDX-License-Identifier: GPL-2.0-or-later
"""Moves between nodes: a matrix by cause, and lines and a figure over the time of the runs."""

from collections.abc import Iterator, Sequence
from itertools import product

from schedperf.evidence.placement.record import MeanRow, MovesRow, SeriesRow
from schedperf.model.units import MISSING, RATE_DIGITS, Scale, format_measure, format_number
from schedperf_reports.blocks import Block, Cell, Column, Figure, Table
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

# Of more nodes three matrices beside each other have no room for numbers.
MOST_WRITTEN_NODES = 8
# A matrix of more columns fits into no text.
MOST_COLUMNS = 12
# An eighth of a character each; none at all is a dot.
_BLOCKS = "▁▂▃▄▅▆▇█"
_NOTHING = "·"
# An interval needs two runs.
_UNKNOWN = "-"
_COLOURS = {"base": "var(--base)"}
_COLOUR_OF_OTHERS = "var(--new)"
_HEIGHT_PIXELS = 220

_COLUMNS = (
    Column(title="event"),
    Column(title="side"),
    Column(title="migrations per second", align="right"),
    Column(title="95% CI", align="right"),
    Column(title="most", align="right", priority=1),
    Column(title="n", align="right", priority=1),
    Column(title=f"from begin to end, {_NOTHING} is none", code=True),
)


def moves_matrix(moves: Sequence[MovesRow], side: str, where: str) -> Matrix:
    """Return the moves of one side at one point.

    :param moves: of the record, all of one unit; not empty
    :param where: workload and point; "" where there is one
    """
    nodes = sorted({node for one in moves for pair in one.pairs for node in pair})
    scale = _scale(moves[0])
    is_compared = any(one.n_new for one in moves)
    names = ("base", side, DIFFERENCE) if is_compared else ("base",)
    words = {DIFFERENCE: f"{side} - base"}
    told = f"{where}: " if where else ""
    return Matrix(
        caption=f"{told}migrations {scale.unit} from node to node, {_describe(moves)}",
        corner="event",
        columns=tuple(
            MatrixLabel(text=f"to {node}", side=name, starts="node" if node == nodes[0] else "")
            for name, node in product(names, nodes)
        ),
        groups=tuple(
            (MatrixLabel(text=words.get(name, name), side=name), len(nodes)) for name in names
        ),
        bands=tuple(_band(one, nodes, names, scale) for one in moves),
        written=len(nodes) <= MOST_WRITTEN_NODES,
        words=tuple(_tables(moves, nodes, scale, told, is_compared=is_compared)),
    )


def _scale(one: MovesRow) -> Scale:
    per = one.unit.partition("/")[2]
    if per == "s":
        return Scale(factor=1.0, unit="per second")
    return Scale(factor=1.0 / OPERATIONS, unit=f"per {OPERATIONS} {per}s")


def name_of(one: MovesRow) -> str:
    """Name what moved tasks: ``migration by load_balance``."""
    return f"{one.event} by {one.cause}" if one.cause else one.event


def _describe(moves: Sequence[MovesRow]) -> str:
    one = moves[0]
    runs = count_compared(one)
    if not one.n_new:
        return f"{one.n_base} runs"
    known = [changed for found in moves for changed in found.changed if changed is not None]
    if not known:
        return f"significance unknown ({runs})"
    changed = sum(known)
    number = count_of(len(known), "number")
    if not changed:
        return f"none of {number} changed significantly ({runs})"
    most = max(moves, key=lambda found: sum(map(bool, found.changed)))
    which = "that" if changed == 1 else "most of them"
    return f"{changed} of {number} changed significantly ({runs}), {which} of {name_of(most)}"


def _band(one: MovesRow, nodes: Sequence[int], names: Sequence[str], scale: Scale) -> Band:
    index_of = {pair: index for index, pair in enumerate(one.pairs)}
    differences = _differences(one)
    marked = [
        value if changed else None for value, changed in zip(differences, one.changed, strict=True)
    ]
    largest = largest_of(one.base, one.new), largest_of(marked)

    def cell(start: int, name: str, to: int) -> MatrixCell:
        index = index_of.get((start, to))
        where = f"{name_of(one)}, from node {start} to node {to}"
        if index is None:
            return MatrixCell(text=MISSING, title=f"{where}: not counted", shade=0)
        title = f"{where}: {describe_place(one, index, scale)}"
        if name == DIFFERENCE:
            return difference_cell(differences[index], title, scale, marked[index], largest[1])
        value = (one.base if name == "base" else one.new)[index]
        return MatrixCell(
            text=shorten(value, scale), title=title, shade=shade_of(value, largest[0])
        )

    return Band(
        label=name_of(one),
        title="",
        lines=tuple(
            MatrixLine(
                label=MatrixLabel(text=f"from {start}"),
                cells=tuple(cell(start, name, to) for name, to in product(names, nodes)),
            )
            for start in nodes
        ),
    )


def _differences(one: MovesRow) -> list[float | None]:
    return [
        None if base is None or new is None else new - base
        for base, new in zip(one.base, one.new, strict=True)
    ]


def _tables(
    moves: Sequence[MovesRow], nodes: Sequence[int], scale: Scale, told: str, *, is_compared: bool
) -> Iterator[Table]:
    if len(nodes) > MOST_COLUMNS:
        return
    sides = ", base -> new" if is_compared else ""
    yield Table(
        caption=f"{told}migrations {scale.unit} from node to node{sides}",
        columns=(
            Column(title="event"),
            Column(title="from", align="right"),
            *(Column(title=f"to node {node}", align="right") for node in nodes),
        ),
        rows=tuple(
            (
                Cell(text=name_of(one)),
                Cell(text=f"node {start}"),
                *(_pair(one, (start, to), scale, is_compared=is_compared) for to in nodes),
            )
            for one in moves
            for start in nodes
        ),
        limit=None if any(any(one.changed) for one in moves) else 0,
    )


def _pair(one: MovesRow, pair: tuple[int, int], scale: Scale, *, is_compared: bool) -> Cell:
    if pair not in one.pairs:
        return Cell(text=MISSING)
    index = one.pairs.index(pair)
    base, new = (
        format_measure(None if value is None else value / scale.factor, "1")
        for value in (one.base[index], one.new[index])
    )
    return Cell(
        text=f"{base} -> {new}" if is_compared else base,
        tone="strong" if one.changed[index] else "plain",
    )


def describe_series(series: Sequence[SeriesRow], where: str) -> Iterator[Block]:
    """Yield a table of one workload and point, and a figure of each event; both for the page.

    :param where: workload and point; "" where there is one
    :param series: of all sides that are shown, base first
    """
    by_event: dict[str, list[SeriesRow]] = {}
    for one in series:
        by_event.setdefault(one.event, []).append(one)
    event, found = max(by_event.items(), key=lambda one: max(of.mean for of in one[1]))
    most = f"mostly {event}s: {_means(found)}"
    yield Table(
        caption=titled(where, f"migrations between nodes over time, {most}"),
        columns=_COLUMNS,
        rows=tuple(_line(one, found) for found in by_event.values() for one in found),
        limit=0,
    )
    for event, found in by_event.items():
        yield _figure(event, found, where)


def _line(one: SeriesRow, beside: Sequence[SeriesRow]) -> tuple[Cell, ...]:
    largest = max(max(other.rates) for other in beside)
    texts = (
        one.event,
        one.side,
        _rate(one.mean),
        _interval(one),
        _rate(max(one.rates)),
        count_values(one),
        draw_blocks(one.rates, largest),
    )
    return tuple(Cell(text=text) for text in texts)


def draw_blocks(rates: Sequence[float], largest: float) -> str:
    """Draw numbers as a line of characters.

    >>> draw_blocks([0.0, 1.0, 4.0, 8.0], 8.0)
    '·▁▄█'

    :param largest: has the highest block; above 0
    """
    return "".join(
        _BLOCKS[min(len(_BLOCKS) - 1, max(0, round(rate / largest * len(_BLOCKS)) - 1))]
        if rate > 0.0
        else _NOTHING
        for rate in rates
    )


def _figure(event: str, series: Sequence[SeriesRow], where: str) -> Figure:
    most = " -> ".join(_rate(max(one.rates)) for one in series)
    told = (
        f"{event}s from one node to another over time, {_means(series)}, maximum {most}; "
        "bars are the 95% CI of each part of the run"
    )
    return Figure(
        caption=titled(where, told),
        figure={
            "data": [_trace(one) for one in series],
            "layout": {
                "xaxis": {"title": {"text": "% of the run"}, "range": [0, 100]},
                "yaxis": {
                    "title": {"text": "migrations per second"},
                    "rangemode": "tozero",
                    "automargin": True,
                },
                "margin": {"l": 8, "r": 16, "t": 28, "b": 48},
                "legend": {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom"},
                "showlegend": True,
            },
        },
        height=_HEIGHT_PIXELS,
    )


def _means(series: Sequence[SeriesRow]) -> str:
    # Base first: "12.1 [11.2, 13] -> 14.8 [14, 15.6] per second (95% CI; n = 5 + 5 runs)".
    means = " -> ".join(
        _rate(one.mean) + ("" if one.ci_low is None else f" {_interval(one)}") for one in series
    )
    has_interval = any(one.ci_low is not None for one in series)
    return f"{means} per second ({'95% CI; ' if has_interval else ''}{_count_sides(series)})"


def _count_sides(sides: Sequence[MeanRow]) -> str:
    """Say what the means of the sides rest on: ``n = 5 + 5 runs``, ``n = 5 runs + 2 boots``."""
    if len({one.replication for one in sides}) > 1:
        return f"n = {' + '.join(count_values(one) for one in sides)}"
    counts = [*(str(one.n) for one in sides[:-1]), count_values(sides[-1])]
    return f"n = {' + '.join(counts)}"


def count_values(one: MeanRow) -> str:
    """Say how many values a mean rests on: ``1 run``, ``2 boots``."""
    return count_of(one.n, one.replication.removesuffix("s"))


def _interval(one: SeriesRow) -> str:
    if one.ci_low is None or one.ci_high is None:
        return _UNKNOWN
    return f"[{_rate(one.ci_low)}, {_rate(one.ci_high)}]"


def _rate(rate: float) -> str:
    return format_number(rate, RATE_DIGITS)


def _trace(one: SeriesRow) -> dict[str, object]:
    bins = len(one.rates)
    colour = _COLOURS.get(one.side, _COLOUR_OF_OTHERS)
    ends = list(zip(one.rates, one.rates_low, one.rates_high, strict=True))
    return {
        "type": "scatter",
        "mode": "lines",
        "name": one.side,
        "x": [100.0 * (index + 0.5) / bins for index in range(bins)],
        "y": list(one.rates),
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [0 if high is None else high - mean for mean, _, high in ends],
            "arrayminus": [0 if low is None else mean - low for mean, low, _ in ends],
            "color": colour,
            "thickness": 1,
            "width": 2,
        },
        "line": {
            "shape": "hvh",
            "color": colour,
            "dash": "solid" if one.side in _COLOURS else "dash",
        },
    }
