# SPDX-License-Identifier: GPL-2.0-or-later
"""Intervals, runs and sweeps as figures: what they say, draw and leave out."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from schedperf.model.caveats import caveat
from schedperf.model.comparison import Comparison, Row, RunValue, Sweep
from schedperf_reports.blocks import Figure, Table
from schedperf_reports.graphics.intervals import SHAPES, IntervalLine, Intervals
from schedperf_reports.graphics.ratio_axis import RatioAxis, choose_ticks, fit_axis, value_ticks
from schedperf_reports.rates.side_means import mean_of
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
            "4 primary results: 1 regression, 1 improvement, 1 no-change, 1 inconclusive; "
            "bars are 95% CIs, right is worse, the shaded band is the equivalence margin"
        ),
        (
            "1 secondary result: 1 improvement; "
            "bars are 95% CIs, left is worse, the shaded band is the equivalence margin"
        ),
    ]


def test_where_directions_differ_no_end_is_better(make_comparison: Make, make_row: MakeRow) -> None:
    rows = (make_row(), make_row(metric="operations", unit="1/s", better="higher"))
    [plot] = plots_of(make_comparison(rows=rows, sweeps=()))
    assert plot.directions == ("", "")
    assert "each row states which direction is better" in plot.caption
    assert [line.mark for line in plot.lines] == ["lower is better", "higher is better"]


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
    axis = RatioAxis(low=0.25, high=4.0)
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
    few = plot.ticks(RatioAxis(low=0.97, high=1.031))
    assert [tick.text for tick in few] == ["-3%", "-2%", "-1%", "0", "+1%", "+2%", "+3%"]
    crowded = plot.ticks(RatioAxis(low=0.45, high=2.1))
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
    assert 1 <= len(axis.ticks()) <= 8
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
    data: Any = draw_runs(row).figure["data"]
    assert [trace["type"] for trace in data] == ["box"] * 2 + ["scatter"] * 4
    assert [trace["name"] for trace in data] == ["base", "new"] * 3
    assert [trace["marker"]["symbol"] for trace in data[4:]] == ["square", "circle"]
    assert data[0]["x"] == pytest.approx([1e3 * run.value for run in row.values_base], rel=1e-4)
    heights = [data[2]["y0"] + place * data[2]["dy"] for place in range(5)]
    assert heights[-1] == pytest.approx(1.0)
    assert data[2]["x"] == sorted(data[0]["x"])
    assert data[4]["x"] == [0, 1, 2, 3, 4]


def test_the_caption_of_runs_states_medians_pairs_and_trend(make_row: MakeRow) -> None:
    assert draw_runs(make_row()).caption == (
        "median base 612 ms (5 runs), new 839.7 ms (5 runs); new is above base in 5 of 5 "
        "interleaved pairs; drift of the mean (no CI): "
        "base +1.2% (last 2 of 5 runs vs first 2, 1 boot); "
        "new +1.2% (last 2 of 5 runs vs first 2, 1 boot)"
    )


def test_sides_that_took_no_turns_are_told_by_pairs_of_runs(make_row: MakeRow) -> None:
    base, new = (
        tuple(
            RunValue(boot=0, run=run, order=run, round=None, value=value)
            for run, value in enumerate(values)
        )
        for values in ((1.0, 2.0), (1.5, 3.0))
    )
    caption = draw_runs(make_row(values_base=base, values_new=new)).caption
    assert "new is above base in 75% of all pairs (one run of each side)" in caption


def test_runs_of_another_boot_are_another_line(make_row: MakeRow) -> None:
    runs = tuple(
        RunValue(boot=boot, run=run, order=3 * boot + run, round=None, value=1.0 + run)
        for boot in (1, 0)
        for run in range(3)
    )
    figure = draw_runs(make_row(values_base=runs))
    data: Any = figure.figure["data"]
    assert data[4]["x"] == [0, 1, 2, None, 3, 4, 5]
    assert data[4]["text"] == ["boot 0"] * 3 + [""] + ["boot 1"] * 3
    assert "text" not in data[5]
    assert "base -14.3% (2 boots)" not in figure.caption
    assert figure.caption.endswith("lines connect runs of the same boot")


def test_two_modes_are_parted_where_the_statistics_part_them(make_row: MakeRow) -> None:
    def runs(*values: float) -> tuple[RunValue, ...]:
        return tuple(
            RunValue(boot=0, run=n, order=n, round=None, value=value)
            for n, value in enumerate(values)
        )

    modes = caveat("modes", base="1 of 3", new="2 of 3", p=0.5, side="new", within="0%")
    row = make_row(
        base=1.1, ratio=1.1, values_base=runs(1.0, 1.02, 1.3), values_new=runs(1.01, 1.31, 1.32),
        caveats=(modes,),
    )  # fmt: skip
    figure = draw_runs(row)
    layout: Any = figure.figure["layout"]
    assert layout["shapes"][0]["x0"] == pytest.approx((1.02 + 1.3) / 2)
    assert "dotted line: boundary between the two modes of the distribution" in figure.caption
    counted_boots = caveat("modes", base="1 of 2", new="1 of 2", p=0.5, side="new", within="0%")
    other: Any = draw_runs(
        make_row(values_base=row.values_base, values_new=row.values_new, caveats=(counted_boots,))
    )
    assert other.figure["layout"]["shapes"] == []


def test_the_interval_of_a_side_is_students_over_logarithms(make_row: MakeRow) -> None:
    row = make_row()
    side = mean_of(row, is_base=True)
    assert side is not None
    logs = np.log([run.value for run in row.values_base])
    expected = stats.t.interval(0.95, len(logs) - 1, loc=logs.mean(), scale=stats.sem(logs))
    assert (side.low, side.high) == pytest.approx(tuple(np.exp(expected)))


def test_a_boot_is_one_value_of_a_side_where_boots_are_independent(make_row: MakeRow) -> None:
    runs = tuple(
        RunValue(boot=n // 2, run=n, order=n, round=None, value=1.0 + n // 2) for n in range(4)
    )
    side = mean_of(make_row(values_base=runs, replication="boots"), is_base=True)
    single = mean_of(make_row(values_base=runs[:2], replication="boots"), is_base=True)
    assert side is not None
    assert side.low is not None
    assert math.log(side.low) == pytest.approx(
        math.log(2) / 2 - stats.t.ppf(0.975, 1) * math.log(2) / 2
    )
    assert single is not None
    assert (single.low, single.high) == (None, None)


def sweep_rows(make_row: MakeRow, *points: str) -> list[Row]:
    return [make_row(point=point, base=0.1 * (n + 1)) for n, point in enumerate(points)]


def draw(make_comparison: Make, rows: list[Row]) -> tuple[Any, Table]:
    sweep: Sweep = make_comparison().sweeps[0]
    figure, table = describe_sweep(sweep, rows)
    assert isinstance(figure, Figure)
    assert isinstance(table, Table)
    return figure, table


def test_a_sweep_is_drawn_over_its_parameter_with_intervals_and_ratio(
    make_comparison: Make, make_row: MakeRow
) -> None:
    rows = sweep_rows(make_row, "groups=16,loops=9", "groups=1,loops=9", "groups=4,loops=9")
    figure, table = draw(make_comparison, rows)
    base, new, ratio = figure.figure["data"]
    axis = figure.figure["layout"]["xaxis"]
    assert (axis["title"]["text"], axis["type"]) == ("groups", "log")
    assert base["x"] == new["x"] == ratio["x"] == [1.0, 4.0, 16.0]
    assert base["y"] == pytest.approx([200.0, 300.0, 100.0])
    assert (base["marker"]["symbol"], new["marker"]["symbol"]) == ("square", "circle")
    assert all(length > 0 for length in base["error_y"]["array"] + new["error_y"]["arrayminus"])
    assert ratio["yaxis"] == "y2"
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
    assert figure.figure["layout"]["xaxis"]["type"] == "category"
    assert figure.figure["data"][0]["x"] == ["pipe", "socket", "fifo"]
    rows = sweep_rows(make_row, "a=1,b=1", "a=2,b=1", "a=1,b=2")
    figure, table = draw(make_comparison, rows)
    assert figure.figure["data"][0]["x"] == ["a=1,b=1", "a=2,b=1", "a=1,b=2"]
    assert table.columns[0].title == "point"


def test_two_points_are_no_sweep(make_comparison: Make, make_row: MakeRow) -> None:
    rows = sweep_rows(make_row, "groups=1", "groups=2")
    assert list(describe_sweep(make_comparison().sweeps[0], rows)) == []


def test_a_report_of_sixty_results_of_twenty_runs_stays_small(compare_frame: Make) -> None:
    noise = np.random.default_rng(1)
    runs = pd.DataFrame(
        [
            {"side": side, "workload": f"bench{n}", "metric": f"bench{n} time", "order": 2 * run}
            for n in range(60)
            for run in range(20)
            for side in ("base", "new")
        ]
    ).assign(point="", unit="s", better="lower", value=lambda one: noise.normal(1, 0.01, len(one)))
    figures = [
        block
        for table in benchmarks(compare_frame(runs))
        if isinstance(table, Table)
        for inner in table.details
        for block in inner
        if isinstance(block, Figure)
    ]
    assert len(figures) == 60
    # Six traces, each of twenty values of eight characters, and what says how to draw them.
    assert max(len(str(figure.figure)) for figure in figures) < 3600
