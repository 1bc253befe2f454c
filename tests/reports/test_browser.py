"""The page in a real browser: charts, policy, folding, telephones, and hostile texts."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from schedperf.model import Comparison, Row
from schedperf_reports.formats import Options
from schedperf_reports.formats.html import html

pytestmark = pytest.mark.browser

Make = Callable[..., Comparison]
Replace = Callable[[Comparison, str], Comparison]

# What the tests look at; a chart takes about a second on two busy cores.
LONGEST_WAIT_SECONDS = 60.0

HOSTILE = (
    "<script>window.pwned = 1</script></script><img src=x onerror='window.pwned = 1'>"
    "\"' onmouseover='window.pwned = 1' javascript:window.pwned=1 {{7*7}} "
    "https://example.invalid/ \u202egnirts\u2066 \x1b[31m " + "n" * 10_000
)


@dataclass(kw_only=True)
class Visit:
    """One opened page, and what it complained of and asked for."""

    page: Any
    console: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def ask(self, script: str) -> Any:
        return self.page.evaluate(script)

    def wait_for(self, script: str) -> None:
        # The policy forbids what the browser driver's own waiting would evaluate.
        end = time.monotonic() + LONGEST_WAIT_SECONDS
        while not self.ask(script):
            assert time.monotonic() < end, f"never became true: {script}"
            time.sleep(0.05)

    def draw_all(self) -> int:
        """Scroll to each chart until it is drawn; return how many there are."""
        count = int(self.ask("document.querySelectorAll('.plot').length"))
        for number in range(count):
            plot = f"document.querySelectorAll('.plot')[{number}]"
            self.ask(f"{plot}.scrollIntoView({{behavior: 'instant'}})")
            self.wait_for(f"['done', 'failed'].includes({plot}.dataset.drawn)")
            assert self.ask(f"{plot}.dataset.drawn") == "done"
        return count


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Visit]]:
    """Open a record's page: ``visit(comparison, width=400, color_scheme="dark") -> Visit``."""
    contexts = []

    def open_page(comparison: Comparison, *, width: int = 1400, **settings: Any) -> Visit:
        path = tmp_path / "report.html"
        path.write_text(html(comparison, Options(width=78, colour=False)), encoding="utf-8")
        context = browser.new_context(viewport={"width": width, "height": 900}, **settings)
        contexts.append(context)
        opened = Visit(page=context.new_page())
        opened.page.on("console", lambda message: opened.console.append(message.text))
        opened.page.on("pageerror", lambda error: opened.errors.append(str(error)))
        opened.page.on("request", lambda request: opened.requests.append(request.url))
        opened.page.goto(path.as_uri())
        return opened

    yield open_page
    for context in contexts:
        context.close()


def is_local(address: str) -> bool:
    return address.startswith(("file:", "data:", "blob:"))


def test_charts_are_drawn_without_network_or_complaint(
    visit: Callable[..., Visit], make_comparison: Make
) -> None:
    opened = visit(make_comparison())
    assert opened.draw_all() == 4
    marks = "document.querySelectorAll('.plot .scatterlayer .point').length"
    assert opened.ask(marks) > 20
    assert opened.console == []
    assert opened.errors == []
    assert all(map(is_local, opened.requests))


def test_nothing_is_drawn_before_it_comes_into_view(
    visit: Callable[..., Visit], make_comparison: Make, make_row: Callable[..., Row]
) -> None:
    rows = tuple(make_row(point=f"groups={number}") for number in range(60))
    opened = visit(make_comparison(rows=rows))
    time.sleep(0.5)
    assert not opened.ask("'Plotly' in window")


@pytest.mark.parametrize("width", [1400, 360])
def test_hostile_texts_run_nothing_and_ask_for_nothing(
    visit: Callable[..., Visit], make_comparison: Make, replace_texts: Replace, width: int
) -> None:
    opened = visit(replace_texts(make_comparison(), HOSTILE), width=width)
    opened.draw_all()
    opened.ask("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert opened.ask("typeof window.pwned") == "undefined"
    assert opened.ask("document.images.length") == 0
    assert opened.ask("document.body.innerText.includes('{{7*7}}')")
    assert opened.console == []
    assert opened.errors == []
    assert all(map(is_local, opened.requests))
    assert opened.ask("document.documentElement.scrollWidth") <= width


def test_labels_of_charts_show_markup_as_it_stands(
    visit: Callable[..., Visit], make_comparison: Make, make_row: Callable[..., Row]
) -> None:
    opened = visit(make_comparison(rows=(make_row(metric="a<b>b</b>", point=""),)))
    opened.draw_all()
    labels = (
        "[...document.querySelectorAll('.plot .yaxislayer-above text')].map((l) => l.textContent)"
    )
    assert "a<b>b</b>" in opened.ask(labels)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 768, 360])
def test_the_page_never_scrolls_sideways(
    visit: Callable[..., Visit], make_comparison: Make, width: int, scheme: str
) -> None:
    opened = visit(make_comparison(), width=width, color_scheme=scheme)
    opened.draw_all()
    opened.ask("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert opened.ask("document.documentElement.scrollWidth") <= width


def test_the_theme_follows_the_system_and_the_button(
    visit: Callable[..., Visit], make_comparison: Make
) -> None:
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    grid = "document.querySelector('.plot .ytick text, .plot .xtick text').style.fill"
    opened = visit(make_comparison(), color_scheme="dark")
    opened.draw_all()
    dark, dark_label = opened.ask(paper), opened.ask(grid)
    opened.page.get_by_role("button", name="Switch to light colours").click()
    assert opened.ask(paper) == "rgb(255, 255, 255)" != dark
    opened.wait_for(f"{grid} !== '{dark_label}'")
    assert opened.ask("document.getElementById('theme').textContent") == "Dark"


def test_without_scripting_the_report_is_whole(
    visit: Callable[..., Visit], make_comparison: Make
) -> None:
    opened = visit(make_comparison(), java_script_enabled=False)
    text = opened.page.locator("body").inner_text()
    assert "37.2 % slower" in text
    assert "Charts need scripting; the numbers are in the tables" in text
    assert not opened.page.locator("#theme").is_visible()
    plots = opened.page.locator(".plot")
    assert all(box["height"] < 100 for box in (one.bounding_box() for one in plots.all()))


def test_a_link_to_a_folded_row_unfolds_it(
    visit: Callable[..., Visit], make_comparison: Make
) -> None:
    opened = visit(make_comparison())
    opened.ask("document.querySelector('#environment details tbody tr').id = 'environment-x'")
    assert not opened.ask("document.querySelector('#environment details').open")
    opened.ask("location.hash = '#environment-x'")
    opened.wait_for("document.querySelector('#environment details').open")


def test_the_keyboard_reaches_the_skip_link_first(
    visit: Callable[..., Visit], make_comparison: Make
) -> None:
    opened = visit(make_comparison())
    opened.page.keyboard.press("Tab")
    assert opened.ask("document.activeElement.textContent") == "Skip to the verdict"
    opened.page.keyboard.press("Enter")
    opened.wait_for("location.hash === '#verdict'")


def test_printing_unfolds_what_is_folded_and_draws_for_white_paper(
    visit: Callable[..., Visit], make_comparison: Make
) -> None:
    label = "document.querySelector('.plot .xtick text').style.fill"
    opened = visit(make_comparison(), color_scheme="dark")
    opened.draw_all()
    on_screen = opened.ask(label)
    opened.ask("dispatchEvent(new Event('beforeprint'))")
    assert opened.ask("[...document.querySelectorAll('details')].every((one) => one.open)")
    opened.wait_for(f"{label} !== '{on_screen}'")
    opened.ask("dispatchEvent(new Event('afterprint'))")
    opened.wait_for(f"{label} === '{on_screen}'")


def test_printing_without_scripting_shows_what_is_folded(
    visit: Callable[..., Visit], make_comparison: Make
) -> None:
    opened = visit(make_comparison(), java_script_enabled=False)
    folded = opened.page.locator("details table").first
    assert not folded.is_visible()
    opened.page.emulate_media(media="print")
    assert folded.is_visible()
