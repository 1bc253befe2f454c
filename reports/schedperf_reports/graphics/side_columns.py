# SPDX-License-Identifier: GPL-2.0-or-later
"""Results with a column per side: value, change, interval and step in each cell.

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

# Columns that each part of a table has where the sides do not fit beside each other: the result
# and base.
REPEATED = 2


class SideTitle(Struct, frozen=True, kw_only=True):
    """What heads the column of a side.

    :param name: its role: "new2"
    :param short: the label, or what is written where that is too long
    """

    name: str
    label: str
    short: str

    @property
    def place(self) -> int:
        """Which colour and shape it has."""
        return side_place(self.name)


class SideFigures(Struct, frozen=True, kw_only=True):
    """One cell; "" where there is nothing to write.

    :param change: from base: "-5.4%*"
    :param interval: of the change
    :param step: change from the side before it
    :param extreme: "best" or "worst"
    :param title: what a reader may ask for: the verdict and n
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
    """One result: a cell for each side, base first; without cells a heading of those below it."""

    name: str
    cells: tuple[SideFigures, ...] = ()


class SideColumns(Graphic, frozen=True, kw_only=True):
    """The results of several sides, a row per result and a column per side.

    :param brief: whether a text of one screen has it
    :param limit: rows that a terminal lists
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
        """Return nothing: the page draws the cells itself."""
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
    # What continues a row has no name.
    yield from _below([cell.interval for cell in row.cells])
    yield from _below([cell.step and f"step {cell.step}" for cell in row.cells])


def _join(*texts: str) -> str:
    return " ".join(filter(None, texts))


def _below(texts: Sequence[str]) -> Iterator[tuple[Cell, ...]]:
    if any(texts):
        yield (Cell(text=""), *(Cell(text=text, tone="muted") for text in texts))
