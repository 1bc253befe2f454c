# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the runs of one result: how they are spread, and in which order they came."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import groupby
from statistics import fmean, geometric_mean, median

from msgspec import Struct
from msgspec.structs import replace

from schedperf.model.comparison import Row, RunValue
from schedperf.model.units import Scale
from schedperf_reports.graphics.axes import Axis, linear_axis
from schedperf_reports.graphics.chart import Box, Chart, Panel, Point, Series
from schedperf_reports.words.rows import count_of
from schedperf_reports.words.units import MISSING, format_change, format_number, scale_for

# Heights of the panels, in pixels: a line of boxes for each side, shares of the runs, runs in time.
BOX_HEIGHT, SHARES_HEIGHT, TIME_HEIGHT = 44, 110, 120

# Shares of the runs up to a value.
SHARE_AXIS = Axis(
    low=0.0, high=1.04, ticks=((0.0, "0%"), (0.5, "50%"), (1.0, "100%")), title="runs up to"
)

# Halves of fewer runs say nothing about a trend.
FEWEST_IN_TREND = 4

COUNTED = re.compile(r"(\d+) of (\d+)", re.ASCII)


class RowRuns(Struct, frozen=True, kw_only=True):
    """The runs of one side of a row.

    :param name: "base", "new2"
    """

    name: str
    runs: tuple[RunValue, ...]

    def in_time(self) -> list[RunValue]:
        """Return the runs in the order of time, where they have one."""
        return sorted(self.runs, key=_moment)


def _moment(run: RunValue) -> tuple[int, int]:
    return (run.run, run.run) if run.order is None else (run.order, run.run)


def sides_of(row: Row) -> tuple[RowRuns, ...]:
    """Return the sides of a row that have runs, base first."""
    both = (("base", row.values_base), (row.side, row.values_new))
    return tuple(RowRuns(name=name, runs=runs) for name, runs in both if runs)


def scale_of(row: Row) -> Scale:
    """Return the unit that a row and its runs are shown in."""
    return scale_for(row.unit, row.base, row.new)


def mean_of_runs(values: Sequence[float], *, is_log: bool) -> float:
    """Return the mean that results have: geometric where all of their values are positive."""
    return geometric_mean(values) if is_log else fmean(values)


def draw_runs(row: Row) -> Chart:
    """Draw each run with a box over its side, the share of runs up to each value, and their order.

    The runs of one boot are joined by a line.
    """
    scale = scale_of(row)
    sides = sides_of(row)
    cut = _place_of_modes(row, sides)
    sentences = (_describe_spread(sides, scale, is_cut=cut is not None), _describe_order(sides))
    return Chart(
        caption="; ".join(sentences),
        sides=tuple(side.name for side in sides),
        panels=(
            *_spread_panels(sides, scale, None if cut is None else cut / scale.factor),
            _time_panel(sides, scale),
        ),
    )


def _spread_panels(
    sides: Sequence[RowRuns], scale: Scale, cut: float | None
) -> tuple[Panel, Panel]:
    values = {side.name: [run.value / scale.factor for run in side.runs] for side in sides}
    axis = linear_axis((one for some in values.values() for one in some), scale.unit)
    boxes = tuple(Box(side=name, values=tuple(some)) for name, some in values.items())
    above = replace(axis, title="")
    return (
        Panel(height=BOX_HEIGHT * len(boxes), x=above, boxes=boxes, cut=cut),
        Panel(
            height=SHARES_HEIGHT,
            x=axis,
            y=SHARE_AXIS,
            series=tuple(_shares(name, some) for name, some in values.items()),
            cut=cut,
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
    positions = [_moment(run)[0] for run in runs]
    across = linear_axis(positions, "time order of all runs" if has_order else "run number")
    whole = tuple((at, text) for at, text in across.ticks if at.is_integer() and at >= 0.0)
    return Panel(
        height=TIME_HEIGHT,
        x=replace(across, ticks=whole),
        y=linear_axis((run.value / scale.factor for run in runs), scale.unit),
        series=tuple(_in_time(side, scale) for side in sides),
    )


def _place_of_modes(row: Row, sides: Sequence[RowRuns]) -> float | None:
    # The statistics say how many runs were in the slower mode: the edge lies beyond so many. Where
    # they counted boots or rounds, it is not known of single runs.
    numbers = next((caveat.numbers for caveat in row.caveats if caveat.code == "modes"), None)
    if numbers is None or len(sides) < 2:  # noqa: PLR2004 # base and new
        return None
    counts = [COUNTED.fullmatch(str(numbers.get(key))) for key in ("base", "new")]
    if any(count is None for count in counts):
        return None
    slow = sum(int(count[1]) for count in counts if count is not None)
    values = sorted(run.value for side in sides for run in side.runs)
    total = sum(int(count[2]) for count in counts if count is not None)
    edge = total - slow if row.better == "lower" else slow
    if total != len(values) or not 0 < edge < total:
        return None
    return (values[edge - 1] + values[edge]) / 2.0


def _describe_spread(sides: Sequence[RowRuns], scale: Scale, *, is_cut: bool) -> str:
    medians = ", ".join(
        f"{side.name} {_median(side, scale)} {scale.unit} ({count_of(len(side.runs), 'run')})"
        for side in sides
    )
    parts = [f"median {medians}"]
    if len(sides) == 2:  # noqa: PLR2004 # base and new
        base, new = sides
        parts.append(f"{new.name} is above {base.name} in {_say_above(base.runs, new.runs)}")
    if is_cut:
        parts.append("dotted line: boundary between the two modes of the distribution")
    return "; ".join(parts)


def _median(side: RowRuns, scale: Scale) -> str:
    return format_number(median(run.value for run in side.runs) / scale.factor)


def _say_above(base: Sequence[RunValue], new: Sequence[RunValue]) -> str:
    # Interleaved runs are compared within their pair.
    rounds = [{run.round: run.value for run in runs} for runs in (base, new)]
    are_paired = None not in rounds[0] and rounds[0].keys() == rounds[1].keys()
    if are_paired and len(rounds[0]) == len(base) == len(new):
        above = sum(rounds[1][number] > value for number, value in rounds[0].items())
        return f"{above} of {count_of(len(base), 'interleaved pair')}"
    return f"{100 * _share_above(base, new):.0f}% of all pairs (one run of each side)"


def _share_above(base: Sequence[RunValue], new: Sequence[RunValue]) -> float:
    # Ties count half: Vargha & Delaney, "A critique and improvement of the CL common language
    # effect size statistics", J. Educ. Behav. Stat. 25 (2000).
    ordered = sorted(run.value for run in base)
    below = sum(bisect_left(ordered, run.value) + bisect_right(ordered, run.value) for run in new)
    return below / (2.0 * len(base) * len(new))


def _in_time(side: RowRuns, scale: Scale) -> Series:
    boots = [list(group) for _, group in groupby(side.in_time(), key=lambda run: run.boot)]
    return Series(
        side=side.name,
        parts=tuple(
            tuple(Point(x=_moment(run)[0], y=run.value / scale.factor) for run in runs)
            for runs in boots
        ),
    )


def _describe_order(sides: Sequence[RowRuns]) -> str:
    trends = "; ".join(f"{side.name} {_trend(side)}" for side in sides)
    joined = any(len({run.boot for run in side.runs}) > 1 for side in sides)
    return f"drift of the mean, without CI: {trends}" + (
        "; lines connect runs of the same boot" if joined else ""
    )


def trend_of(side: RowRuns) -> float | None:
    """Return the mean of a side's later half over that of its earlier half; None for few runs.

    With an odd number of runs the middle run is left out.
    """
    values = [run.value for run in side.in_time()]
    half = len(values) // 2
    if len(values) < FEWEST_IN_TREND:
        return None
    is_log = min(values) > 0.0
    early, late = (mean_of_runs(part, is_log=is_log) for part in (values[:half], values[-half:]))
    return late / early if early else None


def name_halves(side: RowRuns) -> str:
    """Return which runs :func:`trend_of` compares: ``last 2 of 5 runs vs first 2``."""
    half = len(side.runs) // 2
    return f"last {half} of {len(side.runs)} runs vs first {half}"


def _trend(side: RowRuns) -> str:
    trend, boots = trend_of(side), _count_boots(side)
    if trend is None:
        return f"{MISSING}{f' ({boots})' if boots else ''}"
    return f"{format_change(trend)} ({name_halves(side)}{f', {boots}' if boots else ''})"


def _count_boots(side: RowRuns) -> str:
    boots = {run.boot for run in side.runs} - {None}
    return count_of(len(boots), "boot") if boots else ""
