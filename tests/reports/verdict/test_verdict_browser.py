# SPDX-License-Identifier: GPL-2.0-or-later
"""The first screen in a browser: it fits, is narrow where it must be, and copies commands."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.model.comparison import Comparison, NextStep

pytestmark = pytest.mark.browser

Make = Callable[..., Comparison]

STEPS = tuple(
    NextStep(id=str(number), what=f"step {number}", why="because", commands=("one x", "two 'y z'"))
    for number in range(3)
)
# What a reader sees first, in this order.
PARTS = (".kicker", ".big", ".fact", ".drawn", ".why", ".next", ".glance")

# What a page from disk may be told of the clipboard, and how a test sees what is copied anyway.
REFUSED = "navigator.clipboard.writeText = () => Promise.reject(new DOMException('no'));"
KEEP = "() => { window.copied = getSelection().toString(); }"
COPY = "#next_steps .commands button.copy"


@pytest.fixture
def comparison(make_comparison: Make) -> Comparison:
    """Return a record with reasons and steps."""
    made = make_comparison(next_steps=STEPS)
    return replace(made, findings=made.findings * 2)


@pytest.mark.parametrize("javascript", [True, False])
@pytest.mark.parametrize(("width", "height"), [(1400, 900), (1280, 720)])
def test_the_first_screen_answers_what_how_sure_why_and_what_next(
    visit: Any, comparison: Comparison, width: int, height: int, *, javascript: bool
) -> None:
    page = visit(comparison, java_script_enabled=javascript).page
    page.set_viewport_size({"width": width, "height": height})
    for part in PARTS:
        box = page.locator(f"#verdict {part}").first.bounding_box()
        assert box["y"] + box["height"] <= height, part
    # How sure that is: the interval and what was counted.
    text = page.locator(".hero").inner_text().replace("\N{NO-BREAK SPACE}", " ")
    assert "[+35.0%, +39.5%]" in text
    assert "n = 5+5 runs" in text


def test_a_narrow_page_has_the_parts_below_each_other_in_the_same_order(
    visit: Any, comparison: Comparison
) -> None:
    page = visit(comparison, width=360).page
    tops = [page.locator(f"#verdict {part}").first.bounding_box()["y"] for part in PARTS]
    assert tops == sorted(tops)
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_the_lists_behind_the_first_screen_are_a_line_until_they_are_opened(
    visit: Any, comparison: Comparison
) -> None:
    page = visit(comparison, is_folded=True).page
    summary = page.locator("#findings > details > summary")
    assert page.locator("#findings li").count() == 0
    summary.focus()
    page.keyboard.press("Enter")
    page.locator("#findings > details[open] > ol > li").first.wait_for()
    assert page.locator("#findings > details > ol > li").count() == 4


def test_each_cell_at_a_glance_leads_to_its_chapter(visit: Any, comparison: Comparison) -> None:
    opened = visit(comparison, is_folded=True)
    cells = opened.page.locator(".glance .cell")
    targets = [cell.get_attribute("href") for cell in cells.all()]
    assert len(targets) == len(set(targets)) >= 5
    for target in targets:
        assert opened.page.locator(f"main > section{target}").count() == 1
    cells.last.click()
    opened.wait_for(f"location.hash === '{targets[-1]}'")


def test_commands_are_copied_one_a_line(visit: Any, comparison: Comparison) -> None:
    visited = visit(comparison, permissions=["clipboard-read", "clipboard-write"])
    button = visited.page.locator(COPY).first
    button.focus()
    visited.page.keyboard.press("Enter")
    visited.page.get_by_role("button", name="Copied").wait_for()
    copied = visited.page.evaluate("navigator.clipboard.readText()")
    assert copied == "one x\ntwo 'y z'"
    assert visited.errors == []


def test_the_first_screen_copies_its_one_command(visit: Any, comparison: Comparison) -> None:
    visited = visit(comparison, permissions=["clipboard-read", "clipboard-write"])
    visited.page.locator(".card.next button.copy").click()
    visited.page.get_by_role("button", name="Copied").wait_for()
    assert visited.page.evaluate("navigator.clipboard.readText()") == "one x"


def test_without_the_clipboard_the_commands_are_copied_by_selection(
    visit: Any, comparison: Comparison
) -> None:
    page = visit(comparison).page
    page.evaluate(f"() => {{ {REFUSED} document.addEventListener('copy', {KEEP}); }}")
    page.locator(COPY).first.click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("window.copied") == "one x\ntwo 'y z'"


def test_where_no_page_may_copy_the_commands_are_selected(
    visit: Any, comparison: Comparison
) -> None:
    page = visit(comparison).page
    page.evaluate(f"() => {{ {REFUSED} document.execCommand = () => false; }}")
    page.locator(COPY).first.click()
    page.get_by_role("button", name="Selected").wait_for()
    selected = page.evaluate("getSelection().toString()")
    assert [line for line in selected.splitlines() if line] == ["one x", "two 'y z'"]
