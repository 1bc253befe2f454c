"""Moves from node to node as a matrix: base, new and their difference, by event and by cause."""

from collections.abc import Iterator, Sequence
from itertools import product

from schedperf.evidence.placement.record import MovesRow
from schedperf.model.units import MISSING, Scale, format_measure
from schedperf_reports.blocks import Cell, Column, Table
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
from schedperf_reports.words.rows import count_compared, count_of

# Of more nodes three matrices beside each other have no room for numbers.
MOST_WRITTEN_NODES = 8
# A matrix of more columns fits into no text.
MOST_COLUMNS = 12


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
        caption=f"{told}moves {scale.unit} from node to node, {_describe(moves)}",
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
        return f"{runs} cannot tell a change from noise"
    changed = sum(known)
    number = count_of(len(known), "number")
    if not changed:
        return f"none of {number} changed beyond noise ({runs})"
    most = max(moves, key=lambda found: sum(map(bool, found.changed)))
    which = "that" if changed == 1 else "most of them"
    return f"{changed} of {number} changed beyond noise ({runs}), {which} of {name_of(most)}"


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
        caption=f"{told}moves {scale.unit} from node to node{sides}",
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
