# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the HTML report: one file that works without a network."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from schedperf.model.comparison import Comparison
from schedperf_reports.blocks import Block
from schedperf_reports.formats import Options, output_format
from schedperf_reports.formats.lkml import lkml
from schedperf_reports.formats.markdown import draw_markdown
from schedperf_reports.graphics.panels import Fold
from schedperf_reports.page.first_screen.screen import draw_first_screen
from schedperf_reports.page.folding import FOLDED_CHAPTERS, count_rows, is_unchanged
from schedperf_reports.page.page import Described, describe_head, render_sections
from schedperf_reports.sections import ReportSection, shown_sections
from schedperf_reports.text.report import text_sections

# The chapter of the first screen; the lists after it are folded.
FIRST = "verdict"
# The cache-line section.
LAYOUTS = "layout"


@output_format("html")
def html(comparison: Comparison, options: Options) -> str:
    """Return one self-contained page with charts, for a browser."""
    listed = shown_sections(comparison)
    blocks = {section.name: tuple(section.describe(comparison)) for section in listed}
    sections = [section for section in listed if blocks[section.name] or not section.is_optional]
    brief = text_sections(comparison, everything=False, described=blocks)
    head = describe_head(comparison, options.other_bases)
    head = replace(head, brief=draw_markdown(comparison, brief), lkml=lkml(comparison, options))
    first, *others = sections
    screen = draw_first_screen(comparison, sections, blocks.get(LAYOUTS, ()))
    in_words = Fold(caption="the verdict in words", blocks=blocks[first.name], repeats=True)
    shown = (
        _describe(first, (screen, in_words)),
        *(_describe(one, blocks[one.name], _line(comparison, one, blocks)) for one in others),
    )
    return render_sections(head, shown)


def _describe(
    section: ReportSection, blocks: Sequence[Block], line: str | None = None
) -> Described:
    return Described(
        name=section.name,
        title=section.title,
        chapter=section.chapter,
        blocks=tuple(blocks),
        is_absent=section.is_absent,
        line=line,
        is_evidence=section.is_analysis or section.chapter in FOLDED_CHAPTERS,
    )


def _line(
    comparison: Comparison, section: ReportSection, blocks: Mapping[str, Sequence[Block]]
) -> str | None:
    # The summary line of a folded section; None if it is open.
    mine = blocks[section.name]
    state = section.state(comparison) if section.state else None
    is_evidence = section.chapter in FOLDED_CHAPTERS and is_unchanged(mine, state)
    if section.is_absent or not (is_evidence or section.chapter == FIRST):
        return None
    if state is None:
        return count_rows(mine)
    return f"{state.text} ({state.note})" if state.note else state.text
