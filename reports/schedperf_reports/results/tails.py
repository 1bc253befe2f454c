# SPDX-License-Identifier: GPL-2.0-or-later
"""Find the results that are latencies, and draw the tail of each distribution.

::

    >>> tail = read_tail("schbench wakeup latency p99.9", "s")
    >>> tail.of, tail.label, tail.quantile
    ('schbench wakeup latency', 'p99.9', 0.999)
    >>> read_tail("hackbench time", "s") is None
    True
"""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from schedperf.model.rows import Row
from schedperf.model.units import Scale, scale_for
from schedperf_reports.graphics.axes import Axis, log_axis
from schedperf_reports.graphics.chart import Chart, Panel, Series, ends_of
from schedperf_reports.graphics.ratio_axis import value_marks
from schedperf_reports.results.mean_lines import draw_means, mean_of
from schedperf_reports.words.remarks import Line

# One rule for all benchmarks. Parsers name what one request waited or took with the word "latency",
# and the statistic over many requests at the end: "p99", "max", "average". A user's rule for
# another tool usually keeps the tool's names, which are also "p99" or "max latency".
LATENCY = re.compile(r"\blatenc(?:y|ies)\b", re.IGNORECASE)
PERCENTILE = re.compile(r"^(?P<of>.*\S)[ _/-]+p(?P<percent>\d{1,2}(?:\.\d{1,6})?)$", re.ASCII)
OTHERS: Mapping[str, float] = {"min": -1.0, "average": 2.0, "avg": 2.0, "stddev": 3.0, "max": 1.0}
OTHER = re.compile(rf"^(?P<of>.*\S)[ _/-]+(?P<label>{'|'.join(OTHERS)})$", re.IGNORECASE)

HEIGHT = 240  # Height of the panel in pixels.

# Percentiles beyond this are drawn at the edge.
LARGEST_RARITY = 1e9

# Minimum number of points for a line.
FEWEST_PERCENTILES = 2


class Tail(Struct, frozen=True, kw_only=True):
    """A parsed name of a latency.

    :param of: name of the distribution
    :param label: "p99", "max"; "" for a single number
    :param quantile: quantile, at least 0 and less than 1; None if it is not a percentile
    :param rank: sort key within the distribution: "min", percentiles, "max", then the others
    """

    of: str
    label: str
    quantile: float | None
    rank: float


def read_tail(metric: str, unit: str) -> Tail | None:
    """Parse a metric's name as a statistic of latencies; return None if it is not one.

    It is one if the unit is "s", and the name ends with a percentile or contains "latency".
    """
    if unit != "s":
        return None
    parts = PERCENTILE.match(metric)
    if parts is not None:
        # Avoids 0.9990000000000001.
        quantile = round(float(parts["percent"]) / 100.0, 10)
        label = f"p{parts['percent']}"
        return Tail(of=parts["of"], label=label, quantile=quantile, rank=quantile)
    if LATENCY.search(metric) is None:
        return None
    parts = OTHER.match(metric)
    if parts is None:
        return Tail(of=metric, label="", quantile=None, rank=0.0)
    label = parts["label"].lower()
    return Tail(of=parts["of"], label=label, quantile=None, rank=OTHERS[label])


class Distribution(Struct, frozen=True, kw_only=True):
    """The results of one distribution, from its low end to its high end.

    :param name: name with the point: "schbench wakeup latency at threads=8"
    :param members: for each result, its parsed name, and its line: (name in the report, row)
    """

    name: str
    members: tuple[tuple[Tail, Line], ...]

    @property
    def percentiles(self) -> list[tuple[float, Row]]:
        """Return quantile and row of each percentile with a value other than 0 on both sides."""
        return [
            (tail.quantile, row)
            for tail, (_, row) in self.members
            if tail.quantile is not None and row.base and row.new
        ]


def find_distributions(lines: Sequence[Line]) -> tuple[Distribution, ...]:
    """Return the latency distributions among the results of one side, in their order.

    :param lines: the row's name and the row
    """
    grouped: dict[tuple[str, str, str], list[tuple[Tail, Line]]] = {}
    for name, row in lines:
        tail = read_tail(row.metric, row.unit)
        if tail is not None:
            grouped.setdefault((row.workload, row.point, tail.of), []).append((tail, (name, row)))
    titles = [f"{of} at {point}" if point else of for _, point, of in grouped]
    return tuple(
        Distribution(
            name=title if titles.count(title) == 1 else f"{title} ({workload})",
            members=tuple(sorted(members, key=lambda member: member[0].rank)),
        )
        for title, ((workload, _, _), members) in zip(titles, grouped.items(), strict=True)
    )


def draw_tail(distribution: Distribution, caption: str) -> Chart | None:
    """Draw the percentiles of both sides over the share of requests that took longer.

    Return None for too few percentiles. Both axes are logarithmic, because a tail concerns a few
    requests in a thousand, which a linear axis cannot show.
    """
    points = distribution.percentiles
    if len(points) < FEWEST_PERCENTILES:
        return None
    scale = scale_for("s", *(value for _, row in points for value in (row.base, row.new) if value))
    sides = ("base", points[0][1].side)
    series = tuple(_draw_side(points, name, scale) for name in sides)
    ends = [end for end in ends_of(series) if end > 0.0]
    panel = Panel(
        height=HEIGHT,
        x=_percentile_axis([quantile for quantile, _ in points]),
        y=log_axis(ends, value_marks(ends), scale.unit),
        series=series,
    )
    return Chart(caption=caption, sides=sides, panels=(panel,))


def _percentile_axis(quantiles: Sequence[float]) -> Axis:
    # 1 in 2, 1 in 10, 1 in 100: equal distances on the logarithmic axis.
    ticks = [(_rarity(quantile), f"p{100.0 * quantile:g}") for quantile in quantiles]
    return log_axis([rarity for rarity, _ in ticks], ticks, "percentile of requests")


def _rarity(quantile: float) -> float:
    return 1.0 / (1.0 - quantile) if quantile < 1.0 else LARGEST_RARITY


def _draw_side(points: Sequence[tuple[float, Row]], name: str, scale: Scale) -> Series:
    means = (
        (_rarity(q), f"p{100.0 * q:g}", mean_of(row, is_base=name == "base")) for q, row in points
    )
    return draw_means(name, means, scale)
