"""The HTML report: one file that opens from disk, with the network off."""

from dataclasses import replace

from schedperf.model import Comparison
from schedperf_reports._page import Content, Described, describe_head, render_sections
from schedperf_reports._text_report import text_sections
from schedperf_reports.formats import Options, output_format
from schedperf_reports.formats.markdown import draw_markdown
from schedperf_reports.sections import shown_sections


@output_format("html")
def html(comparison: Comparison, options: Options) -> str:
    """One self-contained page with charts, for a browser."""
    shown, *others = map(_describe, (comparison, *options.swapped()))
    return render_sections(shown.head, shown.sections, others=others, library=options.library)


def _describe(comparison: Comparison) -> Content:
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
    head = replace(describe_head(comparison), brief=draw_markdown(comparison, brief))
    return Content(head=head, sections=shown)
