# SPDX-License-Identifier: GPL-2.0-or-later
"""The HTML report: one file that opens from disk, with the network off."""

from dataclasses import replace

from schedperf.model.comparison import Comparison
from schedperf_reports.formats import Options, output_format
from schedperf_reports.formats.lkml import lkml
from schedperf_reports.formats.markdown import draw_markdown
from schedperf_reports.page.page import Described, describe_head, render_sections
from schedperf_reports.sections import shown_sections
from schedperf_reports.text.report import text_sections


@output_format("html")
def html(comparison: Comparison, options: Options) -> str:
    """One self-contained page with charts, for a browser."""
    shown = tuple(
        Described(
            name=section.name,
            title=section.title,
            chapter=section.chapter,
            blocks=tuple(section.describe(comparison)),
            is_absent=section.is_absent,
        )
        for section in shown_sections(comparison)
    )
    blocks = {section.name: section.blocks for section in shown}
    brief = text_sections(comparison, everything=False, described=blocks)
    head = describe_head(comparison, options.other_bases)
    head = replace(head, brief=draw_markdown(comparison, brief), lkml=lkml(comparison, options))
    return render_sections(head, shown, library=options.library)
