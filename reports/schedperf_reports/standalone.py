# SPDX-License-Identifier: GPL-2.0-or-later
"""Render a single section, without benchmarks, as text or as one HTML page.

The blocks are those of the report's section, so both have the same content.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from schedperf_reports.blocks import Block, Items
from schedperf_reports.formats import Options
from schedperf_reports.page.head import Head, PageSource
from schedperf_reports.text.terminal import NARROWEST, draw_section, write_text

__all__ = ["Head", "PageSource", "draw_page", "draw_text"]


def draw_text(title: str, blocks: Iterable[Block], options: Options) -> str:
    """Return a section as text for a terminal, a pipe or a mail.

    :param options: of which ``width``, ``colour`` and ``see`` are used
    """
    width = max(options.width, NARROWEST)
    drawn = draw_section(map(_without_evidence, blocks), title, width, see=options.see)
    return write_text(drawn, width, colour=options.colour)


def _without_evidence(block: Block) -> Block:
    # Links into the record: a text of one section has no other sections.
    if not isinstance(block, Items):
        return block
    return replace(block, items=tuple(replace(item, evidence=()) for item in block.items))


def draw_page(name: str, title: str, blocks: Iterable[Block], head: Head) -> str:
    """Return a section as one self-contained HTML page.

    :param name: name of the section, to which evidence links: "layout"
    """
    # Imported here because templates load slowly, and text needs none.
    from schedperf_reports.page.page import Described, render_sections  # noqa: PLC0415

    return render_sections(head, [Described(name=name, title=title, blocks=tuple(blocks))])
