import math
from collections.abc import Callable
from typing import Any

import pytest

from schedperf.model import Comparison, Overall, Row, SideSummary
from schedperf_reports._interval_plot import MOST_LINES, choose_ticks
from schedperf_reports.blocks import Block, Figure, Items, Table, Text
from schedperf_reports.sections.benchmarks import benchmarks

Make = Callable[..., Comparison]
MakeRow = Callable[..., Row]


def of_kind(comparison: Comparison, kind: type[Any]) -> list[Any]:
    return [block for block in benchmarks(comparison) if isinstance(block, kind)]


def texts(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


def test_each_family_has_its_table(make_comparison: Make) -> None:
    captions = [table.caption for table in of_kind(make_comparison(), Table)]
    assert captions == [
        "primary results; v lower is better",
        "secondary results, which decide nothing; ^ higher is better",
        "each run's value, 5 results",
    ]


def test_points_of_a_metric_stand_below_its_name_and_their_mean_below_them(
    make_comparison: Make,
) -> None:
    table = of_kind(make_comparison(), Table)[0]
    assert [row[0] for row in texts(table)] == [
        "hackbench time",
        "  groups=1",
        "  groups=4",
        "  groups=16",
        "  geomean",
        "sched/pipe time per operation",
    ]
    assert texts(table)[2] == [
        "  groups=4", "v ms", "612", "839.7", "+37.2 %", "+35.0..+39.5", "5+5", "regression",
        "3.6e-07", "Welch t on logs",
    ]  # fmt: skip
    assert texts(table)[4][4:6] == ["+12.9 %", "+9.0..+17.0"]


def test_higher_is_better_is_marked(make_comparison: Make) -> None:
    assert texts(of_kind(make_comparison(), Table)[1])[0][1] == "^ k/s"


def test_only_undecided_rows_need_a_reason(make_comparison: Make, make_row: MakeRow) -> None:
    (items,) = of_kind(make_comparison(), Items)
    assert len(items.items) == 1
    assert items.items[0].text.startswith("hackbench time at groups=16: inconclusive: +4.6 %")
    invalid = make_row(verdict="invalid", reason="no value in new", ratio=None, base=None)
    (items,) = of_kind(make_comparison(rows=(invalid,)), Items)
    assert items.items[0].text == "hackbench time at groups=4: invalid: no value in new"


def test_a_missing_value_is_a_dash_and_no_figure(make_comparison: Make, make_row: MakeRow) -> None:
    row = make_row(ratio=None, base=None, q=None)
    comparison = make_comparison(rows=(row,))
    assert texts(of_kind(comparison, Table)[0])[0][2:6] == ["-"] * 4
    assert of_kind(comparison, Figure) == []


def test_without_results_the_section_says_so(make_comparison: Make) -> None:
    blocks: list[Block] = list(benchmarks(make_comparison(rows=())))
    assert blocks == [Text(text="no benchmark result to compare", tone="warning")]


def test_each_new_side_has_its_table(
    make_comparison: Make, make_row: MakeRow, make_side: Callable[..., SideSummary]
) -> None:
    comparison = make_comparison(
        sides=tuple(make_side(name) for name in ("base", "new", "new2")),
        rows=(make_row(side="new"), make_row(side="new2")),
    )
    captions = [table.caption for table in of_kind(comparison, Table)][:2]
    assert captions == [
        "new: primary results; v lower is better",
        "new2: primary results; v lower is better",
    ]


def test_commands_tell_equal_metrics_apart(make_comparison: Make, make_row: MakeRow) -> None:
    rows = tuple(
        make_row(workload=workload, point=point)
        for workload in ("hackbench -p", "hackbench -T")
        for point in ("groups=1", "groups=2")
    )
    names = [row[0] for row in texts(of_kind(make_comparison(rows=rows, sweeps=()), Table)[0])]
    assert names[::3] == ["hackbench time (hackbench -p)", "hackbench time (hackbench -T)"]


def test_a_reason_that_is_the_headline_is_not_said_again(
    make_comparison: Make, make_row: MakeRow
) -> None:
    row = make_row(verdict="inconclusive", reason="too noisy")
    overall = Overall(verdict="inconclusive", reason=f"{row.metric}: too noisy", exit_status=0)
    assert not of_kind(make_comparison(rows=(row,), overall=overall), Items)
    other = make_row(verdict="inconclusive", reason="too few runs")
    [items] = of_kind(make_comparison(rows=(row, other), overall=overall), Items)
    assert len(items.items) == 2


def test_figures_say_which_way_is_worse(make_comparison: Make) -> None:
    captions = [figure.caption for figure in of_kind(make_comparison(), Figure)]
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
    figure = of_kind(make_comparison(rows=(row,), sweeps=()), Figure)[0].figure
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
    figure = of_kind(make_comparison(), Figure)[0].figure
    looks = {trace["name"]: trace["marker"]["symbol"] for trace in figure["data"] if trace["x"]}
    assert looks["regression"] != looks["no-change"] != looks["inconclusive"]


def test_each_run_is_a_mark_square_for_base_and_circle_for_new(make_comparison: Make) -> None:
    base, new = of_kind(make_comparison(), Figure)[1].figure["data"]
    assert (base["name"], base["marker"]["symbol"]) == ("A base", "square-open")
    assert (new["name"], new["marker"]["symbol"]) == ("B new", "circle-open")
    assert len(base["x"]) == len(new["x"]) == 20


def test_a_figure_of_very_many_results_is_cut_and_says_so(
    make_comparison: Make, make_row: MakeRow
) -> None:
    rows = tuple(make_row(point=f"groups={number}") for number in range(MOST_LINES + 5))
    figure = of_kind(make_comparison(rows=rows, sweeps=()), Figure)[0]
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
    for figure in of_kind(make_comparison(rows=(row,), sweeps=()), Figure):
        axis = figure.figure["layout"]["xaxis"]
        assert all(map(math.isfinite, axis["range"]))
        assert 1 <= len(axis["tickvals"]) <= 8
