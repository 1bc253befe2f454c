# SPDX-License-Identifier: GPL-2.0-or-later
"""Write one line per result, with all numbers of the record, for spreadsheets and scripts.

Columns are the fields of :class:`schedperf.model.comparison.Row`, which says what each is;
docs/comparison.md
lists them. Numbers are in base units with all their digits, missing is empty.
"""

import csv as _csv
import io
from collections.abc import Callable, Mapping, Sequence

from schedperf.model.comparison import Comparison, Row, RunValue
from schedperf_reports.formats import Options, output_format
from schedperf_reports.words.clean import clean

# A cell of a spreadsheet holds 32767 characters; a name of that length is nobody's.
LONGEST_TEXT = 2000

# A spreadsheet takes a text that begins with one of these for a formula and runs it.
FORMULA_STARTS = ("=", "+", "-", "@")

FIELDS = (
    "side", "workload", "point", "metric", "unit", "better", "family", "n_base", "n_new", "base",
    "new", "ratio", "ci_low", "ci_high", "p", "q", "margin", "verdict", "mde", "more_runs",
    "reason", "method", "replication", "icc", "design_effect", "p_rank", "rank_ratio", "rank_low",
    "rank_high", "definition", "p_t", "p_rank_min", "same_as", "class_",
)  # fmt: skip

# Fields that hold more than one value.
LISTS: Mapping[str, Callable[[Row], str]] = {
    "caveats": lambda row: _text("; ".join(caveat.text for caveat in row.caveats)),
    "values_base": lambda row: _numbers(row.values_base),
    "values_new": lambda row: _numbers(row.values_new),
}


# Names as in the JSON, where "class_" of Python is "class".
COLUMNS = (*(name.rstrip("_") for name in FIELDS), *LISTS)


@output_format("csv", drawings="never")
def csv(comparison: Comparison, _options: Options) -> str:
    """A table of all results for spreadsheets and scripts: one line each, all numbers."""
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
    return _text(value) if isinstance(value, str) else repr(value)


def _text(text: str) -> str:
    line = clean(text, limit=LONGEST_TEXT)
    return f"'{line}" if line.lstrip().startswith(FORMULA_STARTS) else line


def _numbers(values: Sequence[RunValue]) -> str:
    return " ".join(repr(run.value) for run in values)
