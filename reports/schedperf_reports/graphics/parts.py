# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the parts of a sum as one stacked bar per side, over one scale."""

from msgspec import Struct

from schedperf_reports.blocks import Block, Graphic

# Least width, in percent of the longest bar, that has room for a number.
LEAST_WIDTH = 7.0


class Segment(Struct, frozen=True, kw_only=True):
    """One part of a bar.

    :param number: number of the part, which has one colour in all bars
    :param width: in percent of the longest bar
    :param text: its amount: "68 us"
    """

    number: int
    name: str
    width: float
    text: str

    @property
    def has_room(self) -> bool:
        """Return whether its amount fits into it."""
        return self.width >= LEAST_WIDTH


class PartsBar(Struct, frozen=True, kw_only=True):
    """The bar of one side.

    :param place: index of the side's colour and shape
    :param total: the sum: "118 us"
    """

    label: str
    place: int
    total: str
    segments: tuple[Segment, ...]


class Parts(Graphic, frozen=True, kw_only=True):
    """The bars of all sides.

    :param has_amounts: whether the amount of a part is written into it
    :param words: blocks with the same content in words
    """

    bars: tuple[PartsBar, ...]
    has_amounts: bool = True
    words: tuple[Block, ...] = ()

    def plain(self) -> tuple[Block, ...]:
        """Return the same content in words."""
        return self.words

    @property
    def key(self) -> tuple[tuple[int, str], ...]:
        """Return number and name of each part, for the key of the colours."""
        return tuple((each.number, each.name) for each in self.bars[0].segments)
