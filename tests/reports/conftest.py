"""What the tests of reports share: comparison records, blocks read, a browser and its pages."""

import dataclasses
import os
import shutil
import time
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from schedperf.model import Comparison, Overall, Replication, Row, SideSummary
from schedperf_reports.blocks import Block, Table, Text
from schedperf_reports.formats import Options
from schedperf_reports.formats.html import html
from tests.reports import comparison_records

UNITS = typing.get_args(Replication)

# What the tests of a page wait for; a chart takes about a second on two busy cores.
LONGEST_WAIT_SECONDS = 60.0

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

# What a page says for some seconds it goes on saying: on a busy machine a test asks later than a
# reader looks.
SAID_FOR_GOOD = """{
  const { setTimeout } = window;
  window.setTimeout = (act, delay, ...others) =>
    (delay > 1000 ? 0 : setTimeout(act, delay, ...others));
}"""


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
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return type(value)(
            **{name: _replace_texts(item, text, name) for name, item in fields.items()}
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


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Start Chromium, or skip where it cannot be driven."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("no Chromium here; apt-get install chromium")
    arguments = ["--disable-gpu", "--disable-background-networking"]
    arguments += ["--no-sandbox"] if os.geteuid() == 0 else []
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=found, args=arguments)
        yield started
        started.close()


@dataclass(kw_only=True)
class Visit:
    """One opened page, and what it complained of and asked for."""

    page: Any
    console: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def ask(self, script: str) -> Any:
        return self.page.evaluate(script)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def wait_for(self, script: str) -> None:
        # The policy forbids what the browser driver's own waiting would evaluate.
        end = time.monotonic() + LONGEST_WAIT_SECONDS
        while not self.ask(script):
            assert time.monotonic() < end, f"never became true: {script}"
            time.sleep(0.05)

    def watch_printing(self) -> None:
        """Let ``window.printed`` say whether all charts for paper were drawn, instead of printing.

        The script is a function in a function: the browser driver calls what a script results in.
        """
        charts = "[...document.querySelectorAll('figure.chart > .plot')].filter(page.isForPaper)"
        self.ask(
            f"() => {{ window.print = () => {{ const some = {charts}; window.printed ="
            " some.length > 0 && some.every((one) => one.dataset.drawn === 'done'); }; }"
        )

    def draw_all(self) -> int:
        """Scroll to each chart that is not folded away until it is drawn; return how many."""
        charts = "[...document.querySelectorAll('figure.chart > .plot')]"
        shown = f"{charts}.filter((one) => one.checkVisibility())"
        count = int(self.ask(f"{shown}.length"))
        for number in range(count):
            plot = f"{shown}[{number}]"
            self.ask(f"{plot}.scrollIntoView({{behavior: 'instant'}})")
            self.wait_for(f"['done', 'failed'].includes({plot}.dataset.drawn)")
            assert self.ask(f"{plot}.dataset.drawn") == "done"
        return count


@pytest.fixture
def open_tab(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open an empty tab: ``open_tab(width=400, color_scheme="dark")``; the test's end closes it."""
    contexts = []

    def open_one(*, width: int = 1400, **settings: Any) -> Any:
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}, **settings))
        contexts[-1].add_init_script(SAID_FOR_GOOD)
        return contexts[-1].new_page()

    yield open_one
    for context in contexts:
        context.close()


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
        return 1000.0 * (thread_seconds() - before)

    return measure


@pytest.fixture
def visit(open_tab: Callable[..., Any], tmp_path: Path) -> Callable[..., Visit]:
    """Open a record's page: ``visit(comparison, width=400, color_scheme="dark") -> Visit``.

    ``anchor`` is what the address ends in, ``options`` are those of the format.
    """

    def open_page(
        comparison: Comparison,
        *,
        anchor: str = "",
        options: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Visit:
        path = tmp_path / "report.html"
        chosen = Options(width=78, colour=False, **options or {})
        path.write_text(html(comparison, chosen), encoding="utf-8")
        opened = Visit(page=open_tab(**settings))
        opened.page.on("console", lambda message: opened.console.append(message.text))
        opened.page.on("pageerror", lambda error: opened.errors.append(str(error)))
        opened.page.on("request", lambda request: opened.requests.append(request.url))
        opened.page.goto(f"{path.as_uri()}{anchor}")
        if settings.get("java_script_enabled", True):
            opened.wait_for("document.documentElement.dataset.ready === 'true'")
        return opened

    return open_page


@pytest.fixture
def other_base() -> Comparison:
    """Build the record with the other side as base."""
    sides = tuple(
        comparison_records.make_side(name, label=label)
        for name, label in (("base", "patched"), ("new", "tip"))
    )
    rows = (comparison_records.make_row(base=0.84, ratio=1 / 1.372, verdict="improvement"),)
    overall = Overall(verdict="improvement", reason="1 improvement", exit_status=0)
    return comparison_records.make_comparison(sides=sides, rows=rows, sweeps=(), overall=overall)


@pytest.fixture
def swappable(visit: Callable[..., Visit], other_base: Comparison) -> Callable[..., Visit]:
    """Open a record's page that carries the other base as well: ``swappable(width=400)``."""
    sides = tuple(
        comparison_records.make_side(name, label=label)
        for name, label in (("base", "tip"), ("new", "patched"))
    )
    comparison = comparison_records.make_comparison(sides=sides)
    options = {"swapped": lambda: [other_base]}
    return lambda **settings: visit(comparison, options=options, **settings)
