"""The geometric mean of many results' changes, with an interval that is never too narrow."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from schedperf.model.comparison import Row

# Commands and points of which a mean is told.
FEWEST_MEASURED = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Geomean:
    """A mean of ratios.

    :param count: of the results in it
    :param ci_low: lower end of an interval that holds the mean in at least 95 % of cases
    """

    count: int
    ratio: float
    ci_low: float
    ci_high: float


def geomean_of(rows: Sequence[Row]) -> Geomean | None:
    """Return the geometric mean of the ratios of rows with an interval.

    None where fewer than two commands or points were measured: percentiles of one distribution have
    no mean that says anything.

    Results of one run vary together, so their half-widths (in logarithms) add up, which is the most
    that they can make; those of different commands or points were measured apart, so the squares of
    theirs do. Each half-width has the quantile of its own degrees of freedom, which is at least
    that of the mean's: the interval is wider than it need be, never narrower.
    """
    known = [row for row in rows if is_counted(row)]
    if len({(row.workload, row.point) for row in known}) < FEWEST_MEASURED:
        return None
    halves: dict[tuple[str, str], float] = {}
    total = 0.0
    for row in known:
        assert row.ratio is not None
        assert row.ci_low is not None
        assert row.ci_high is not None
        key = (row.workload, row.point)
        halves[key] = halves.get(key, 0.0) + math.log(row.ci_high / row.ci_low) / 2.0
        total += math.log(row.ratio)
    half = math.hypot(*halves.values()) / len(known)
    mean = total / len(known)
    return Geomean(
        count=len(known),
        ratio=math.exp(mean),
        ci_low=math.exp(mean - half),
        ci_high=math.exp(mean + half),
    )


def is_counted(row: Row) -> bool:
    """Say whether a row is comparable and has an interval of its ratio."""
    has_interval = bool(row.ratio and row.ci_low and row.ci_high)
    return has_interval and row.verdict != "invalid"
