# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw heat maps: CPUs by measure, nodes by nodes; base, new and difference as shaded cells.

A cell is shaded by its number and shows the number. With too many columns for that, the numbers are
shown on hover and with the arrow keys, and in a table below.
"""

import math
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from schedperf_reports.blocks import Block, Graphic
from schedperf_reports.words.rows import side_place

# Cells of more columns are one hair wide; otherwise 256 of them would not fit side by side.
MOST_SMALL = 64
# Steps of shading; more cannot be distinguished by eye.
SHADES = 8

Sign = Literal["", "more", "less"]
Starts = Literal["", "core", "node"]
DIFFERENCE = "difference"


class MatrixCell(Struct, frozen=True, kw_only=True):
    """One cell.

    :param text: its number, short
    :param title: its position and all its numbers in words
    :param shade: 0 to ``SHADES``; for a difference, 0 unless it is significant
    :param sign: "more" or "less" for a significant difference; "" for all other cells
    """

    text: str
    title: str
    shade: int
    sign: Sign = ""


class MatrixLabel(Struct, frozen=True, kw_only=True):
    """The heading of a line, a column or a group of columns.

    :param side: "base", "new", …, "difference"; "" for other headings
    :param title: tooltip; "" for none
    :param starts: "core" or "node" if one begins at this column; else ""
    """

    text: str
    side: str = ""
    title: str = ""
    starts: Starts = ""

    @property
    def place(self) -> int | None:
        """Return the index of the side's colour and shape; None if it belongs to no side."""
        return side_place(self.side) if self.side not in ("", DIFFERENCE) else None


class MatrixLine(Struct, frozen=True, kw_only=True):
    """One line of cells."""

    label: MatrixLabel
    cells: tuple[MatrixCell, ...]


class Band(Struct, frozen=True, kw_only=True):
    """A group of lines.

    :param label: their measure: "wakeups, /s"
    """

    label: str
    title: str
    lines: tuple[MatrixLine, ...]


class Matrix(Graphic, frozen=True, kw_only=True):
    """A table of shaded cells.

    :param corner: heading of the bands: "counted"
    :param columns: headings of the columns
    :param groups: headings above them, each with its number of columns; empty for none
    :param written: whether cells have room for their numbers
    :param words: blocks with the same content in words
    """

    corner: str
    columns: tuple[MatrixLabel, ...]
    groups: tuple[tuple[MatrixLabel, int], ...]
    bands: tuple[Band, ...]
    written: bool
    words: tuple[Block, ...]

    def shows_change(self) -> bool:
        """Return whether a cell is coloured as a change."""
        lines = (line for band in self.bands for line in band.lines)
        return any(cell.sign for line in lines for cell in line.cells)

    def plain(self) -> tuple[Block, ...]:
        """Return the same content in words."""
        return self.words

    def data(self) -> object:
        """Return the titles of all cells, by line; None if the cells show their numbers."""
        if self.written:
            return None
        return {
            "said": [
                [cell.title for cell in line.cells] for band in self.bands for line in band.lines
            ]
        }

    @property
    def size(self) -> str:
        """Return the size of the cells: "written" if they show numbers, else "small" or "tiny"."""
        if self.written:
            return "written"
        return "small" if len(self.columns) <= MOST_SMALL else "tiny"


def shade_of(value: float | None, largest: float) -> int:
    """Return the shading of a number, 1 to ``SHADES``; 0 for None and for 0.

    :param largest: absolute value with the darkest shade; if it is 0, all shades are 0
    """
    if not value or not largest:
        return 0
    return max(1, math.ceil(SHADES * min(1.0, abs(value) / largest)))


def largest_of(*columns: Sequence[float | None]) -> float:
    """Return the largest absolute value; 0 if there is none."""
    return max((abs(value) for column in columns for value in column if value), default=0.0)
