# SPDX-License-Identifier: GPL-2.0-or-later
"""The first screen of each report in a browser: in one window, short, in order, on one sheet."""

import io
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pypdf import PdfReader

from tests.chromium import Tab
from tests.reports.visits import Visit

pytestmark = pytest.mark.browser

Open = Callable[..., Visit]

MOST_WORDS = 200
WINDOWS = ((1400, 900), (1280, 720))
# The parts in the order in which they are read.
PARTS = (".kicker", ".big", ".drawn", ".why", ".next", ".glance")
BOX = """(selector) => {
  const box = document.querySelector(selector).getBoundingClientRect();
  return [box.left, box.top, box.right, box.bottom].map(Math.round);
}"""


@pytest.fixture
def open_report(lend_tab: Callable[..., Tab], write_page: Callable[[str], Path]) -> Open:
    """Open the page of a report in a window: ``open_report("four-kernels", (1400, 900))``."""

    def open_page(name: str, window: tuple[int, int]) -> Visit:
        visit = Visit(lend_tab())
        visit.page.set_viewport_size({"width": window[0], "height": window[1]})
        visit.go_to(write_page(name).as_uri())
        return visit

    return open_page


each_report = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.xdist_group(name))
        for name in (
            "deep-cgroup",
            "deep-cgroup-arm64",
            "cluster-percpu",
            "three-kernels",
            "four-kernels",
        )
    ],
)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@each_report
def test_all_of_it_is_in_the_window(open_report: Open, name: str, window: tuple[int, int]) -> None:
    opened = open_report(name, window)
    for part in PARTS:
        left, top, right, bottom = opened.ask(BOX, f".first {part}")
        assert 0 <= left < right <= window[0], part
        assert 0 <= top < bottom <= window[1], part


@each_report
def test_it_is_short_and_has_drawings(open_report: Open, name: str) -> None:
    opened = open_report(name, WINDOWS[0])
    words = opened.page.locator("#verdict > .first").inner_text().split()
    assert len(words) <= MOST_WORDS
    assert opened.page.locator("#verdict .drawn svg").count() >= 4


@each_report
def test_a_telephone_has_the_parts_in_the_same_order(open_report: Open, name: str) -> None:
    opened = open_report(name, (360, 800))
    boxes = [opened.ask(BOX, f".first {part}") for part in PARTS]
    tops = [box[1] for box in boxes]
    assert tops == sorted(tops)
    assert all(0 <= left < right <= 360 for left, _, right, _ in boxes)
    assert opened.ask("document.documentElement.scrollWidth") <= 360


@each_report
def test_the_first_sheet_of_a_pdf_holds_all_of_it_and_nothing_else(
    open_report: Open, name: str
) -> None:
    # A4 in CSS pixels: a drawing drops ticks that have no room. Buttons are not printed.
    opened = open_report(name, (794, 1123))
    opened.page.emulate_media(media="print")
    screen = opened.page.locator("#verdict > .first")
    shown = {word for word in screen.inner_text().split() if len(word) > 2}
    sheets = [
        unicodedata.normalize("NFKC", sheet.extract_text())
        for sheet in PdfReader(io.BytesIO(opened.page.pdf(format="A4"))).pages
    ]
    assert len(sheets) > 1
    assert {word for word in shown if word.lower() not in squeeze(sheets[0])} == set()
    assert "EVIDENCE AT A GLANCE" in sheets[0]
    assert not any("EVIDENCE AT A GLANCE" in sheet for sheet in sheets[1:])
    assert "the verdict in words" not in sheets[0]
    assert "the verdict in words" in sheets[1]


def squeeze(text: str) -> str:
    """Return the text without spaces."""
    return "".join(text.lower().split())


@each_report
def test_the_list_of_steps_has_as_many_as_the_first_screen_says(
    open_report: Open, name: str
) -> None:
    opened = open_report(name, WINDOWS[0])
    link = opened.page.locator(".card.next a[href='#next_steps']")
    said = re.search(r"[0-9]+", link.inner_text()) if link.count() else None
    number = int(said[0]) if said else 1
    opened.page.locator("#next_steps > details > summary").click()
    line = opened.page.locator("#next_steps summary .line").inner_text()
    assert line == f"{number} item{'s' if number > 1 else ''}"
    steps = opened.page.locator("#next_steps ol > li")
    # A section is filled after it was opened.
    steps.first.wait_for()
    assert steps.count() == number


def box_of(part: Any) -> dict[str, float]:
    """Return where something is on the page."""
    box: dict[str, float] = part.bounding_box()
    return box


@pytest.mark.xdist_group("four-kernels")
def test_each_of_four_kernels_has_its_value_interval_and_line(open_report: Open) -> None:
    opened = open_report("four-kernels", WINDOWS[0])
    caption = "cluster and repair regress, v2 is mixed (1 worse, 2 better)"
    assert opened.page.locator(".first .big").inner_text() == caption
    lines = [
        " ".join(line.split()) for line in opened.page.locator(".first .one").all_inner_texts()
    ]
    assert lines == [
        "tip 0.8005 s [95% CI], n = 8+8 runs",
        "cluster 1.000 s +25.0% [+24.4%, +25.5%], 2 of 3 worse",
        "repair 0.8317 s +3.9% [+3.5%, +4.3%], 1 of 3 worse",
        "v2 0.8325 s +4.0% [+3.6%, +4.4%], 1 of 3 worse, 2 better, most -7.0% at groups=1",
    ]
    drawn = opened.page.locator(".first .runs .name").all_inner_texts()
    assert [name.strip() for name in drawn] == ["tip", "cluster", "repair", "v2"]
    # Each change stands beside the runs of its kernel.
    strips, changes = (
        [box["y"] + box["height"] / 2.0 for box in map(box_of, opened.page.locator(which).all())]
        for which in (".first .runs .strip", ".first .by-side .change")
    )
    assert changes == pytest.approx(strips[1:], abs=3.0)
    assert "cluster, repair, v2 vs tip" in opened.page.title()
    opened.page.locator(".first .more").click()
    opened.wait_for("location.hash === '#benchmarks'")
    assert opened.complaints == []
