# SPDX-License-Identifier: GPL-2.0-or-later
"""The first screen of each report in a browser: in one window, short, in order, on one sheet."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chromium import Tab
from tests.reports.visits import Visit

pytestmark = pytest.mark.browser

Open = Callable[..., Visit]

# The command to copy is not read.
MOST_WORDS = 200
WINDOWS = ((1400, 900), (1280, 720))
# A4 without margins of 1 cm, in CSS pixels.
SHEET = (718, 1046)
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
        for name in ("deep-cgroup", "deep-cgroup-arm64", "cluster-percpu", "four-kernels")
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
    command = opened.ask("document.querySelector('.card.next pre')?.textContent ?? ''")
    words = opened.page.locator("#verdict > .first").inner_text().split()
    assert len(words) - len(command.split()) <= MOST_WORDS
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
def test_it_is_one_printed_page(open_report: Open, name: str) -> None:
    opened = open_report(name, SHEET)
    opened.page.emulate_media(media="print")
    assert opened.ask(BOX, "#verdict > .first")[3] <= SHEET[1]
    style = "getComputedStyle(document.querySelector('.first')).breakAfter"
    assert opened.ask(style) == "page"


@pytest.mark.xdist_group("four-kernels")
def test_each_of_four_kernels_has_its_value_interval_and_line(open_report: Open) -> None:
    opened = open_report("four-kernels", WINDOWS[0])
    assert opened.page.locator(".first .big").inner_text().startswith("cluster: 2 of 3 results ")
    lines = [
        " ".join(line.split()) for line in opened.page.locator(".first .one").all_inner_texts()
    ]
    assert lines == [
        "tip 0.8005 s n = 8+8 runs",
        "cluster 1 s +25.0% [+24.4%, +25.5%], 2 of 3 worse",
        "repair 0.8317 s +3.9% [+3.5%, +4.3%], 1 of 3 worse",
        "v2 0.8325 s +4.0% [+3.6%, +4.4%], 1 of 3 worse, 2 better",
    ]
    drawn = opened.page.locator(".first .drawn .name").all_inner_texts()
    assert [name.strip() for name in drawn] == ["cluster", "repair", "v2"]
    assert "cluster, repair, v2 vs tip" in opened.page.title()
    opened.page.locator(".first .more").click()
    opened.wait_for("location.hash === '#benchmarks'")
    assert opened.complaints == []
