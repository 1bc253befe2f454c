# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the tables that users of mmtests know: a column per kernel, changes in parentheses.

Statistics and signs are those of mmtests (bin/lib/MMTests/Stat.pm): the mean is harmonic if higher
is better and all values are positive, and a positive change is better. The stars differ: mmtests
compares the distance of the means with 1.96 standard deviations of both sides, so more runs do not
increase its power. Here, a star is a significant verdict of ``schedperf compare``.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean, harmonic_mean, median, stdev

from msgspec import Struct

from schedperf.model.base_new import BASE
from schedperf.model.comparison import Comparison
from schedperf.model.rows import Better, Row
from schedperf.model.sides import SideSummary
from schedperf.model.text import clean_beginnings
from schedperf.model.verdict import FEWEST_RUNS
from schedperf_reports.formats import Options, output_format
from schedperf_reports.formats._values import SideValues, group_sides
from schedperf_reports.text.report import describe_exit
from schedperf_reports.verdict.comparable import name_kernel
from schedperf_reports.words.clean import clean
from schedperf_reports.words.quantities import MISSING, Scale, scale_for
from schedperf_reports.words.rows import describe_directions, name_side

# Minimum widths of the names of statistics, of a value, and of " (  -1.23%)".
NAME_WIDTH = 10
LEAST_WIDTH = 12
CHANGE_WIDTH = 11
LONGEST_NAME = 80
LONGEST_TITLE = 300
# Significant digits of the smallest value of a table, and the maximum number of decimals.
DIGITS = 5
LEAST_DECIMALS = 2
MOST_DECIMALS = 4

LEGEND = """\
(positive): better than base; (negative): worse
*marked*: regression or improvement by schedperf compare, whose test differs
from that of mmtests"""


class Statistic(Struct, frozen=True, kw_only=True):
    """One statistic of the runs of a side.

    :param compute: function that returns it, in the unit of the values or in percent; it returns
        None for too few values, and for a percentage of 0
    :param better: direction of the change; None to use that of the metric
    :param is_percent: whether it is in percent, whatever the unit of the values
    :param is_judged: whether the verdict of the row is about this statistic
    """

    name: str
    compute: Callable[[Sequence[float]], float | None]
    better: Better | None = None
    is_percent: bool = False
    is_judged: bool = False


class Benchmark(Struct, frozen=True, kw_only=True):
    """One table: a metric of a workload, with a result per point.

    :param points: results by point and side
    """

    workload: str
    metric: str
    unit: str
    better: Better
    points: Mapping[str, Mapping[str, SideValues]]

    def results(self) -> Iterator[SideValues]:
        """Yield the results of all points and sides."""
        for sides in self.points.values():
            yield from sides.values()

    def rows(self) -> Sequence[Row]:
        """Return the comparisons of all points with base."""
        return [side.row for side in self.results() if side.row is not None]


class Cell(Struct, frozen=True, kw_only=True):
    """A value and its change from base in percent, positive if better; None if missing.

    :param is_marked: whether the change is significant and gets stars
    """

    value: str | None
    change: float | None = None
    is_marked: bool = False

    def draw(self, width: int) -> str:
        """Format the cell as mmtests does, with ``width`` columns for the value."""
        if self.value is None:
            return MISSING.rjust(width) + " " * CHANGE_WIDTH
        # Adding 0.0 removes the sign of -0.0.
        change = MISSING if self.change is None else f"{round(self.change, 2) + 0.0:.2f}"
        inside = f"*{change:>7}%*" if self.is_marked else f"({change:>7}%)"
        return f"{self.value:>{width}} {inside}"


@output_format("mmtests", drawings="never")
def mmtests(comparison: Comparison, _options: Options) -> str:
    """Return tables in the layout of mmtests: a column per kernel, positive changes are better."""
    return clean_beginnings("".join(f"{line.rstrip()}\n" for line in _lines(comparison)))


def _lines(comparison: Comparison) -> Iterator[str]:
    for benchmark in _benchmarks(comparison):
        yield from _draw(comparison, benchmark)
        yield ""
    if comparison.rows:
        yield LEGEND
    yield f"overall: {comparison.overall.verdict}{describe_exit(comparison)}"


def _benchmarks(comparison: Comparison) -> Iterator[Benchmark]:
    directions: dict[tuple[str, str, str], Better] = {}
    tables: dict[tuple[str, str, str], dict[str, Mapping[str, SideValues]]] = {}
    for (workload, point, metric, unit, better), sides in group_sides(comparison).items():
        directions.setdefault((workload, metric, unit), better)
        tables.setdefault((workload, metric, unit), {})[point] = sides
    for (workload, metric, unit), points in tables.items():
        yield Benchmark(
            workload=workload,
            metric=metric,
            unit=unit,
            better=directions[workload, metric, unit],
            points=points,
        )


def _draw(comparison: Comparison, benchmark: Benchmark) -> Iterator[str]:
    scale = scale_for(benchmark.unit, *_numbers(benchmark))
    unit = f"{scale.unit}, " if scale.unit else ""
    direction = describe_directions(benchmark.rows()) or f"{benchmark.better} is better"
    title = f"{benchmark.workload}: {benchmark.metric} ({unit}{direction})"
    yield clean(title, limit=LONGEST_TITLE)
    names = [clean(point or benchmark.metric, limit=LONGEST_NAME) for point in benchmark.points]
    rows = [
        (statistic.name, name, _cells(comparison, benchmark, statistic, sides, scale))
        for statistic in _statistics(benchmark)
        for name, sides in zip(names, benchmark.points.values(), strict=True)
    ]
    longest = max(len(cell.value or "") for *_, cells in rows for cell in cells)
    width = max(LEAST_WIDTH, longest + 1)
    name_width = max(map(len, names))
    for heads in zip(*map(_heads, comparison.sides), strict=True):
        if any(heads):
            shown = [clean(head, limit=width + CHANGE_WIDTH - 1) for head in heads]
            drawn = "".join(head.rjust(width + CHANGE_WIDTH) for head in shown)
            yield " " * (NAME_WIDTH + name_width) + drawn
    for statistic_name, name, cells in rows:
        if any(cell.value for cell in cells):
            drawn = "".join(cell.draw(width) for cell in cells)
            yield f"{statistic_name:<{NAME_WIDTH}}{name:<{name_width}}{drawn}"


def _cells(
    comparison: Comparison,
    benchmark: Benchmark,
    statistic: Statistic,
    sides: Mapping[str, SideValues],
    scale: Scale,
) -> Sequence[Cell]:
    digits = 2 if statistic.is_percent else _decimals(benchmark, scale)
    factor = 1.0 if statistic.is_percent else scale.factor
    # Without a direction, a change has the sign of the difference.
    is_lower = (statistic.better or benchmark.better) == "lower"
    values = {name: statistic.compute(side.numbers) for name, side in sides.items()}
    base = values.get(BASE)
    cells = []
    for side in comparison.sides:
        value = values.get(side.name)
        is_changed = side.name in sides and sides[side.name].is_changed
        cells.append(
            Cell(
                value=None if value is None else f"{value / factor:.{digits}f}",
                change=_change(base, value, is_lower=is_lower),
                is_marked=statistic.is_judged and is_changed,
            )
        )
    return cells


def _change(base: float | None, value: float | None, *, is_lower: bool) -> float | None:
    """Return the change from base in percent; None if a value is missing, or base is 0.

    :param is_lower: whether lower is better; the change is then positive if the value fell
    """
    if not base or value is None:
        return None
    change = 100.0 * (value - base) / abs(base)
    return -change if is_lower else change


def _statistics(benchmark: Benchmark) -> Sequence[Statistic]:
    if any(not side.values and side.mean is not None for side in benchmark.results()):
        return (Statistic(name="Mean", compute=_amean, is_judged=True),)
    if any(caveat.code == "maxima" for row in benchmark.rows() for caveat in row.caveats):
        return _MAXIMA
    is_harmonic = benchmark.better == "higher" and min(_numbers(benchmark), default=0.0) > 0.0
    return _HARMONIC if is_harmonic else _ARITHMETIC


def _numbers(benchmark: Benchmark) -> Sequence[float]:
    return [number for side in benchmark.results() for number in side.numbers]


def _decimals(benchmark: Benchmark, scale: Scale) -> int:
    smallest = min((abs(number) for number in _numbers(benchmark) if number), default=1.0)
    power = math.floor(math.log10(smallest / scale.factor))
    return max(LEAST_DECIMALS, min(MOST_DECIMALS, DIGITS - 1 - power))


def _heads(side: SideSummary) -> tuple[str, str]:
    return name_kernel(side) or "", name_side(side)


def _amean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _hmean(values: Sequence[float]) -> float | None:
    return harmonic_mean(values) if values else None


def _stdev(values: Sequence[float]) -> float | None:
    return stdev(values) if len(values) >= FEWEST_RUNS else None


def _harmonic_stdev(values: Sequence[float]) -> float | None:
    """Return the standard deviation of mmtests for harmonic means, by the delta method.

    >>> round(_harmonic_stdev([100.0, 110.0, 90.0]), 3)
    8.151

    :param values: positive; for fewer than ``FEWEST_RUNS``, the result is None
    """
    if len(values) < FEWEST_RUNS:
        return None
    mean = harmonic_mean(values)
    squares = sum((1.0 / value - 1.0 / mean) ** 2 for value in values)
    return math.sqrt(squares * mean**4 / len(values))


def _percent_of(
    spread: Callable[[Sequence[float]], float | None],
    mean: Callable[[Sequence[float]], float | None],
) -> Callable[[Sequence[float]], float | None]:
    def compute(values: Sequence[float]) -> float | None:
        deviation, centre = spread(values), mean(values)
        return 100.0 * deviation / centre if deviation is not None and centre else None

    return compute


def _make_statistics(
    name: str,
    mean: Callable[[Sequence[float]], float | None],
    spread: Callable[[Sequence[float]], float | None],
) -> Sequence[Statistic]:
    variation = _percent_of(spread, mean)
    return (
        Statistic(name="Min", compute=lambda values: min(values, default=None)),
        Statistic(name=name, compute=mean, is_judged=True),
        Statistic(name="Stddev", compute=spread, better="lower"),
        Statistic(name="CoeffVar", compute=variation, better="lower", is_percent=True),
        Statistic(name="Max", compute=lambda values: max(values, default=None)),
    )


# No mean is shown for maxima of runs.
_MAXIMA = (
    Statistic(name="Min", compute=lambda values: min(values, default=None)),
    Statistic(name="Median", compute=_median, is_judged=True),
    Statistic(name="Max", compute=lambda values: max(values, default=None)),
)
_ARITHMETIC = _make_statistics("Amean", _amean, _stdev)
_HARMONIC = _make_statistics("Hmean", _hmean, _harmonic_stdev)
