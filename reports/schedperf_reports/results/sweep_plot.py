# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw a sweep as a chart and a table: both sides over the parameter, with their ratio below."""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from schedperf.model.row_groups import Sweep
from schedperf.model.rows import Row
from schedperf.model.units import Scale, scale_for
from schedperf_reports.blocks import Block, Cell, Column, Table
from schedperf_reports.graphics.axes import Axis, linear_axis, log_axis, word_axis
from schedperf_reports.graphics.chart import Chart, Panel, Point, Series, ends_of
from schedperf_reports.graphics.ratio_axis import bounded, fit_axis, value_marks
from schedperf_reports.results.mean_lines import (
    SideMean,
    draw_means,
    interval_cell,
    mean_of,
)
from schedperf_reports.words.quantities import format_change, format_interval, format_p
from schedperf_reports.words.rows import VERDICT_TONES, name_direction

# Heights of the panel of both sides and of the panel of the change, in pixels.
HEIGHT, CHANGE_HEIGHT = 190, 110
# Parameters farther from 1 than this are treated as words: "inf", "1e308".
RANGE = (1e-100, 1e100)

# Two points form only a line between two results, which the interval plot shows better.
FEWEST_POINTS = 3

# If the largest value of a parameter is at least this many times the smallest, its axis is
# logarithmic.
LEAST_LOG_RANGE = 4.0

# If the largest mean is at least this many times the smallest, the axis of both sides is
# logarithmic.
LEAST_LOG_VALUES = 20.0


class _Point(Struct, frozen=True, kw_only=True):
    # One row of the sweep, by the value of the varied parameter: a number if all values are
    # numbers.
    x: float | str
    row: Row
    base: SideMean | None
    new: SideMean | None


class _Swept(Struct, frozen=True, kw_only=True):
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
    """Return whether a row is a point of a sweep."""
    return (row.side, row.workload, row.metric) == (sweep.side, sweep.workload, sweep.metric)


def describe_sweep(sweep: Sweep, rows: Sequence[Row], prefix: str = "") -> Iterator[Block]:
    """Yield a chart and a table of the points of a sweep that have values on both sides.

    Yield nothing for fewer than ``FEWEST_POINTS`` such points.

    :param rows: rows of the sweep
    :param prefix: prefix of the captions: ``"cluster: "``
    """
    drawable = [row for row in rows if row.base is not None and row.new is not None]
    if len(drawable) < FEWEST_POINTS:
        return
    swept = _place(drawable)
    yield _chart(f"{prefix}{_caption(sweep, swept)}", swept)
    yield _table(
        f"{prefix}{sweep.metric} over {swept.parameter} with the 95% CI of each side", swept
    )


def _place(rows: Sequence[Row]) -> _Swept:
    name, values = varied_parameter([row.point for row in rows])
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


def varied_parameter(points: Sequence[str]) -> tuple[str, list[str]]:
    """Return the name of the one parameter that varies, and its value at each point.

    Return ``("point", points)`` if several parameters vary, if none does, or if a point lacks it.
    """
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
    are_drawable = all(number == 0.0 or RANGE[0] <= abs(number) <= RANGE[1] for number in numbers)
    return numbers if are_drawable and len(set(numbers)) == len(numbers) else None


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
        f"{sweep.metric} over {swept.parameter}, {name_direction(better)}, {swept.side} vs base: "
        f"{'; '.join(facts)}; bars are 95% CIs"
    )


def words_of_shape(sweep: Sweep) -> list[str]:
    """Return up to two texts: how the change depends on the parameter; the first changed point."""
    return [
        *([sweep.shape] if sweep.shape else []),
        *([f"first significant change at {sweep.first_point}"] if sweep.first_point else []),
    ]


def _chart(caption: str, swept: _Swept) -> Chart:
    axis = _parameter_axis(swept, title="")
    series = (_means(swept, is_base=True), _means(swept, is_base=False))
    above = Panel(height=HEIGHT, x=axis, y=_value_axis(swept, series), series=series)
    return Chart(caption=caption, sides=("base", swept.side), panels=(above, _change_panel(swept)))


def _means(swept: _Swept, *, is_base: bool) -> Series:
    points = (
        (at, _name_of(point), point.base if is_base else point.new)
        for at, point in _placed_points(swept)
    )
    return draw_means("base" if is_base else swept.side, points, swept.scale)


def _placed_points(swept: _Swept) -> Iterator[tuple[float, _Point]]:
    # Each point with its position on the axis of the parameter.
    for index, point in enumerate(swept.points):
        yield (point.x if isinstance(point.x, float) else float(index)), point


def _name_of(point: _Point) -> str:
    return f"{point.x:g}" if isinstance(point.x, float) else point.x


def _change_panel(swept: _Swept) -> Panel:
    margin = swept.points[0].row.margin
    points = tuple(_change_points(swept))
    ends = [end for point in points for end in (point.y, point.low, point.high) if end is not None]
    axis = fit_axis([*ends, 1.0 + margin, 1.0 / (1.0 + margin)])
    return Panel(
        height=CHANGE_HEIGHT,
        x=_parameter_axis(swept, title=swept.parameter),
        y=replace(axis, title="change"),
        series=(Series(side="", parts=(points,), has_line=False),),
        band=(1.0 / (1.0 + margin), 1.0 + margin),
    )


def _change_points(swept: _Swept) -> Iterator[Point]:
    for x, point in _placed_points(swept):
        row = point.row
        if row.ratio is not None and row.ci_low is not None and row.ci_high is not None:
            change = f"{format_change(row.ratio)} {format_interval(row.ci_low, row.ci_high)}"
            yield Point(
                x=x,
                y=bounded(row.ratio),
                low=bounded(row.ci_low),
                high=bounded(row.ci_high),
                title=f"{_name_of(point)}: {change}",
            )


def _parameter_axis(swept: _Swept, title: str) -> Axis:
    if not swept.is_numeric:
        return word_axis([_name_of(point) for point in swept.points], title)
    numbers = [float(point.x) for point in swept.points]
    ticks = [(number, f"{number:g}") for number in numbers]
    if min(numbers) > 0.0 and max(numbers) / min(numbers) >= LEAST_LOG_RANGE:
        return log_axis(numbers, ticks, title)
    return replace(linear_axis(numbers, title), ticks=tuple(ticks))


def _value_axis(swept: _Swept, series: Sequence[Series]) -> Axis:
    # Values that grow with the parameter, such as throughput, would hide their small ends on a
    # linear axis.
    means = [point.y for one in series for point in one.points]
    ends = ends_of(series)
    is_log = min(ends) > 0.0 and max(means) / min(means) >= LEAST_LOG_VALUES
    if not is_log:
        return linear_axis(ends, swept.scale.unit, is_from_zero=True)
    return log_axis(ends, value_marks(ends), swept.scale.unit)


def _table(caption: str, swept: _Swept) -> Table:
    unit = f", {swept.scale.unit}" if swept.scale.unit else ""
    return Table(
        caption=caption,
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
    return (
        Cell(text=_name_of(point), sort=point.x if isinstance(point.x, float) else None),
        Cell(text=scale.format(row.base), sort=row.base),
        interval_cell(point.base, scale),
        Cell(text=scale.format(row.new), sort=row.new),
        interval_cell(point.new, scale),
        Cell(text=format_change(row.ratio), tone=tone, sort=row.ratio),
        Cell(text=format_interval(row.ci_low, row.ci_high), sort=row.ci_low),
        Cell(text=row.verdict, tone=tone),
    )
