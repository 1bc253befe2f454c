# SPDX-License-Identifier: GPL-2.0-or-later
"""Boxes of a first screen: side by side where there is room, folded where there is not.

They hold ordinary blocks, which is all that other formats show of them.
"""

from schedperf_reports.blocks import Block, Graphic, Text, Tone


class Panel(Graphic, frozen=True, kw_only=True):
    """One box.

    :param caption: its heading, which says the finding: "comparable: yes"
    :param aside: what belongs to the heading, and is less than it; "" where nothing does
    :param brief: whether a text of one screen has the heading
    """

    blocks: tuple[Block, ...]
    aside: str = ""
    tone: Tone = "plain"
    brief: bool = False

    def plain(self) -> tuple[Block, ...]:
        """Return the heading, then the blocks."""
        heading = f"{self.caption} ({self.aside})" if self.aside else self.caption
        return (Text(text=heading, tone=self.tone, brief=self.brief), *self.blocks)


class Panels(Graphic, frozen=True, kw_only=True):
    """Boxes side by side; the caption names them for those who do not see that."""

    panels: tuple[Panel, ...]

    def plain(self) -> tuple[Block, ...]:
        """Return the boxes, one after the other."""
        return self.panels


class Fold(Graphic, frozen=True, kw_only=True):
    """Blocks that a page shows when their caption is pressed; print and other formats always.

    :param repeats: the blocks say in full what a text of everything says elsewhere
    """

    blocks: tuple[Block, ...]
    repeats: bool = False

    def plain(self) -> tuple[Block, ...]:
        """Return the blocks, () where they repeat others."""
        return () if self.repeats else self.blocks

    def inner(self) -> tuple[Block, ...]:
        """Return the blocks."""
        return self.blocks
