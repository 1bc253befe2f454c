# SPDX-License-Identifier: GPL-2.0-or-later
"""What the tests of reports share: comparison records, blocks read, a browser and its pages."""

import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import asdict

from schedperf.model.comparison import Comparison
from schedperf.model.rows import Replication, Row
from schedperf.model.sides import SideSummary
from schedperf_reports.blocks import Block, Table, Text
from schedperf_reports.formats import Options
from schedperf_reports.formats.html import html
from tests.chromium import Tab, Tabs
from tests.reports import comparison_records
from tests.reports.visits import Visit

UNITS = typing.get_args(Replication)


@pytest.fixture(scope="session")
def make_comparison() -> Callable[..., Comparison]:
    """Build a record with five results, one of them a regression; fields can be replaced."""
    return comparison_records.make_comparison


@pytest.fixture(scope="session")
def compare_frame() -> Callable[..., Comparison]:
    """Build the record of a table of runs, judged by the real engine; fields can be replaced.

    The table is as :func:`schedperf.stats.compare_runs` takes it, with the sides base and new.
    """
    return comparison_records.compare_frame


@pytest.fixture(scope="session")
def make_row() -> Callable[..., Row]:
    """Build one row, a regression; what follows from a changed base or ratio follows."""
    return comparison_records.make_row


@pytest.fixture(scope="session")
def make_side() -> Callable[..., SideSummary]:
    """Build one side: ``make_side("new", runs_clean=3)``."""
    return comparison_records.make_side


def _replace_texts(value: Any, text: str, key: str = "") -> Any:
    # Words of a closed set and a caveat's code choose what is said; everything else is said.
    if isinstance(value, str):
        closed = {
            "severity",
            "verdict",
            "family",
            "better",
            "bearing",
            "status",
            "schema",
            "code",
            "unit",
        }
        is_unit = key == "replication" and value in UNITS
        return value if key in closed or is_unit else text
    if isinstance(value, Mapping):
        return {name: _replace_texts(item, text) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_replace_texts(item, text, key) for item in value)
    if isinstance(value, Struct):
        return type(value)(
            **{name: _replace_texts(item, text, name) for name, item in asdict(value).items()}
        )
    return value


@pytest.fixture(scope="session")
def replace_texts() -> Callable[[Comparison, str], Comparison]:
    """Put one text into every text field of a record that is not a word of a closed set."""

    def replace(comparison: Comparison, text: str) -> Comparison:
        replaced: Comparison = _replace_texts(comparison, text)
        return replaced

    return replace


class Blocks(list[Block]):
    """What a section describes."""

    def texts(self) -> list[str]:
        return [block.text for block in self if isinstance(block, Text)]

    def tables(self) -> list[Table]:
        return [block for block in self if isinstance(block, Table)]


@pytest.fixture(scope="session")
def to_blocks() -> type[Blocks]:
    """Gather what a section describes: ``to_blocks(c2c(comparison)).texts()``."""
    return Blocks


@pytest.fixture(scope="session")
def cells() -> Callable[[Table], list[list[str]]]:
    """Return the texts of a table's cells."""
    return lambda table: [[cell.text for cell in row] for row in table.rows]


@pytest.fixture(scope="session")
def tabs(browser: Any) -> Tabs:
    """Keep the browser's tabs for all tests of this process."""
    return Tabs(browser)


@pytest.fixture
def lend_tab(tabs: Tabs) -> Iterator[Callable[..., Tab]]:
    """Lend a shared, cleared tab: ``lend_tab(width=400, color_scheme="dark")``."""
    with ExitStack() as lent:

        def lend(**settings: Any) -> Tab:
            tab = tabs.lend(**settings)
            lent.callback(tabs.take_back, tab)
            return tab

        yield lend


@pytest.fixture
def open_tab(tabs: Tabs) -> Iterator[Callable[..., Tab]]:
    """Open a tab that no other test gets: ``open_tab(offline=True)``; the test's end closes it."""
    with ExitStack() as opened:

        def open_one(**settings: Any) -> Tab:
            tab = tabs.open(**settings)
            opened.callback(tab.page.context.close)
            return tab

        yield open_one


@pytest.fixture
def computing_ms() -> Callable[..., float]:
    """Run a script in a page: ``computing_ms(page, script)`` is the time that it computed, in ms.

    It is the processor time of the page's thread: a clock would count all who share the machine.
    """

    def measure(page: Any, script: str) -> float:
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")

        def thread_seconds() -> float:
            metrics = session.send("Performance.getMetrics")["metrics"]
            return next(float(one["value"]) for one in metrics if one["name"] == "ThreadTime")

        before = thread_seconds()
        page.evaluate(script)
        milliseconds = 1000.0 * (thread_seconds() - before)
        session.detach()
        return milliseconds

    return measure


@pytest.fixture
def visit_file(lend_tab: Callable[..., Tab], open_tab: Callable[..., Tab]) -> Callable[..., Visit]:
    """Open a page: ``visit_file(path, width=400, color_scheme="dark") -> Visit``.

    ``anchor`` is what the address ends in. What shows no change is opened too, unless a test says
    ``is_folded=True``. A test that puts a script into the browser itself says ``is_shared=False``.
    """

    def open_page(
        path: Path,
        *,
        anchor: str = "",
        is_shared: bool = True,
        is_folded: bool = False,
        **settings: Any,
    ) -> Visit:
        opened = Visit(tab=(lend_tab if is_shared else open_tab)(**settings))
        opened.go_to(f"{path.as_uri()}{anchor}")
        if opened.tab.has_scripts and not is_folded:
            opened.unfold()
        return opened

    return open_page


@pytest.fixture
def visit(visit_file: Callable[..., Visit], tmp_path: Path) -> Callable[..., Visit]:
    """Open a record's page, as ``visit_file`` does: ``visit(comparison, width=400) -> Visit``.

    ``options`` are those of the format.
    """

    def open_page(
        comparison: Comparison, *, options: Mapping[str, Any] | None = None, **settings: Any
    ) -> Visit:
        path = tmp_path / "report.html"
        chosen = Options(width=78, colour=False, **options or {})
        path.write_text(html(comparison, chosen), encoding="utf-8")
        return visit_file(path, **settings)

    return open_page


@pytest.fixture
def visit_report(visit: Callable[..., Visit]) -> Callable[..., Visit]:
    """Open a record's page as ``schedperf compare`` writes it: ``visit_report(width=400)``."""
    sides = tuple(
        comparison_records.make_side(name, label=label)
        for name, label in (("base", "tip"), ("new", "patched"))
    )
    comparison = comparison_records.make_comparison(sides=sides)
    options = {"other_bases": [comparison_records.OTHER_BASE]}
    return lambda **settings: visit(comparison, options=options, **settings)
