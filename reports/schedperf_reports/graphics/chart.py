# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw charts of values: lines, points with intervals, and boxes, in panels below each other.

Positions are in percent of a panel, so a chart needs no script, follows the width of the window and
the colours of the page, and prints as it is shown.
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from schedperf_reports.blocks import Graphic
from schedperf_reports.graphics.axes import Axis, Tick
from schedperf_reports.words.rows import side_place

# Heights of the points in a box, in percent of its line, used in turn.
LEVELS = (50.0, 32.0, 68.0, 41.0, 59.0)


class Point(Struct, frozen=True, kw_only=True):
    """One value.

    :param low: lower bound of the interval of ``y``; None without one
    :param high: upper bound; None without one
    :param title: tooltip; "" for none
    """

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    title: str = ""


class Series(Struct, frozen=True, kw_only=True):
    """Points of a side.

    :param side: name of the side; "" if the series belongs to no side
    :param parts: lines, each a sequence of points; different lines are not joined
    :param steps: "after" if a value holds until the next one, "around" if it holds from halfway to
        the previous one to halfway to the next one; "" for straight lines from point to point
    :param has_line: whether points are joined
    :param has_points: whether points are drawn
    """

    side: str
    parts: tuple[tuple[Point, ...], ...]
    steps: str = ""
    has_line: bool = True
    has_points: bool = True

    @property
    def place(self) -> int | None:
        """Return the index of the side's colour and shape; None if it belongs to no side."""
        return side_place(self.side) if self.side else None

    @property
    def points(self) -> list[Point]:
        """Return all points."""
        return [point for part in self.parts for point in part]


class Box(Struct, frozen=True, kw_only=True):
    """The values of a side on one line.

    :param ends: lower whisker, lower quartile, median, upper quartile and upper whisker
    """

    side: str
    values: tuple[float, ...]
    ends: tuple[float, ...]


class Panel(Struct, frozen=True, kw_only=True):
    """One panel: its axes, and what is drawn over them.

    :param height: in pixels
    :param y: vertical axis; None if the panel has boxes, which are below each other
    :param band: lower and upper value on ``y`` of a shaded band over the whole width; None without
        one
    :param cuts: values on ``x`` of dotted vertical lines
    """

    height: int
    x: Axis
    y: Axis | None = None
    series: tuple[Series, ...] = ()
    boxes: tuple[Box, ...] = ()
    band: tuple[float, float] | None = None
    cuts: tuple[float, ...] = ()

    def levels(self) -> tuple[Tick, ...]:
        """Return the marks of the vertical axis; () without one."""
        return self.y.levels() if self.y is not None else ()

    def top(self, value: float) -> float:
        """Return the position of a value in percent from the top; 0 without a vertical axis."""
        return round(100.0 - self.y.place(value), 2) if self.y is not None else 0.0

    def line(self, series: Series) -> str:
        """Return the SVG path of the lines of a series."""
        walk: Callable[[Sequence[tuple[float, float]]], str] = {
            "after": _step_after,
            "around": _step_around,
        }.get(series.steps, _join)
        placed = (
            [(self.x.place(point.x), self.top(point.y)) for point in part] for part in series.parts
        )
        return "".join(walk(part) for part in placed if part)

    def intervals(self, series: Series) -> str:
        """Return the SVG path of all intervals of a series."""
        return "".join(
            f"M{self.x.place(point.x):g} {self.top(point.low):g}V{self.top(point.high):g}"
            for point in series.points
            if point.low is not None and point.high is not None
        )

    def dots(self, series: Series) -> str:
        """Return the SVG path of all points of a series: lines of length 0 with visible caps."""
        return "".join(
            f"M{self.x.place(point.x):g} {self.top(point.y):g}h0" for point in series.points
        )

    def box(self, box: Box) -> tuple[float, ...]:
        """Return the positions of ``Box.ends`` in percent of the horizontal axis, in this order."""
        return tuple(map(self.x.place, box.ends))

    def middle(self, index: int) -> float:
        """Return the position of the middle of a box, in percent from the top."""
        return round(100.0 * (index + 0.5) / len(self.boxes), 2)

    def dots_of_box(self, index: int) -> str:
        """Return the SVG path of the points of all values of a box."""
        top, height = 100.0 * index / len(self.boxes), 1.0 / len(self.boxes)
        return "".join(
            f"M{self.x.place(value):g} {top + height * LEVELS[number % len(LEVELS)]:g}h0"
            for number, value in enumerate(self.boxes[index].values)
        )


def ends_of(series: Iterable[Series]) -> list[float]:
    """Return all values of some series, with the ends of their intervals."""
    return [
        value
        for one in series
        for point in one.points
        for value in (point.y, point.low, point.high)
        if value is not None
    ]


def _join(places: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in places)


def _step_after(places: Sequence[tuple[float, float]]) -> str:
    (x, y), *others = places
    return f"M{x:g} {y:g}" + "".join(f"H{x:g}V{y:g}" for x, y in others)


def _step_around(places: Sequence[tuple[float, float]]) -> str:
    (x, y), *others = places
    # The first and the last value extend as far outwards as to the half on the other side.
    half = (others[0][0] - x) / 2.0 if others else 0.0
    steps = "".join(f"H{round(x - half, 1):g}V{y:g}" for x, y in others)
    return f"M{round(x - half, 1):g} {y:g}{steps}H{round(places[-1][0] + half, 1):g}"


class Chart(Graphic, frozen=True, kw_only=True):
    """Panels below each other.

    A table of the section must contain the same numbers, so that no information is only in a chart.

    :param sides: names of the shown sides, base first
    """

    sides: tuple[str, ...]
    panels: tuple[Panel, ...]

    def place(self, side: str) -> int:
        """Return the index of a side's colour and shape."""
        return side_place(side)
