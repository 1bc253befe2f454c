# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the report as GitHub-flavoured Markdown for an issue, a merge request or a wiki.

Readers cannot use options of the command, so the text mentions none.
"""

from collections.abc import Iterable, Iterator

from schedperf.model.comparison import Comparison
from schedperf.model.sides import SideSummary
from schedperf.model.text import clean_beginnings
from schedperf_reports.blocks import Item, Items
from schedperf_reports.formats import Options, output_format
from schedperf_reports.text.markdown import draw_section
from schedperf_reports.text.report import TextSection, describe_exit, text_sections
from schedperf_reports.verdict.comparable import name_kernel
from schedperf_reports.words.rows import name_with_role

# Digits of a digest that identify a recording.
DIGEST_DIGITS = 16


@output_format("markdown", drawings="everything")
def markdown(comparison: Comparison, options: Options) -> str:
    """Return Markdown for an issue or a merge request: the first screen; with --all, everything."""
    return draw_markdown(comparison, text_sections(comparison, everything=options.everything))


def draw_markdown(comparison: Comparison, sections: Iterable[TextSection]) -> str:
    """Return sections and the exit status as Markdown, with a line feed at the end."""
    paragraphs = (f"{paragraph}\n\n" for paragraph in _paragraphs(comparison, sections))
    return clean_beginnings("".join(paragraphs).rstrip("\n") + "\n")


def _paragraphs(comparison: Comparison, sections: Iterable[TextSection]) -> Iterator[str]:
    # The quotation at the top states the kernels and data of the result.
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
