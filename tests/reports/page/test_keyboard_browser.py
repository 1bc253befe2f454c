# SPDX-License-Identifier: GPL-2.0-or-later
"""The page by its Tab key alone: where it stops, what is seen of it, and that it goes on."""

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.browser

# Where the focus is: whether for the first time, its ring, and how much of it is in sight.
STOP = """() => {
  const element = document.activeElement;
  if (element === document.body) {
    return null;
  }
  const { outlineStyle, outlineWidth } = getComputedStyle(element);
  const { top, bottom, left, right, width, height } = element.getBoundingClientRect();
  const head = document.querySelector(".top");
  const ceiling = element.closest(".top, .skip") ? 0 : head.getBoundingClientRect().bottom;
  const isNew = element.dataset.visited === undefined;
  element.dataset.visited = "";
  return {
    name: `${element.tagName} ${element.className} ${element.textContent.trim().slice(0, 30)}`,
    isNew,
    hasRing: outlineStyle !== "none" && parseFloat(outlineWidth) >= 2,
    isSeen: width > 1 && height > 1 && bottom > ceiling && top < innerHeight
      && right > 0 && left < innerWidth,
  };
}"""
# No page of these tests has as many controls.
MOST_STOPS = 500


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 360])
def test_the_tab_key_reaches_each_control_once_in_sight_and_with_a_ring(
    visit_report: Callable[..., Any], width: int, scheme: str
) -> None:
    opened = visit_report(width=width, color_scheme=scheme, reduced_motion="reduce")
    stops: list[dict[str, Any]] = []
    while len(stops) < MOST_STOPS:
        opened.press("Tab")
        stop = opened.ask(STOP)
        if stop is None:
            break
        stops.append(stop)
    assert stop is None
    for fault in ("isNew", "hasRing", "isSeen"):
        assert [one["name"] for one in stops if not one[fault]] == []
    controls = (
        "[...document.querySelectorAll('a[href], button, input, select, summary')].filter((one) =>"
        " one.checkVisibility({ visibilityProperty: true }) && one.tabIndex >= 0 && !one.disabled"
        " && one.dataset.visited === undefined).map((one) => one.outerHTML.slice(0, 80))"
    )
    assert opened.ask(controls) == []
    assert stops[0]["name"] == "A skip Skip to the verdict"


IN_MAIN = "document.querySelector('main').contains(document.activeElement)"


@pytest.mark.parametrize("anchor", ["", "#?theme=dark"])
def test_the_skip_link_skips_whatever_state_the_address_has(
    visit_report: Callable[..., Any], anchor: str
) -> None:
    opened = visit_report(anchor=anchor)
    opened.press("Tab", "Enter")
    opened.wait_for(f"location.hash.startsWith('#verdict') && {IN_MAIN}")
    opened.press("Tab")
    assert opened.ask(IN_MAIN)
    # What had the focus for once is no stop of the keyboard's later.
    assert opened.ask("document.getElementById('verdict').hasAttribute('tabindex')") is False


def test_a_link_to_a_row_marks_it_and_the_keyboard_goes_on_from_it(
    visit_report: Callable[..., Any],
) -> None:
    opened = visit_report(anchor="#?theme=dark")
    rows = "[...document.querySelectorAll('#benchmarks tr[id][data-row]:not([hidden])')]"
    anchor = opened.ask(f"{rows}[0].id")
    ground = f"getComputedStyle({rows}[0]).boxShadow"
    assert opened.ask(ground) == "none"
    opened.ask(f"page.go({anchor!r})")
    opened.wait_for(f"document.activeElement.id === {anchor!r}")
    assert opened.ask(ground) != "none"
    opened.press("j")
    assert opened.ask(f"{rows}.indexOf(document.activeElement)") == 1
