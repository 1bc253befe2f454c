# SPDX-License-Identifier: GPL-2.0-or-later
"""Take the mean change of several results."""

import math
from collections.abc import Iterator, Sequence

from schedperf.model.row_groups import Geomean
from schedperf.model.rows import Better, Row

# Metrics without a known direction have no mean change.
DIRECTIONS: Sequence[Better] = ("higher", "lower")
# A mean over percentiles of one distribution is meaningless.
FEWEST_MEASURED = 2


def geomeans_of(rows: Sequence[Row]) -> Iterator[Geomean]:
    """Yield per better direction the geometric mean of the ratios of valid rows with an interval.

    Rows where lower is better and rows where higher is better have no common mean. There is none
    where fewer than two commands or points were measured.

    Results of the same run are correlated, so their half-widths (in logarithms) are added, an upper
    bound. Different commands or points are independent, so the squares of their half-widths are
    added. Each half-width uses the t quantile of its own degrees of freedom, which is at least the
    quantile for the mean. So the interval is conservative.

    :param rows: of one side
    """
    for better in DIRECTIONS:
        geomean = _geomean_of(better, [row for row in rows if row.better == better])
        if geomean is not None:
            yield geomean


def _geomean_of(better: Better, rows: Sequence[Row]) -> Geomean | None:
    halves: dict[tuple[str, str], float] = {}
    logs = []
    for row in rows:
        if row.verdict != "invalid" and row.ratio and row.ci_low and row.ci_high:
            key = (row.workload, row.point)
            halves[key] = halves.get(key, 0.0) + math.log(row.ci_high / row.ci_low) / 2.0
            logs.append(math.log(row.ratio))
    if len(halves) < FEWEST_MEASURED:
        return None
    mean, half = sum(logs) / len(logs), math.hypot(*halves.values()) / len(logs)
    return Geomean(
        better=better,
        count=len(logs),
        ratio=math.exp(mean),
        ci_low=math.exp(mean - half),
        ci_high=math.exp(mean + half),
    )
