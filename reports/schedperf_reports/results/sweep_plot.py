# SPDX-License-Identifier: GPL-2.0-or-later
"""A sweep as a figure and a table: both sides over the parameter, and their ratio below."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from schedperf.model.comparison import Row, Sweep
from schedperf.model.units import Scale, scale_for
from schedperf_reports.blocks import Block, Cell, Column, Figure, Table
from schedperf_reports.graphics.ratio_axis import bounded, fit_axis, value_axis
from schedperf_reports.rates.side_means import SideMean, mean_of
from schedperf_reports.results.side_traces import MEANS_LAYOUT, draw_means
from schedperf_reports.words.rows import VERDICT_TONES
from schedperf_reports.words.units import MISSING, format_change, format_interval, format_p

HEIGHT = 380  # Pixels.

# Where the panel of both sides begins and that of the ratio ends, as a share of the height.
UPPER_PANEL = 0.4
LOWER_PANEL = 0.28

# Two points are a line between two results, which the interval plot shows better.
FEWEST_POINTS = 3

# From this many times its smallest value on a parameter is told on a logarithmic axis.
LEAST_LOG_RANGE = 4.0

# Largest over smallest mean from which both sides are told on a logarithmic axis.
LEAST_LOG_VALUES = 20.0


@dataclass(frozen=True, kw_only=True, slots=True)
class _Point:
    # One row of the sweep, by the value of the parameter that differs: a number where all are.
    x: float | str
    row: Row
    base: SideMean | None
    new: SideMean | None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Swept:
    parameter: str
    points: tuple[_Point, ...]
    scale: Scale

    @property
    def is_numeric(self) -> bool:
        return all(isinstance(point.x, float) for point in self.points)

    @property
    def side(self) -> str:
        return self.points[0].row.side


def is_point_of(row: Row, sweep: Sweep) -> bool:
    """Say whether a row is one of a sweep's."""
    return (row.side, row.workload, row.metric) == (sweep.side, sweep.workload, sweep.metric)


def describe_sweep(sweep: Sweep, rows: Sequence[Row]) -> Iterator[Block]:
    """Yield a figure and a table of the points of a sweep; nothing of fewer than three.

    :param rows: those of the sweep
    """
    drawable = [row for row in rows if row.base is not None and row.new is not None]
    if len(drawable) < FEWEST_POINTS:
        return
    swept = _place(drawable)
    yield Figure(caption=_caption(sweep, swept), figure=_figure(swept), height=HEIGHT)
    yield _table(sweep, swept)


def _place(rows: Sequence[Row]) -> _Swept:
    name, values = _parameter([row.point for row in rows])
    numbers = _numbers(values)
    places: Sequence[float | str] = values if numbers is None else numbers
    points = [
        _Point(x=x, row=row, base=mean_of(row, is_base=True), new=mean_of(row, is_base=False))
        for x, row in zip(places, rows, strict=True)
    ]
    if numbers is not None:
        points.sort(key=lambda point: float(point.x))
    means = [mean.mean for point in points for mean in (point.base, point.new) if mean is not None]
    return _Swept(parameter=name, points=tuple(points), scale=scale_for(rows[0].unit, *means))


def _parameter(points: Sequence[str]) -> tuple[str, list[str]]:
    # The one parameter that differs; where several do, a point is a word.
    settings = [dict(part.partition("=")[::2] for part in point.split(",")) for point in points]
    names = dict.fromkeys(name for setting in settings for name in setting)
    varied = [name for name in names if len({setting.get(name) for setting in settings}) > 1]
    if len(varied) != 1 or any(varied[0] not in setting for setting in settings):
        return "point", list(points)
    return varied[0], [setting[varied[0]] for setting in settings]


def _numbers(values: Sequence[str]) -> list[float] | None:
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return None
    return numbers if len(set(numbers)) == len(numbers) else None


def _caption(sweep: Sweep, swept: _Swept) -> str:
    facts = [
        f"geomean {format_change(sweep.geomean_ratio)} "
        f"{format_interval(sweep.ci_low, sweep.ci_high)}"
        if sweep.geomean_ratio is not None
        else "geomean not available",
        *words_of_shape(sweep),
        *(
            [f"p = {format_p(sweep.p)} (joint test of all parameter values)"]
            if sweep.p is not None
            else []
        ),
    ]
    better = swept.points[0].row.better
    return (
        f"{sweep.metric} over {swept.parameter}, {better} is better, {swept.side} vs base: "
        f"{'; '.join(facts)}; bars are 95% CIs"
    )


def words_of_shape(sweep: Sweep) -> list[str]:
    """Return how the change depends on the parameter, and the first changed point, if known."""
    return [
        *([sweep.shape] if sweep.shape else []),
        *([f"first significant change at {sweep.first_point}"] if sweep.first_point else []),
    ]


def _figure(swept: _Swept) -> dict[str, Any]:
    factor = swept.scale.factor
    base = draw_means("base", ((point.x, point.base) for point in swept.points), factor)
    new = draw_means(swept.side, ((point.x, point.new) for point in swept.points), factor)
    return {"data": [base, new, _ratio_trace(swept)], "layout": _layout(swept)}


def _ratio_trace(swept: _Swept) -> dict[str, Any]:
    ratios = [
        (point.x, bounded(row.ratio), bounded(row.ci_low), bounded(row.ci_high))
        for point in swept.points
        if (row := point.row).ratio is not None
        and row.ci_low is not None
        and row.ci_high is not None
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "change",
        "x": [x for x, *_ in ratios],
        "y": [ratio for _, ratio, _, _ in ratios],
        "yaxis": "y2",
        "showlegend": False,
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [high - ratio for _, ratio, _, high in ratios],
            "arrayminus": [ratio - low for _, ratio, low, _ in ratios],
            "color": "var(--ink)",
        },
        "marker": {"symbol": "diamond", "size": 8, "color": "var(--ink)"},
    }


def _layout(swept: _Swept) -> dict[str, Any]:
    rows = [point.row for point in swept.points]
    ends = [end for row in rows for end in (row.ci_low, row.ci_high, row.ratio) if end is not None]
    margin = rows[0].margin
    axis = fit_axis([*ends, 1.0 + margin, 1.0 / (1.0 + margin)])
    ticks = axis.ticks()
    return {
        "xaxis": _parameter_axis(swept),
        "yaxis": {
            "domain": [UPPER_PANEL, 1],
            "title": {"text": swept.scale.unit},
            "automargin": True,
            "zeroline": False,
            **_value_axis(swept),
        },
        "yaxis2": {
            "domain": [0, LOWER_PANEL],
            "type": "log",
            "tickvals": [ratio for ratio, _ in ticks],
            "ticktext": [text for _, text in ticks],
            "title": {"text": "change"},
            "automargin": True,
            "zeroline": False,
        },
        "shapes": [_band(margin)],
        **MEANS_LAYOUT,
    }


def _parameter_axis(swept: _Swept) -> dict[str, Any]:
    values = [point.x for point in swept.points]
    axis: dict[str, Any] = {"title": {"text": swept.parameter}, "anchor": "y2", "zeroline": False}
    if not swept.is_numeric:
        return axis | {"type": "category"}
    numbers = [float(value) for value in values]
    is_log = min(numbers) > 0.0 and max(numbers) / min(numbers) >= LEAST_LOG_RANGE
    ticks = {"tickvals": numbers, "ticktext": [f"{number:g}" for number in numbers]}
    return axis | ticks | ({"type": "log"} if is_log else {})


def _value_axis(swept: _Swept) -> dict[str, Any]:
    # What grows with the parameter as throughput does would hide its small ends otherwise.
    means = [m.mean for point in swept.points for m in (point.base, point.new) if m is not None]
    is_log = min(means) > 0.0 and max(means) / min(means) >= LEAST_LOG_VALUES
    if not is_log:
        return {"rangemode": "tozero"}
    return value_axis(mean / swept.scale.factor for mean in means)


def _band(margin: float) -> dict[str, Any]:
    return {
        "type": "rect",
        "layer": "below",
        "xref": "paper",
        "yref": "y2",
        "x0": 0,
        "x1": 1,
        "y0": 1.0 / (1.0 + margin),
        "y1": 1.0 + margin,
        "fillcolor": "var(--band)",
        "line": {"width": 0},
    }


def _table(sweep: Sweep, swept: _Swept) -> Table:
    unit = f", {swept.scale.unit}" if swept.scale.unit else ""
    return Table(
        caption=f"{sweep.metric} over {swept.parameter} with the 95% CI of each side",
        columns=(
            Column(title=swept.parameter),
            Column(title=f"base{unit}", align="right"),
            Column(title="CI of base", align="right", priority=2),
            Column(title=f"{swept.side}{unit}", align="right"),
            Column(title=f"CI of {swept.side}", align="right", priority=2),
            Column(title="change", align="right"),
            Column(title="95% CI", align="right", priority=1),
            Column(title="verdict"),
        ),
        rows=tuple(_point_row(point, swept.scale) for point in swept.points),
        limit=0,
    )


def _point_row(point: _Point, scale: Scale) -> tuple[Cell, ...]:
    row = point.row
    tone = VERDICT_TONES[row.verdict]
    text = f"{point.x:g}" if isinstance(point.x, float) else point.x
    return (
        Cell(text=text, sort=point.x if isinstance(point.x, float) else None),
        Cell(text=scale.format(row.base), sort=row.base),
        Cell(text=format_side_interval(point.base, scale)),
        Cell(text=scale.format(row.new), sort=row.new),
        Cell(text=format_side_interval(point.new, scale)),
        Cell(text=format_change(row.ratio), tone=tone, sort=row.ratio),
        Cell(text=format_interval(row.ci_low, row.ci_high)),
        Cell(text=row.verdict, tone=tone),
    )


def format_side_interval(side: SideMean | None, scale: Scale) -> str:
    """Write the interval of one side's mean, without its unit: ``[607, 617]``."""
    if side is None or side.low is None or side.high is None:
        return MISSING
    return f"[{scale.format(side.low)}, {scale.format(side.high)}]"
