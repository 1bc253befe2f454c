# SPDX-License-Identifier: GPL-2.0-or-later
"""The frame of the page in a real browser: its controls and keys, paper, and how it is read."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf.model.comparison import Comparison
from tests.reports.comparison_records import OTHER_BASE

pytestmark = pytest.mark.browser

Make = Callable[..., Comparison]
Visit = Callable[..., Any]

IS_DARK = "getComputedStyle(document.documentElement).colorScheme === 'dark'"
RECTANGLE = "document.querySelector('.top .side').getBoundingClientRect().top"


def test_one_key_after_the_other_goes_to_a_chapter(visit: Visit, make_comparison: Make) -> None:
    opened = visit(make_comparison())
    chapters = opened.ask(
        "[...document.querySelectorAll('nav .chapter')].map((one) => [one.dataset.keys, one.hash])"
    )
    assert {keys for keys, _ in chapters} >= {"gv", "gb", "gm", "ge", "gr"}
    # Both in one task: the second letter counts for a moment only, and a test may be slower.
    press = (
        "(keys) => [...keys].forEach((key) => document.body.dispatchEvent("
        "new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true })))"
    )
    for keys, anchor in chapters:
        opened.ask(press, keys)
        assert opened.ask("location.hash") == anchor


def test_letters_in_a_field_are_no_keys(visit: Visit, make_comparison: Make) -> None:
    opened = visit(make_comparison())
    opened.ask("document.querySelector('main').prepend(document.createElement('input'))")
    opened.page.locator("main > input").focus()
    opened.press("t", "?", "g", "b")
    assert opened.ask("document.querySelector('main > input').value") == "t?gb"
    assert not opened.ask("document.getElementById('keys').open")
    assert not opened.ask(IS_DARK)


def test_keys_with_control_are_the_browsers(visit: Visit, make_comparison: Make) -> None:
    opened = visit(make_comparison())
    opened.press("Control+t")
    assert not opened.ask(IS_DARK)


def test_the_question_mark_lists_all_keys(visit_report: Any) -> None:
    opened = visit_report()
    opened.page.locator("#theme").focus()
    opened.press("?")
    listed = opened.page.locator("#keys").inner_text()
    for words in ("go to Verdict", "light or dark", "print the whole page"):
        assert words in listed
    # The dialog keeps the focus, and gives it back.
    for _ in range(3):
        opened.press("Tab")
        assert opened.ask(
            "document.activeElement === document.body"
            " || document.activeElement.closest('#keys') !== null"
        )
    opened.press("t")
    assert not opened.ask(IS_DARK)
    opened.press("Escape")
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
    opened.press("t")
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
        ("Verdict as plain text", "95% CI [+35.0%, +39.5%], n = 5+5 runs"),
        ("Copy for LKML", "[+35.0%, +39.5%] n=5+5"),
        ("Link to this view", "report.html#verdict?theme=dark"),
    ],
)
def test_the_menu_copies_the_verdict_and_the_address(
    visit: Visit, make_comparison: Make, name: str, said: str
) -> None:
    permissions = ["clipboard-read", "clipboard-write"]
    opened = visit(make_comparison(), anchor="#verdict?theme=dark", permissions=permissions)
    opened.page.locator(".menu summary").focus()
    opened.press("Enter")
    opened.page.get_by_role("button", name=name).focus()
    opened.press("Enter")
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
    opened.press("Escape")
    assert not opened.ask(is_open)
    assert opened.ask("document.activeElement.matches('.menu summary')")
    opened.page.locator(".menu summary").click()
    opened.page.locator("main h2").nth(1).click()
    assert not opened.ask(is_open)


@pytest.mark.parametrize("way", ["button", "key"])
def test_printing_opens_what_paper_has(visit: Visit, make_comparison: Make, way: str) -> None:
    opened = visit(make_comparison(), is_folded=True)
    opened.ask("() => { window.print = () => dispatchEvent(new Event('beforeprint')); }")
    if way == "key":
        opened.press("p")
    else:
        opened.page.get_by_role("button", name="Print").click()
    folds = "[...document.querySelectorAll(page.openedOnPaper)]"
    assert opened.ask(f"{folds}.length") == 0
    assert opened.ask("[...document.querySelectorAll('tr.telling')].every((one) => !one.hidden)")


def test_charts_follow_the_width_of_the_window(visit: Visit, make_comparison: Make) -> None:
    opened = visit(make_comparison())
    width = "document.querySelector('#benchmarks > .chart .area').clientWidth"
    wide = opened.ask(width)
    opened.page.set_viewport_size({"width": 400, "height": 900})
    assert 200 < opened.ask(width) < 400 < wide


def test_on_paper_there_are_no_controls_and_no_holes(visit: Visit, make_comparison: Make) -> None:
    opened = visit(make_comparison())
    opened.page.emulate_media(media="print")
    for control in (".tools", "nav"):
        assert not opened.page.locator(control).is_visible()
    assert opened.page.locator("#benchmarks > figure.chart > .plot").is_visible()


def test_the_link_to_this_view_leads_to_the_section_that_is_read(
    visit: Visit, make_comparison: Make
) -> None:
    opened = visit(make_comparison())
    assert opened.ask("page.addressHere()").endswith("#verdict") is False
    section = "document.getElementById('benchmarks')"
    opened.ask(f"{section}.scrollIntoView({{behavior: 'instant'}})")
    assert "#benchmarks" in opened.ask("page.addressHere()")


def test_on_a_narrow_screen_the_sides_stand_above_the_controls(
    visit: Visit, make_comparison: Make
) -> None:
    opened = visit(make_comparison(), width=360)
    top = "document.querySelector('{}').getBoundingClientRect().top"
    assert opened.ask(top.format(".sides")) < opened.ask(top.format(".tools"))
    assert opened.ask(top.format(".tools")) < opened.ask(top.format("nav"))


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


def test_the_page_is_marked_ready_when_its_scripts_have_run(
    visit: Visit, make_comparison: Make
) -> None:
    opened = visit(make_comparison(), is_shared=False)
    opened.page.add_init_script(
        "performance.mark = (name) => { window.marked = [name, document"
        ".documentElement.dataset.ready, document.querySelectorAll('table.live').length > 0]; }"
    )
    opened.page.reload()
    opened.wait_for("'marked' in window")
    assert opened.ask("window.marked") == ["ready", "true", True]


def test_only_a_page_without_scripts_scrolls_smoothly_unless_asked_not_to(
    visit: Visit, make_comparison: Make
) -> None:
    behaviour = "getComputedStyle(document.documentElement).scrollBehavior"
    settings: list[tuple[dict[str, Any], str]] = [
        ({}, "auto"),
        ({"java_script_enabled": False}, "smooth"),
        ({"java_script_enabled": False, "reduced_motion": "reduce"}, "auto"),
    ]
    for chosen, expected in settings:
        assert visit(make_comparison(), **chosen).ask(behaviour) == expected, chosen


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


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (360, "dark")])
def test_the_command_of_the_other_base_is_in_sight_and_can_be_copied(
    visit_report: Visit, width: int, scheme: str
) -> None:
    opened = visit_report(width=width, color_scheme=scheme)
    opened.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    menu = opened.page.locator(".other-bases")
    assert not menu.locator("code").is_visible()
    menu.get_by_text("Other base").click()
    box = menu.locator("> div").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert "patched as base:" in " ".join(menu.inner_text().split())
    assert menu.locator("code").inner_text() == OTHER_BASE
    menu.get_by_role("button", name="Copy").click()
    opened.wait_for("document.getElementById('said').textContent === 'Command copied.'")
    assert opened.ask("navigator.clipboard.readText()") == OTHER_BASE
    assert not menu.locator("code").is_visible()
    assert (opened.console, opened.errors) == ([], [])


def test_the_command_of_the_other_base_needs_no_scripting(visit_report: Visit) -> None:
    page = visit_report(java_script_enabled=False).page
    page.get_by_text("Other base").click()
    assert page.locator(".other-bases code").is_visible()
    assert page.locator(".tools button:visible").count() == 0


@pytest.mark.parametrize("width", [1400, 768, 700])
def test_four_sides_have_room_for_their_names(
    visit: Visit, make_comparison: Make, make_side: Callable[..., Any], width: int
) -> None:
    names = ("base", "new", "new2", "new3")
    sides = tuple(make_side(name, label=f"kernel-{name}") for name in names)
    options = {"other_bases": ["schedperf compare b a c d"] * 3}
    opened = visit(make_comparison(sides=sides), options=options, width=width)
    labels = "[...document.querySelectorAll('.top .label')]"
    assert opened.ask(f"{labels}.filter((one) => one.scrollWidth > one.clientWidth).length") == 0
    head = "document.querySelector('.top').getBoundingClientRect()"
    controls = (
        "[...document.querySelectorAll('.tools > *')].map((one) => one.getBoundingClientRect())"
    )
    assert opened.ask(f"{controls}.every((one) => one.bottom <= {head}.bottom)")
    # What sticks below the head is not covered by it.
    opened.ask("document.getElementById('raw').scrollIntoView({ behavior: 'instant' })")
    opened.wait_for("scrollY > 0")
    assert opened.ask(
        f"document.querySelector('#raw h2').getBoundingClientRect().top >= {head}.bottom"
    )


def test_on_a_telephone_no_word_of_a_control_is_broken(
    visit: Visit, make_comparison: Make, make_side: Callable[..., Any]
) -> None:
    sides = tuple(make_side(name, label=f"kernel-{name}") for name in ("base", "new", "new2"))
    options = {"other_bases": ["schedperf compare b a c"] * 2}
    opened = visit(make_comparison(sides=sides), options=options, width=360)
    controls = "[...document.querySelectorAll('.tools > button, .tools summary')]"
    heights = opened.ask(f"{controls}.map((one) => one.getBoundingClientRect().height)")
    assert len(heights) >= 5
    assert max(heights) < 30.0
    assert opened.ask("document.documentElement.scrollWidth") <= 360
