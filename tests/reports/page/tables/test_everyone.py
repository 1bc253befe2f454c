# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables in a real browser: hostile texts, telephones, paper, axe-core, and five hundred rows."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf_reports.blocks import Cell, Column, Table, Text

pytestmark = pytest.mark.browser

Visit = Callable[..., Any]
MakeRow = Callable[..., tuple[Cell, ...]]

ALL = ["groups=1", "groups=10", "groups=2", "groups=4", "pipe", "=SUM(A1)"]
HOSTILE = (
    "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'>\"' "
    "javascript:window.pwned=1 {{7*7}} \u202egnirts " + "n" * 10_000
)
# The requirement is 50 ms on an idle machine for filter and order; what drives the page adds to it.
SLOWEST_ACT_MS = 250.0


@pytest.mark.parametrize("width", [1400, 360])
def test_texts_of_strangers_run_nothing(
    copier: Visit,
    width: int,
    results: Table,
    row_of: MakeRow,
    spanning: MakeRow,
) -> None:
    table = Table(
        caption=HOSTILE,
        columns=(
            Column(title=HOSTILE, explains=HOSTILE),
            Column(title=HOSTILE),
            *results.columns[2:],
        ),
        rows=(
            spanning(HOSTILE),
            row_of(HOSTILE, HOSTILE, HOSTILE),
            spanning(HOSTILE, is_note=True),
            row_of("a", "b", "c"),
        ),
        quiet=(False, True, False, False),
        quiet_word=HOSTILE,
        details=((), (Text(text=HOSTILE),), (), ()),
    )
    opened = copier(table, width=width)
    opened.ask(
        "() => { const table = Tables.of(document.querySelector('.table'));"
        " table.acts.toggleQuiet(); table.sortBy(0); table.open(table.rows.byNumber.get(1), true);"
        " table.acts.find('<img'); table.acts.find('<b>zebra'); table.acts.find(''); }"
    )
    for name in ("Markdown", "plain text", "CSV", "JSON"):
        opened.choose_copy(f"Copy as {name}")
    # An image of the attack would have failed, and run its script, before this one fails.
    opened.ask(
        "new Promise((done) => { const last = new Image(); last.onerror = () => done();"
        " last.src = 'of-this-test'; })"
    )
    assert opened.ask("typeof window.pwned") == "undefined"
    assert opened.ask("document.images.length") == 0
    assert opened.ask("document.documentElement.scrollWidth") <= width
    assert [one for one in opened.complaints if "of-this-test" not in one] == []


@pytest.mark.parametrize("width", [1400, 360])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_to_say(
    visit_tables: Visit, width: int, scheme: str, results: Table, plain: Callable[..., Table]
) -> None:
    axe = pytest.importorskip("axe_playwright_python.base", reason="axe is not installed")
    opened = visit_tables(results, plain(9), width=width, color_scheme=scheme)
    opened.button("More on pipe").click()
    opened.button("change").click()
    opened.press("j")
    opened.button(re.compile("^Copy$")).click()
    opened.ask(axe.AXE_SCRIPT)
    violations = opened.ask(
        "axe.run(document.querySelector('main')).then((said) => said.violations)"
    )
    assert [(one["id"], one["nodes"][0]["html"]) for one in violations] == []


def test_the_page_does_not_scroll_sideways_at_360_pixels(
    visit_tables: Visit, results: Table, plain: Callable[..., Table]
) -> None:
    opened = visit_tables(results, plain(50), width=360, address="#?t.benchmarks-0=a.o1-6")
    assert opened.ask("document.documentElement.scrollWidth") == 360
    box = opened.page.get_by_text("all runs").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 360
    for button in opened.page.locator(".table-tools button:visible").all():
        assert button.bounding_box()["x"] + button.bounding_box()["width"] <= 360


def test_paper_has_all_rows_and_no_tools(visit_tables: Visit, results: Table) -> None:
    opened = visit_tables(results, address="#?t.benchmarks-0=s2.qpipe")
    assert opened.names() == ["pipe"]
    opened.page.emulate_media(media="print")
    assert sorted(opened.names()) == sorted(ALL)
    assert not opened.page.get_by_text("all runs").is_visible()
    assert not opened.page.locator("tr.heading").is_visible()
    assert not opened.page.locator(".table-tools").first.is_visible()


def test_paper_has_what_a_row_opens_to_where_the_reader_opened_it(
    visit_tables: Visit, results: Table
) -> None:
    opened = visit_tables(results)
    opened.page.get_by_role("button", name="More on").first.click()
    opened.page.emulate_media(media="print")
    assert opened.page.get_by_text("runs of one").is_visible()


def test_paper_has_what_a_row_opens_to_where_something_changed(
    visit_tables: Visit, results: Table
) -> None:
    name, *cells, verdict = results.rows[1]
    rows = (results.rows[0], (name, *cells, replace(verdict, tone="bad")), *results.rows[2:])
    opened = visit_tables(replace(results, rows=rows))
    changed, still = (opened.page.get_by_text(text) for text in ("runs of one", "all runs"))
    opened.ask(
        "addEventListener('beforeprint', () => { window.rows ="
        " [...document.querySelectorAll('tr.opened')].map((row) => row.checkVisibility()); })"
    )
    opened.page.pdf()
    assert opened.ask("window.rows") == [True, False]
    # The file may be there before the page hears that it is printed.
    changed.wait_for(state="hidden")
    opened.page.emulate_media(media="print")
    opened.ask("dispatchEvent(new Event('beforeprint'))")
    assert (changed.is_visible(), still.is_visible()) == (True, False)
    said = opened.ask("getComputedStyle(document.querySelector('main'), '::after').content")
    assert "the details of rows that did not change" in said


def test_without_scripting_paper_has_what_a_changed_row_opens_to(
    visit_tables: Visit, results: Table
) -> None:
    name, *cells, verdict = results.rows[1]
    rows = (results.rows[0], (name, *cells, replace(verdict, tone="bad")), *results.rows[2:])
    opened = visit_tables(replace(results, rows=rows), java_script_enabled=False)
    opened.page.emulate_media(media="print")
    assert opened.page.get_by_text("runs of one").is_visible()
    assert not opened.page.get_by_text("all runs").is_visible()


def test_a_narrow_screen_has_the_less_telling_columns_when_it_is_asked_for_them(
    visit_tables: Visit,
) -> None:
    columns = [
        Column(title=title, priority=priority)
        for title, priority in (("result", 0), ("base", 1), ("change", 0), ("CI", 2))
    ]
    rows = tuple(tuple(Cell(text=text) for text in "a123") for _ in range(2))
    wide = Table(caption="four", columns=tuple(columns), rows=rows)
    opened = visit_tables(wide, width=360)
    titles = "[...document.querySelectorAll('thead th')].filter((one) => one.checkVisibility())"
    assert opened.ask(f"{titles}.map((one) => one.textContent.trim())") == ["result", "change"]
    opened.page.get_by_label("2 more columns").check()
    assert opened.ask(f"{titles}.length") == 4


def test_the_head_of_a_long_table_stays_in_sight(
    visit_tables: Visit, plain: Callable[..., Table]
) -> None:
    opened = visit_tables(plain(300))
    box = "document.querySelector('.scroll.tall')"
    opened.ask(f"{box}.scrollTop = 3000")
    top = "getBoundingClientRect().top"
    inside = f"document.querySelector('thead th').{top} - {box}.{top}"
    assert abs(opened.ask(inside)) < 1.0


def test_five_hundred_rows_answer_at_once(
    visit_tables: Visit, plain: Callable[..., Table], computing_ms: Callable[..., float]
) -> None:
    opened = visit_tables(plain(500))
    table = "Tables.of(document.querySelector('.table'))"
    for act in ("acts.find('r4 -r40')", "sortBy(1)", "sortBy(0)"):
        assert computing_ms(opened.page, f"{table}.{act}") < SLOWEST_ACT_MS, act
    assert opened.count() == "100 of 500 rows"
