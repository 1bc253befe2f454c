# SPDX-License-Identifier: GPL-2.0-or-later
"""Write one line per result, with all its numbers in the record, for spreadsheets and scripts.

Columns are the fields of :class:`schedperf.model.rows.Row`, which documents them;
docs/comparison.md lists them. Numbers are in base units with all digits; a missing value is an
empty cell.
"""

import csv as _csv
import io
from collections.abc import Callable, Mapping, Sequence

from schedperf.model.comparison import Comparison
from schedperf.model.rows import BootSd, Row, RunsAbove, RunValue, SideStatistics
from schedperf_reports.formats import Options, output_format
from schedperf_reports.words.clean import clean

# A cell of a spreadsheet holds at most 32767 characters; no real name is longer.
LONGEST_TEXT = 2000

# A spreadsheet interprets a text that begins with one of these as a formula.
FORMULA_STARTS = ("=", "+", "-", "@")

FIELDS = (
    "side", "workload", "point", "metric", "unit", "better", "family", "n_base", "n_new", "base",
    "new", "ratio", "ci_low", "ci_high", "p", "q", "margin", "verdict", "mde", "more_runs",
    "reason", "method", "replication", "icc", "design_effect", "p_rank", "rank_ratio", "rank_low",
    "rank_high", "definition", "p_t", "p_rank_min", "same_as", "class_",
    "mode_boundary",
)  # fmt: skip

# Fields that contain more than one value.
LISTS: Mapping[str, Callable[[Row], str]] = {
    "boot_sd": lambda row: _boot_sd(row.boot_sd),
    "caveats": lambda row: text_cell("; ".join(caveat.text for caveat in row.caveats)),
    "values_base": lambda row: _numbers(row.values_base),
    "values_new": lambda row: _numbers(row.values_new),
    "statistics_base": lambda row: _statistics(row.statistics_base),
    "statistics_new": lambda row: _statistics(row.statistics_new),
    "runs_above": lambda row: _runs_above(row.runs_above),
}


# Names as in the JSON, where Python's "class_" is "class".
COLUMNS = (*(name.rstrip("_") for name in FIELDS), *LISTS)


@output_format("csv", drawings="never")
def csv(comparison: Comparison, _options: Options) -> str:
    """Return a table of all results for spreadsheets and scripts: one line each, all numbers."""
    written = io.StringIO()
    writer = _csv.writer(written)
    writer.writerow(COLUMNS)
    for row in comparison.rows:
        cells = [_cell(getattr(row, name)) for name in FIELDS]
        writer.writerow([*cells, *(write(row) for write in LISTS.values())])
    return written.getvalue()


def _cell(value: str | float | None) -> str:
    if value is None:
        return ""
    return text_cell(value) if isinstance(value, str) else repr(value)


def _boot_sd(boot_sd: BootSd | None) -> str:
    if boot_sd is None:
        return ""
    df = "" if boot_sd.df is None else f" {boot_sd.df} df"
    return f"{boot_sd.sd!r} {boot_sd.source}{df}"


def _statistics(statistics: SideStatistics | None) -> str:
    if statistics is None:
        return ""
    numbers = (
        statistics.ci_low,
        statistics.ci_high,
        statistics.cv,
        *statistics.quartiles,
        *statistics.whiskers,
        statistics.drift,
        *(each.mean for each in statistics.boots),
    )
    return " ".join("-" if number is None else repr(number) for number in numbers)


def _runs_above(runs: RunsAbove | None) -> str:
    if runs is None:
        return ""
    return f"{runs.above!r} {runs.pairs}{' interleaved' if runs.interleaved else ''}"


def text_cell(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula, cut to the length of a cell."""
    line = clean(text, limit=LONGEST_TEXT)
    return f"'{line}" if line.lstrip().startswith(FORMULA_STARTS) else line


def _numbers(values: Sequence[RunValue]) -> str:
    return " ".join(repr(run.value) for run in values)
