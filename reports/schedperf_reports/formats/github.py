# SPDX-License-Identifier: GPL-2.0-or-later
"""Print annotations of a GitHub workflow, and append the report to the summary of its step.

GitHub shows ten errors per step: the verdict comes first, then the largest regressions::

    ::error title=regression%3A hackbench time::+37.2%25 [+35.0%25, +39.5%25] (n = 5+5 runs)
"""

from collections.abc import Iterator, Mapping

from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row, Verdict
from schedperf_reports.formats import Options, output_format
from schedperf_reports.formats.markdown import draw_markdown
from schedperf_reports.text.report import text_sections
from schedperf_reports.words.clean import clean
from schedperf_reports.words.rows import describe_change, name_rows, side_prefixes, size_of_change

# GitHub shows this many errors per step, and discards a summary that is larger than this.
MOST_ERRORS = 10
LARGEST_SUMMARY_BYTES = 1024 * 1024
# The summary of a step is shared with other commands of the step.
LARGEST_REPORT_BYTES = LARGEST_SUMMARY_BYTES // 2
LONGEST_TEXT = 2000

LEVELS: Mapping[Verdict, str] = {
    "regression": "error",
    "invalid": "error",
    "inconclusive": "warning",
    "no-change": "notice",
    "improvement": "notice",
}
CUT = "\n\n(cut: GitHub shows no larger summary)\n"


def summary(comparison: Comparison, options: Options) -> str:
    """Return the report as Markdown, short enough for the summary of a step."""
    report = draw_markdown(comparison, text_sections(comparison, everything=options.everything))
    written = report.encode(errors="replace")
    if len(written) <= LARGEST_REPORT_BYTES:
        return f"{written.decode()}\n"
    # The cut is between two paragraphs, so that no table ends within a row.
    kept = written[:LARGEST_REPORT_BYTES].decode(errors="ignore").rpartition("\n\n")[0]
    return f"{kept}{CUT}\n"


@output_format("github", drawings="everything", appends={"GITHUB_STEP_SUMMARY": summary})
def github(comparison: Comparison, _options: Options) -> str:
    """Return annotations of a GitHub workflow; the report is appended to the step's summary."""
    return "".join(f"{line}\n" for line in _lines(comparison))


def _lines(comparison: Comparison) -> Iterator[str]:
    overall = comparison.overall
    yield _annotation(LEVELS[overall.verdict], f"schedperf: {overall.verdict}", overall.reason)
    names = name_rows(comparison.rows)
    prefixes = side_prefixes(comparison)
    worse = [
        (row, f"{prefixes.get(row.side, '')}{names[index]}")
        for index, row in enumerate(comparison.rows)
        if row.family == "primary" and row.verdict == "regression"
    ]
    worse.sort(key=lambda named: -size_of_change(named[0]))
    shown = worse[: MOST_ERRORS - 1]
    for row, name in shown:
        yield _annotation("error", f"regression: {name}", _describe(row))
    if len(worse) > len(shown):
        yield f"{len(worse) - len(shown)} more regressions are in the report"


def _describe(row: Row) -> str:
    return "; ".join((describe_change(row), *(caveat.text for caveat in row.caveats)))


def _annotation(level: str, title: str, message: str) -> str:
    """Return a workflow command; its fields cannot end the command or begin another.

    >>> _annotation("error", "a, b: c", "100%\\n::warning::x")
    '::error title=a%2C b%3A c::100%25 ::warning::x'
    """
    title = _escape(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={title}::{_escape(message)}"


def _escape(text: str) -> str:
    # A command ends at the end of its line, and cleaned text is one line.
    return clean(text, limit=LONGEST_TEXT).replace("%", "%25")
