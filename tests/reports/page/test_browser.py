# SPDX-License-Identifier: GPL-2.0-or-later
"""The page in a real browser: charts, policy, folding, telephones, and hostile texts."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.model.comparison import Comparison

pytestmark = pytest.mark.browser

Make = Callable[..., Comparison]
Replace = Callable[[Comparison, str], Comparison]
Visit = Callable[..., Any]

HOSTILE = (
    "<script>window.pwned = 1</script></script><img src=x onerror='window.pwned = 1'>"
    "\"' onmouseover='window.pwned = 1' javascript:window.pwned=1 {{7*7}} "
    "https://example.invalid/ \u202egnirts\u2066 \x1b[31m " + "n" * 10_000
)


def is_local(address: str) -> bool:
    return address.startswith(("file:", "data:", "blob:"))


def test_charts_need_no_network_and_no_script(visit: Visit, make_comparison: Make) -> None:
    for settings in ({}, {"java_script_enabled": False}):
        opened = visit(make_comparison(), **settings)
        chart = opened.page.locator("#benchmarks > figure.chart")
        assert chart.is_visible()
        assert chart.locator(".mark").count() == 9
        assert opened.complaints == []
        assert all(map(is_local, opened.requests))


@pytest.mark.parametrize("width", [1400, 360])
def test_hostile_texts_run_nothing_and_ask_for_nothing(
    visit: Visit, make_comparison: Make, replace_texts: Replace, width: int
) -> None:
    opened = visit(replace_texts(make_comparison(), HOSTILE), width=width)
    opened.ask("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert opened.ask("typeof window.pwned") == "undefined"
    assert opened.ask("document.images.length") == 0
    assert opened.ask("document.body.innerText.includes('{{7*7}}')")
    assert opened.console == []
    assert opened.errors == []
    assert all(map(is_local, opened.requests))
    assert opened.ask("document.documentElement.scrollWidth") <= width


def test_labels_of_charts_show_markup_as_it_stands(visit: Visit, make_comparison: Make) -> None:
    comparison = make_comparison()
    points = tuple(f"a<b>b</b>={number}" for number in (1, 4, 16))
    rows = tuple(
        replace(row, point=points[place]) if place < len(points) else row
        for place, row in enumerate(comparison.rows)
    )
    sweeps = tuple(replace(sweep, points=points) for sweep in comparison.sweeps)
    opened = visit(make_comparison(rows=rows, sweeps=sweeps))
    labels = "[...document.querySelectorAll('.plot text')].map((one) => one.textContent)"
    assert "a<b>b</b>" in opened.ask(labels)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 768, 360])
def test_the_page_never_scrolls_sideways(
    visit: Visit, make_comparison: Make, width: int, scheme: str
) -> None:
    opened = visit(make_comparison(), width=width, color_scheme=scheme)
    opened.ask("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert opened.ask("document.documentElement.scrollWidth") <= width


def test_the_theme_follows_the_system_and_the_button(visit: Visit, make_comparison: Make) -> None:
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    grid = "getComputedStyle(document.querySelector('.plot text')).fill"
    opened = visit(make_comparison(), color_scheme="dark")
    dark, dark_label = opened.ask(paper), opened.ask(grid)
    opened.page.get_by_role("button", name="Light colours").click()
    assert opened.ask(paper) == "rgb(255, 255, 255)" != dark
    opened.wait_for(f"{grid} !== '{dark_label}'")
    assert opened.ask("document.getElementById('theme').textContent") == "Dark"


def test_without_scripting_the_report_is_whole(visit: Visit, make_comparison: Make) -> None:
    opened = visit(make_comparison(), java_script_enabled=False)
    text = opened.page.locator("body").inner_text()
    assert "+37.2% [+35.0%, +39.5%]" in text
    assert not opened.page.locator("#theme").is_visible()


def test_a_link_to_a_folded_row_unfolds_it(visit: Visit, make_comparison: Make) -> None:
    opened = visit(make_comparison())
    opened.ask("document.querySelector('#environment details tbody tr').id = 'environment-x'")
    assert not opened.ask("document.querySelector('#environment details').open")
    opened.ask("location.hash = '#environment-x'")
    opened.wait_for("document.querySelector('#environment details').open")


def test_the_keyboard_reaches_the_skip_link_first(visit: Visit, make_comparison: Make) -> None:
    opened = visit(make_comparison())
    opened.page.keyboard.press("Tab")
    assert opened.ask("document.activeElement.textContent") == "Skip to the verdict"
    opened.page.keyboard.press("Enter")
    opened.wait_for("location.hash === '#verdict'")


def test_printing_unfolds_what_is_folded_for_white_paper(
    visit: Visit, make_comparison: Make
) -> None:
    label = "getComputedStyle(document.querySelector('.plot text')).fill"
    opened = visit(make_comparison(), color_scheme="dark")
    on_screen = opened.ask(label)
    opened.ask("dispatchEvent(new Event('beforeprint'))")
    folds = "[...document.querySelectorAll('main details.fold')]"
    assert opened.ask(f"{folds}.length > 0 && {folds}.every((one) => one.open)")
    opened.wait_for(f"{label} !== '{on_screen}'")
    opened.ask("dispatchEvent(new Event('afterprint'))")
    opened.wait_for(f"{label} === '{on_screen}'")


def test_printing_without_scripting_shows_what_is_folded(
    visit: Visit, make_comparison: Make
) -> None:
    opened = visit(make_comparison(), java_script_enabled=False)
    folded = opened.page.locator("details.fold table").first
    assert not folded.is_visible()
    opened.page.emulate_media(media="print")
    assert folded.is_visible()
