# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw Plotly figures of a comparison, for notebooks and dashboards.

The report page has its own drawings. Plotly interprets texts as HTML, and as TeX between dollar
signs, so every text of a bundle passes :func:`spell`.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape

import plotly.graph_objects as go
from msgspec.structs import replace
from plotly.subplots import make_subplots

from schedperf.model.base_new import BASE
from schedperf.model.comparison import Comparison
from schedperf.model.errors import InputError
from schedperf.model.rows import Row, RunValue
from schedperf.model.sides import SideSummary
from schedperf.model.text import clean_line
from schedperf.model.units import scale_for
from schedperf_reports.words.rows import describe_change, name_direction, name_rows, name_side

# Of a row, of a panel, and of the title and the axes, in pixels.
ROW_HEIGHT, PANEL_HEIGHT, FRAME_HEIGHT = 28, 220, 140
VERDICT_COLOURS = {
    "regression": "#c0392b",
    "improvement": "#1e8449",
    "no-change": "#5d6d7e",
    "inconclusive": "#b7950b",
}
SIDE_COLOURS = ("#5d6d7e", "#2471a3", "#ca6f1e", "#7d3c98", "#117a65")


def draw_figure(comparison: Comparison, kind: str) -> go.Figure:
    """Return the figure of a kind: a key of ``FIGURES``.

    :raises InputError: the kind is unknown, or the comparison has nothing to draw
    """
    if kind not in FIGURES:
        raise InputError(f"figure: unknown kind {kind!r} (expected one of {', '.join(FIGURES)})")
    return FIGURES[kind](comparison)


def draw_results(comparison: Comparison) -> go.Figure:
    """Draw the change of each result with its 95% CI, in percent.

    The equivalence margin is drawn if all results have the same. Results without a ratio are left
    out.

    :raises InputError: no result has a ratio
    """
    short = name_rows(comparison.rows)
    named = [
        (_with_side(comparison, row.side, short[index]), row)
        for index, row in enumerate(comparison.rows)
        if row.ratio is not None
    ]
    if not named:
        raise _nothing("results", "no result has a change")
    figure = go.Figure()
    for verdict in dict.fromkeys(row.verdict for _, row in named):
        chosen = [(name, row) for name, row in named if row.verdict == verdict]
        figure.add_trace(
            _changes(
                [row for _, row in chosen],
                across=[name for name, _ in chosen],
                is_vertical=False,
                name=verdict,
                colour=VERDICT_COLOURS.get(verdict, SIDE_COLOURS[0]),
            )
        )
    figure.add_vline(x=0, line_width=1)
    (margin, *other_margins) = {row.margin for _, row in named}
    if not other_margins:
        figure.add_vrect(x0=-100 * margin, x1=100 * margin, opacity=0.12, line_width=0)
    names = [name for name, _ in named]
    figure.update_yaxes(type="category", categoryorder="array", categoryarray=names[::-1])
    figure.update_xaxes(title_text="change from base, 95% CI", ticksuffix="%")
    return _framed(figure, comparison, ROW_HEIGHT * len(named))


def draw_runs(comparison: Comparison) -> go.Figure:
    """Draw the value of each run in the order of the recording, with one panel per result.

    The axis has numbers of runs where the order is unknown. Results without values of runs are
    left out.

    :raises InputError: no result has values of runs
    """
    results: dict[str, list[Row]] = defaultdict(list)
    for row in comparison.rows:
        if row.values_base or row.values_new:
            results[row.key].append(row)
    if not results:
        raise _nothing("runs", "no result has values of runs")
    # A panel has all sides, so its title names none.
    titles = name_rows([replace(same[0], side="") for same in results.values()])
    figure = make_subplots(
        rows=len(results),
        cols=1,
        subplot_titles=[spell(title) for title in titles.values()],
        shared_xaxes=True,
    )
    in_legend: set[str] = set()
    for panel, same in enumerate(results.values(), start=1):
        row = same[0]
        numbers = [value.value for _, values in _values(same) for value in values]
        scale = scale_for(row.unit, *numbers)
        for side, values in _values(same):
            figure.add_trace(
                go.Scatter(
                    x=[_place(value) for value in values],
                    y=[value.value / scale.factor for value in values],
                    mode="markers",
                    name=_label(comparison, side),
                    legendgroup=side,
                    showlegend=side not in in_legend,
                    marker={"color": _side_colour(comparison, side)},
                    hovertext=[_run_title(value) for value in values],
                ),
                row=panel,
                col=1,
            )
            in_legend.add(side)
        title = spell(f"{scale.unit} ({name_direction(row.better)})")
        figure.update_yaxes(title_text=title, row=panel, col=1)
    figure.update_xaxes(title_text="order of the recording", row=len(results), col=1)
    return _framed(figure, comparison, PANEL_HEIGHT * len(results))


def draw_sweep(comparison: Comparison) -> go.Figure:
    """Draw the change with its 95% CI over the points of each sweep, with one panel per sweep.

    Points without a ratio are left out.

    :raises InputError: no sweep has a point with a ratio
    """
    points: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in comparison.rows:
        if row.ratio:
            points[row.side, row.workload, row.metric].append(row)
    swept = [
        (sweep, rows)
        for sweep in comparison.sweeps
        if (rows := points.get((sweep.side, sweep.workload, sweep.metric)))
    ]
    if not swept:
        raise _nothing("sweep", "no result was recorded at several points")
    titles = [_with_side(comparison, sweep.side, sweep.metric) for sweep, _ in swept]
    figure = make_subplots(rows=len(swept), cols=1, subplot_titles=titles)
    for panel, (sweep, rows) in enumerate(swept, start=1):
        trace = _changes(
            rows,
            across=[spell(row.point) for row in rows],
            is_vertical=True,
            name=_label(comparison, sweep.side),
            colour=_side_colour(comparison, sweep.side),
        )
        figure.add_trace(trace, row=panel, col=1)
        figure.add_hline(y=0, line_width=1, row=panel, col=1)
        figure.update_yaxes(title_text="change, 95% CI", ticksuffix="%", row=panel, col=1)
    figure.update_layout(showlegend=False)
    return _framed(figure, comparison, PANEL_HEIGHT * len(swept))


FIGURES: dict[str, Callable[[Comparison], go.Figure]] = {
    "results": draw_results,
    "runs": draw_runs,
    "sweep": draw_sweep,
}


def _nothing(kind: str, reason: str) -> InputError:
    return InputError(f"figure {kind!r}: {reason}; comparison.frame() lists all results")


def _changes(
    rows: Sequence[Row], *, across: Sequence[str], is_vertical: bool, name: str, colour: str
) -> go.Scatter:
    """Return points of changes with their CIs, in percent.

    :param across: text of each row on the other axis
    :param is_vertical: whether changes are on the vertical axis
    """
    change = [_percent(row.ratio) for row in rows]
    interval = {
        "type": "data",
        "symmetric": False,
        "array": [_distance(row.ci_high, row.ratio) for row in rows],
        "arrayminus": [_distance(row.ratio, row.ci_low) for row in rows],
    }
    axes: Mapping[str, object] = (
        {"x": across, "y": change, "error_y": interval}
        if is_vertical
        else {"x": change, "y": across, "error_x": interval}
    )
    return go.Scatter(
        mode="markers",
        name=name,
        marker={"color": colour},
        hovertext=[spell(describe_change(row)) for row in rows],
        **axes,
    )


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else 100 * (ratio - 1)


def _distance(high: float | None, low: float | None) -> float | None:
    return None if high is None or low is None else 100 * (high - low)


def _values(rows: Sequence[Row]) -> Iterator[tuple[str, Sequence[RunValue]]]:
    """Yield name and values of base, then those of each new side.

    :param rows: rows of one result, one per new side
    """
    yield BASE, rows[0].values_base
    for row in rows:
        yield row.side, row.values_new


def _place(value: RunValue) -> int:
    return value.run if value.order is None else value.order


def _run_title(value: RunValue) -> str:
    boot = "" if value.boot is None else f"boot {value.boot}, "
    return f"{boot}run {value.run}"


def _with_side(comparison: Comparison, side: str, name: str) -> str:
    # Of two sides the change is that of the new one.
    of_side = "" if len(comparison.sides) == 2 else f"{_label(comparison, side)}: "  # noqa: PLR2004 # base and new
    return f"{of_side}{spell(name)}"


def _side(comparison: Comparison, name: str) -> tuple[int, SideSummary]:
    return next((i, side) for i, side in enumerate(comparison.sides) if side.name == name)


def _label(comparison: Comparison, side: str) -> str:
    return spell(name_side(_side(comparison, side)[1]))


def _side_colour(comparison: Comparison, side: str) -> str:
    return SIDE_COLOURS[_side(comparison, side)[0] % len(SIDE_COLOURS)]


def _framed(figure: go.Figure, comparison: Comparison, height: int) -> go.Figure:
    figure.update_layout(
        title_text=spell(f"{comparison.overall.verdict}: {comparison.overall.reason_short}"),
        height=FRAME_HEIGHT + height,
        template="plotly_white",
    )
    return figure


def spell(text: str) -> str:
    """Return a text so that Plotly shows it as it is, without control characters."""
    return escape(clean_line(text), quote=False).replace("$", "&#36;")
