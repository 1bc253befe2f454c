"""Intervals and single runs as figures: what they say, draw and leave out."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from schedperf.model import Comparison, Row
from schedperf_reports._interval_plot import MOST_LINES, choose_ticks
from schedperf_reports.blocks import Figure
from schedperf_reports.sections.benchmarks import benchmarks

Make = Callable[..., Comparison]
MakeRow = Callable[..., Row]


def figures_of(comparison: Comparison) -> list[Any]:
    return [block for block in benchmarks(comparison) if isinstance(block, Figure)]


def test_figures_say_which_way_is_worse(make_comparison: Make) -> None:
    captions = [figure.caption for figure in figures_of(make_comparison())]
    assert captions == [
        (
            "4 primary results: 1 regression, 1 improvement, 1 no-change, 1 inconclusive; "
            "bars are 95 % intervals, right is worse, the shaded band is no change"
        ),
        "each run against the mean of base, right is worse",
        (
            "1 secondary result: 1 improvement; "
            "bars are 95 % intervals, left is worse, the shaded band is no change"
        ),
        "each run against the mean of base, left is worse",
    ]


def test_intervals_and_band_are_drawn_as_ratios_on_a_logarithmic_axis(
    make_comparison: Make, make_row: MakeRow
) -> None:
    row = make_row(ratio=1.37, ci_low=1.35, ci_high=1.395)
    figure = figures_of(make_comparison(rows=(row,), sweeps=()))[0].figure
    trace = next(trace for trace in figure["data"] if trace["name"] == "regression")
    assert trace["x"] == [1.37]
    assert trace["error_x"]["array"] == pytest.approx([0.025])
    assert trace["error_x"]["arrayminus"] == pytest.approx([0.02])
    band = figure["layout"]["shapes"][0]
    assert math.log(band["x1"]) == pytest.approx(-math.log(band["x0"])) == math.log(1.03)
    axis = figure["layout"]["xaxis"]
    assert axis["type"] == "log"
    assert axis["range"][0] < math.log10(band["x0"])
    assert axis["range"][1] > math.log10(1.395)


def test_verdicts_have_shapes_of_their_own(make_comparison: Make) -> None:
    figure = figures_of(make_comparison())[0].figure
    looks = {trace["name"]: trace["marker"]["symbol"] for trace in figure["data"] if trace["x"]}
    assert looks["regression"] != looks["no-change"] != looks["inconclusive"]


def test_each_run_is_a_mark_square_for_base_and_circle_for_new(make_comparison: Make) -> None:
    base, new = figures_of(make_comparison())[1].figure["data"]
    assert (base["name"], base["marker"]["symbol"]) == ("A base", "square-open")
    assert (new["name"], new["marker"]["symbol"]) == ("B new", "circle-open")
    assert len(base["x"]) == len(new["x"]) == 20


def test_a_figure_of_very_many_results_is_cut_and_says_so(
    make_comparison: Make, make_row: MakeRow
) -> None:
    rows = tuple(make_row(point=f"groups={number}") for number in range(MOST_LINES + 5))
    figure = figures_of(make_comparison(rows=rows, sweeps=()))[0]
    assert figure.caption.endswith(f"intervals of the first {MOST_LINES} of {len(rows)} results")
    assert len(figure.figure["layout"]["yaxis"]["tickvals"]) == MOST_LINES


@pytest.mark.parametrize(
    ("low", "high", "percents"),
    [
        (0.97, 1.43, [0, 10, 20, 30, 40]),
        (0.975, 1.026, [-2, -1, 0, 1, 2]),
        (0.5, 2.1, [-50, -25, 0, 25, 50, 75, 100]),
        (0.2, 9.0, [-75, -50, 0, 100, 300, 700]),
    ],
)
def test_ticks_are_round_per_cents(low: float, high: float, percents: list[int]) -> None:
    assert [round(100 * (tick - 1)) for tick in choose_ticks(low, high)] == percents


@pytest.mark.parametrize("ratio", [1e-300, 1e-3, 0.999, 1.0, 1.001, 40.0, 1e300])
def test_any_ratio_gives_a_figure_of_finite_numbers_with_few_ticks(
    make_comparison: Make, make_row: MakeRow, ratio: float
) -> None:
    row = make_row(base=1.0, ratio=ratio, ci_low=ratio / 1.5, ci_high=ratio * 1.5)
    for figure in figures_of(make_comparison(rows=(row,), sweeps=())):
        axis = figure.figure["layout"]["xaxis"]
        assert all(map(math.isfinite, axis["range"]))
        assert 1 <= len(axis["tickvals"]) <= 8
