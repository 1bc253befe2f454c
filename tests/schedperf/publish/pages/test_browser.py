# SPDX-License-Identifier: GPL-2.0-or-later
"""Pages of a site in a browser."""

from pathlib import Path
from typing import Any

import pytest

from schedperf.model.comparison import Comparison
from schedperf.publish.culprit.record import Culprit
from schedperf.publish.pages.publish import publish
from tests.chromium import Tabs
from tests.schedperf.publish.pages.test_publish import FIRST, write

pytestmark = pytest.mark.browser

# Width of the page, and the right end of the last column, of the table's box.
WIDTHS = """() => {
  const cells = [...document.querySelectorAll(".wide tbody tr > *")];
  return [
    document.documentElement.scrollWidth,
    Math.max(...cells.map((cell) => cell.getBoundingClientRect().right)),
    document.querySelector(".wide").getBoundingClientRect().right,
  ].map(Math.round);
}"""


@pytest.fixture
def page(culprit: Culprit, found: Comparison, retested: Comparison, tmp_path: Path) -> str:
    """Return the address of the page of a culprit."""
    publish(write(tmp_path, found, retested, culprit), tmp_path / "site", now=FIRST)
    return (tmp_path / f"site/r/{culprit.key}/index.html").as_uri()


@pytest.mark.parametrize("width", [320, 400, 1400])
def test_all_columns_of_the_results_are_in_the_window(page: str, browser: Any, width: int) -> None:
    tab = Tabs(browser).open(width=width)
    tab.page.goto(page)
    whole, cells, box = tab.page.evaluate(WIDTHS)
    assert whole == width
    assert cells <= box <= width
    assert not tab.console
    tab.page.context.close()
