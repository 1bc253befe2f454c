# SPDX-License-Identifier: GPL-2.0-or-later
"""The pages of a lab in a browser: for everyone, at all widths, with and without scripts."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.chromium import Tab
from tests.labs import Shape, key_of, make_lab, night_of
from tests.schedperf.publish.dashboard.test_build import publish

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("dashboard")]

SHAPE = Shape(machines=3, results=3, nights=60, step=50, dead=57)
LONGEST_WAIT_S = 60.0
AXE_OPTIONS: dict[str, Any] = {
    "resultTypes": ["violations"],
    "selectors": False,
    # The policy of the pages forbids to load their styles again.
    "preload": False,
}
DRAWN = "document.getElementById('timeline').dataset.drawn === 'yes'"
FOCUSED = """() => {
  const cell = document.activeElement.closest("td");
  return [cell.cellIndex, cell.parentElement.rowIndex];
}"""
SHOWN_CELLS = """() => [...document.querySelectorAll("td.cell a")]
  .filter((one) => one.checkVisibility({ visibilityProperty: true })).length"""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the site of a lab."""
    folder = tmp_path_factory.mktemp("lab")
    publish(make_lab(folder / "history", SHAPE), folder / "site", is_private=False)
    return folder / "site"


def names_of(site: Path) -> list[str]:
    """Return one page of each kind."""
    machine = next((site / "m").iterdir()).name
    return [
        "index.html",
        f"s/{key_of(0, 0)}.html",
        f"m/{machine}",
        f"n/{night_of(59)}.html",
        "decisions.html",
        "results.html",
    ]


def go_to(tab: Tab, site: Path, name: str) -> None:
    """Open a page; wait for its timeline."""
    tab.page.goto(f"{site.as_uri()}/{name}")
    if name.startswith("s/") and tab.has_scripts:
        end = time.monotonic() + LONGEST_WAIT_S
        while not tab.page.evaluate(DRAWN):
            assert time.monotonic() < end, "the timeline was not drawn"
            time.sleep(0.05)


@pytest.mark.parametrize(
    ("width", "scheme"), [(1400, "light"), (1400, "dark"), (768, "light"), (400, "light")]
)
def test_all_pages_fit_and_shut_nobody_out(
    site: Path, lend_tab: Callable[..., Tab], width: int, scheme: str
) -> None:
    tab = lend_tab(width=width, color_scheme=scheme)
    for name in names_of(site):
        go_to(tab, site, name)
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width, name
        found = Axe().run(tab.page, options=AXE_OPTIONS).response["violations"]
        shown = [(one["id"], [node["html"][:200] for node in one["nodes"][:2]]) for one in found]
        assert shown == [], name
        assert (tab.console, tab.errors) == ([], []), name
    assert [each for each in tab.requests if not each.startswith(("file:", "data:", "blob:"))] == []


def test_without_scripts_tables_and_drawings_remain(
    site: Path, lend_tab: Callable[..., Tab]
) -> None:
    tab = lend_tab(java_script_enabled=False)
    go_to(tab, site, f"s/{key_of(0, 0)}.html")
    assert tab.page.locator("svg.timeline").is_visible()
    assert tab.page.locator("#table tbody tr").count() == 60
    assert not tab.page.locator(".plot, #search, .downloads").first.is_visible()
    go_to(tab, site, "index.html")
    assert tab.page.locator("td.cell").count() == 9
    assert not tab.page.locator("#filters").is_visible()


def test_each_state_of_the_filters_has_an_address(site: Path, lend_tab: Callable[..., Tab]) -> None:
    tab = lend_tab()
    page = tab.page
    go_to(tab, site, "index.html")
    assert page.evaluate(SHOWN_CELLS) == 9
    page.get_by_label("changed only").check()
    assert page.url.endswith("#changed=1")
    # Two steps, and a machine without a result.
    assert page.evaluate(SHOWN_CELLS) == 5
    page.get_by_label("metric").select_option("time 0")
    assert page.url.endswith("#metric=time+0&changed=1")
    assert page.evaluate(SHOWN_CELLS) == 3
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    assert page.evaluate(SHOWN_CELLS) == 3
    assert page.get_by_label("changed only").is_checked()
    assert page.locator("#count").inner_text() == "3 results"
    page.keyboard.press("r")
    assert page.evaluate(SHOWN_CELLS) == 9
    assert "#" not in page.url


def test_keys_search_and_move(site: Path, lend_tab: Callable[..., Tab]) -> None:
    tab = lend_tab()
    page = tab.page
    go_to(tab, site, "index.html")
    page.locator("td.cell a").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert page.evaluate(FOCUSED) == [2, 2]
    page.keyboard.press("?")
    assert page.locator("#keys").get_by_text("changed only").is_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("time 1 m01")
    page.locator("#found a").first.wait_for()
    assert page.locator("#found a").count() == 1
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/s/{key_of(1, 1)}.html")


def test_two_nights_are_chosen_and_compared(site: Path, lend_tab: Callable[..., Tab]) -> None:
    tab = lend_tab()
    page = tab.page
    name = f"s/{key_of(0, 0)}.html"
    go_to(tab, site, name)
    for night in (night_of(40), night_of(59)):
        page.get_by_label(f"compare {night}").check()
    assert page.url.endswith(f"#nights={night_of(40)},{night_of(59)}")
    text = page.locator("#compared").inner_text()
    assert f"{night_of(40)} (" in text
    assert "significant (95% CI from the noise between nights)" in text
    assert f"schedperf history diff {night_of(40)} {night_of(59)} --nights 1" in text
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    assert page.locator("#compared").inner_text() == text
    assert page.locator("#csv").get_attribute("href").startswith("blob:")
