"""The frame of the page in a real browser: its controls and keys, the swap, paper, the library."""

import functools
import http.server
import itertools
import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from schedperf.cli import main
from schedperf.model import Comparison, Overall
from schedperf_reports._page import Described, describe_head, render_sections
from schedperf_reports.blocks import Figure
from schedperf_reports.formats import Options
from schedperf_reports.formats.html import html
from schedperf_reports.plotly_library import share_plotly

pytestmark = pytest.mark.browser

Make = Callable[..., Comparison]
Visit = Callable[..., Any]

# What is said with one side as base: every text of the main part, in order.
TEXTS = "document.querySelector('main').innerText"
BANNER = "document.querySelector('.swapped').checkVisibility()"
TITLE = "document.title"
IS_DARK = "getComputedStyle(document.documentElement).colorScheme === 'dark'"
RECTANGLE = "document.querySelector('.top .side').getBoundingClientRect().top"


@pytest.fixture
def other(
    make_comparison: Make, make_row: Callable[..., Any], make_side: Callable[..., Any]
) -> Any:
    """Build the record with the other side as base."""
    sides = (make_side("base", label="patched"), make_side("new", label="tip"))
    rows = (make_row(base=0.84, ratio=1 / 1.372, verdict="improvement"),)
    overall = Overall(verdict="improvement", reason="1 improvement", exit_status=0)
    return make_comparison(sides=sides, rows=rows, sweeps=(), overall=overall)


@pytest.fixture
def swappable(
    visit: Visit, make_comparison: Make, make_side: Callable[..., Any], other: Any
) -> Any:
    """Open a record's page that carries the other base as well."""
    sides = (make_side("base", label="tip"), make_side("new", label="patched"))
    comparison = make_comparison(sides=sides)
    options = {"swapped": lambda: [other]}
    return lambda **settings: visit(comparison, options=options, **settings)


def press(opened: Any, *keys: str) -> None:
    for key in keys:
        opened.page.keyboard.press(key)


def test_the_button_swaps_all_that_is_said_and_back(swappable: Any) -> None:
    opened = swappable()
    before, title = opened.ask(TEXTS), opened.ask(TITLE)
    assert title == "regression: patched, against tip - schedperf"
    opened.page.get_by_role("button", name="Swap").click()
    opened.wait_for(BANNER)
    assert opened.ask(TITLE) == "improvement: tip, against patched - schedperf"
    sides = "[...document.querySelectorAll('.top .side')].map((one) => one.innerText.trim())"
    # The letter, colour and shape are the role's; the label beside it is another one.
    assert [re.sub(r"\s+", " ", one) for one in opened.ask(sides)] == ["A patched", "B tip"]
    assert "A, the base, is now patched" in opened.page.locator(".swapped").inner_text()
    assert opened.ask(TEXTS) != before
    opened.page.get_by_role("button", name="Swap").click()
    opened.wait_for(f"!({BANNER})")
    assert (opened.ask(TEXTS), opened.ask(TITLE)) == (before, title)
    assert (opened.console, opened.errors) == ([], [])


def test_the_key_swaps_and_the_address_keeps_it(swappable: Any) -> None:
    opened = swappable()
    press(opened, "s")
    opened.wait_for(BANNER)
    assert opened.ask("location.hash") == "#?base=B"
    assert opened.ask("document.getElementById('swap').getAttribute('aria-pressed')") == "true"
    again = swappable(anchor="#?base=B")
    assert again.ask(BANNER)
    assert again.ask(TITLE).startswith("improvement")
    press(again, "s")
    again.wait_for(f"!({BANNER})")
    assert again.ask("location.hash") == ""


def test_an_address_that_names_no_side_shows_the_pages_own(swappable: Any) -> None:
    opened = swappable(anchor="#verdict?base=Z&theme=pink")
    assert not opened.ask(BANNER)
    assert opened.ask(TITLE).startswith("regression")
    assert opened.errors == []


def test_scripts_work_on_what_was_swapped_in(swappable: Any) -> None:
    opened = swappable()
    press(opened, "s")
    opened.wait_for(BANNER)
    press(opened, "s")
    opened.wait_for(f"!({BANNER})")
    assert opened.draw_all() >= 1
    assert opened.ask("document.querySelectorAll('.js-plotly-plot .main-svg').length") > 0
    assert opened.errors == []


def test_of_three_sides_each_can_be_base(
    visit: Visit, make_comparison: Make, make_side: Callable[..., Any], other: Any
) -> None:
    three = tuple(make_side(name, label=f"kernel {name}") for name in ("base", "new", "new2"))
    third = make_comparison(
        sides=(three[2], three[0], three[1]),
        overall=Overall(verdict="inconclusive", reason="r", exit_status=0),
    )
    options = {"swapped": lambda: [other, third]}
    opened = visit(make_comparison(sides=three), options=options, width=360)
    opened.page.get_by_label("Which side is base").select_option("C")
    opened.wait_for(BANNER)
    assert opened.ask(TITLE).startswith("inconclusive")
    assert "kernel new2" in opened.page.locator(".swapped").inner_text()
    assert opened.ask("document.documentElement.scrollWidth") <= 360


SIGNED = re.compile(r"[+-]\d+(?:\.\d+)? %")


def numbers(record: Any) -> dict[str, Any]:
    return {row["metric"] + row["point"]: row for row in record["rows"]}


def test_the_swapped_page_says_what_the_swapped_comparison_says(
    browser: Any,
    make_bundle: Callable[..., Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    times = (0.600, 0.612, 0.605, 0.609, 0.598)
    paths = {
        name: str(make_bundle(tmp_path / f"{name}.tar", label=name, runs=[
            {"time_s": factor * time} for time in times
        ]))
        for name, factor in (("tip", 1.0), ("patched", 1.3))
    }  # fmt: skip
    pages = {}
    for base, new in itertools.permutations(paths):
        page = tmp_path / f"{base}.html"
        main(["compare", paths[base], paths[new], "--html", str(page), "--json", "-"])
        pages[base] = page, json.loads(capsys.readouterr().out)
    tab = browser.new_page()
    said = {}
    for base, anchor in (("tip", ""), ("tip", "#?base=B"), ("patched", "")):
        tab.goto("about:blank")
        tab.goto(f"{pages[base][0].as_uri()}{anchor}")
        while tab.evaluate("document.documentElement.dataset.ready") != "true":
            tab.wait_for_timeout(50)
        # The only difference: the record to save is in the file once.
        tab.evaluate("document.querySelector('#raw')?.remove()")
        said[base, anchor] = tab.evaluate(f"[{TITLE}, {TEXTS}]")
    tab.close()
    assert said["tip", "#?base=B"] == said["patched", ""]
    assert SIGNED.findall(said["tip", ""][1])
    assert "regression" in said["tip", ""][0]
    assert "improvement" in said["patched", ""][0]
    mirrored, back = (numbers(pages[base][1]) for base in ("tip", "patched"))
    for name, row in mirrored.items():
        assert row["ratio"] * back[name]["ratio"] == pytest.approx(1.0)


def test_one_key_after_the_other_goes_to_a_chapter(visit: Visit, make_comparison: Make) -> None:
    opened = visit(make_comparison())
    chapters = opened.ask(
        "[...document.querySelectorAll('nav .chapter')].map((one) => [one.dataset.keys, one.hash])"
    )
    assert {keys for keys, _ in chapters} >= {"gv", "gb", "gm", "ge", "gr"}
    for keys, anchor in chapters:
        # On a busy machine the second letter may come so late that it stands alone.
        for _ in range(5):
            press(opened, *keys)
            if opened.ask("location.hash") == anchor:
                break
        assert opened.ask("location.hash") == anchor


def test_letters_in_a_field_are_no_keys(visit: Visit, make_comparison: Make) -> None:
    opened = visit(make_comparison())
    opened.ask("document.querySelector('main').prepend(document.createElement('input'))")
    opened.page.locator("main > input").focus()
    press(opened, "t", "?", "g", "b")
    assert opened.ask("document.querySelector('main > input').value") == "t?gb"
    assert not opened.ask("document.getElementById('keys').open")
    assert not opened.ask(IS_DARK)


def test_keys_with_control_are_the_browsers(visit: Visit, make_comparison: Make) -> None:
    opened = visit(make_comparison())
    press(opened, "Control+t")
    assert not opened.ask(IS_DARK)


def test_the_question_mark_lists_all_keys(swappable: Any) -> None:
    opened = swappable()
    opened.page.locator("#theme").focus()
    press(opened, "?")
    listed = opened.page.locator("#keys").inner_text()
    for words in ("go to Verdict", "swap the sides", "light or dark", "print all"):
        assert words in listed
    # The dialog keeps the focus, and gives it back.
    for _ in range(3):
        press(opened, "Tab")
        assert opened.ask(
            "document.activeElement === document.body"
            " || document.activeElement.closest('#keys') !== null"
        )
    press(opened, "t")
    assert not opened.ask(IS_DARK)
    press(opened, "Escape")
    assert not opened.ask("document.getElementById('keys').open")
    assert opened.ask("document.activeElement.id") == "theme"


def test_the_help_button_opens_the_list_and_its_button_closes_it(
    visit: Visit, make_comparison: Make
) -> None:
    opened = visit(make_comparison())
    opened.page.get_by_role("button", name="Keys").click()
    assert opened.page.locator("#keys").is_visible()
    opened.page.get_by_role("button", name="Close").click()
    assert not opened.page.locator("#keys").is_visible()


def test_the_theme_has_a_key_and_an_address(visit: Visit, make_comparison: Make) -> None:
    opened = visit(make_comparison(), anchor="#benchmarks")
    press(opened, "t")
    assert opened.ask(IS_DARK)
    assert opened.ask("location.hash") == "#benchmarks?theme=dark"
    again = visit(make_comparison(), anchor="#benchmarks?theme=dark")
    assert again.ask(IS_DARK)
    # An address that is opened later says it all again.
    again.ask("location.hash = '#verdict'")
    again.wait_for(f"!({IS_DARK})")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Verdict as Markdown", "**regression"),
        ("Verdict as plain text", "37.2 % longer"),
        ("Link to this view", "report.html#verdict?theme=dark"),
    ],
)
def test_the_menu_copies_the_verdict_and_the_address(
    visit: Visit, make_comparison: Make, name: str, said: str
) -> None:
    permissions = ["clipboard-read", "clipboard-write"]
    opened = visit(make_comparison(), anchor="#verdict?theme=dark", permissions=permissions)
    opened.page.locator(".menu summary").focus()
    press(opened, "Enter")
    opened.page.get_by_role("button", name=name).focus()
    press(opened, "Enter")
    opened.wait_for("document.getElementById('said').textContent.includes('copied')")
    assert said in opened.ask("navigator.clipboard.readText()")
    assert not opened.ask("document.querySelector('.menu').open")


def test_without_the_clipboard_the_selection_is_copied(visit: Visit, make_comparison: Make) -> None:
    opened = visit(make_comparison())
    opened.ask(
        "Object.defineProperty(navigator, 'clipboard', { value: undefined });"
        "document.addEventListener('copy', () => { window.copied = getSelection().toString(); })"
    )
    opened.page.locator(".menu summary").click()
    opened.page.get_by_role("button", name="Verdict as plain text").click()
    opened.wait_for("document.getElementById('said').textContent.includes('copied')")
    assert opened.ask("document.querySelector('body > textarea')") is None


def test_the_menu_closes_with_escape_and_with_a_click_elsewhere(
    visit: Visit, make_comparison: Make
) -> None:
    opened = visit(make_comparison())
    is_open = "document.querySelector('.menu').open"
    opened.page.locator(".menu summary").click()
    assert opened.ask(is_open)
    press(opened, "Escape")
    assert not opened.ask(is_open)
    assert opened.ask("document.activeElement.matches('.menu summary')")
    opened.page.locator(".menu summary").click()
    opened.page.locator("main h2").nth(1).click()
    assert not opened.ask(is_open)


@pytest.mark.parametrize("way", ["button", "key"])
def test_printing_waits_for_all_charts(visit: Visit, make_comparison: Make, way: str) -> None:
    opened = visit(make_comparison())
    charts = "[...document.querySelectorAll('figure.chart > .plot')]"
    opened.ask(
        "window.print = () => {"
        f"const some = {charts}.filter(page.isForPaper);"
        "window.printed = some.length > 0 && some.every((one) => one.dataset.drawn === 'done') }"
    )
    if way == "key":
        press(opened, "p")
    else:
        opened.page.get_by_role("button", name="Print").click()
    opened.wait_for("'printed' in window")
    assert opened.ask("window.printed")
    assert opened.ask(f"{charts}.length") >= 1


def test_charts_fit_the_paper(visit: Visit, make_comparison: Make) -> None:
    opened = visit(make_comparison())
    opened.draw_all()
    width = "document.querySelector('.plot[data-drawn] .main-svg').clientWidth"
    on_screen = opened.ask(width)
    opened.ask("dispatchEvent(new Event('beforeprint'))")
    # At once: the browser's own print command does not wait.
    assert opened.ask(width) == 680 != on_screen
    opened.ask("dispatchEvent(new Event('afterprint'))")
    opened.wait_for(f"{width} === {on_screen}")


def test_on_paper_there_are_no_controls_and_no_holes(visit: Visit, make_comparison: Make) -> None:
    opened = visit(make_comparison())
    opened.page.emulate_media(media="print")
    for control in (".tools", "nav"):
        assert not opened.page.locator(control).is_visible()
    waiting = "document.querySelector('figure.chart > .plot:not([data-drawn])').checkVisibility()"
    assert opened.ask(waiting) is False


def test_the_link_to_this_view_leads_to_the_section_that_is_read(
    visit: Visit, make_comparison: Make
) -> None:
    opened = visit(make_comparison())
    assert opened.ask("page.addressHere()").endswith("#verdict") is False
    section = "document.getElementById('benchmarks')"
    opened.ask(f"{section}.scrollIntoView({{behavior: 'instant'}})")
    assert "#benchmarks" in opened.ask("page.addressHere()")


def test_a_pressed_button_can_be_read_below_the_pointer(swappable: Callable[..., Any]) -> None:
    opened = swappable()
    opened.page.get_by_role("button", name="Swap").click()
    opened.wait_for("document.getElementById('swap').matches(':hover[aria-pressed=true]')")
    colours = "(({color, backgroundColor}) => [color, backgroundColor])"
    ink, ground = opened.ask(f"{colours}(getComputedStyle(document.getElementById('swap')))")
    assert ink != ground


def test_on_a_narrow_screen_the_sides_stand_above_the_controls(
    visit: Visit, make_comparison: Make
) -> None:
    opened = visit(make_comparison(), width=360)
    top = "document.querySelector('{}').getBoundingClientRect().top"
    assert opened.ask(top.format(".sides")) < opened.ask(top.format(".tools"))
    assert opened.ask(top.format(".tools")) < opened.ask(top.format("nav"))


def test_charts_that_are_far_away_are_forgotten_and_drawn_again(
    browser: Any, make_comparison: Make, tmp_path: Path
) -> None:
    figure = {"data": [{"type": "scatter", "x": [1, 2], "y": [3, 4]}], "layout": {}}
    blocks = tuple(
        Figure(caption=f"chart {place}", figure=figure, height=900) for place in range(15)
    )
    section = Described(name="charts", title="Charts", blocks=blocks)
    page = tmp_path / "charts.html"
    page.write_text(render_sections(describe_head(make_comparison()), [section]), encoding="utf-8")
    tab = browser.new_page()
    tab.goto(page.as_uri())
    states = "[...document.querySelectorAll('.plot')].map((one) => one.dataset.drawn)"
    for place in (*range(15), 0):
        tab.evaluate(
            f"document.querySelectorAll('.plot')[{place}].scrollIntoView({{behavior: 'instant'}})"
        )
        while tab.evaluate(states)[place] != "done":
            tab.wait_for_timeout(50)
    assert tab.evaluate(states).count("done") <= 12
    assert tab.evaluate("document.querySelectorAll('.main-svg').length") > 0
    tab.close()


def test_the_page_is_painted_before_its_scripts_have_run(
    visit: Visit, make_comparison: Make
) -> None:
    opened = visit(make_comparison())
    opened.wait_for("performance.getEntriesByName('first-contentful-paint').length === 1")
    scripts = "[...document.querySelectorAll('script:not([type])')]"
    assert opened.ask(
        f"{scripts}.every((one) => one.compareDocumentPosition(document.querySelector('footer'))"
        " & Node.DOCUMENT_POSITION_PRECEDING)"
    )


def test_motion_is_left_out_for_those_who_ask(visit: Visit, make_comparison: Make) -> None:
    behaviour = "getComputedStyle(document.documentElement).scrollBehavior"
    assert visit(make_comparison()).ask(behaviour) == "smooth"
    assert visit(make_comparison(), reduced_motion="reduce").ask(behaviour) == "auto"


@pytest.mark.parametrize("width", [1400, 360])
def test_who_is_who_stays_in_sight(visit: Visit, make_comparison: Make, width: int) -> None:
    opened = visit(make_comparison(), width=width)
    opened.ask("scrollTo({ top: 3000, behavior: 'instant' })")
    assert 0 <= opened.ask(RECTANGLE) < 60


def test_the_record_is_saved_from_the_page(visit: Visit, make_comparison: Make) -> None:
    opened = visit(make_comparison())
    with opened.page.expect_download() as saved:
        opened.page.get_by_role("button", name="Save compare.json").click()
    assert saved.value.suggested_filename == "compare.json"
    record = json.loads(Path(saved.value.path()).read_text())
    assert record["overall"]["verdict"] == "regression"
    assert opened.console == []


@pytest.fixture
def site(tmp_path: Path, make_comparison: Make) -> Path:
    """Write a report that finds the library in a directory beside its own."""
    page = tmp_path / "site" / "reports" / "report.html"
    page.parent.mkdir(parents=True)
    library = share_plotly(tmp_path / "site" / "assets", page)
    page.write_text(
        html(make_comparison(), Options(width=78, colour=False, library=library)), encoding="utf-8"
    )
    return page


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """Serve the directory over http; give its address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 # as it is called
            pass

    handler = functools.partial(Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


def draw_first(browser: Any, address: str) -> tuple[str, list[str]]:
    """Return what became of the first chart of a page, and what the console said."""
    tab = browser.new_page()
    console: list[str] = []
    tab.on("console", lambda message: console.append(message.text))
    tab.goto(address)
    plots = "[...document.querySelectorAll('figure.chart > .plot')]"
    plot = f"{plots}.find((one) => one.checkVisibility())"
    tab.evaluate(f"{plot}.scrollIntoView({{behavior: 'instant'}})")
    for _ in range(600):
        if tab.evaluate(f"{plot}.dataset.drawn") in ("done", "failed"):
            break
        tab.wait_for_timeout(100)
    found: tuple[str, list[str]] = tab.evaluate(f"{plot}.dataset.drawn"), console
    tab.close()
    return found


def test_a_shared_library_is_found_from_disk(browser: Any, site: Path) -> None:
    assert draw_first(browser, site.as_uri()) == ("done", [])


def test_a_shared_library_is_found_over_http(
    browser: Any, site: Path, tmp_path: Path, server: str
) -> None:
    address = f"{server}/{site.relative_to(tmp_path)}"
    assert draw_first(browser, address) == ("done", [])


def test_a_library_that_was_changed_on_the_server_is_refused(
    browser: Any, site: Path, server: str
) -> None:
    (file,) = (site.parents[1] / "assets").iterdir()
    file.write_text("document.title = 'taken over'")
    state, console = draw_first(browser, f"{server}/site/reports/report.html")
    assert state == "failed"
    assert any("integrity" in line for line in console)


def test_a_library_that_is_gone_is_said(browser: Any, site: Path) -> None:
    (file,) = (site.parents[1] / "assets").iterdir()
    file.unlink()
    assert draw_first(browser, site.as_uri())[0] == "failed"
