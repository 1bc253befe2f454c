# SPDX-License-Identifier: GPL-2.0-or-later
"""The report as GitHub-flavoured Markdown, for an issue, a merge request or a wiki.

Its readers have no command line to ask for more, so it names no options.
"""

from collections.abc import Iterable, Iterator

from schedperf.model.comparison import Comparison, SideSummary
from schedperf_reports.blocks import Item, Items
from schedperf_reports.formats import Options, output_format
from schedperf_reports.text.markdown import draw_section
from schedperf_reports.text.report import TextSection, describe_exit, text_sections
from schedperf_reports.verdict.comparable import name_kernel
from schedperf_reports.words.rows import name_with_role

# Enough digits of a digest to name a recording.
DIGEST_DIGITS = 16


@output_format("markdown", drawings="everything")
def markdown(comparison: Comparison, options: Options) -> str:
    """Markdown for an issue or a merge request: what matters, or everything with --all."""
    return draw_markdown(comparison, text_sections(comparison, everything=options.everything))


def draw_markdown(comparison: Comparison, sections: Iterable[TextSection]) -> str:
    """Return sections and the exit status as Markdown, with a line feed at the end."""
    paragraphs = (f"{paragraph}\n\n" for paragraph in _paragraphs(comparison, sections))
    return "".join(paragraphs).rstrip("\n") + "\n"


def _paragraphs(comparison: Comparison, sections: Iterable[TextSection]) -> Iterator[str]:
    # A quotation of the first lines says of which kernels and data the result is.
    yield from draw_section((Items(items=tuple(map(_describe_side, comparison.sides))),), None)
    for section in sections:
        yield from draw_section(section.blocks, section.title)
    yield f"overall: **{comparison.overall.verdict}**{describe_exit(comparison)}"


def _describe_side(side: SideSummary) -> Item:
    kernel = name_kernel(side)
    parts = (
        "" if kernel is None else f"kernel {kernel}",
        side.path,
        f"SHA-256 of the data {side.digest[:DIGEST_DIGITS]}…",
    )
    return Item(text=f"{name_with_role(side)}: {', '.join(filter(None, parts))}")
