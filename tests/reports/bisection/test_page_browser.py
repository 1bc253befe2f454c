# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of a bisection in a browser: nothing hostile is alive, nothing is cut off, axe-core."""

from collections.abc import Callable
from pathlib import Path

import pytest

from schedperf_reports.bisection.page import draw_bisect_page
from tests.bisections import HOSTILE, Search, make_commits
from tests.reports.visits import Visit

pytestmark = pytest.mark.browser

Open = Callable[..., Visit]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page of two named commits, with hostile subjects."""
    document = Search(make_commits(65, HOSTILE), {20: 0.90, 50: 1.12}, untestable=(19,)).finish()
    facts = [("first bad commit", HOSTILE), ("range", HOSTILE)]
    path = tmp_path_factory.mktemp("bisection") / "bisect.html"
    path.write_text(draw_bisect_page(document, facts, path=HOSTILE, tool_version="1"))
    return path


@pytest.mark.parametrize("width", [1400, 400])
@pytest.mark.parametrize("color_scheme", ["light", "dark"])
def test_everyone_can_read_it(visit_file: Open, page: Path, width: int, color_scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.base", reason="axe is not installed")
    opened = visit_file(page, width=width, color_scheme=color_scheme, is_shared=False)
    assert opened.ask("document.documentElement.scrollWidth") <= width
    opened.ask(axe.AXE_SCRIPT)
    violations = opened.ask("axe.run().then((found) => found.violations)")
    assert [(each["id"], each["nodes"][0]["html"]) for each in violations] == []


def test_no_subject_is_alive(visit_file: Open, page: Path) -> None:
    opened = visit_file(page)
    opened.ask("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert opened.ask("typeof window.pwned") == "undefined"
    assert opened.ask("document.images.length") == 0
    assert opened.complaints == []
    assert all(request.startswith(("file:", "data:")) for request in opened.requests)


def test_it_can_be_read_without_scripts(visit_file: Open, page: Path) -> None:
    opened = visit_file(page, java_script_enabled=False)
    text = opened.page.locator("main").inner_text()
    for title in ("Levels", "Named commits", "Untestable commits"):
        assert title in text
    assert opened.page.locator(".chart .cut").count() == 2
