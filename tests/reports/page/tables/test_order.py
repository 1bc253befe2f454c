# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables in a real browser: what is shown, in which order, and how it comes back."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from schedperf_reports.blocks import Cell, Table

pytestmark = pytest.mark.browser

Visit = Callable[..., Any]
MakeRow = Callable[..., tuple[Cell, ...]]

CHANGED = ["groups=1", "groups=2", "pipe"]
ALL = ["groups=1", "groups=10", "groups=2", "groups=4", "pipe", "=SUM(A1)"]


def test_without_scripting_all_rows_are_there_and_no_tools(
    visit_tables: Visit, results: Table
) -> None:
    opened = visit_tables(results, java_script_enabled=False)
    page = opened.page
    for name in ALL:
        assert page.get_by_role("rowheader", name=name, exact=True).is_visible()
    assert page.locator(".table-tools").count() == 0
    assert not page.get_by_text("all runs").is_visible()
    page.get_by_text("more on pipe").click()
    assert page.get_by_text("all runs").is_visible()


def test_what_did_not_change_is_hidden_until_asked_for(visit_tables: Visit, results: Table) -> None:
    opened = visit_tables(results)
    assert opened.names() == CHANGED
    assert opened.count() == "3 of 6 rows"
    chip = opened.button("3 rows hidden (unchanged): show")
    assert chip.get_attribute("aria-pressed") == "false"
    chip.focus()
    opened.press("Enter")
    assert opened.names() == ALL
    assert opened.count() == "6 rows"
    assert opened.button("3 rows shown (unchanged): hide").get_attribute("aria-pressed") == "true"
    opened.address("a")
    opened.button("3 rows shown (unchanged): hide").click()
    assert opened.names() == CHANGED
    opened.address("")
    assert opened.complaints == []


def test_a_note_and_a_heading_go_with_their_rows(visit_tables: Visit, results: Table) -> None:
    opened = visit_tables(results)
    note, heading = (opened.page.locator(f"tr.{kind}").first for kind in ("note", "heading"))
    assert heading.is_visible()
    assert not note.is_visible()
    opened.search("nothing like it")
    assert not heading.is_visible()
    opened.search("")
    opened.button(re.compile(r"hidden \(")).click()
    assert note.is_visible()


def test_where_all_is_unchanged_nothing_is_hidden(
    visit_tables: Visit, plain: Callable[..., Table], table_of: Callable[..., Table]
) -> None:
    opened = visit_tables(table_of(rows=plain(3).rows, quiet=(True,) * 3))
    assert opened.names() == ["r0", "r1", "r2"]
    assert opened.page.get_by_text("all 3 rows unchanged").is_visible()
    assert opened.page.get_by_role("button", name=re.compile(r"hidden \(")).count() == 0


def test_short_tables_have_no_tools_and_long_ones_do(
    visit_tables: Visit, plain: Callable[..., Table]
) -> None:
    opened = visit_tables(plain(7), plain(8))
    assert opened.page.locator(".table-tools").count() == 1
    assert opened.page.locator(".table").nth(1).locator(".table-tools").count() == 1


@pytest.mark.parametrize("device", ["mouse", "keyboard"])
def test_a_title_sorts_down_then_up_then_not(
    visit_tables: Visit, device: str, results: Table
) -> None:
    opened = visit_tables(results, address="#?t.benchmarks-0=a")
    title = opened.page.locator("thead th").nth(1)

    def sort() -> None:
        if device == "keyboard":
            title.get_by_role("button").focus()
            opened.press("Space")
        else:
            title.get_by_role("button").click()

    assert title.get_attribute("aria-sort") == "none"
    sort()
    # Units have prefixes, and what is missing is last.
    down = ["pipe", "groups=10", "groups=4", "groups=1", "=SUM(A1)", "groups=2"]
    assert opened.names() == down
    assert title.get_attribute("aria-sort") == "descending"
    opened.address("s1d.a")
    sort()
    assert opened.names() == [*reversed(down[:-1]), down[-1]]
    assert title.get_attribute("aria-sort") == "ascending"
    sort()
    assert opened.names() == ALL
    assert title.get_attribute("aria-sort") == "none"
    opened.address("a")


def test_words_are_sorted_as_people_count_and_stay_in_order_where_equal(
    visit_tables: Visit, results: Table
) -> None:
    opened = visit_tables(results, address="#?t.benchmarks-0=s0.a")
    in_words = ["groups=1", "groups=2", "groups=4", "groups=10", "pipe"]
    assert [name for name in opened.names() if name != "=SUM(A1)"] == in_words
    opened.button("verdict").click()
    unchanged = ["groups=10", "groups=4", "=SUM(A1)"]
    assert opened.names() == ["pipe", "groups=2", *unchanged, "groups=1"]


def test_what_a_section_says_goes_before_what_the_text_says(
    visit_tables: Visit,
    plain: Callable[..., Table],
    row_of: MakeRow,
    table_of: Callable[..., Table],
) -> None:
    rows = (
        row_of("a", "9", "+1%", sort=1.0),
        row_of("b", "8", "+2%", sort=3.0),
        row_of("c", "7", "+3%", sort=float("nan")),
        row_of("d", "6", "+4%", sort=float("inf")),
    )
    table = table_of(rows=rows, quiet=(False, False, False, False))
    opened = visit_tables(table, plain(8))
    opened.ask("Tables.of(document.querySelector('.table')).sortBy(1)")
    assert opened.names() == ["d", "b", "a", "c"]


def test_sorted_rows_leave_their_heading_and_say_it_themselves(
    visit_tables: Visit, results: Table
) -> None:
    opened = visit_tables(results)
    opened.button("change").click()
    assert not opened.page.locator("tr.heading").is_visible()
    said = opened.ask("getComputedStyle(document.querySelector('.clip'), '::before').content")
    assert "hackbench -T" in said
    opened.button("3 rows hidden (unchanged): show").click()
    follows = "document.querySelector('tr.note').previousElementSibling.dataset.row"
    assert opened.ask(follows) == "2"


def test_numbers_in_texts_are_read_and_names_are_not(visit_tables: Visit, results: Table) -> None:
    opened = visit_tables(results)
    parse = "(text) => TableRows.parseNumber(text)"
    expected = {
        "1.5 ms": 1.5e-3, "+37.2%": 37.2, "\u22123": -3, "2 KiB": 2048, "138.7 k/s": 138700,
        "<1e-99": 1e-99, "12,345": 12345, "-1.0..+2.0": -1, "5 + 5": 5, "3 messages": 3,
    }  # fmt: skip
    for text, number in expected.items():
        assert opened.ask(parse, text) == pytest.approx(number), text
    for text in ("6.12.0", "0-3", "0,2", "0x1f", "12:30", "a1", "0/008", ""):
        assert opened.ask(parse, text) is None, text


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("GROUPS", ["groups=1", "groups=10", "groups=2", "groups=4"]),
        ("groups -=1", ["groups=2", "groups=4"]),
        ('"no change"', ["groups=10", "groups=4", "=SUM(A1)"]),
        ('-"no change" -pipe', ["groups=1", "groups=2"]),
        ("noisier", ["groups=10"]),
        ("hackbench regression", ["groups=1"]),
        ("-", ALL),
    ],
)
def test_search_finds_and_leaves_out(
    visit_tables: Visit, words: str, found: list[str], results: Table
) -> None:
    opened = visit_tables(results, address="#?t.benchmarks-0=a")
    opened.search(words)
    assert opened.names() == found
    opened.address(f"a.q{words}")


def test_where_nothing_fits_the_way_back_is_said(visit_tables: Visit, results: Table) -> None:
    opened = visit_tables(results)
    opened.search("groups=4")
    assert opened.names() == []
    assert opened.count() == "0 of 6 rows"
    assert "no row matches “groups=4”" in opened.page.locator("tbody.nothing").inner_text()
    opened.button("Show 1 hidden (unchanged)").click()
    assert opened.names() == ["groups=4"]
    opened.search("zebra")
    opened.button("Clear the search").click()
    assert opened.names() == ALL
    opened.search("zebra")
    opened.button("Reset the table").click()
    assert opened.names() == CHANGED
    opened.address("")
