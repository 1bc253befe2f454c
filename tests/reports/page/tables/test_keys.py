# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables in a real browser: rows that open, keys, the address, links, and charts beside them."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf_reports.blocks import Table

pytestmark = pytest.mark.browser

Visit = Callable[..., Any]

CHANGED = ["groups=1", "groups=2", "pipe"]


def test_a_row_opens_by_its_button_by_itself_and_by_its_key(
    visit_tables: Visit, results: Table
) -> None:
    opened = visit_tables(results)
    inside = opened.page.get_by_text("all runs")
    assert not inside.is_visible()
    button = opened.button("More on pipe")
    assert button.get_attribute("aria-expanded") == "false"
    button.click()
    assert inside.is_visible()
    assert button.get_attribute("aria-expanded") == "true"
    opened.address("o6")
    opened.page.get_by_text("improvement").click()
    assert not inside.is_visible()
    opened.press("j", "j", "j", "Enter")
    assert inside.is_visible()
    opened.press("Enter")
    assert not inside.is_visible()
    opened.address("")


def test_keys_walk_the_rows_that_are_shown(visit_tables: Visit, results: Table) -> None:
    opened = visit_tables(results)
    walked = []
    for key in ("j", "j", "j", "j", "k", "ArrowUp", "k", "ArrowDown"):
        opened.press(key)
        walked.append(opened.focused_row())
    assert walked == [*CHANGED, "pipe", "groups=2", "groups=1", "groups=1", "groups=2"]
    assert opened.ask("document.querySelectorAll('tr[tabindex=\"0\"]').length") == 1
    assert opened.ask("document.activeElement.getAttribute('aria-current')") == "true"


def test_a_row_is_hidden_by_its_key_and_comes_back(visit_tables: Visit, results: Table) -> None:
    opened = visit_tables(results)
    opened.press("j", "x")
    assert opened.names() == ["groups=2", "pipe"]
    assert opened.focused_row() == "groups=2"
    opened.press("x")
    opened.address("x1-4")
    opened.button("2 rows hidden manually: show").click()
    assert opened.names() == CHANGED
    opened.address("")


def test_the_search_has_a_key_and_letters_in_it_are_letters(
    visit_tables: Visit, results: Table
) -> None:
    opened = visit_tables(results)
    opened.press("/", "j", "x", "k")
    assert opened.ask("document.activeElement.value") == "jxk"
    assert opened.focused_row() == ""
    opened.search("pipe")
    opened.press("Enter")
    assert opened.focused_row() == "pipe"


@pytest.mark.parametrize("width", [1400, 360])
def test_above_all_tables_keys_act_on_the_next_one_below(
    visit_tables: Visit, width: int, results: Table
) -> None:
    opened = visit_tables(results, width=width)
    opened.ask("document.querySelector('main').style.paddingTop = '4000px'")
    opened.press("j")
    assert opened.focused_row() == CHANGED[0]
    opened.ask(
        "() => { document.activeElement.blur(); scrollTo({ top: 0, behavior: 'instant' }); }"
    )
    opened.press("/")
    assert opened.ask("document.activeElement.type") == "search"


def test_where_the_last_row_is_hidden_the_way_back_has_the_focus(
    visit_tables: Visit, results: Table, plain: Callable[..., Table]
) -> None:
    opened = visit_tables(results, plain(9))
    opened.press("j", "x", "x", "x")
    assert opened.names() == []
    assert opened.ask("document.activeElement.closest('.nothing') !== null")
    # Of a table without rows the keys know no next one.
    opened.ask("document.activeElement.blur()")
    opened.press("j")
    assert opened.focused_row() == "r0"


def test_a_title_sorts_by_keyboard_and_keeps_the_focus(visit_tables: Visit, results: Table) -> None:
    opened = visit_tables(results)
    opened.button("change").focus()
    orders = []
    for key in ("Enter", "Space", "Enter"):
        opened.press(key)
        orders.append(opened.ask("document.activeElement.parentElement.ariaSort"))
    assert orders == ["descending", "ascending", "none"]


def test_keys_are_listed_once(
    visit_tables: Visit, results: Table, plain: Callable[..., Table]
) -> None:
    opened = visit_tables(results, plain(9))
    opened.press("?")
    listed = opened.page.locator("#keys dt").all_inner_texts()
    for key in ("j", "k", "Enter", "c", "x", "/"):
        assert listed.count(key) == 1


def test_the_address_restores_all(visit_tables: Visit, results: Table) -> None:
    opened = visit_tables(results, address="#?t.benchmarks-0=s1.a.o6.x1.q-groups%3D2")
    assert opened.names() == ["=SUM(A1)", "groups=4", "groups=10", "pipe"]
    assert opened.page.get_by_text("all runs").is_visible()
    assert opened.page.locator("main").get_by_role("searchbox").first.input_value() == "-groups=2"
    assert opened.ask("document.querySelectorAll('thead th')[1].ariaSort") == "ascending"
    opened.ask("location.hash = '#?t.benchmarks-0=q%22pipe%22'")
    opened.wait_for("document.querySelector('.table-tools output').textContent === '1 of 6 rows'")
    opened.ask("location.hash = '#benchmarks'")
    opened.wait_for("document.querySelector('.table-tools output').textContent === '3 of 6 rows'")
    assert opened.names() == CHANGED


def test_a_link_to_this_view_has_what_was_done_a_moment_ago(
    visit_tables: Visit, results: Table
) -> None:
    opened = visit_tables(results)
    script = (
        "() => { Tables.of(document.querySelector('.table')).acts.find('pipe');"
        " return page.addressHere(); }"
    )
    assert opened.ask(script).endswith("t.benchmarks-0=qpipe")


@pytest.mark.parametrize(
    "address",
    [
        "s99.o-.x-3-99",
        "s-1",
        "o999999999999.x0",
        "%00%FF",
        "sd",
        "constructor.__proto__",
        "....",
        "q",
    ],
)
def test_an_address_that_fits_nothing_leaves_the_table_alone(
    visit_tables: Visit, address: str, results: Table
) -> None:
    opened = visit_tables(results, address=f"#?t.benchmarks-0={address}")
    assert opened.names() == CHANGED
    assert opened.complaints == []


def test_a_link_to_a_hidden_row_shows_it(visit_tables: Visit, results: Table) -> None:
    opened = visit_tables(results)
    opened.page.locator("a.evidence").click()
    opened.wait_for("document.getElementById('benchmarks-ten').checkVisibility()")
    assert opened.names() == ["groups=1", "groups=10", "groups=2", "pipe"]
    assert opened.count() == "4 of 6 rows"
    opened.button("More on pipe").click()
    assert "groups=10" in opened.names()
    opened.search("groups")
    assert opened.names() == ["groups=1", "groups=2"]


def test_a_link_into_a_closed_row_opens_it(visit_tables: Visit, results: Table) -> None:
    opened = visit_tables(results, address="#benchmarks-run-1")
    opened.wait_for("document.getElementById('benchmarks-run-1').checkVisibility()")
    assert opened.button("More on pipe").get_attribute("aria-expanded") == "true"


def test_a_folded_table_has_its_tools_inside(
    visit_tables: Visit, plain: Callable[..., Table]
) -> None:
    table = replace(plain(9), caption="109 fields", limit=0)
    opened = visit_tables(table)
    assert not opened.page.locator("main").get_by_role("searchbox").is_visible()
    opened.page.get_by_text("109 fields").first.click()
    opened.search("r7")
    assert opened.names() == ["r7"]


def test_listeners_hear_what_is_shown_and_pointed_at(visit_tables: Visit, results: Table) -> None:
    opened = visit_tables(results)
    opened.ask(
        "() => { window.heard = []; for (const name of ['rows', 'row']) {"
        " document.querySelector('main').addEventListener(name, (event) =>"
        " window.heard.push([name, event.detail])); } }"
    )
    opened.button("change").click()
    opened.page.get_by_text("improvement").hover()
    opened.page.get_by_role("heading").first.hover()
    assert opened.ask("window.heard") == [
        ["rows", {"order": [1, 6, 4]}],
        ["row", {"number": 6, "on": True}],
        ["row", {"number": 6, "on": False}],
    ]
    opened.press("j")
    assert opened.ask("window.heard.at(-1)") == ["row", {"number": 1, "on": True}]


def test_a_chart_chooses_a_row_and_limits_the_rows(visit_tables: Visit, results: Table) -> None:
    opened = visit_tables(results)
    tell = (
        "([name, detail]) => document.querySelector('.table table')"
        ".dispatchEvent(new CustomEvent(name, {detail}))"
    )
    opened.ask(tell, ["choose", {"number": 5}])
    assert opened.names() == ["groups=1", "groups=2", "groups=4", "pipe"]
    assert (
        opened.ask("document.querySelector('[aria-current=true] .clip').textContent") == "groups=4"
    )
    opened.ask(tell, ["limit", {"order": [2, 6]}])
    assert opened.names() == ["groups=10", "pipe"]
    opened.ask(tell, ["limit", {"order": None}])
    assert opened.names() == CHANGED
    opened.ask(tell, ["limit", {"order": [4]}])
    opened.button("1 row selected in the chart: show all").click()
    assert opened.names() == CHANGED
