# SPDX-License-Identifier: GPL-2.0-or-later
"""Define boxes that a page shows side by side, and content that it folds.

They contain ordinary blocks; formats other than HTML show these blocks.
"""

from schedperf_reports.blocks import Block, Graphic, Text, Tone


class Panel(Graphic, frozen=True, kw_only=True):
    """One box.

    :param caption: its heading, which states the finding: "comparable: yes"
    :param aside: secondary text of the heading; "" for none
    :param brief: whether a brief text includes the heading
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
    """Boxes side by side; the caption names them for screen readers."""

    panels: tuple[Panel, ...]

    def plain(self) -> tuple[Block, ...]:
        """Return the boxes, one after the other."""
        return self.panels


class Fold(Graphic, frozen=True, kw_only=True):
    """Blocks that a page shows when the reader opens the caption.

    Other formats show the blocks, unless they repeat others.

    :param repeats: whether the blocks repeat what a full text report has elsewhere
    """

    blocks: tuple[Block, ...]
    repeats: bool = False

    def plain(self) -> tuple[Block, ...]:
        """Return the blocks; () if they repeat others."""
        return () if self.repeats else self.blocks

    def inner(self) -> tuple[Block, ...]:
        """Return the blocks."""
        return self.blocks
