# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf_reports.results.side_by_side: a column per side, in a text and on a page."""

import re
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from schedperf.model.comparison import Comparison
from schedperf.model.row_groups import Mover, SideBySide, Step
from schedperf.model.rows import Row
from schedperf.model.sides import SideSummary
from schedperf_reports.formats import Options
from schedperf_reports.formats.html import html
from schedperf_reports.formats.lkml import lkml
from schedperf_reports.formats.text import text
from schedperf_reports.results.side_by_side import draw_side_by_side

Make = Callable[..., Comparison]
MakeRow = Callable[..., Row]
MakeSide = Callable[..., SideSummary]


@pytest.fixture
def three(make_comparison: Make, make_row: MakeRow, make_side: MakeSide) -> Comparison:
    """Return a comparison in which the first new side regressed, and the second did not."""
    sides = (make_side(), make_side("new", label="cluster"), make_side("new2", label="repair"))
    fine = {"ratio": 1.004, "ci_low": 0.99, "ci_high": 1.02, "verdict": "no-change"}
    rows = tuple(
        make_row(side=side, metric="time", point=point, **changes)
        for point in ("groups=1", "groups=4")
        for side, changes in (("new", {}), ("new2", fine))
    )
    comparison = make_comparison(sides=sides, rows=rows)
    return replace(comparison, side_by_side=tuple(map(with_step, comparison.side_by_side)))


def with_step(result: SideBySide) -> SideBySide:
    step = Step(ratio=0.73, ci_low=0.7, ci_high=0.77)
    return replace(result, cells=(*result.cells[:2], replace(result.cells[2], step=step)))


def lines_of(comparison: Comparison, width: int) -> list[str]:
    drawn = text(comparison, Options(width=width, colour=False))
    return drawn.partition("Benchmarks\n")[2].partition("\n\nReasons")[0].splitlines()


def test_a_row_has_values_changes_intervals_steps_and_marks(three: Comparison) -> None:
    lines = lines_of(three, 78)
    caption = " ".join(line.strip() for line in lines[:4])
    for words in ("of 3 sides", "*: significant", "=: no change, within +-3%", "best, worst:"):
        assert words in caption
    [first] = [line for line in lines if line.strip().startswith("groups=1")]
    values = r"groups=1 +best 612 +worst 839\.7 \+37\.2%\* +614\.4 \+0\.4%="
    assert re.fullmatch(values, first.strip())
    below = lines[lines.index(first) + 1 :][:2]
    assert below[0].split("  ")[-1].strip() == "[-1.0%, +2.0%]"
    assert below[1].strip() == "step -27.0%"


def test_sides_without_room_are_below_with_base_again(three: Comparison) -> None:
    heads = [line.split() for line in lines_of(three, 50) if line.startswith("  result ")]
    assert heads == [["result", "base", "cluster"], ["result", "base", "repair"]]
    heads = [line.split() for line in lines_of(three, 78) if line.startswith("  result ")]
    assert heads == [["result", "base", "cluster", "repair"]]


def test_one_screen_has_the_table_of_all_sides_alone(three: Comparison) -> None:
    brief = text(three, Options(width=78, colour=False))
    assert "repair: 2 results" not in brief
    assert "repair: 2 results" in text(three, Options(width=78, colour=False, everything=True))


def test_a_page_has_the_interval_of_a_step(three: Comparison) -> None:
    page = html(three, Options(width=78, colour=False))
    assert 'class="sidecolumns"' in page
    assert "step -27.0% <span>[-30.0%, -23.0%]</span>" in page
    cells = re.findall(r'<td title="no-change, n = 5">', page)
    assert len(cells) == 2


def test_without_a_change_nothing_is_best(
    make_comparison: Make, make_row: MakeRow, make_side: MakeSide
) -> None:
    rows = tuple(make_row(side=side, verdict="inconclusive") for side in ("new", "new2"))
    comparison = make_comparison(
        sides=(make_side(), make_side("new"), make_side("new2")), rows=rows
    )
    drawn = draw_side_by_side(comparison, "primary", brief=True)
    assert drawn is not None
    assert not re.search("best|worst|\\*", drawn.caption)
    assert not any(cell.extreme for row in drawn.rows for cell in row.cells)


def test_units_that_differ_are_in_the_name_of_the_row(
    make_comparison: Make, make_row: MakeRow, make_side: MakeSide
) -> None:
    rows = tuple(
        make_row(side=side, metric="time", point=point, base=base, new=base)
        for point, base in (("n=1", 0.002), ("n=9", 3.0))
        for side in ("new", "new2")
    )
    comparison = make_comparison(
        sides=(make_side(), make_side("new"), make_side("new2")), rows=rows
    )
    drawn = draw_side_by_side(comparison, "primary", brief=True)
    assert drawn is not None
    assert [row.name for row in drawn.rows] == ["time", "  n=1, ms", "  n=9, s"]


def test_the_side_that_moves_a_result_is_named_in_every_format(three: Comparison) -> None:
    mover = Mover(
        side="new",
        before="base",
        workload=three.rows[0].workload,
        point="groups=4",
        metric="time",
        unit=three.rows[0].unit,
        better="lower",
        family="primary",
        ratio=1.41,
        ci_low=1.3,
        ci_high=1.53,
        p_corrected=0.0021,
    )
    named = replace(three, movers=(mover,))
    options = Options(width=78, colour=False)
    sentence = (
        "time at groups=4 changes at cluster: +41.0% [+30.0%, +53.0%] (step from base, "
        "p = 0.0021 by Holm); 1 other step: not significant"
    )
    for drawn in (text(named, options), lkml(named, options), html(named, options)):
        assert sentence in " ".join(drawn.split())
