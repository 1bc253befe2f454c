# SPDX-License-Identifier: GPL-2.0-or-later
"""Intervals, runs and sweeps as figures: what they say, draw and leave out."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from schedperf.model.comparison import Comparison
from schedperf.model.row_groups import Sweep
from schedperf.model.rows import Better, Row, RunValue
from schedperf_reports.blocks import Table
from schedperf_reports.graphics.axes import Axis, linear_axis, word_axis
from schedperf_reports.graphics.chart import Chart, Panel, Point, Series
from schedperf_reports.graphics.intervals import SHAPES, IntervalLine, Intervals
from schedperf_reports.graphics.ratio_axis import choose_ticks, fit_axis, ratio_axis, value_ticks
from schedperf_reports.results.benchmarks import benchmarks
from schedperf_reports.results.run_figures import draw_runs
from schedperf_reports.results.sweep_plot import describe_sweep

Make = Callable[..., Comparison]
MakeRow = Callable[..., Row]


def plots_of(comparison: Comparison) -> list[Intervals]:
    return [block for block in benchmarks(comparison) if isinstance(block, Intervals)]


def make_line(**changes: Any) -> IntervalLine:
    values: dict[str, Any] = {
        "name": "a", "row": 0, "anchor": "a", "verdict": "no-change", "ratio": 1.0,
        "ci_low": 0.98, "ci_high": 1.02, "margin": 0.03,
    }  # fmt: skip
    return IntervalLine(**values | changes)


def test_plots_say_which_way_is_worse(make_comparison: Make) -> None:
    captions = [plot.caption for plot in plots_of(make_comparison())]
    assert captions == [
        (
            "4 results: 1 regression, 1 improvement, 1 no-change, 1 inconclusive; "
            "bars are 95% CIs; right is worse; the shaded band is the equivalence margin"
        ),
        (
            "1 secondary result; "
            "bars are 95% CIs; left is worse; the shaded band is the equivalence margin"
        ),
    ]


def test_where_directions_differ_no_end_is_better(make_comparison: Make, make_row: MakeRow) -> None:
    rows = (make_row(), make_row(metric="operations", unit="1/s", better="higher"))
    [plot] = plots_of(make_comparison(rows=rows, sweeps=()))
    assert plot.directions == ("", "")
    assert "each row states which direction is better" in plot.caption
    assert [line.mark for line in plot.lines] == ["lower is better", "higher is better"]


@pytest.mark.parametrize(
    ("better", "directions"),
    [
        ("lower", ("better", "worse")),
        ("higher", ("worse", "better")),
        ("unknown", ("", "")),
        (None, ("", "")),
    ],
)
def test_no_end_is_better_where_the_direction_is_unknown(
    better: Better | None, directions: tuple[str, str]
) -> None:
    assert Intervals(caption="", lines=(make_line(),), better=better).directions == directions


def test_each_result_and_mean_of_the_table_has_a_line_with_its_number(
    make_comparison: Make,
) -> None:
    blocks = list(benchmarks(make_comparison()))
    plot = next(block for block in blocks if isinstance(block, Intervals))
    table = blocks[blocks.index(plot) + 1]
    assert isinstance(table, Table)
    told = {line.row: line for line in plot.lines}
    for number, row in enumerate(table.rows):
        if number in told:
            assert row[4].text == told[number].change
            assert row[5].text == told[number].interval
            assert table.anchors[number] == told[number].anchor != ""
        else:
            assert row[4].text == ""
    assert [line.word for line in plot.lines] == [
        "no-change", "regression", "inconclusive", "geomean", "improvement", "geomean",
    ]  # fmt: skip


def test_a_result_without_a_ratio_keeps_its_line(make_comparison: Make, make_row: MakeRow) -> None:
    rows = (make_row(point="groups=1"), make_row(ratio=None, base=None, verdict="invalid"))
    [plot] = plots_of(make_comparison(rows=rows, sweeps=()))
    assert [(line.change, line.interval) for line in plot.lines] == [
        ("+37.2%", "[+35.0%, +39.5%]"), ("no ratio", ""),
    ]  # fmt: skip
    assert plot.bar(plot.axis, plot.lines[1]) is None


def test_places_are_logarithmic_and_the_band_is_symmetric_about_no_change() -> None:
    axis = ratio_axis(0.25, 4.0)
    assert [axis.place(ratio) for ratio in (0.25, 0.5, 1.0, 2.0, 4.0, 9.0)] == [
        0.0, 25.0, 50.0, 75.0, 100.0, 100.0,
    ]  # fmt: skip
    plot = Intervals(caption="", lines=(make_line(ci_low=0.5, ci_high=2.0),), better="lower")
    band = plot.band(axis, plot.lines[0])
    bar = plot.bar(axis, plot.lines[0])
    assert band is not None
    assert bar is not None
    assert band.left + band.width / 2 == pytest.approx(50.0, abs=0.01)
    assert (bar.left, bar.width) == (25.0, 50.0)


def test_an_interval_that_says_nothing_does_not_press_the_others_together() -> None:
    lines = (make_line(ratio=1.1, ci_low=1.08, ci_high=1.12), make_line(ci_low=1e-5, ci_high=1e5))
    plot = Intervals(caption="", lines=lines, better="lower")
    assert plot.axis.high < 1.3
    cut = plot.bar(plot.axis, lines[1])
    whole = plot.bar(plot.axis, lines[0])
    assert cut is not None
    assert whole is not None
    assert (cut.is_cut_left, cut.is_cut_right) == (True, True)
    assert (whole.is_cut_left, whole.is_cut_right) == (False, False)


def test_ticks_keep_no_change_and_room_for_their_texts() -> None:
    plot = Intervals(caption="", lines=(), better="lower")
    few = plot.ticks(ratio_axis(0.97, 1.031))
    assert [tick.text for tick in few] == ["-3%", "-2%", "-1%", "0", "+1%", "+2%", "+3%"]
    crowded = plot.ticks(ratio_axis(0.45, 2.1))
    assert [tick.text for tick in crowded] == ["-50%", "0", "+50%", "+100%"]
    assert [tick.text for tick in (*few, *crowded) if tick.is_zero] == ["0", "0"]


def test_verdicts_have_shapes_of_their_own() -> None:
    regression, unchanged, unsure, invalid = (
        SHAPES[verdict] for verdict in ("regression", "no-change", "inconclusive", "invalid")
    )
    assert len({regression, unchanged, unsure, invalid}) == 4


@pytest.mark.parametrize(
    ("low", "high", "percents"),
    [
        (0.97, 1.43, [0, 10, 20, 30, 40]),
        (0.975, 1.026, [-2, -1, 0, 1, 2]),
        (0.5, 2.1, [-50, -25, 0, 25, 50, 75, 100]),
        (0.2, 9.0, [-75, -50, 0, 100, 300, 700]),
        # Texts of thousands of per cent are wide, so that there are few of them.
        (0.25, 2.0**20, [0, 6_300, 409_500, 26_214_300]),
    ],
)
def test_ticks_are_round_per_cents(low: float, high: float, percents: list[int]) -> None:
    assert [round(100 * (tick - 1)) for tick in choose_ticks(low, high)] == percents


@pytest.mark.parametrize("ratio", [1e-300, 1e-3, 0.999, 1.0, 1.001, 40.0, 1e300])
def test_any_ratio_gives_an_axis_with_few_ticks(ratio: float) -> None:
    axis = fit_axis([ratio, ratio / 1.5, ratio * 1.5])
    assert 0.0 < axis.low < axis.high < math.inf
    assert 1 <= len(axis.ticks) <= 8
    assert 0.0 <= axis.place(ratio) <= 100.0


@pytest.mark.parametrize(("low", "high"), [(1e-9, 1e9), (0.1, 0.11), (3.0, 3.0), (0.05, 1.6)])
def test_value_ticks_are_few_and_within(low: float, high: float) -> None:
    ticks = value_ticks([low, high])
    assert len(ticks) <= 7
    assert all(low <= tick <= high for tick in ticks)


def test_runs_are_drawn_as_boxes_shares_and_order_in_the_shapes_of_their_sides(
    make_row: MakeRow,
) -> None:
    row = make_row()
    chart = draw_runs(row)
    spread, shares, time = chart.panels
    assert chart.sides == ("base", "new")
    assert spread.boxes[0].values == pytest.approx([1e3 * run.value for run in row.values_base])
    quartiles = np.percentile(spread.boxes[0].values, [25, 50, 75])
    assert spread.boxes[0].ends[1:4] == pytest.approx(tuple(quartiles))
    base = shares.series[0].points
    assert [point.x for point in base[1:]] == sorted(spread.boxes[0].values)
    assert [point.y for point in base] == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert [series.place for series in time.series] == [0, 1]
    assert [point.x for point in time.series[0].points] == [0, 1, 2, 3, 4]
    assert spread.x.place(spread.boxes[0].values[0]) == shares.x.place(spread.boxes[0].values[0])


def test_lines_and_marks_are_in_per_cent_of_the_panel() -> None:
    axis = Axis(low=0.0, high=10.0, ticks=())
    points = tuple(Point(x=x, y=y, low=y - 1, high=y + 1) for x, y in ((1.0, 2.0), (3.0, 8.0)))
    panel = Panel(height=100, x=axis, y=axis)
    series = Series(side="base", parts=(points,))
    assert panel.line(series) == "M10 80L30 20"
    assert panel.line(replace(series, steps="after")) == "M10 80H30V20"
    assert panel.line(replace(series, steps="around")) == "M0 80H20V20H40"
    assert panel.intervals(series) == "M10 90V70M30 30V10"
    assert panel.dots(series) == "M10 80h0M30 20h0"


def test_ticks_without_room_are_left_out_and_long_words_are_cut() -> None:
    axis = word_axis([f"setting={'x' * 40}{number}" for number in range(9)])
    marks = axis.marks()
    assert len(marks) == 3
    assert [mark.is_minor for mark in marks] == [False, True, True]
    assert all(len(mark.text) == 24 for mark in marks)


@pytest.mark.parametrize("values", [[3.0], [0.0], [-2.0, 5.0], [1e-12, 1e12]])
def test_a_linear_axis_shows_all_values(values: list[float]) -> None:
    axis = linear_axis(values)
    assert all(0.0 < axis.place(value) < 100.0 for value in values)
    assert 1 <= len(axis.ticks) <= 8


def test_the_caption_of_runs_states_medians_pairs_and_trend(make_row: MakeRow) -> None:
    assert draw_runs(make_row()).caption == (
        "median base 612 ms (5 runs), new 839.7 ms (5 runs); new is above base in 5 of 5 "
        "interleaved pairs; drift of the mean, without CI: "
        "base +1.2% (last 2 of 5 runs vs first 2, 1 boot); "
        "new +1.2% (last 2 of 5 runs vs first 2, 1 boot)"
    )


def test_runs_of_another_boot_are_another_line(make_row: MakeRow) -> None:
    runs = tuple(
        RunValue(boot=boot, run=run, order=3 * boot + run, round=None, value=1.0 + run)
        for boot in (1, 0)
        for run in range(3)
    )
    figure = draw_runs(make_row(values_base=runs))
    base, new = figure.panels[2].series
    assert [[point.x for point in part] for part in base.parts] == [[0, 1, 2], [3, 4, 5]]
    assert len(new.parts) == 1
    assert "base -14.3% (2 boots)" not in figure.caption
    assert figure.caption.endswith("lines connect runs of the same boot")


def test_two_modes_are_parted_by_a_dotted_line(make_row: MakeRow) -> None:
    figure = draw_runs(make_row(mode_boundary=0.7))
    assert [panel.cuts for panel in figure.panels] == [(pytest.approx(700.0),)] * 2 + [()]
    assert "dotted line: boundary between the two modes of the distribution" in figure.caption
    assert [panel.cuts for panel in draw_runs(make_row()).panels] == [()] * 3


def sweep_rows(make_row: MakeRow, *points: str) -> list[Row]:
    return [make_row(point=point, base=0.1 * (n + 1)) for n, point in enumerate(points)]


def draw(make_comparison: Make, rows: list[Row]) -> tuple[Chart, Table]:
    sweep: Sweep = make_comparison().sweeps[0]
    figure, table = describe_sweep(sweep, rows)
    assert isinstance(figure, Chart)
    assert isinstance(table, Table)
    return figure, table


def test_a_sweep_is_drawn_over_its_parameter_with_intervals_and_ratio(
    make_comparison: Make, make_row: MakeRow
) -> None:
    rows = sweep_rows(make_row, "groups=16,loops=9", "groups=1,loops=9", "groups=4,loops=9")
    figure, table = draw(make_comparison, rows)
    above, below = figure.panels
    assert (below.x.title, below.x.is_log) == ("groups", True)
    series = (*above.series, *below.series)
    assert [[point.x for point in one.points] for one in series] == [[1.0, 4.0, 16.0]] * 3
    assert [point.y for point in series[0].points] == pytest.approx([200.0, 300.0, 100.0])
    assert [one.place for one in series] == [0, 1, None]
    assert all(
        point.low is not None and point.high is not None and point.low < point.y < point.high
        for one in series
        for point in one.points
    )
    assert series[0].points[0].title.startswith("base, 1: 200 [")
    assert below.band == pytest.approx((1 / 1.03, 1.03))
    assert figure.caption.startswith(
        "hackbench time over groups, lower is better, new vs base: geomean +12.9% [+9.0%, +17.0%]; "
    )
    assert [row[0].text for row in table.rows] == ["1", "4", "16"]
    assert table.columns[1].title == "base, ms"
    assert table.limit == 0


def test_points_that_are_no_numbers_are_words_in_their_order(
    make_comparison: Make, make_row: MakeRow
) -> None:
    rows = sweep_rows(make_row, "mode=pipe", "mode=socket", "mode=fifo")
    figure, _ = draw(make_comparison, rows)
    assert [text for _, text in figure.panels[1].x.ticks] == ["pipe", "socket", "fifo"]
    assert [point.x for point in figure.panels[0].series[0].points] == [0.0, 1.0, 2.0]
    rows = sweep_rows(make_row, "a=1,b=1", "a=2,b=1", "a=1,b=2")
    figure, table = draw(make_comparison, rows)
    assert [text for _, text in figure.panels[1].x.ticks] == ["a=1,b=1", "a=2,b=1", "a=1,b=2"]
    assert table.columns[0].title == "point"


def test_two_points_are_no_sweep(make_comparison: Make, make_row: MakeRow) -> None:
    rows = sweep_rows(make_row, "groups=1", "groups=2")
    assert list(describe_sweep(make_comparison().sweeps[0], rows)) == []


@pytest.mark.parametrize(
    "values", [("inf", "nan", "3"), ("1e308", "-1e308", "5"), ("1e308", "1e-320", "5")]
)
def test_parameters_beyond_any_axis_are_words(
    values: tuple[str, ...], make_comparison: Make, make_row: MakeRow
) -> None:
    rows = sweep_rows(make_row, *(f"groups={value}" for value in values))
    figure, _ = draw(make_comparison, rows)
    assert [text for _, text in figure.panels[1].x.ticks] == list(values)
    assert [point.x for point in figure.panels[0].series[0].points] == [0.0, 1.0, 2.0]
