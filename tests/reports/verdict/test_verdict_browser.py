# SPDX-License-Identifier: GPL-2.0-or-later
"""The first screen in a browser: it fits, is narrow where it must be, and copies commands."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from schedperf.model.comparison import Comparison, NextStep

pytestmark = pytest.mark.browser

Make = Callable[..., Comparison]

STEPS = tuple(
    NextStep(id=str(number), what=f"step {number}", why="because", commands=("one x", "two 'y z'"))
    for number in range(3)
)

# What a page from disk may be told of the clipboard, and how a test sees what is copied anyway.
REFUSED = "navigator.clipboard.writeText = () => Promise.reject(new DOMException('no'));"
KEEP = "() => { window.copied = getSelection().toString(); }"


@pytest.fixture
def comparison(make_comparison: Make) -> Comparison:
    """Return a record with reasons and steps."""
    made = make_comparison(next_steps=STEPS)
    return replace(made, findings=made.findings * 2)


@pytest.mark.parametrize("javascript", [True, False])
def test_the_first_screen_answers_what_how_sure_why_and_what_next(
    visit: Any, comparison: Comparison, *, javascript: bool
) -> None:
    page = visit(comparison, java_script_enabled=javascript).page
    for selector in (".headline", "#findings > ol > li", "#next_steps > ol > li"):
        last = page.locator(selector).last.bounding_box()
        assert last["y"] + last["height"] <= 900, selector
    # How sure that is: the interval and what was counted; the boxes that tell more begin below.
    assert "[+35.0%, +39.5%]" in page.locator(".headline").inner_text()
    assert page.locator(".panel").first.bounding_box()["y"] <= 900


def test_reasons_stand_beside_the_steps_where_there_is_room(
    visit: Any, comparison: Comparison
) -> None:
    boxes = [
        visit(comparison).page.locator(name).bounding_box() for name in ("#findings", "#next_steps")
    ]
    assert boxes[0]["y"] == boxes[1]["y"]
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]


def test_a_narrow_page_has_one_column_and_nothing_beside_it(
    visit: Any, comparison: Comparison
) -> None:
    page = visit(comparison, width=360).page
    boxes = [page.locator(name).bounding_box() for name in ("#findings", "#next_steps")]
    assert boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"]
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_a_fold_opens_over_the_whole_width_by_keyboard(visit: Any, comparison: Comparison) -> None:
    page = visit(comparison).page
    before = page.locator("#findings").bounding_box()["width"]
    summary = page.locator("#findings .fold summary")
    summary.focus()
    page.keyboard.press("Enter")
    assert page.locator("#findings .fold li").first.is_visible()
    assert page.locator("#findings").bounding_box()["width"] > 1.5 * before


def test_commands_are_copied_one_a_line(visit: Any, comparison: Comparison) -> None:
    visited = visit(comparison, permissions=["clipboard-read", "clipboard-write"])
    button = visited.page.locator(".commands button.copy").first
    button.focus()
    visited.page.keyboard.press("Enter")
    visited.page.get_by_role("button", name="Copied").wait_for()
    copied = visited.page.evaluate("navigator.clipboard.readText()")
    assert copied == "one x\ntwo 'y z'"
    assert visited.errors == []


def test_without_the_clipboard_the_commands_are_copied_by_selection(
    visit: Any, comparison: Comparison
) -> None:
    page = visit(comparison).page
    page.evaluate(f"() => {{ {REFUSED} document.addEventListener('copy', {KEEP}); }}")
    page.locator(".commands button.copy").first.click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("window.copied") == "one x\ntwo 'y z'"


def test_where_no_page_may_copy_the_commands_are_selected(
    visit: Any, comparison: Comparison
) -> None:
    page = visit(comparison).page
    page.evaluate(f"() => {{ {REFUSED} document.execCommand = () => false; }}")
    page.locator(".commands button.copy").first.click()
    page.get_by_role("button", name="Selected").wait_for()
    selected = page.evaluate("getSelection().toString()")
    assert [line for line in selected.splitlines() if line] == ["one x", "two 'y z'"]
