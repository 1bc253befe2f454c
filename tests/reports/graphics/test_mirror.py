# SPDX-License-Identifier: GPL-2.0-or-later
"""Mirrored bars: lengths, differences outside noise alone, the same in text, and on a page."""

from collections.abc import Callable
from typing import Any

import pytest

from schedperf.model.comparison import Comparison
from schedperf.model.counted import BinsRow
from schedperf.model.run import Captured, RunKey
from schedperf.model.sections import Section
from schedperf.stats.counted.distributions import compare_bins
from schedperf_reports.blocks import Drawing
from schedperf_reports.graphics.mirror import Mirror
from schedperf_reports.rates.histograms import mirror_of, write_time
from tests.placement_records import make_placement, placement_row

KEY = RunKey(side="base", workload="hackbench", point="", boot=0, run=0)
EDGES = [0.0, 1e-6, 2e-6, 4e-6]
BASE = ([0, 50, 50, 0], [0, 51, 49, 0], [0, 49, 51, 0])
NEW = ([0, 20, 80, 0], [0, 21, 79, 0], [0, 19, 81, 0])


def binned(base: Any = BASE, new: Any = NEW) -> BinsRow:
    before, after = ([Captured(key=KEY, content=one) for one in side] for side in (base, new))
    bins = compare_bins(before, after, EDGES)
    return BinsRow(side="new", workload="hackbench", point="", **bins.as_fields())


def mirror(found: BinsRow) -> Mirror:
    return mirror_of(found, "waits", what="a task waits from", events="waits")


def test_bars_share_one_scale_and_numbers_stand_beside_them() -> None:
    drawn = mirror(binned())
    assert drawn.totals == ("300 waits", "300 waits")
    assert [one.label for one in drawn.bins] == ["1 us", "2 us"]
    assert [drawn.part(one.new) for one in drawn.bins] == [0.25, 1.0]
    assert [drawn.part(one.base) for one in drawn.bins] == [0.625, 0.625]
    assert drawn.share(drawn.bins[0].new) == "20.0%"


def test_a_difference_stands_only_beside_bins_outside_noise() -> None:
    drawn = mirror(binned())
    assert drawn.bins[0].difference.startswith("-30 pp [-3")
    assert drawn.bins[1].difference.startswith("+30 pp [+2")
    assert drawn.bins[1].title.endswith(", significant")
    still = mirror(binned(new=BASE))
    assert [one.difference for one in still.bins] == ["", ""]
    assert still.bins[0].title.endswith(", not significant")
    one_run = mirror(binned(base=BASE[:1], new=NEW[:1]))
    assert [one.difference for one in one_run.bins] == ["", ""]
    assert one_run.bins[0].title.endswith("difference -30 pp, significance unknown")


def test_the_caption_states_the_finding() -> None:
    assert mirror(binned()).caption == (
        "waits: 2 of 2 bins changed significantly (3+3 runs); the largest change is in the bin "
        "from 2 us, 50.0% -> 80.0% of the waits"
    )
    assert mirror(binned(new=BASE)).caption == "waits: no bin changed significantly (3+3 runs)"
    assert mirror(binned(base=BASE[:1], new=NEW[:1])).caption == (
        "waits: significance unknown (1+1 runs)"
    )


def test_text_has_the_same_bars_side_by_side() -> None:
    [drawing] = mirror(binned()).plain()
    assert isinstance(drawing, Drawing)
    assert drawing.titles == ("base: 300 waits", "new: 300 waits")
    assert [line.text.split() for line in drawing.columns[1]] == [
        ["1", "us", "####", "20.0%"],
        ["2", "us", "#" * 17, "80.0%"],
    ]


def test_a_side_without_events_has_no_bars() -> None:
    nothing = mirror(binned(new=([0, 0, 0, 0], [0, 0, 0, 0])))
    assert [one.new for one in nothing.bins] == [None, None]
    assert nothing.part(nothing.bins[0].new) == 0.0


def test_an_edge_of_nothing_has_a_unit() -> None:
    assert [write_time(one) for one in (0.0, 512e-9, 2.0)] == ["0 ns", "512 ns", "2 s"]


@pytest.fixture
def page_of(
    make_comparison: Callable[..., Comparison], visit: Callable[..., Any]
) -> Callable[..., Any]:
    """Open the page of a record whose tasks waited."""

    def open_page(**settings: Any) -> Any:
        row = placement_row(point="", name="wait: p50", part="latency", field="p50", unit="s")
        record = make_placement(row, waits=(binned(),))
        section = Section.of(record)
        return visit(make_comparison(sections={"placement": section}), **settings)

    return open_page


@pytest.mark.browser
@pytest.mark.parametrize("width", [1400, 360])
def test_base_grows_to_the_left_and_new_to_the_right_without_scripting(
    width: int, page_of: Callable[..., Any]
) -> None:
    page = page_of(width=width, java_script_enabled=False).page
    line = page.locator("figure.mirror tbody tr").nth(1)
    boxes = [line.locator(place).bounding_box() for place in (".left .bar", "th", ".right .bar")]
    base, edge, new = boxes
    assert base["x"] + base["width"] <= edge["x"] + 1
    assert new["x"] >= edge["x"] + edge["width"] - 1
    # 50% of base beside 80% of new, on one scale.
    assert base["width"] / new["width"] == pytest.approx(0.625, rel=0.05)
    assert "+30 pp" in line.locator(".beyond").inner_text()
    figure = page.locator("figure.mirror .scroll")
    assert figure.evaluate("one => one.scrollWidth - one.clientWidth") <= 1
