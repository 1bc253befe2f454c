# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw results with a column per side: value, change, interval and step in each cell.

::

    result          tip       cluster       repair
    clients=8      3264    3087 -5.4%*   3103 -4.9%
                      [-6.1%, -4.7%]  [-5.9%, +0.4%]
                                         step +0.5%
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from schedperf_reports.blocks import Block, Cell, Column, Graphic, Table, Tone
from schedperf_reports.words.rows import side_place

# Columns that are repeated in each part of a table if the sides do not fit side by side: the result
# and base.
REPEATED = 2


class SideTitle(Struct, frozen=True, kw_only=True):
    """The heading of a side's column.

    :param name: its role: "new2"
    :param short: the label, or a shorter text if the label is too long
    """

    name: str
    label: str
    short: str

    @property
    def place(self) -> int:
        """Return the index of the side's colour and shape."""
        return side_place(self.name)


class SideFigures(Struct, frozen=True, kw_only=True):
    """One cell; empty texts are not printed.

    :param change: change from base with the mark of its verdict: "-5.4%*"; "invalid"
    :param interval: 95% CI of the change
    :param step: change from the side in the previous column
    :param step_interval: 95% CI of the step
    :param extreme: "best" or "worst"
    :param title: tooltip: the verdict and n
    """

    value: str
    change: str = ""
    interval: str = ""
    step: str = ""
    step_interval: str = ""
    extreme: str = ""
    title: str = ""
    tone: Tone = "plain"


class SideRow(Struct, frozen=True, kw_only=True):
    """One result with a cell per side, base first; without cells, a heading for the rows below."""

    name: str
    cells: tuple[SideFigures, ...] = ()


class SideColumns(Graphic, frozen=True, kw_only=True):
    """The results of several sides, a row per result and a column per side.

    :param sides: headings of the columns, base first
    :param brief: whether a brief text includes it
    :param limit: number of results that a terminal lists
    """

    sides: tuple[SideTitle, ...]
    rows: tuple[SideRow, ...]
    brief: bool
    limit: int

    def plain(self) -> tuple[Block, ...]:
        """Return a table in which a result takes up to three lines."""
        lines = [tuple(_lines(row, len(self.sides))) for row in self.rows]
        return (
            Table(
                caption=self.caption,
                columns=(
                    Column(title="result"),
                    *(Column(title=side.short, align="right") for side in self.sides),
                ),
                rows=tuple(line for row in lines for line in row),
                limit=sum(map(len, lines[: self.limit])),
                brief=self.brief,
                repeated=REPEATED,
            ),
        )

    def inner(self) -> tuple[Block, ...]:
        """Return (): the page draws the cells itself."""
        return ()


def _lines(row: SideRow, sides: int) -> Iterator[tuple[Cell, ...]]:
    if not row.cells:
        yield (Cell(text=row.name, tone="strong"), *(Cell(text=""),) * sides)
        return
    first = (
        Cell(text=_join(cell.extreme, cell.value, cell.change), tone=cell.tone)
        for cell in row.cells
    )
    yield (Cell(text=row.name), *first)
    # A continued row has no name.
    yield from _below([cell.interval for cell in row.cells])
    yield from _below([cell.step and f"step {cell.step}" for cell in row.cells])


def _join(*texts: str) -> str:
    return " ".join(filter(None, texts))


def _below(texts: Sequence[str]) -> Iterator[tuple[Cell, ...]]:
    if any(texts):
        yield (Cell(text=""), *(Cell(text=text, tone="muted") for text in texts))
