# SPDX-License-Identifier: GPL-2.0-or-later
"""The interval plot in a browser: in step with its table, by mouse and by keyboard."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row

pytestmark = pytest.mark.browser

Make = Callable[..., Comparison]
Visit = Callable[..., Any]

RESULTS = 12

LINES = (
    "[...document.querySelectorAll('#benchmarks .lines')[0].children]"
    ".filter((line) => !line.hidden).map((line) => line.querySelector('.name').textContent)"
)
ROWS = (
    "[...document.querySelector('#benchmarks table').tBodies[0].rows]"
    ".filter((row) => row.id && row.dataset.row && row.checkVisibility())"
    ".map((row) => row.cells[0].querySelector('.clip').textContent.trim())"
)


@pytest.fixture
def comparison(make_comparison: Make, make_row: Callable[..., Row]) -> Comparison:
    """Build twelve results of as many commands, each third of them unchanged."""
    rows = tuple(
        make_row(
            workload=f"bench{n}", metric=f"bench{n} time", point="",
            ratio=1.0 if n % 3 == 0 else 1.05 + (5 * n % RESULTS) / 100,
            verdict="no-change" if n % 3 == 0 else "regression",
        )
        for n in range(RESULTS)
    )  # fmt: skip
    return make_comparison(rows=rows, sweeps=())


def show_all(opened: Any) -> None:
    opened.page.get_by_role("button", name="hidden (unchanged): show").click()


def line(opened: Any, name: str) -> Any:
    return opened.page.locator("#benchmarks .lines > li", has_text=f"{name} time").first


def row(opened: Any, name: str) -> Any:
    return opened.page.locator("#benchmarks tr[data-row][id]", has_text=f"{name} time").first


def test_the_plot_shows_the_rows_that_the_table_shows(visit: Visit, comparison: Comparison) -> None:
    opened = visit(comparison)
    changed = [f"bench{n} time" for n in range(RESULTS) if n % 3]
    mean = f"geomean of all {RESULTS} results"
    assert opened.ask(LINES) == opened.ask(ROWS) == [*changed, mean]
    show_all(opened)
    assert opened.ask(LINES) == opened.ask(ROWS)
    assert len(opened.ask(LINES)) == RESULTS + 1
    assert (opened.console, opened.errors) == ([], [])


def test_the_plot_follows_sorting_and_searching(visit: Visit, comparison: Comparison) -> None:
    opened = visit(comparison)
    before = opened.ask(LINES)
    opened.page.locator("#benchmarks th button", has_text="change").first.click()
    assert opened.ask(LINES) == opened.ask(ROWS) != before
    assert sorted(opened.ask(LINES)) == sorted(before)
    opened.page.locator("#benchmarks input[type=search]").first.fill("bench1 -geomean")
    opened.wait_for(f"{LINES}.length < 5")
    assert opened.ask(LINES) == opened.ask(ROWS)
    assert "bench1 time" in opened.ask(LINES)


def test_hovering_a_line_marks_its_row_and_the_reverse(
    visit: Visit, comparison: Comparison
) -> None:
    opened = visit(comparison)
    line(opened, "bench4").hover()
    assert "pointed" in row(opened, "bench4").get_attribute("class")
    row(opened, "bench5").hover()
    assert "pointed" in line(opened, "bench5").get_attribute("class")
    assert "pointed" not in (row(opened, "bench4").get_attribute("class") or "")


def test_a_click_on_a_line_goes_to_its_row_and_into_the_address(
    visit: Visit, comparison: Comparison
) -> None:
    opened = visit(comparison)
    line(opened, "bench11").click()
    target = row(opened, "bench11")
    opened.wait_for(f"location.hash.startsWith('#{target.get_attribute('id')}')")
    assert target.get_attribute("aria-current") == "true"
    assert len(opened.ask(LINES)) > 2


def test_dragging_over_lines_limits_the_table_until_all_are_asked_for(
    visit: Visit, comparison: Comparison
) -> None:
    opened = visit(comparison)
    everything = opened.ask(LINES)
    line(opened, "bench2").scroll_into_view_if_needed()
    start, end = line(opened, "bench2").bounding_box(), line(opened, "bench5").bounding_box()
    mouse = opened.page.mouse
    mouse.move(start["x"] + 40, start["y"] + 10)
    mouse.down()
    mouse.move(start["x"] + 40, start["y"] + 20)
    mouse.move(end["x"] + 40, end["y"] + 10)
    mouse.up()
    assert opened.ask(LINES) == opened.ask(ROWS) == ["bench2 time", "bench4 time", "bench5 time"]
    note = opened.page.locator("#benchmarks .limited").first
    assert "Showing only 3 selected lines, here and in the table." in note.inner_text()
    # No line's link was followed, and the address says which lines were picked.
    opened.wait_for("location.hash !== ''")
    address = opened.ask("location.hash")
    assert address.startswith("#?t.benchmarks")
    again = visit(comparison, anchor=address)
    assert again.ask(LINES) == again.ask(ROWS) == opened.ask(ROWS)
    note.get_by_role("button", name="Show all").click()
    assert opened.ask(LINES) == opened.ask(ROWS) == everything
    assert not note.is_visible()


def test_shift_with_the_arrow_keys_picks_lines_and_escape_gives_all_back(
    visit: Visit, comparison: Comparison
) -> None:
    opened = visit(comparison)
    everything = opened.ask(LINES)
    line(opened, "bench2").locator("a").focus()
    keyboard = opened.page.keyboard
    keyboard.press("ArrowDown")
    keyboard.down("Shift")
    keyboard.press("ArrowDown")
    assert opened.ask(LINES) == everything
    keyboard.up("Shift")
    assert opened.ask(LINES) == opened.ask(ROWS) == ["bench4 time", "bench5 time"]
    keyboard.press("Escape")
    assert opened.ask(LINES) == everything


def test_a_row_opens_to_a_figure_of_its_runs(visit: Visit, comparison: Comparison) -> None:
    opened = visit(comparison)
    row(opened, "bench1").get_by_role("button").first.click()
    details = opened.page.locator("#benchmarks tr.opened", has_text="command: bench1").first
    assert details.is_visible()
    details.scroll_into_view_if_needed()
    assert details.locator(".plot .quartiles").count() == 2
    assert opened.errors == []
    # Its own tables are no rows of the plot.
    assert opened.ask(LINES) == opened.ask(ROWS)


@pytest.mark.parametrize("width", [1400, 360])
def test_without_scripting_every_interval_is_there(
    visit: Visit, comparison: Comparison, width: int
) -> None:
    opened = visit(comparison, width=width, java_script_enabled=False)
    lines = opened.page.locator("#benchmarks .lines > li")
    assert lines.count() == RESULTS + 1
    first = lines.nth(1)
    assert "+10.0%" in first.inner_text()
    assert "regression" in first.inner_text()
    point, track = first.locator(".point").bounding_box(), first.locator(".track").bounding_box()
    assert track["x"] < point["x"] < point["x"] + point["width"] < track["x"] + track["width"]
    assert track["width"] > 0.3 * width
    assert not opened.page.locator("#benchmarks .hint").first.is_visible()
    values = opened.page.locator("#benchmarks tr.opened table").first
    opened.page.locator("#benchmarks tr.opened summary").first.click()
    assert values.is_visible()
    assert "607.1" in values.inner_text()


@pytest.mark.parametrize("width", [1400, 900, 360])
def test_a_huge_change_covers_neither_its_verdict_nor_other_ticks(
    visit: Visit, make_comparison: Make, make_row: Callable[..., Row], width: int
) -> None:
    rows = (make_row(metric="large", ratio=1.16e6), make_row(metric="small", ratio=1.1))
    opened = visit(make_comparison(rows=rows, sweeps=()), width=width)
    box = "JSON.parse(JSON.stringify(range.getBoundingClientRect()))"
    boxes = (
        "(selector) => [...document.querySelectorAll(selector)].filter((one) =>"
        " one.checkVisibility()).map((one) => { const range = document.createRange();"
        f" range.selectNodeContents(one); return {box}; }})"
    )

    def seen(selector: str) -> list[dict[str, float]]:
        return list(opened.page.evaluate(boxes, selector))

    words = seen("#benchmarks .lines .word")
    numbers = seen("#benchmarks .lines .numbers")
    assert len(words) == len(numbers) >= len(rows)
    assert [
        one for one, word in zip(numbers, words, strict=True) if one["right"] > word["left"]
    ] == []
    ticks = seen("#benchmarks .intervals .scale i")
    assert len(ticks) >= 2
    assert [one for one, after in pairwise(ticks) if one["right"] > after["left"]] == []


def test_names_of_strangers_stay_text_and_within_the_page(
    visit: Visit, make_comparison: Make, make_row: Callable[..., Row]
) -> None:
    hostile = "<img src=x onerror='window.pwned=1'> \u202e" + "n" * 3000
    rows = (make_row(metric=hostile, point=""), make_row(metric="b", point=""))
    opened = visit(make_comparison(rows=rows, sweeps=()), width=360)
    name = opened.ask(f"{LINES}[0]")
    assert name.startswith("<img src=x onerror=")
    assert "\u202e" not in name
    assert not opened.ask("'pwned' in window")
    assert opened.ask("document.documentElement.scrollWidth") <= 360
