# SPDX-License-Identifier: GPL-2.0-or-later
"""Render the mean of each side of a result with its CI: as a cell, and as a line of a chart."""

from collections.abc import Iterable

from msgspec import Struct

from schedperf.model.rows import Row
from schedperf.model.units import Scale
from schedperf_reports.blocks import Cell
from schedperf_reports.graphics.chart import Point, Series
from schedperf_reports.words.quantities import MISSING


class SideMean(Struct, frozen=True, kw_only=True):
    """The mean of one side of a row, in the unit of the row.

    :param low: lower bound of its 95% CI; None without one
    :param high: upper bound; None without one
    """

    mean: float
    low: float | None
    high: float | None


def mean_of(row: Row, *, is_base: bool) -> SideMean | None:
    """Return the mean of a side; None where the row has none."""
    mean, statistics = (row.base, row.statistics_base) if is_base else (row.new, row.statistics_new)
    if mean is None:
        return None
    low, high = (None, None) if statistics is None else (statistics.ci_low, statistics.ci_high)
    return SideMean(mean=mean, low=low, high=high)


def interval_cell(side: SideMean | None, scale: Scale) -> Cell:
    """Return the cell of the CI of one side's mean, without its unit: ``[607, 617]``, or "-"."""
    if side is None or side.low is None or side.high is None:
        return Cell(text=MISSING)
    return Cell(text=f"[{scale.format(side.low)}, {scale.format(side.high)}]", sort=side.low)


def draw_means(
    name: str, points: Iterable[tuple[float, str, SideMean | None]], scale: Scale
) -> Series:
    """Return a line through the means of a side; points without a mean are left out.

    :param points: position on the horizontal axis, name of the point, and mean
    :param scale: unit of the axis
    """
    measured = [(x, where, mean) for x, where, mean in points if mean is not None]
    return Series(
        side=name,
        parts=(tuple(_point(x, f"{name}, {where}", mean, scale) for x, where, mean in measured),),
    )


def _point(x: float, where: str, mean: SideMean, scale: Scale) -> Point:
    ends = (mean.low, mean.high)
    low, high = (None if end is None else end / scale.factor for end in ends)
    interval = "" if None in ends else f" [{scale.format(mean.low)}, {scale.format(mean.high)}]"
    return Point(
        x=x,
        y=mean.mean / scale.factor,
        low=low,
        high=high,
        title=f"{where}: {scale.format(mean.mean)}{interval} {scale.unit}".rstrip(),
    )
