# SPDX-License-Identifier: GPL-2.0-or-later
"""Pages of tables in a real browser, and tables to put on them."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf_reports.blocks import Cell, Column, Item, Items, Table, Text
from schedperf_reports.page.head import Head, PageSource
from schedperf_reports.page.page import Described, render_sections
from tests.chromium import Tab
from tests.reports.visits import Visit

HEAD = Head(
    title="a comparison",
    sides=(
        PageSource(name="base", label="6.12", path="base.tar"),
        PageSource(name="new", label="6.13", path="new.tar"),
    ),
    tool_version="0.1.0",
    schema="schedperf/compare/2",
)
COLUMNS = (
    Column(title="result", code=True),
    Column(title="time", align="right"),
    Column(title="change", align="right"),
    Column(title="verdict"),
)


def _make_row(
    name: str, cost: str, change: str, verdict: str = "no change", *, sort: float | None = None
) -> tuple[Cell, ...]:
    return (
        Cell(text=name),
        Cell(text=cost, sort=sort),
        Cell(text=change),
        Cell(text=verdict),
    )


def _make_spanning(text: str, *, is_note: bool = False) -> tuple[Cell, ...]:
    return (Cell(text=text, tone="warning" if is_note else "strong"), *[Cell(text="")] * 3)


RUNS = Table(
    caption="runs of pipe",
    columns=(Column(title="run"), Column(title="value", align="right")),
    rows=((Cell(text="1"), Cell(text="2.5")),),
    anchors=("run-1",),
)

# Rows 1, 4 and 6 are results that changed; 2, 5 and 7 did not; 3 is a note on row 2.
RESULTS = Table(
    caption="6 results, 3 changed",
    columns=COLUMNS,
    rows=(
        _make_spanning("hackbench -T"),
        _make_row("groups=1", "900 us", "+2.0%", "regression"),
        _make_row("groups=10", "1.6 ms", "+0.1%"),
        _make_spanning("new is noisier", is_note=True),
        _make_row("groups=2", "-", "-", "inconclusive"),
        _make_row("groups=4", "1.2 ms", "-0.3%"),
        _make_row("pipe", "2 s", "-9.0%", "improvement"),
        _make_row("=SUM(A1)", "20 ns", "+0.0%"),
    ),
    anchors=("", "one", "ten", "", "two", "four", "pipe", "sum"),
    quiet=(False, False, True, False, False, True, False, True),
    details=((), (Text(text="runs of one"),), (), (), (), (), (Text(text="all runs"), RUNS), ()),
)


def _make_plain(count: int) -> Table:
    """Return a table of rows r0, r1, … without anything that opens or is quiet."""
    rows = tuple(_make_row(f"r{n}", f"{n * 37 % count} us", f"+{n}.0%") for n in range(count))
    return Table(caption=f"{count} rows", columns=COLUMNS, rows=rows)


@pytest.fixture
def results() -> Table:
    """Return six results in a group, three of them unchanged, two of which open."""
    return RESULTS


@pytest.fixture
def row_of() -> Callable[..., tuple[Cell, ...]]:
    """Build a row: ``row_of("groups=1", "1.6 ms", "+2.0%", sort=0.0016)``."""
    return _make_row


@pytest.fixture
def spanning() -> Callable[..., tuple[Cell, ...]]:
    """Build a heading, or with ``is_note=True`` a note."""
    return _make_spanning


@pytest.fixture
def table_of() -> Callable[..., Table]:
    """Build a table of rows with the columns of ``results``."""

    def build(*, rows: tuple[tuple[Cell, ...], ...], **changes: Any) -> Table:
        return Table(**{"caption": "c", "columns": COLUMNS, "rows": rows} | changes)

    return build


@pytest.fixture
def plain() -> Callable[[int], Table]:
    """Build a table of so many rows r0, r1, … of which none opens or is quiet."""
    return _make_plain


@pytest.fixture
def draw() -> Callable[..., str]:
    """Draw tables as the section "benchmarks": the page's main part."""
    return lambda *tables: _draw(*tables).partition("<main")[2].partition("</main>")[0]


def _draw(*tables: Table) -> str:
    link = Items(items=(Item(text="see", evidence=("benchmarks#ten",)),))
    section = Described(name="benchmarks", title="Benchmarks", blocks=(*tables, link))
    return render_sections(HEAD, [section])


class Tables(Visit):
    """An opened page of tables."""

    def button(self, name: str | re.Pattern[str]) -> Any:
        return self.page.locator("main").get_by_role("button", name=name, exact=True).first

    def search(self, words: str) -> None:
        self.page.locator("main").get_by_role("searchbox").first.fill(words)

    def names(self) -> list[str]:
        """Return the names of the first table's rows that are seen, in their order."""
        return list(
            self.ask(
                "[...document.querySelectorAll('.table')[0].querySelector('tbody').rows]"
                ".filter((row) => row.checkVisibility() && row.dataset.row"
                " && !row.matches('.heading, .note'))"
                ".map((row) => row.querySelector('.clip').textContent)"
            )
        )

    def count(self) -> str:
        return str(self.page.locator(".table-tools output").first.text_content())

    def focused_row(self) -> str:
        return str(self.ask("document.activeElement.querySelector?.('.clip')?.textContent ?? ''"))

    def address(self, wanted: str) -> None:
        """Wait until the address is written; it must say what was done to the first table."""
        self.wait_for("!Tables.of(document.querySelector('.table')).writing")
        assert (self.ask("page.state.get('t.benchmarks-0')") or "") == wanted

    def choose_copy(self, name: str) -> None:
        self.button(re.compile("^Copy$")).click()
        self.page.get_by_role("menuitem", name=name, exact=True).click()


@pytest.fixture
def visit_tables(lend_tab: Callable[..., Tab], tmp_path: Path) -> Callable[..., Tables]:
    """Open a page of tables: ``visit_tables(results, address="#?t.benchmarks-0=a", width=360)``."""

    def open_page(*tables: Table, address: str = "", **settings: Any) -> Tables:
        path = tmp_path / "tables.html"
        path.write_text(_draw(*tables), encoding="utf-8")
        opened = Tables(lend_tab(**settings))
        opened.go_to(f"{path.as_uri()}{address}")
        return opened

    return open_page


@pytest.fixture
def copier(visit_tables: Callable[..., Tables]) -> Callable[..., Tables]:
    """Open a page that may read the clipboard, so that a test can."""

    def open_page(*tables: Table, **settings: Any) -> Tables:
        allowed = ["clipboard-read", "clipboard-write"]
        return visit_tables(*tables, permissions=allowed, **settings)

    return open_page
