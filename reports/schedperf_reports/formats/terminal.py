"""The terminal report: the verdict first, plain aligned columns, the exit status last."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from rich.console import RenderableType
from rich.text import Text as Styled

from schedperf.model import Comparison
from schedperf.verdicts import STRICT_INCONCLUSIVE_STATUS
from schedperf_reports._terminal import STYLES, draw_section, write_text
from schedperf_reports._words import VERDICT_TONES
from schedperf_reports.blocks import Block, Item, Items
from schedperf_reports.formats import Options, output_format
from schedperf_reports.sections import all_report_sections, shown_sections

# Narrower than this, not even a result and its verdict stand beside each other.
NARROWEST = 40


@output_format("terminal")
def terminal(comparison: Comparison, options: Options) -> str:
    """Text for a terminal or a pipe: verdict, tables, drawings, caveats."""
    width = max(options.width, NARROWEST)
    return write_text(_draw_report(comparison, width, options.see), width, colour=options.colour)


def _draw_report(comparison: Comparison, width: int, see: str) -> Iterator[RenderableType]:
    titles = {section.name: section.title for section in all_report_sections()}
    for place, section in enumerate(shown_sections(comparison)):
        # The verdict needs no heading: it is what the report begins with.
        title = section.title if place else None
        blocks = (_with_titles(block, titles) for block in section.describe(comparison))
        yield from draw_section(blocks, title, width, see=see)
        yield ""
    yield _last_line(comparison)


def _with_titles(block: Block, titles: Mapping[str, str]) -> Block:
    # Evidence names the sections of the record; a reader looks for their headings.
    if not isinstance(block, Items):
        return block
    return replace(block, items=tuple(_name_evidence(item, titles) for item in block.items))


def _name_evidence(item: Item, titles: Mapping[str, str]) -> Item:
    sections = [one.partition("#")[0] for one in item.evidence]
    return replace(item, evidence=tuple(titles.get(name, name) for name in sections))


def _last_line(comparison: Comparison) -> RenderableType:
    overall = comparison.overall
    strict = (
        f" ({STRICT_INCONCLUSIVE_STATUS} with --strict)"
        if overall.verdict == "inconclusive"
        else ""
    )
    line = Styled("overall: ")
    line.append(overall.verdict, style=STYLES[VERDICT_TONES[overall.verdict]])
    return line.append(f", exit status {overall.exit_status}{strict}")
