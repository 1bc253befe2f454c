# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the means of a side as a line, each with its interval."""

from collections.abc import Iterable

from schedperf.model.units import Scale
from schedperf_reports.graphics.chart import Point, Series
from schedperf_reports.rates.side_means import SideMean


def draw_means(
    name: str, points: Iterable[tuple[float, str, SideMean | None]], scale: Scale
) -> Series:
    """Return a line through the means of a side; what has no mean is left out.

    :param points: where on the horizontal axis, the name of that place, and the mean there
    :param scale: the unit that is drawn
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
