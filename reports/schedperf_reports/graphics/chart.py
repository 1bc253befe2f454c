# SPDX-License-Identifier: GPL-2.0-or-later
"""Charts of values: lines, points with intervals, and boxes in panels below each other.

All is placed in per cent of a panel, so that a chart needs no script, follows the width of the
window and the colours of the page, and is printed as it is shown.
"""

from collections.abc import Callable, Iterable, Sequence
from statistics import median, quantiles

from msgspec import Struct

from schedperf_reports.blocks import Graphic
from schedperf_reports.graphics.axes import Axis, Tick
from schedperf_reports.words.rows import side_place

# A whisker reaches the farthest value within so many interquartile ranges of the box.
WHISKER = 1.5
# Heights of the points in a box, in per cent of its line, one after the other.
LEVELS = (50.0, 32.0, 68.0, 41.0, 59.0)


class Point(Struct, frozen=True, kw_only=True):
    """One value.

    :param low: lower bound of its interval; None without one
    :param title: what the pointer shows; "" for nothing
    """

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    title: str = ""


class Series(Struct, frozen=True, kw_only=True):
    """Points of a side.

    :param side: its name; "" for what is of no side
    :param parts: lines, each a sequence of points; different lines are not joined
    :param steps: "after" where a value holds until the next one, "around" where it holds from
        halfway to the one before, to halfway to the next one
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
        """Which colour and shape the side has; None for what is of no side."""
        return side_place(self.side) if self.side else None

    @property
    def points(self) -> list[Point]:
        """All points."""
        return [point for part in self.parts for point in part]


class Box(Struct, frozen=True, kw_only=True):
    """The values of a side on a line of their own: each value, quartiles, median, and whiskers."""

    side: str
    values: tuple[float, ...]

    def ends(self) -> tuple[float, float, float, float, float]:
        """Return lower whisker, lower quartile, median, upper quartile and upper whisker."""
        if len(self.values) == 1:
            return (self.values[0],) * 5
        low, _, high = quantiles(self.values, n=4, method="inclusive")
        reach = WHISKER * (high - low)
        inside = [value for value in self.values if low - reach <= value <= high + reach]
        return min(inside), low, median(self.values), high, max(inside)


class Panel(Struct, frozen=True, kw_only=True):
    """One panel: what is drawn over its axes.

    :param height: in pixels
    :param y: None where boxes are below each other
    :param band: lower and upper edge of a shaded band over the whole width; None without one
    :param cut: a dotted line across; None without one
    """

    height: int
    x: Axis
    y: Axis | None = None
    series: tuple[Series, ...] = ()
    boxes: tuple[Box, ...] = ()
    band: tuple[float, float] | None = None
    cut: float | None = None

    def levels(self) -> tuple[Tick, ...]:
        """Return the marks of the vertical axis."""
        return self.y.levels() if self.y is not None else ()

    def top(self, value: float) -> float:
        """Return where a value is, in per cent from the top."""
        return round(100.0 - self.y.place(value), 2) if self.y is not None else 0.0

    def line(self, series: Series) -> str:
        """Return the path of a series' lines."""
        walk: Callable[[Sequence[tuple[float, float]]], str] = {
            "after": _step_after,
            "around": _step_around,
        }.get(series.steps, _join)
        placed = (
            [(self.x.place(point.x), self.top(point.y)) for point in part] for part in series.parts
        )
        return "".join(walk(part) for part in placed if part)

    def intervals(self, series: Series) -> str:
        """Return the path of all intervals of a series."""
        return "".join(
            f"M{self.x.place(point.x):g} {self.top(point.low):g}V{self.top(point.high):g}"
            for point in series.points
            if point.low is not None and point.high is not None
        )

    def dots(self, series: Series) -> str:
        """Return the path that draws all points of a series; the line's caps are the marks."""
        return "".join(
            f"M{self.x.place(point.x):g} {self.top(point.y):g}h0" for point in series.points
        )

    def box(self, box: Box) -> tuple[float, ...]:
        """Return the places of a box's whiskers, quartiles and median, as ``Box.ends`` does."""
        return tuple(map(self.x.place, box.ends()))

    def middle(self, index: int) -> float:
        """Return the height of a box's line, in per cent from the top."""
        return round(100.0 * (index + 0.5) / len(self.boxes), 2)

    def dots_of_box(self, index: int) -> str:
        """Return the path that draws all values of a box."""
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
    # The first and the last value reach as far out as to their neighbour's half.
    half = (others[0][0] - x) / 2.0 if others else 0.0
    steps = "".join(f"H{round(x - half, 1):g}V{y:g}" for x, y in others)
    return f"M{round(x - half, 1):g} {y:g}{steps}H{round(places[-1][0] + half, 1):g}"


class Chart(Graphic, frozen=True, kw_only=True):
    """Panels below each other.

    The same numbers must also stand in a table of the section: a chart is never the only place
    where something is said.

    :param sides: the names of those that it shows, base first
    """

    sides: tuple[str, ...]
    panels: tuple[Panel, ...]

    def place(self, side: str) -> int:
        """Return which colour and shape a side has."""
        return side_place(side)
