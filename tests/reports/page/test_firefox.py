# SPDX-License-Identifier: GPL-2.0-or-later
"""The reports in Firefox: the first screen is in the window, links land, nothing complains."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.firefox import LONGEST_WAIT_SECONDS, Firefox, start_firefox

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("firefox")]

NAMES = ("deep-cgroup", "deep-cgroup-arm64", "cluster-percpu", "four-kernels")
WIDTH, HEIGHT = 1400, 900
READY = "document.documentElement.dataset.ready === 'true'"
# Of each part of the first screen: whether it is drawn, and all of it inside the window.
PARTS = """[...document.querySelectorAll(":is(.big, .drawn, .first > .card)")].map((part) => {
  const box = part.getBoundingClientRect();
  return [part.className, box.width > 0 && box.height > 0,
          box.top >= 0 && box.left >= 0 && box.bottom <= innerHeight && box.right <= innerWidth];
})"""
# Those of the reasons and of the drawing, and of the first chapters.
LINKS = """[...new Set([...document.querySelectorAll(
  ".first :is(.why, .drawn, .next) a[href^='#'], .first li:nth-child(-n + 2) a[href^='#']",
)].map((link) => link.getAttribute("href")))]"""
# Where the target of the address is; a link without a target stays at the top.
LANDED = """(() => {
  const id = decodeURIComponent(location.hash.slice(1).split(/[?&]/)[0]);
  const target = document.getElementById(id);
  if (!target) return null;
  const box = target.getBoundingClientRect();
  return box.height > 0 && box.top < innerHeight && box.bottom > 0;
})()"""


@pytest.fixture(scope="module")
def firefox() -> Iterator[Firefox]:
    with start_firefox() as browser:
        browser.resize(WIDTH, HEIGHT)
        yield browser


def open_page(firefox: Firefox, address: str) -> None:
    firefox.go_to(address)
    wait_for(firefox, READY)


def wait_for(firefox: Firefox, script: str) -> None:
    end = time.monotonic() + LONGEST_WAIT_SECONDS
    while not firefox.ask(script):
        assert time.monotonic() < end, f"never became true: {script}"
        time.sleep(0.05)


@pytest.mark.parametrize("name", NAMES)
def test_firefox_shows_the_first_screen_and_its_links_land(
    firefox: Firefox, write_page: Callable[[str], Path], name: str
) -> None:
    address = write_page(name).as_uri()
    firefox.complaints.clear()
    open_page(firefox, address)
    parts = firefox.ask(PARTS)
    assert len(parts) >= 6
    assert [part for part in parts if not all(part[1:])] == []
    assert firefox.ask("document.documentElement.scrollWidth") <= WIDTH
    links = firefox.ask(LINKS)
    assert len(links) > 2
    for number, link in enumerate(links):
        # Another query: the page is loaded again, as in a new tab.
        open_page(firefox, f"{address}?{number}{link}")
        wait_for(firefox, f"{LANDED} === true")
    assert firefox.complaints == []
