# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the figures of the first screen: the runs of each side in their unit, and the changes.

Positions are in percent of the width, so that text keeps its size in a narrow window.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from schedperf.model.base_new import BASE
from schedperf.model.rows import Better, Row
from schedperf.model.units import Scale
from schedperf_reports.blocks import Tone
from schedperf_reports.graphics.axes import Axis, Tick, linear_axis
from schedperf_reports.graphics.intervals import Bar, IntervalLine, Intervals
from schedperf_reports.page.first_screen.sentence import name_result
from schedperf_reports.results.run_figures import RowRuns, scale_of, sides_of
from schedperf_reports.words.quantities import format_interval, is_wide
from schedperf_reports.words.rows import common_direction, count_of, side_place

# Results with a line of their own; "12 more" is printed below them.
MOST_LINES = 6
# Dots closer than this, in percent of the width, are stacked; with several sides there is less
# width.
DOT_WIDTH = 1.7
NARROW_DOT_WIDTH = 3.0
MOST_LEVELS = 4
# Percent of the width between the ticks of one change, and of several, which have less room.
SINGLE_GAP = 14.0
SEVERAL_GAP = 24.0


class Dot(Struct, frozen=True, kw_only=True):
    """One run.

    :param left: position in percent of the width
    :param level: its level among stacked dots; 0 is the lowest
    :param title: value of the run with its unit
    """

    left: float
    level: int
    title: str


class Strip(Struct, frozen=True, kw_only=True):
    """The runs of one side.

    :param place: index of the side's colour and shape
    :param mean: position of the compared mean in percent of the width; None if it is missing or
        beyond the axis
    """

    label: str
    place: int
    dots: tuple[Dot, ...]
    mean: float | None


class Strips(Struct, frozen=True, kw_only=True):
    """The runs of all sides of one result, over one axis.

    :param words: description of the drawing for screen readers
    """

    strips: tuple[Strip, ...]
    ticks: tuple[tuple[float, str], ...]
    words: str


class ChangeLine(Struct, frozen=True, kw_only=True):
    """The change of one result.

    :param name: name of the result; label of the side if lines are sides
    :param interval: its 95% CI; "" without one
    :param number: the printed number: the change; for an inconclusive result its interval
    :param point: position of the change in percent of the axis; None without a ratio
    :param bar: the drawn CI; None without one
    :param band: the equivalence band; None without a margin
    :param strips: its runs as a small drawing; None if they are drawn elsewhere or not recorded
    :param values: values of base and new with the unit; "" if printed elsewhere
    :param place: index of the side's colour and shape; None if each line is a result, not a side
    """

    name: str
    change: str
    interval: str
    number: str
    tone: Tone
    point: float | None
    bar: Bar | None
    band: Bar | None
    strips: Strips | None
    values: str = ""
    place: int | None = None


class Changes(Struct, frozen=True, kw_only=True):
    """The changes of the worst results over one axis, or of one result on several sides.

    :param title: name of the result, if lines are sides
    :param runs: runs of base and of each line, over one axis, if lines are sides
    :param directions: as :attr:`Intervals.directions`
    :param margin: the equivalence margin in words
    :param more: number of further results or sides: "12 more results"; "" for none
    :param words: description of the drawing for screen readers
    """

    lines: tuple[ChangeLine, ...]
    ticks: tuple[Tick, ...]
    directions: tuple[str, str]
    margin: str
    more: str
    words: str
    title: str = ""
    runs: Strips | None = None


def draw_strips(row: Row, labels: Sequence[str]) -> Strips | None:
    """Return the runs of a result; None if no runs are recorded.

    :param labels: labels of base and of the new side
    """
    return _draw_runs([row], dict(zip((BASE, row.side), labels, strict=True)), scale_of(row))


def scale_of_sides(rows: Sequence[Row]) -> Scale:
    """Return one unit for all sides of a result: that of the side with the largest value.

    :param rows: rows of the result, one per side; not empty
    """
    return scale_of(max(rows, key=lambda row: max(abs(row.base or 0.0), abs(row.new or 0.0))))


def _draw_runs(rows: Sequence[Row], names: Mapping[str, str], scale: Scale) -> Strips | None:
    """Draw the runs of base and of the side of each row over one axis; return None without runs.

    :param rows: rows of one result, one per side
    :param names: label of each side
    """
    # Each row contains the runs of base, too. With several sides there is less width.
    width = DOT_WIDTH if len(rows) == 1 else NARROW_DOT_WIDTH
    sides = {side.name: side for row in rows for side in sides_of(row)}
    values = [run.value for side in sides.values() for run in side.runs]
    if not values:
        return None
    axis = linear_axis(value / scale.factor for value in values)
    means = {BASE: rows[0].base} | {row.side: row.new for row in rows}
    strips = tuple(
        Strip(
            label=names[name],
            place=side_place(name),
            dots=tuple(_dots(sides[name], axis, scale, width)),
            mean=_place_of(mean, axis, scale),
        )
        for name, mean in means.items()
        if name in sides
    )
    counted = ", ".join(
        f"{names[side.name]} {count_of(len(side.runs), 'run')} from "
        f"{scale.format(min(run.value for run in side.runs))} to "
        f"{scale.format(max(run.value for run in side.runs))} {scale.unit}"
        for side in sides.values()
    )
    return Strips(strips=strips, ticks=_ticks(axis, scale), words=f"runs: {counted}")


def _dots(side: RowRuns, axis: Axis, scale: Scale, width: float) -> Iterator[Dot]:
    ends = [-math.inf] * MOST_LEVELS
    for value in sorted(run.value for run in side.runs):
        left = axis.place(value / scale.factor)
        free = [level for level, end in enumerate(ends) if left - end >= width]
        level = free[0] if free else ends.index(min(ends))
        ends[level] = left
        yield Dot(left=left, level=level, title=f"{scale.format(value)} {scale.unit}")


def _place_of(mean: float | None, axis: Axis, scale: Scale) -> float | None:
    if mean is None or not axis.low <= mean / scale.factor <= axis.high:
        return None
    return axis.place(mean / scale.factor)


def _ticks(axis: Axis, scale: Scale) -> tuple[tuple[float, str], ...]:
    ticks = [(axis.place(value), text) for value, text in axis.ticks]
    if ticks:
        ticks[0] = (ticks[0][0], f"{ticks[0][1]} {scale.unit}".rstrip())
    return tuple(ticks)


def draw_changes(rows: Sequence[Row], labels: Sequence[str]) -> Changes | None:
    """Return the changes of the first ``MOST_LINES`` results with a ratio; None if none has one.

    :param rows: rows of the results
    :param labels: labels of base and of the new side; () to draw no runs beside the changes
    """
    shown = [row for row in rows if row.ratio is not None][:MOST_LINES]
    if not shown:
        return None
    lines = tuple(map(_interval_line, shown))
    better: Better | None = common_direction(shown)
    intervals = Intervals(caption="", lines=lines, better=better)
    axis = intervals.axis
    several = len(rows) > 1
    drawn = tuple(
        ChangeLine(
            name=line.name,
            change=line.change,
            interval=_interval(row),
            number=_interval(row) if row.verdict == "inconclusive" else line.change,
            tone=line.tone,
            point=None if row.ratio is None else axis.place(row.ratio),
            bar=intervals.bar(axis, line),
            band=intervals.band(axis, line),
            strips=draw_strips(row, labels) if several and labels else None,
            values=_values(row) if several and labels else "",
        )
        for row, line in zip(shown, lines, strict=True)
    )
    margins = sorted({row.margin for row in shown})
    return Changes(
        lines=drawn,
        ticks=_thin(intervals.ticks(axis), SEVERAL_GAP if several else SINGLE_GAP),
        directions=intervals.directions,
        margin=" or ".join(f"±{100.0 * margin:g}%" for margin in margins),
        more=count_of(len(rows) - len(shown), "more result") if len(rows) > len(shown) else "",
        words="changes: "
        + ", ".join(f"{line.name} {line.change} {line.interval}".rstrip() for line in drawn),
    )


def draw_sides(rows: Sequence[Row], names: Mapping[str, str], others: int) -> Changes | None:
    """Return the changes of one result, a line per side; None if no side has a ratio.

    :param rows: rows of the result, one per side
    :param names: label of each side
    :param others: number of other results, which are not drawn
    """
    shown = [row for row in rows if row.ratio is not None][:MOST_LINES]
    drawn = draw_changes(shown, ())
    if drawn is None:
        return None
    lines = tuple(
        replace(line, name=names[row.side], place=side_place(row.side))
        for row, line in zip(shown, drawn.lines, strict=True)
    )
    left = len(rows) - len(shown)
    more = [count_of(left, "more side")] if left > 0 else []
    more += [count_of(others, "more result")] if others else []
    title = name_result(shown[0])
    runs = _draw_runs(shown, names, scale_of_sides(shown))
    changes = ", ".join(f"{line.name} {line.change} {line.interval}".rstrip() for line in lines)
    return replace(
        drawn,
        title=title,
        lines=lines,
        runs=runs,
        more=", ".join(more),
        words=f"{title}; {runs.words if runs else 'no runs'}; changes: {changes}",
    )


def _values(row: Row) -> str:
    scale = scale_of(row)
    return f"{scale.format(row.base)} → {scale.format(row.new)} {scale.unit}".rstrip()


def _thin(ticks: Sequence[Tick], gap: float) -> tuple[Tick, ...]:
    # Start at the tick of no change, and go outwards.
    kept = [tick for tick in ticks if tick.is_zero]
    for tick in sorted(ticks, key=lambda tick: abs(tick.place - kept[0].place)):
        if all(abs(tick.place - other.place) >= gap for other in kept):
            kept.append(tick)
    return tuple(sorted(kept, key=lambda tick: tick.place))


def _interval(row: Row) -> str:
    if row.ci_low is None or row.ci_high is None:
        return ""
    wide = is_wide(row.ci_low, row.ci_high)
    return "CI too wide" if wide else format_interval(row.ci_low, row.ci_high)


def _interval_line(row: Row) -> IntervalLine:
    return IntervalLine(
        name=name_result(row),
        row=0,
        anchor="",
        verdict=row.verdict,
        ratio=row.ratio,
        ci_low=row.ci_low,
        ci_high=row.ci_high,
        margin=row.margin,
    )
