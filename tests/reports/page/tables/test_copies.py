# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables in a real browser: what is copied and downloaded, and the menu for it."""

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf_reports.blocks import Cell, Column, Table

pytestmark = pytest.mark.browser

Visit = Callable[..., Any]
MakeRow = Callable[..., tuple[Cell, ...]]


def clipboard(opened: Any) -> str:
    opened.wait_for(
        "[...document.querySelectorAll('[role=status]')]"
        ".some((one) => one.textContent.includes('copied'))"
    )
    return str(opened.ask("navigator.clipboard.readText()"))


def test_a_copy_is_what_is_shown_as_markdown(copier: Visit, results: Table) -> None:
    opened = copier(results)
    opened.choose_copy("Copy as Markdown")
    assert clipboard(opened).splitlines() == [
        "**6 results, 3 changed**  ",
        "6.12, 6.13",
        "",
        "| result | time | change | verdict |",
        "|:--|--:|--:|:--|",
        "| **hackbench -T** | | | |",
        "| groups=1 | 900 us | +2.0% | regression |",
        "| groups=2 | - | - | inconclusive |",
        "| pipe | 2 s | -9.0% | improvement |",
    ]
    assert opened.page.get_by_text("3 of 6 rows copied").is_visible()


def test_a_copy_as_text_is_aligned_and_fits_a_mail(
    copier: Visit,
    results: Table,
    row_of: MakeRow,
    table_of: Callable[..., Table],
) -> None:
    long = row_of("a_symbol_of_" + "n" * 30, "2 s", "-9.0%", "inconclusive " * 6)
    table = table_of(rows=(*results.rows, long), quiet=(*results.quiet, False))
    opened = copier(table, address="#?t.benchmarks-0=s2.a")
    opened.choose_copy("Copy as plain text")
    lines = clipboard(opened).splitlines()
    assert max(map(len, lines)) <= 78
    assert lines[3].split() == ["result", "time", "change", "verdict"]
    ends = {line.index("%") for line in lines if "%" in line}
    assert len(ends) == 1
    assert "  new is noisier" in lines
    assert "hackbench -T:" in "\n".join(lines)


def test_a_copy_as_text_is_aligned_behind_letters_that_are_wide_or_none(
    copier: Visit, row_of: MakeRow, table_of: Callable[..., Table]
) -> None:
    # Four letters of two columns each, three letters with marks of no width, a picture of two.
    names = ("\u5524\u9192\u5ef6\u8fdf", "e\u0301\u0323" * 3, "\U0001f600", "plain")
    marked = row_of("e\u0301\u0323" * 50, "2 s", "-9.0%", "inconclusive " * 6)
    rows = tuple(row_of(name, "1 s", "-9.0%", "no change") for name in names)
    opened = copier(table_of(rows=(*rows, marked, *rows)))
    opened.choose_copy("Copy as plain text")
    lines = clipboard(opened).splitlines()
    found = {name: next(line for line in lines if line.startswith(name)) for name in names}
    columns = {name: line.index("1 s") - len(name) for name, line in found.items()}
    wide = {"\u5524\u9192\u5ef6\u8fdf": 8, "e\u0301\u0323" * 3: 3, "\U0001f600": 2, "plain": 5}
    assert len({columns[name] + width for name, width in wide.items()}) == 1
    # A letter is never parted from its marks.
    assert not [line for line in lines if line[:1] in ("\u0301", "\u0323")]


def test_a_copy_as_csv_is_read_back_and_starts_no_formula(
    copier: Visit, results: Table, row_of: MakeRow, table_of: Callable[..., Table]
) -> None:
    hostile = row_of('say "a",\tb', "@x", "+1+cmd|' /C calc'!A0", "-2")
    table = table_of(rows=(*results.rows, hostile), quiet=(*results.quiet, False))
    opened = copier(table, address="#?t.benchmarks-0=a")
    opened.choose_copy("Copy as CSV")
    text = clipboard(opened)
    head, *rows = csv.reader(io.StringIO(text))
    assert head == ["group", "result", "time", "change", "verdict", "notes"]
    found = {row[1]: row for row in rows}
    assert found["groups=1"][2:] == ["900 us", "+2.0%", "regression", ""]
    assert found["groups=10"][5] == "new is noisier"
    assert found["groups=2"][2:4] == ["", ""]
    assert "'=SUM(A1)" in found
    assert rows[-1][1:5] == ['say "a", b', "'@x", "'+1+cmd|' /C calc'!A0", "-2"]


def test_a_copy_as_json_has_numbers_where_there_are(
    copier: Visit, results: Table, row_of: MakeRow, spanning: MakeRow
) -> None:
    rows = (
        row_of("a", "1.6 ms", "1.25", sort=0.0016),
        row_of("6.10", "-", "+2.0%"),
        spanning("a note", is_note=True),
    )
    twice = (*results.columns[:3], Column(title="change"))
    table = Table(caption="c", columns=twice, rows=rows, quiet=(False, True, False))
    opened = copier(table, address="#?t.benchmarks-0=a")
    opened.choose_copy("Copy as JSON")
    assert json.loads(clipboard(opened)) == {
        "caption": "c",
        "sides": ["6.12", "6.13"],
        "rows": [
            {"result": "a", "time": 0.0016, "change": 1.25, "change (2)": "no change"},
            {
                "result": "6.10", "time": None, "change": "+2.0%", "change (2)": "no change",
                "notes": ["a note"],
            },
        ],
    }  # fmt: skip


def test_one_row_is_copied_by_its_key(copier: Visit, results: Table) -> None:
    opened = copier(results)
    opened.press("j", "c")
    assert clipboard(opened).splitlines() == [
        "6 results, 3 changed",
        "6.12, 6.13",
        "",
        "result      time  change  verdict",
        "hackbench -T",
        "groups=1  900 us   +2.0%  regression",
    ]


def test_names_in_markdown_are_no_markup(
    copier: Visit, row_of: MakeRow, table_of: Callable[..., Table]
) -> None:
    rows = (row_of("__sched|*b*", "1", "`c`", "anon_pipe_write <img>"),)
    opened = copier(table_of(rows=rows, quiet=(True,)))
    opened.choose_copy("Copy as Markdown")
    line = clipboard(opened).splitlines()[-1]
    assert line == r"| \_\_sched\|\*b\* | 1 | \`c\` | anon_pipe_write \<img\> |"


@pytest.mark.parametrize(("format_name", "ending"), [("CSV", "csv"), ("JSON", "json")])
def test_a_download_is_a_file_of_what_is_shown(
    visit_tables: Visit, format_name: str, ending: str, results: Table
) -> None:
    opened = visit_tables(results)
    with opened.page.expect_download() as download:
        opened.choose_copy(f"Download as {format_name}")
    assert download.value.suggested_filename == f"schedperf-benchmarks-0.{ending}"
    text = Path(download.value.path()).read_text(encoding="utf-8")
    assert "groups=1" in text
    assert "groups=4" not in text
    assert opened.complaints == []


def test_the_menu_is_walked_by_arrows_and_left_by_escape(
    visit_tables: Visit, results: Table
) -> None:
    opened = visit_tables(results)
    button = opened.button(re.compile("^Copy$"))
    focused = "document.activeElement.textContent"
    button.focus()
    opened.press("Enter")
    assert button.get_attribute("aria-expanded") == "true"
    walked = []
    for key in ("ArrowDown", "ArrowUp", "ArrowUp", "ArrowDown", "End", "Home"):
        opened.press(key)
        walked.append(opened.ask(focused).rpartition(" as ")[2])
    assert walked == ["plain text", "Markdown", "JSON", "Markdown", "JSON", "Markdown"]
    opened.press("j", "Escape")
    assert opened.ask(focused) == "Copy"
    assert not opened.page.get_by_role("menu").is_visible()
    opened.press("ArrowUp")
    assert opened.ask(focused) == "Download as JSON"
    opened.press("Tab")
    assert button.get_attribute("aria-expanded") == "false"
