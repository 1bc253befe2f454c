# SPDX-License-Identifier: GPL-2.0-or-later
"""What shows no change is one line; nothing of it is lost, for anybody and by any way."""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from schedperf.model.comparison import Comparison
from schedperf_reports.blocks import Block, Graphic, Headline, Items, Table, Text
from schedperf_reports.graphics.matrix import Matrix
from schedperf_reports.sections import shown_sections
from tests.reports.visits import Visit

pytestmark = pytest.mark.browser

Example = Callable[[str], Comparison]

NUMBERS = Path(__file__).parents[2] / "data" / "numbers"
TAG = re.compile(r"<[^>]*>")
NUMBER = re.compile(r"\d[\d.,]*\d|\d")
WORDS = """() => {
  const words = (node) => node.textContent.split(/\\s+/).filter(Boolean).length;
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  let count = 0;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const shown = !node.parentElement.closest("script, noscript, template, title");
    count += shown && node.parentElement.checkVisibility() ? words(node) : 0;
  }
  return count;
}"""
# What a reader reads, and what pressing all that can be pressed once opens.
VISIBLE = """() => {
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  const texts = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!node.parentElement.closest("script, noscript, template")) {
      // A drawing's titles are read when the pointer is over it.
      const shown = node.parentElement.closest("svg") ?? node.parentElement;
      if (shown.checkVisibility()) {
        texts.push(node.textContent);
      }
    }
  }
  return texts.join(" ");
}"""
PRESS = """() => {
  const find = (selector) => [...document.querySelectorAll(selector)].filter((one) => (
    one.checkVisibility() && one.closest("main")
  ));
  const controls = find(
    "button.opens[aria-expanded=false], button.chip[aria-pressed=false], "
    + ".all-columns input:not(:checked)",
  );
  const all = find("button.open-all");
  for (const folded of find("details:not([open])")) {
    page.later.fill(folded);
    folded.open = true;
  }
  [...controls, ...all].forEach((one) => one.click());
}"""


def texts_of(blocks: Iterable[Block]) -> Iterator[str]:
    """Yield each text that blocks show."""
    for block in blocks:
        match block:
            case Text() | Headline():
                yield block.text
            case Items():
                for item in block.items:
                    yield from (item.text, item.detail, *item.commands)
            case Table():
                yield block.caption
                for row, inner in zip(
                    block.rows, block.details or [()] * len(block.rows), strict=True
                ):
                    yield from (cell.text for cell in row)
                    yield from texts_of(inner)
            case Matrix():
                lines = (line for band in block.bands for line in band.lines)
                yield from (cell.text for line in lines for cell in line.cells)
                yield from texts_of(() if block.written else block.inner())
            case Graphic():
                yield block.caption
                yield from texts_of(block.inner())


def numbers_of(texts: Iterable[str]) -> set[str]:
    return {number for text in texts for number in NUMBER.findall(text)}


def numbers_with_two_presses(folded: Visit) -> set[str]:
    """Return the numbers that a page shows before and after all that it has is opened, twice."""
    seen = [folded.ask(VISIBLE)]
    for _ in range(2):
        folded.ask(PRESS)
        seen.append(folded.ask(VISIBLE))
    return numbers_of(seen)


@pytest.fixture
def open_example(visit_file: Any, write_page: Any) -> Callable[..., Any]:
    """Open the page of an example: ``open_example("deep-cgroup", is_folded=True)``."""
    return lambda name, **settings: visit_file(write_page(name), **settings)


each_example = pytest.mark.parametrize(
    "name", ["deep-cgroup", "deep-cgroup-arm64", "cluster-percpu"]
)


@each_example
def test_no_number_is_lost_with_two_presses_and_without_scripts(
    open_example: Any, compared_example: Example, name: str
) -> None:
    comparison = compared_example(name)
    blocks = [
        block for section in shown_sections(comparison) for block in section.describe(comparison)
    ]
    expected = numbers_of(texts_of(blocks))
    assert len(expected) > 700
    folded = open_example(name, is_folded=True)
    assert expected - numbers_with_two_presses(folded) == set()
    without = open_example(name, java_script_enabled=False)
    text = TAG.sub(" ", without.page.locator("main").inner_html())
    assert expected - numbers_of([text]) == set()


def test_no_number_of_the_page_before_folding_is_lost(open_example: Any) -> None:
    # What the page of the same bundles showed, without three counts of rows in captions and two of
    # fields, which other counts replaced, a mean of maxima, which is a median now, and the system
    # time of the whole machine in a finding, which is now that of the workload's tasks, and numbers
    # of profiles of all tasks, which are now of the workload's.
    before = {*(NUMBERS / "cluster-percpu.txt").read_text().split()}
    folded = open_example("cluster-percpu", is_folded=True)
    assert before - numbers_with_two_presses(folded) == set()


def test_a_large_report_opens_small(open_example: Any) -> None:
    opened = open_example("cluster-percpu", is_folded=True)
    assert opened.ask("document.querySelectorAll('*').length") <= 15_000
    assert opened.ask("document.documentElement.scrollHeight / innerHeight") <= 12
    assert opened.ask(WORDS) <= 3_000


def test_what_shows_no_change_is_one_line_with_its_numbers(open_example: Any) -> None:
    opened = open_example("cluster-percpu", is_folded=True)
    lines = opened.page.locator("main > section > details.unchanged > summary")
    texts = [" ".join(line.inner_text().split()) for line in lines.all()]
    assert "Task placement 0 of 382 rows changed" in texts
    assert all(line.bounding_box()["height"] < 60 for line in lines.all())
    # Rows are no elements yet.
    assert opened.page.locator("#placement tr").count() == 0


def test_a_section_with_a_change_is_open(open_example: Any) -> None:
    opened = open_example("deep-cgroup", is_folded=True)
    table = opened.page.locator("#system_counters .table").first
    assert table.is_visible()
    assert opened.page.locator("#counters > details.unchanged:not([open])").count() == 1


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_the_keyboard_opens_a_section_whose_tables_are_live(open_example: Any, key: str) -> None:
    opened = open_example("deep-cgroup", is_folded=True)
    opened.page.locator("#profile > details > summary").focus()
    opened.press(key)
    opened.page.locator("#profile .table-tools input").first.focus()
    opened.press("Enter")
    opened.wait_for("document.activeElement.closest('#profile tr') !== null")
    assert opened.complaints == []


def test_search_finds_rows_in_what_is_folded_and_hidden(open_example: Any) -> None:
    opened = open_example("deep-cgroup", is_folded=True)
    assert opened.ask("!document.querySelector('#profile tr')")
    opened.press("s")
    opened.page.keyboard.type("_raw_spin_unlock_irqrestore")
    status = opened.page.locator("#found [role=status]")
    status.wait_for()
    assert "folded or hidden" in status.inner_text()
    opened.press("Enter")
    target = opened.page.locator("tr[data-target]")
    target.wait_for()
    assert "_raw_spin_unlock_irqrestore" in target.inner_text()
    assert target.is_visible()


def test_search_says_that_nothing_matches(open_example: Any) -> None:
    opened = open_example("deep-cgroup", is_folded=True)
    opened.page.locator("#find").fill("no such function")
    opened.page.locator("#found [role=status]").wait_for()
    assert opened.page.locator("#found").inner_text() == "no row matches"
    opened.press("Escape")
    assert not opened.page.locator("#found").is_visible()


def test_a_link_into_a_folded_section_opens_it_and_shows_the_row(open_example: Any) -> None:
    opened = open_example("cluster-percpu", is_folded=True)
    href = opened.page.locator(".why .reason a").first.get_attribute("href")
    assert href.startswith("#cachelines-layout-")
    opened.page.locator(".why .reason a").first.click()
    opened.wait_for("document.querySelector('[data-target]')?.checkVisibility() ?? false")
    opened.ask("location.hash = '#counters'")
    opened.page.locator("#counters > details[open] table").first.wait_for()


def test_the_state_in_an_address_opens_the_folded_table(open_example: Any) -> None:
    opened = open_example("deep-cgroup", is_folded=True)
    opened.ask("location.hash = '#profile'")
    opened.page.locator("#profile .table-tools input").first.fill("schedule")
    opened.wait_for("location.hash.includes('qschedule')")
    address = opened.ask("location.href")
    opened.page.goto("about:blank")
    opened.go_to(address)
    assert opened.page.locator("#profile .table-tools input").first.input_value() == "schedule"


# Whether the middle of an element is in the window, below the sticky head.
IN_WINDOW = """(selector) => {
  const { top, bottom, height } = document.querySelector(selector).getBoundingClientRect();
  const middle = height > innerHeight ? top + 10 : (top + bottom) / 2;
  return 48 <= middle && middle <= innerHeight;
}"""


def test_share_links_show_in_the_window_what_they_are_about(
    open_example: Any, open_tab: Callable[..., Any]
) -> None:
    opened = open_example("deep-cgroup", is_folded=True)
    opened.ask("location.hash = '#profile'")
    opened.wait_for("document.querySelector('figure.flames[data-drawn]') !== null")
    opened.page.locator(".flame-graph .frame").nth(3).click()
    zoomed = opened.ask("location.href")
    opened.ask("location.hash = '#counters'")
    opened.page.locator("#counters button.opens").last.click()
    opened.wait_for("location.hash.includes('t.counters')")
    addresses = {
        zoomed: "figure.flames",
        opened.ask("location.href"): "#counters tr.opened:not([hidden])",
        f"{opened.ask('location.pathname')}#counters": "#counters",
    }
    for address, selector in addresses.items():
        visited = Visit(open_tab())
        visited.go_to(address if address.startswith("file:") else f"file://{address}")
        # At once: nothing scrolls for seconds.
        assert visited.ask(IN_WINDOW, selector), address
        assert visited.complaints == []


# The distance in pixels of an element's middle from that of the window.
OFF_CENTRE = """(selector) => {
  const box = document.querySelector(selector).getBoundingClientRect();
  return Math.abs((box.top + box.bottom) / 2 - innerHeight / 2);
}"""


def test_a_row_that_search_finds_is_in_the_address_and_in_the_middle_of_another_tab(
    open_example: Any, open_tab: Callable[..., Any]
) -> None:
    opened = open_example("deep-cgroup", is_folded=True)
    opened.page.locator("#find").fill("cpu-migrations")
    opened.page.locator("#find").press("Enter")
    opened.wait_for("location.hash.startsWith('#counters-')")
    row = opened.ask("location.hash")
    visited = Visit(open_tab())
    visited.go_to(opened.ask("location.href"))
    visited.wait_for("document.readyState === 'complete'")
    visited.wait_for(f"({OFF_CENTRE})('{row}') < 40")
    # It stays there: browsers scroll to an anchor by themselves after loading.
    visited.ask("new Promise((done) => setTimeout(done, 300))")
    assert visited.ask(OFF_CENTRE, row) < 40


def test_a_link_within_the_page_scrolls_at_once(open_example: Any) -> None:
    opened = open_example("deep-cgroup", is_folded=True)
    opened.ask("page.go('raw')")
    opened.wait_for("location.hash === '#raw' && document.activeElement.id === 'raw'")
    assert opened.ask(IN_WINDOW, "#raw > :first-child")


def test_printing_prints_what_is_folded(open_example: Any) -> None:
    opened = open_example("deep-cgroup", is_folded=True)
    opened.ask("dispatchEvent(new Event('beforeprint'))")
    assert opened.page.locator("#counters table").first.is_visible()
    assert opened.page.locator("#profile table").first.is_visible()
    opened.ask("dispatchEvent(new Event('afterprint'))")
    assert not opened.page.locator("#counters table").first.is_visible()
