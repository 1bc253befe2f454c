# SPDX-License-Identifier: GPL-2.0-or-later
"""The CSV format: read back, it has every number of the record, and no cell is a formula."""

import csv as standard_csv
import io
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row
from schedperf_reports.formats import Options
from schedperf_reports.formats.csv import COLUMNS, FIELDS, FORMULA_STARTS, LISTS, csv

Make = Callable[..., Comparison]

OPTIONS = Options(width=78, colour=False)
MANUAL = Path(__file__).parents[3] / "docs" / "comparison.md"


def read(comparison: Comparison) -> list[dict[str, str]]:
    return list(standard_csv.DictReader(io.StringIO(csv(comparison, OPTIONS), newline="")))


def test_every_field_of_a_row_is_a_column() -> None:
    # The reason is a column; so its parts are none.
    parts = {"reason_plain", "reason_short"}
    assert {*Row.__struct_fields__} - parts == {*FIELDS, *LISTS}


def test_numbers_are_the_records_and_missing_is_empty(make_comparison: Make) -> None:
    comparison = make_comparison()
    for written, row in zip(read(comparison), comparison.rows, strict=True):
        assert written["metric"] == row.metric
        assert written["definition"] == (row.definition or "")
        for name in ("base", "new", "ratio", "ci_low", "ci_high", "p", "q", "mde", "n_base"):
            value = getattr(row, name)
            assert written[name] == "" if value is None else float(written[name]) == value, name
        values = [float(one) for one in written["values_new"].split()]
        assert values == [run.value for run in row.values_new]
        assert written["caveats"] == "; ".join(one.text for one in row.caveats)


def test_negative_numbers_are_untouched(
    make_comparison: Make, make_row: Callable[..., Row]
) -> None:
    [row] = read(make_comparison(rows=(make_row(base=-2.5, ratio=None, new=-1e-9, p=math.pi),)))
    assert (row["base"], row["new"], row["p"], row["ratio"]) == (
        "-2.5", "-1e-09", "3.141592653589793", "",
    )  # fmt: skip
    assert row["values_base"] == "-2.48 -2.49 -2.5 -2.51 -2.52"


def test_lines_end_as_rfc_4180_says(make_comparison: Make) -> None:
    text = csv(make_comparison(), OPTIONS)
    assert text.count("\r\n") == text.count("\n") == len(make_comparison().rows) + 1
    assert text.endswith("\r\n")


@pytest.mark.parametrize("start", [*FORMULA_STARTS, " =", "\t=", "\r@", "\u200b=", "\x1b="])
def test_text_of_strangers_is_no_formula(
    start: str, make_comparison: Make, replace_texts: Callable[[Comparison, str], Comparison]
) -> None:
    hostile = f'{start}HYPERLINK("https://example.org","x"),\n"y"'
    for row in read(replace_texts(make_comparison(), hostile)):
        for name in ("workload", "point", "metric", "reason", "side"):
            assert row[name].startswith("'"), name
            assert not set(row[name]) & set("\n\r\t\x1b\u200b")
            assert row[name].endswith('"y"')


def test_a_name_of_megabytes_becomes_a_cell(
    make_comparison: Make, replace_texts: Callable[[Comparison, str], Comparison]
) -> None:
    rows = read(replace_texts(make_comparison(), "x" * 1_000_000))
    assert max(len(cell) for row in rows for cell in row.values()) < 32_767


def test_without_results_there_is_the_header(make_comparison: Make) -> None:
    assert csv(make_comparison(rows=()), OPTIONS) == ",".join(COLUMNS) + "\r\n"


def test_the_manual_names_every_column() -> None:
    manual = MANUAL.read_text()
    assert [name for name in COLUMNS if f"`{name}`" not in manual] == []
