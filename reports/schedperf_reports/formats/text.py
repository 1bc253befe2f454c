# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the report as text: the verdict first, aligned columns, the exit status last."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text as Styled

from schedperf.model.comparison import Comparison
from schedperf_reports.formats import Options, output_format
from schedperf_reports.text.report import MORE, MOST, SEE, describe_exit, text_sections
from schedperf_reports.text.terminal import NARROWEST, STYLES, draw_section, write_text
from schedperf_reports.words.rows import VERDICT_TONES


@output_format("text", drawings="everything")
def text(comparison: Comparison, options: Options) -> str:
    """Return text for a terminal, a pipe or a mail: one screen, or everything with --all."""
    width = max(options.width, NARROWEST)
    drawn = _draw_report(comparison, width, options)
    return write_text(drawn, width, colour=options.colour)


def _draw_report(comparison: Comparison, width: int, options: Options) -> Iterator[RenderableType]:
    everything = options.everything
    see = options.see if everything else SEE
    for section in text_sections(comparison, everything=everything, see=see):
        yield from draw_section(
            section.blocks, section.title, width, see=see, is_dense=not everything
        )
        yield ""
    yield Styled(MOST if everything else MORE, style=STYLES["muted"])
    verdict = comparison.overall.verdict
    line = Styled("overall: ").append(verdict, style=STYLES[VERDICT_TONES[verdict]])
    yield line.append(describe_exit(comparison))
