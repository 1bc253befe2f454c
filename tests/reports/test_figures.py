# SPDX-License-Identifier: GPL-2.0-or-later
"""Plotly figures show the numbers of the record."""

import json

import pytest
from msgspec.structs import replace

import schedperf
from schedperf.model.comparison import Comparison
from schedperf_reports.figures import FIGURES, draw_figure
from tests import golden_inputs


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """Compare two bundles with one metric at several points."""
    folder = tmp_path_factory.mktemp("sweep")
    golden_inputs.sweep(folder)
    bundles = [schedperf.open_bundle(folder / f"{name}.tar") for name in ("base", "new")]
    return schedperf.compare_bundles(bundles)


def test_results_have_the_changes_and_intervals_of_the_record(comparison: Comparison) -> None:
    figure = draw_figure(comparison, "results")
    drawn = {
        name: (change, high, low)
        for trace in figure.data
        for name, change, high, low in zip(
            trace.y, trace.x, trace.error_x.array, trace.error_x.arrayminus, strict=True
        )
    }
    assert len(drawn) == len(comparison.rows)
    for row in comparison.rows:
        assert row.ratio is not None
        assert row.ci_low is not None
        assert row.ci_high is not None
        change, high, low = drawn[f"{row.metric} at {row.point}"]
        assert change == pytest.approx(100 * (row.ratio - 1))
        assert change + high == pytest.approx(100 * (row.ci_high - 1))
        assert change - low == pytest.approx(100 * (row.ci_low - 1))


def test_runs_have_all_values_in_the_order_of_the_recording(comparison: Comparison) -> None:
    figure = draw_figure(comparison, "runs")
    assert len(figure.data) == 2 * len(comparison.rows)
    row = comparison.rows[0]
    base, new = figure.data[:2]
    assert [*base.x, *new.x] == [value.order for value in (*row.values_base, *row.values_new)]
    scale = row.values_base[0].value / base.y[0]
    assert [*base.y, *new.y] == pytest.approx(
        [value.value / scale for value in (*row.values_base, *row.values_new)]
    )


def test_a_sweep_has_a_point_per_point(comparison: Comparison) -> None:
    (trace,) = draw_figure(comparison, "sweep").data
    assert tuple(trace.x) == comparison.sweeps[0].points


def test_runs_have_a_panel_for_each_result_of_any_side(comparison: Comparison) -> None:
    rows = comparison.rows
    # A result that the first new side lacks.
    of_another = tuple(replace(row, side="new2") for row in rows)
    sides = (*comparison.sides, replace(comparison.sides[1], name="new2", label="third"))
    figure = draw_figure(replace(comparison, sides=sides, rows=(*rows[1:], *of_another)), "runs")
    assert [title.text for title in figure.layout.annotations] == [
        f"{row.metric} at {row.point}" for row in (*rows[1:], rows[0])
    ]
    in_legend = [trace.name for trace in figure.data if trace.showlegend]
    assert in_legend == ["base", "new", "third"]
    assert len(figure.data) == 3 * len(rows[1:]) + 2


@pytest.mark.parametrize("kind", FIGURES)
def test_texts_of_a_bundle_are_not_html_or_tex(kind: str, comparison: Comparison) -> None:
    hostile = "<a href='https://x'>$\\frac{1}{2}$</a>\x1b[2J\u202e"
    rows = tuple(replace(row, metric=hostile, point=f"x={hostile}") for row in comparison.rows)
    sweeps = tuple(replace(sweep, metric=hostile) for sweep in comparison.sweeps)
    overall = replace(comparison.overall, reason_short=hostile)
    sides = (comparison.sides[0], replace(comparison.sides[1], label=hostile))
    drawn = draw_figure(
        replace(comparison, rows=rows, sweeps=sweeps, overall=overall, sides=sides), kind
    )
    text = json.dumps(drawn.to_dict(), default=str, ensure_ascii=False)
    assert "&lt;a href='https://x'&gt;&#36;" in text
    assert not {"<", "$", "\u202e"}.intersection(text)
    assert "u001b" not in text


@pytest.mark.parametrize("kind", FIGURES)
def test_a_comparison_with_nothing_to_draw_is_an_error(kind: str, comparison: Comparison) -> None:
    empty = replace(comparison, rows=(), sweeps=())
    with pytest.raises(schedperf.InputError, match=rf"figure '{kind}': no result .*; comparison"):
        draw_figure(empty, kind)


def test_an_unknown_kind_is_an_error(comparison: Comparison) -> None:
    with pytest.raises(schedperf.InputError, match="unknown kind 'pie' .expected one of results"):
        draw_figure(comparison, "pie")
