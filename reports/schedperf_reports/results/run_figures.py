# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the runs of one result: their distribution and their order."""

from collections.abc import Sequence
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from schedperf.model.rows import Row, RunsAbove, RunValue, SideStatistics
from schedperf.model.units import Scale
from schedperf_reports.graphics.axes import Axis, linear_axis
from schedperf_reports.graphics.chart import Box, Chart, Panel, Point, Series
from schedperf_reports.words.quantities import MISSING, format_change, format_number, scale_for
from schedperf_reports.words.rows import count_of

# Heights of the panels, in pixels: a line of boxes for each side, shares of the runs, runs in time.
BOX_HEIGHT, SHARES_HEIGHT, TIME_HEIGHT = 44, 110, 120

# Shares of the runs up to a value.
SHARE_AXIS = Axis(
    low=0.0, high=1.04, ticks=((0.0, "0%"), (0.5, "50%"), (1.0, "100%")), title="runs up to"
)


class RowRuns(Struct, frozen=True, kw_only=True):
    """The runs of one side of a row.

    :param name: "base", "new2"
    """

    name: str
    runs: tuple[RunValue, ...]
    statistics: SideStatistics

    def in_time(self) -> list[RunValue]:
        """Return the runs in chronological order, as far as it is known."""
        return sorted(self.runs, key=lambda run: run.moment)


def sides_of(row: Row) -> tuple[RowRuns, ...]:
    """Return the sides of a row that have values of runs, base first; () if none has."""
    both = (
        ("base", row.values_base, row.statistics_base),
        (row.side, row.values_new, row.statistics_new),
    )
    return tuple(
        RowRuns(name=name, runs=runs, statistics=statistics)
        for name, runs, statistics in both
        if runs and statistics is not None
    )


def scale_of(row: Row) -> Scale:
    """Return the unit in which a row and its runs are shown."""
    return scale_for(row.unit, row.base, row.new)


def draw_runs(row: Row) -> Chart:
    """Draw the runs: a box per side, the share of runs up to each value, and their order.

    The runs of one boot are joined by a line.

    :param row: a row with values of runs on at least one side
    """
    scale = scale_of(row)
    sides = sides_of(row)
    cut = row.mode_boundary
    sentences = (_describe_spread(row, sides, scale), _describe_order(sides))
    return Chart(
        caption="; ".join(sentences),
        sides=tuple(side.name for side in sides),
        panels=(
            *_spread_panels(sides, scale, () if cut is None else (cut / scale.factor,)),
            _time_panel(sides, scale),
        ),
    )


def _spread_panels(
    sides: Sequence[RowRuns], scale: Scale, cuts: tuple[float, ...]
) -> tuple[Panel, Panel]:
    values = {side.name: [run.value / scale.factor for run in side.runs] for side in sides}
    axis = linear_axis((one for some in values.values() for one in some), scale.unit)
    boxes = tuple(
        Box(
            side=side.name,
            values=tuple(values[side.name]),
            ends=tuple(end / scale.factor for end in _ends(side.statistics)),
        )
        for side in sides
    )
    above = replace(axis, title="")
    return (
        Panel(height=BOX_HEIGHT * len(boxes), x=above, boxes=boxes, cuts=cuts),
        Panel(
            height=SHARES_HEIGHT,
            x=axis,
            y=SHARE_AXIS,
            series=tuple(_shares(name, some) for name, some in values.items()),
            cuts=cuts,
        ),
    )


def _shares(name: str, values: Sequence[float]) -> Series:
    ordered = sorted(values)
    points = [
        Point(x=value, y=number / len(ordered)) for number, value in enumerate(ordered, start=1)
    ]
    start = Point(x=ordered[0], y=0.0)
    return Series(side=name, parts=((start, *points),), steps="after", has_points=False)


def _time_panel(sides: Sequence[RowRuns], scale: Scale) -> Panel:
    runs = [run for side in sides for run in side.runs]
    has_order = all(run.order is not None for run in runs)
    positions = [run.moment[0] for run in runs]
    across = linear_axis(positions, "time order of all runs" if has_order else "run number")
    whole = tuple((at, text) for at, text in across.ticks if at.is_integer() and at >= 0.0)
    return Panel(
        height=TIME_HEIGHT,
        x=replace(across, ticks=whole),
        y=linear_axis((run.value / scale.factor for run in runs), scale.unit),
        series=tuple(_in_time(side, scale) for side in sides),
    )


def _ends(statistics: SideStatistics) -> tuple[float, ...]:
    low, high = statistics.whiskers
    return low, *statistics.quartiles, high


def _describe_spread(row: Row, sides: Sequence[RowRuns], scale: Scale) -> str:
    medians = ", ".join(
        f"{side.name} {_median(side, scale)} {scale.unit} ({count_of(len(side.runs), 'run')})"
        for side in sides
    )
    parts = [f"median {medians}"]
    if row.runs_above is not None:
        parts.append(f"{row.side} is above base in {_share_above(row.runs_above)}")
    if row.mode_boundary is not None:
        parts.append("dotted line: boundary between the two modes of the distribution")
    return "; ".join(parts)


def _median(side: RowRuns, scale: Scale) -> str:
    return format_number(side.statistics.quartiles[1] / scale.factor)


def _share_above(runs: RunsAbove) -> str:
    if runs.interleaved:
        return f"{runs.above:.0f} of {count_of(runs.pairs, 'interleaved pair')}"
    return f"{100.0 * runs.above / runs.pairs:.0f}% of all pairs (one run of each side)"


def _in_time(side: RowRuns, scale: Scale) -> Series:
    boots = [list(group) for _, group in groupby(side.in_time(), key=lambda run: run.boot)]
    return Series(
        side=side.name,
        parts=tuple(
            tuple(Point(x=run.moment[0], y=run.value / scale.factor) for run in runs)
            for runs in boots
        ),
    )


def _describe_order(sides: Sequence[RowRuns]) -> str:
    trends = "; ".join(f"{side.name} {_trend(side)}" for side in sides)
    joined = any(len({run.boot for run in side.runs}) > 1 for side in sides)
    return f"drift of the mean, without CI: {trends}" + (
        "; lines connect runs of the same boot" if joined else ""
    )


def name_halves(side: RowRuns) -> str:
    """Return which runs the drift compares: ``last 2 of 5 runs vs first 2``."""
    half = len(side.runs) // 2
    return f"last {half} of {len(side.runs)} runs vs first {half}"


def _trend(side: RowRuns) -> str:
    trend, boots = side.statistics.drift, _count_boots(side)
    if trend is None:
        return f"{MISSING}{f' ({boots})' if boots else ''}"
    return f"{format_change(trend)} ({name_halves(side)}{f', {boots}' if boots else ''})"


def _count_boots(side: RowRuns) -> str:
    boots = {run.boot for run in side.runs} - {None}
    return count_of(len(boots), "boot") if boots else ""
