# SPDX-License-Identifier: GPL-2.0-or-later
"""Heat maps: CPUs by measure, nodes by nodes; base, new and difference as shaded cells.

A cell is shaded by its number and has the number in it. Where there are too many columns for that
the numbers are read out on hover and by the arrow keys, and stand in a table below.
"""

import math
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from schedperf_reports.blocks import Block, Graphic
from schedperf_reports.words.rows import side_place

# Cells of more columns are as narrow as a hair, or 256 of them would not fit beside each other.
MOST_SMALL = 64
# Steps of shading; an eye tells no more apart.
SHADES = 8

Sign = Literal["", "more", "less"]
Starts = Literal["", "core", "node"]
DIFFERENCE = "difference"


class MatrixCell(Struct, frozen=True, kw_only=True):
    """One cell.

    :param text: its number, short
    :param title: where it is and all its numbers in words
    :param shade: 0 to ``SHADES``; of a difference 0 unless it is outside noise
    :param sign: of a difference that is outside noise
    """

    text: str
    title: str
    shade: int
    sign: Sign = ""


class MatrixLabel(Struct, frozen=True, kw_only=True):
    """What heads a line, a column or a group of columns.

    :param side: "base", "new", …, "difference"; "" where it is none of them
    :param starts: of a column: whether a "core" or a "node" begins with it
    """

    text: str
    side: str = ""
    title: str = ""
    starts: Starts = ""

    @property
    def place(self) -> int | None:
        """Which colour and shape it has; None where it is of no side."""
        return side_place(self.side) if self.side not in ("", DIFFERENCE) else None


class MatrixLine(Struct, frozen=True, kw_only=True):
    """One line of cells."""

    label: MatrixLabel
    cells: tuple[MatrixCell, ...]


class Band(Struct, frozen=True, kw_only=True):
    """Lines that belong together.

    :param label: what they are about: "wakeups, /s"
    """

    label: str
    title: str
    lines: tuple[MatrixLine, ...]


class Matrix(Graphic, frozen=True, kw_only=True):
    """A table of shaded cells.

    :param corner: what the bands are: "counted"
    :param columns: heads of the columns
    :param groups: heads above them, each with how many columns it has; empty: none
    :param written: cells have room for their numbers
    :param words: blocks that say the same without a page
    """

    corner: str
    columns: tuple[MatrixLabel, ...]
    groups: tuple[tuple[MatrixLabel, int], ...]
    bands: tuple[Band, ...]
    written: bool
    words: tuple[Block, ...]

    def shows_change(self) -> bool:
        """Return whether a cell has the colour of a change."""
        lines = (line for band in self.bands for line in band.lines)
        return any(cell.sign for line in lines for cell in line.cells)

    def plain(self) -> tuple[Block, ...]:
        """Return the same in words."""
        return self.words

    def data(self) -> object:
        """Return what is read out of cells without numbers, line by line; None where all have."""
        if self.written:
            return None
        return {
            "said": [
                [cell.title for cell in line.cells] for band in self.bands for line in band.lines
            ]
        }

    @property
    def size(self) -> str:
        """How large the cells are: "written" ones have their number in them."""
        if self.written:
            return "written"
        return "small" if len(self.columns) <= MOST_SMALL else "tiny"


def shade_of(value: float | None, largest: float) -> int:
    """Return the shading of a number: 0 only of nothing.

    :param largest: has the darkest shade
    """
    if not value or not largest:
        return 0
    return max(1, math.ceil(SHADES * min(1.0, abs(value) / largest)))


def largest_of(*columns: Sequence[float | None]) -> float:
    """Return the largest number, whatever its sign; 0 where there is none."""
    return max((abs(value) for column in columns for value in column if value), default=0.0)
