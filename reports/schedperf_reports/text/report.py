# SPDX-License-Identifier: GPL-2.0-or-later
"""Choose the sections that text formats render: all of them, or the first screen.

The full report contains all rows of lists and tables, except for reference tables, which it only
names.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from schedperf.model.comparison import Comparison
from schedperf.model.verdict import STRICT_INCONCLUSIVE_STATUS
from schedperf_reports.blocks import Block, Graphic, Item, Items, Table, Text
from schedperf_reports.sections import ReportSection, all_report_sections, shown_sections
from schedperf_reports.text.brief import shorten
from schedperf_reports.words.sentences import describe_informational

# The option that prints the full report.
SEE = "--all"
MORE = f"{SEE} prints the full report; --html FILE writes a page with charts"
# Printed below the full text report.
MOST = "charts, long tables and some columns are only in the HTML page (--html FILE)"


class TextSection(Struct, frozen=True, kw_only=True):
    """One section of a text report.

    :param title: None for the verdict, which is at the top and needs no heading
    :param blocks: its blocks; a graphic is replaced by its text form
    """

    title: str | None
    blocks: tuple[Block, ...]


def text_sections(
    comparison: Comparison,
    *,
    everything: bool,
    see: str = "",
    described: Mapping[str, Sequence[Block]] | None = None,
) -> Iterator[TextSection]:
    """Yield the sections of a text report in order; evidence is cited by section title.

    Sections without blocks are left out.

    :param everything: whether to yield the full sections instead of the first screen
    :param see: option that shows the full tables: "--all"; "" to name none
    :param described: blocks of each section by name; None to compute them
    """
    sections = shown_sections(comparison)
    titles = {section.name: section.title for section in (*all_report_sections(), *sections)}
    # The table of results follows, with the number, interval and n of this sentence.
    told_below = describe_informational(comparison)
    for section in sections if everything else _brief_sections(sections):
        blocks_of = section.describe(comparison) if described is None else described[section.name]
        plain = [_with_titles(block, titles) for block in plain_blocks(blocks_of)]
        if everything:
            blocks = tuple(map(_without_limit, plain))
        else:
            blocks = tuple(shorten(_without(plain, told_below), see=see))
        if blocks:
            title = None if section is sections[0] else section.title
            yield TextSection(title=title, blocks=blocks)


def plain_blocks(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the blocks, with graphics replaced by their plain blocks."""
    for block in blocks:
        if isinstance(block, Graphic):
            yield from plain_blocks(block.plain())
        else:
            yield block


def _without(blocks: Iterable[Block], omitted: str | None) -> Iterator[Block]:
    return (block for block in blocks if not (isinstance(block, Text) and block.text == omitted))


def _without_limit(block: Block) -> Block:
    match block:
        case Items():
            return replace(block, items=block.whole or block.items, limit=None)
        case Table(limit=int(limit)) if limit > 0:
            return replace(block, limit=None)
    # A limit of 0 marks a reference table.
    return block


def _brief_sections(sections: tuple[ReportSection, ...]) -> tuple[ReportSection, ...]:
    # A terminal shows the end of a text, so reasons and next steps are last.
    first, *others = (section for section in sections if section.is_brief)
    last = [section for section in others if section.chapter == first.chapter]
    return (first, *(section for section in others if section not in last), *last)


def _with_titles(block: Block, titles: Mapping[str, str]) -> Block:
    # Evidence cites section names of the record, but a reader looks for headings.
    if not isinstance(block, Items):
        return block
    items, whole = (
        tuple(_name_evidence(item, titles) for item in some) for some in (block.items, block.whole)
    )
    return replace(block, items=items, whole=whole)


def _name_evidence(item: Item, titles: Mapping[str, str]) -> Item:
    sections = dict.fromkeys(anchor.partition("#")[0] for anchor in item.evidence)
    return replace(
        item,
        evidence=tuple(titles.get(name, name) for name in sections),
        short=item.short and _name_evidence(item.short, titles),
    )


def describe_exit(comparison: Comparison) -> str:
    """Format the exit status of the command, to be appended to the verdict.

    ``, exit status 1``; for an inconclusive verdict ``, exit status 0 (3 with --strict)``
    """
    overall = comparison.overall
    strict = (
        f" ({STRICT_INCONCLUSIVE_STATUS} with --strict)"
        if overall.verdict == "inconclusive"
        else ""
    )
    return f", exit status {overall.exit_status}{strict}"
