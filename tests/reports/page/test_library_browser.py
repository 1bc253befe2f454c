# SPDX-License-Identifier: GPL-2.0-or-later
"""The charts' library in a real browser: beside the page, on a server, and how many charts."""

import functools
import http.server
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from schedperf.model.comparison import Comparison
from schedperf_reports.blocks import Figure
from schedperf_reports.formats import Options
from schedperf_reports.formats.html import html
from schedperf_reports.page.page import Described, describe_head, render_sections
from schedperf_reports.page.plotly_library import share_plotly
from tests.chromium import Tab
from tests.reports.visits import Visit

pytestmark = pytest.mark.browser

Make = Callable[..., Comparison]
DrawFirst = Callable[[str], tuple[str, list[str]]]


@pytest.fixture
def site(tmp_path: Path, make_comparison: Make) -> Path:
    """Write a report that finds the library in a directory beside its own."""
    page = tmp_path / "site" / "reports" / "report.html"
    page.parent.mkdir(parents=True)
    library = share_plotly(tmp_path / "site" / "assets", page)
    page.write_text(
        html(make_comparison(), Options(width=78, colour=False, library=library)), encoding="utf-8"
    )
    return page


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """Serve the directory over http; give its address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 # as it is called
            pass

    handler = functools.partial(Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


@pytest.fixture
def draw_first(lend_tab: Callable[..., Tab]) -> Callable[[str], tuple[str, list[str]]]:
    """Return what became of the first chart of a page, and what the console said."""

    def draw(address: str) -> tuple[str, list[str]]:
        opened = Visit(lend_tab())
        opened.go_to(address)
        plots = "[...document.querySelectorAll('figure.chart > .plot')]"
        plot = f"{plots}.find((one) => one.checkVisibility())"
        opened.ask(f"{plot}.scrollIntoView({{behavior: 'instant'}})")
        opened.wait_for(f"['done', 'failed'].includes({plot}.dataset.drawn)")
        return opened.ask(f"{plot}.dataset.drawn"), [*opened.console]

    return draw


def test_a_shared_library_is_found_from_disk(draw_first: DrawFirst, site: Path) -> None:
    assert draw_first(site.as_uri()) == ("done", [])


def test_a_shared_library_is_found_over_http(
    draw_first: DrawFirst, site: Path, tmp_path: Path, server: str
) -> None:
    address = f"{server}/{site.relative_to(tmp_path)}"
    assert draw_first(address) == ("done", [])


def test_a_library_that_was_changed_on_the_server_is_refused(
    draw_first: DrawFirst, site: Path, server: str
) -> None:
    (file,) = (site.parents[1] / "assets").iterdir()
    file.write_text("document.title = 'taken over'")
    state, console = draw_first(f"{server}/site/reports/report.html")
    assert state == "failed"
    assert any("integrity" in line for line in console)


def test_a_library_that_is_gone_is_said(draw_first: DrawFirst, site: Path) -> None:
    (file,) = (site.parents[1] / "assets").iterdir()
    file.unlink()
    assert draw_first(site.as_uri())[0] == "failed"


def test_charts_that_are_far_away_are_forgotten_and_drawn_again(
    lend_tab: Callable[..., Tab], make_comparison: Make, tmp_path: Path
) -> None:
    figure = {"data": [{"type": "scatter", "x": [1, 2], "y": [3, 4]}], "layout": {}}
    blocks = tuple(
        Figure(caption=f"chart {place}", figure=figure, height=900) for place in range(15)
    )
    section = Described(name="charts", title="Charts", blocks=blocks)
    page = tmp_path / "charts.html"
    page.write_text(render_sections(describe_head(make_comparison()), [section]), encoding="utf-8")
    opened = Visit(lend_tab())
    opened.go_to(page.as_uri())
    plots = "[...document.querySelectorAll('.plot')]"
    count = f"{plots}.filter((one) => one.dataset.drawn === 'done').length"

    def look_at(place: int) -> None:
        opened.ask(f"{plots}[{place}].scrollIntoView({{behavior: 'instant'}})")
        opened.wait_for(f"{plots}[{place}].dataset.drawn === 'done'")

    for place in range(15):
        look_at(place)
    # Charts are forgotten when all that came into view with the last one are drawn.
    opened.wait_for(f"{plots}[0].dataset.drawn === undefined && {count} <= 12")
    look_at(0)
    opened.wait_for(f"{count} <= 12")
    assert opened.ask("document.querySelectorAll('.main-svg').length") > 0
