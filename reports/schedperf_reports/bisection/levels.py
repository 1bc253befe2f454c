# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the levels of the tested commits in the order of history, with the named commits marked."""

from collections.abc import Iterator, Sequence

from schedperf.lab.bisect.document import BisectDocument
from schedperf.lab.bisect.tested import BootedCommit
from schedperf_reports.bisection.words import describe_tested
from schedperf_reports.graphics.axes import Axis, linear_axis, word_axis
from schedperf_reports.graphics.chart import Chart, Panel, Point, Series

HEIGHT = 260
# Distance of the boots of a commit to the right of its level, in commits.
BESIDE = 0.22
# The levels on both sides of a named commit have the colours and shapes of these, in turn.
SIDES = ("base", "new")


def used_values(tested: BootedCommit) -> list[float]:
    """Return the values of the used boots of a commit."""
    return [boot.value for boot in tested.boots if boot.is_used]


def level_axis(tested: Sequence[BootedCommit], title: str = "") -> Axis | None:
    """Return the axis that contains all used boots; None without any.

    Intervals of few boots are often wider, and would compress the levels.
    """
    values = [value for each in tested for value in used_values(each)]
    return linear_axis(values, title) if values else None


def draw_levels(document: BisectDocument, tested: Sequence[BootedCommit]) -> Iterator[Chart]:
    """Yield the chart of the levels; nothing without used boots.

    :param tested: tested commits of the range, or of a branch
    """
    y = level_axis(tested, "value")
    if y is None:
        return
    changes = document.steps_in(tested)
    starts = [0, *changes]
    segments = zip(starts, [*changes, len(tested)], strict=True)
    positions = [str(each.position) for each in tested]
    panel = Panel(
        height=HEIGHT,
        x=word_axis(positions, "tested commits by position (good is 0)"),
        y=y,
        series=tuple(
            series
            for number, (start, end) in enumerate(segments)
            for series in _segment(tested, range(start, end), SIDES[number % 2])
        ),
        cuts=tuple(index - 0.5 for index in changes),
    )
    yield Chart(caption=_caption([tested[index] for index in changes]), sides=(), panels=(panel,))


def _segment(tested: Sequence[BootedCommit], indices: Sequence[int], side: str) -> Iterator[Series]:
    boots = (
        Point(x=index + BESIDE, y=value)
        for index in indices
        for value in used_values(tested[index])
    )
    yield Series(side=side, parts=(tuple(boots),), has_line=False)
    levels = (_level(index, tested[index]) for index in indices)
    parts = (tuple(point for point in levels if point is not None),)
    yield Series(side=side, parts=parts, has_line=False)


def _level(index: int, tested: BootedCommit) -> Point | None:
    level = tested.level
    if level is None:
        return None
    name = f"{tested.commit.short} {tested.commit.subject}"
    return Point(
        x=float(index),
        y=level.mean,
        low=level.ci_low,
        high=level.ci_high,
        title=f"{name}: {describe_tested(tested)}",
    )


def _caption(changes: Sequence[BootedCommit]) -> str:
    names = (each.commit.short for each in changes)
    marked = f"dotted line: change at {', '.join(names)}; " if changes else ""
    return (
        "Levels of the tested commits with their 95% CIs, and their used boots on the right; "
        f"{marked}intervals beyond the axis are cut"
    )
