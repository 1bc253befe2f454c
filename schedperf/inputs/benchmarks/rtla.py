# SPDX-License-Identifier: GPL-2.0-or-later
r"""Parse the histograms of rtla: ``rtla timerlat hist`` and ``rtla osnoise hist``.

>>> text = '''\
... # RTLA timerlat histogram
... # Time unit is microseconds (us)
... # Duration:   0 00:00:01
... Index   IRQ-000   Thr-000   IRQ-001   Thr-001
... 0           990         0       600         0
... 1             9       500       399       700
... 9             1       499         1       300
... over:         0         1         0         0
... count:     1000      1000      1000      1000
... min:          0         1         0         1
... avg:          0         5         0         3
... max:          9       300         9         9
... '''
>>> for item in parse_rtla(text.splitlines(), "stdout"):
...     print(item.metric.name, f"{item.value:g}", item.metric.unit, item.metric.family)
rtla timerlat IRQ latency p50 0 s secondary
rtla timerlat IRQ latency p90 1e-06 s secondary
rtla timerlat IRQ latency p99 1e-06 s secondary
rtla timerlat IRQ latency p99.9 1e-06 s secondary
rtla timerlat IRQ latency max 9e-06 s secondary
rtla timerlat thread latency p50 1e-06 s secondary
rtla timerlat thread latency p90 9e-06 s secondary
rtla timerlat thread latency p99 9e-06 s secondary
rtla timerlat thread latency p99.9 9e-06 s secondary
rtla timerlat thread latency max 0.0003 s primary

The values are those of all CPUs together: the maximum is the largest one, and percentiles are those
of the summed histograms. A percentile above the largest bin is unknown. Averages are not read, and
neither is the summary of all CPUs, which newer versions print. Output without the header
(``--no-header``) is not recognized; output without the index (``--no-index``) is an error.
"""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from schedperf.inputs.benchmarks import (
    MICROSECOND_S,
    BadLine,
    Item,
    Latencies,
    Measurement,
    Metric,
    Where,
    measure,
    parser,
)
from schedperf.inputs.benchmarks._histograms import (
    measure_maximum,
    measure_percentiles,
    only_latencies,
    without_latencies,
)
from schedperf.model.units import NANOSECOND_S

TITLE = re.compile(r"^# RTLA (timerlat|osnoise) histogram\s*$", re.MULTILINE)
UNIT = re.compile(r"# Time unit is \w{1,20} \((us|ns)\)")
COLUMNS = re.compile(r"Index((?: +(?:IRQ|Thr|Usr|CPU)-\d{1,6})+)\s*$", re.ASCII)
ROW = re.compile(r"\d{1,9}(?: +\d{1,18})+\s*", re.ASCII)
SUMMARY = re.compile(r"(over|count|min|avg|max):([\d. -]*)$", re.ASCII)
LAST = "max"
MOST_DIGITS = 18

SCALES = {"us": MICROSECOND_S, "ns": NANOSECOND_S}
# By column prefix: the name of the metric.
CONTEXTS = {
    "IRQ": ("IRQ latency", "the time from the expiry of a timer until its interrupt handler runs"),
    "Thr": ("thread latency", "the time from the expiry of a timer until the thread runs"),
    "Usr": (
        "user latency",
        "the time from the expiry of a timer until the thread runs in user space again",
    ),
    "CPU": ("noise", "the duration of an interruption of the measuring thread"),
}
PRIMARY = frozenset({"timerlat thread latency max", "osnoise noise max"})


@dataclass(kw_only=True, slots=True)
class Histogram:
    """One printed histogram.

    :ivar tool: "timerlat" or "osnoise"
    :ivar where: its first line
    :ivar scale: unit of the bins and of the summary, in s
    :ivar columns: context (see :func:`context_of`) and CPU of each column: "Thr-003"
    :ivar rows: lines of the counts, by bin
    :ivar summary: values and line by name: "over", "count", "min", "avg", "max"
    """

    tool: str
    where: Where
    scale: float = MICROSECOND_S
    columns: list[str] = field(default_factory=list)
    rows: dict[int, Where] = field(default_factory=dict)
    summary: dict[str, tuple[list[str], Where]] = field(default_factory=dict)


def read_latencies(lines: Iterable[str], label: str) -> Iterator[Latencies]:
    """Read the latencies of each histogram, for each context (see :func:`context_of`)."""
    return only_latencies(_read(lines, label))


@parser(
    "rtla",
    class_="micro",
    begins=TITLE,
    claims=lambda text: TITLE.search(text) is not None,
    latencies=read_latencies,
)
def parse_rtla(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    """Parse all histograms in a text."""
    return without_latencies(_read(lines, label))


def _read(lines: Iterable[str], label: str) -> Iterator[Item | Latencies]:
    for item in read_histograms(lines, label):
        if isinstance(item, BadLine):
            yield item
        else:
            for context in dict.fromkeys(map(context_of, item.columns)):
                yield from _read_context(item, context)


def read_histograms(lines: Iterable[str], label: str) -> Iterator[Histogram | BadLine]:
    """Yield each histogram that is complete and consistent, and a ``BadLine`` for others."""
    for histogram in _split(lines, label):
        problem = _find_problem(histogram)
        yield histogram if problem is None else _bad(histogram.where, problem)


def context_of(column: str) -> str:
    """Return what a column measures: "IRQ", "Thr", "Usr", or "CPU" (osnoise)."""
    return column.partition("-")[0]


def _split(lines: Iterable[str], label: str) -> Iterator[Histogram]:
    histogram: Histogram | None = None
    for line_number, line in enumerate(lines, start=1):
        where = (label, line_number, line)
        if (title := TITLE.match(line)) is not None:
            if histogram is not None:
                yield histogram
            histogram = Histogram(tool=title[1], where=where)
        elif histogram is not None:
            _add_line(histogram, where)
            if LAST in histogram.summary:
                yield histogram
                histogram = None
    if histogram is not None:
        yield histogram


def _add_line(histogram: Histogram, where: Where) -> None:
    line = where[2]
    if (unit := UNIT.match(line)) is not None:
        histogram.scale = SCALES[unit[1]]
    elif (columns := COLUMNS.match(line)) is not None:
        histogram.columns = columns[1].split()
    elif (summary := SUMMARY.match(line)) is not None:
        histogram.summary[summary[1]] = (summary[2].split(), where)
    elif ROW.fullmatch(line):
        histogram.rows[int(line.split(maxsplit=1)[0])] = where


def _find_problem(histogram: Histogram) -> str | None:
    if LAST not in histogram.summary:
        return "the histogram ends early; record the whole output"
    if not histogram.columns:
        # Without samples, rtla prints a header without CPUs, and zeros.
        return "no samples; record for longer"
    rows = [where[2].split()[1:] for where in histogram.rows.values()]
    texts = {name: values for name, (values, _) in histogram.summary.items()}
    if any(len(values) != len(histogram.columns) for values in (*rows, *texts.values())):
        return "a line of the histogram is damaged; record again"
    if not {"over", "count", LAST} <= texts.keys():
        return "the summary of the histogram is damaged; record again"
    for context in dict.fromkeys(map(context_of, histogram.columns)):
        columns = columns_of(histogram, context)
        counts = [int(values[i]) for values in rows for i in columns]
        total = sum(counts) + sum(to_count(texts["over"][i]) for i in columns)
        samples = sum(to_count(texts["count"][i]) for i in columns)
        if total != samples:
            return (
                f"the counts of the histogram add up to {total}, but its count is {samples}; "
                "record again"
            )
    return None


def columns_of(histogram: Histogram, context: str) -> list[int]:
    """Return the indices in ``columns`` of the columns of one context."""
    return [i for i, name in enumerate(histogram.columns) if context_of(name) == context]


def _read_context(histogram: Histogram, context: str) -> Iterator[Item | Latencies]:
    columns = columns_of(histogram, context)
    rows = {index: where[2].split()[1:] for index, where in histogram.rows.items()}
    counts = {index: sum(int(values[i]) for i in columns) for index, values in rows.items()}

    def printed(name: str) -> list[str]:
        values, _ = histogram.summary[name]
        return [values[i] for i in columns]

    above, samples = sum(map(to_count, printed("over"))), list(map(to_count, printed("count")))
    # A CPU without samples prints "-" for its maximum.
    used = [i for i, number in enumerate(samples) if number > 0]
    name, definition = f"{histogram.tool} {CONTEXTS[context][0]}", CONTEXTS[context][1]

    def items(key: str, metric: Metric) -> list[Item]:
        where, texts = histogram.summary[key][1], printed(key)
        return [measure(metric, texts[i], where=where, scale=histogram.scale) for i in used]

    # Empty bins are not printed, so the width of a bin is known only if it is 1.
    yield from measure_percentiles(
        lambda percent: _metric(
            f"{name} p{percent}", f"{percent}th percentile of {definition}, over all CPUs."
        ),
        counts,
        histogram.rows,
        above=above,
        scale=histogram.scale,
        resolution=histogram.scale if math.gcd(*counts) == 1 else None,
    )
    yield from measure_maximum(
        items(LAST, _metric(f"{name} max", f"Maximum of {definition}, in a run.")),
        samples=sum(samples),
        unit_s=histogram.scale,
        counts=counts,
        above=above,
    )


def to_count(text: str) -> int:
    """Return a printed count; 0 if the text is not a count."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else 0


def _metric(name: str, definition: str) -> Metric:
    return Metric(
        name=f"rtla {name}",
        unit="s",
        better="lower",
        family="primary" if name in PRIMARY else "secondary",
        definition=definition,
    )


def _bad(where: Where, problem: str) -> BadLine:
    return BadLine(problem=f"{where[0]}:{where[1]}: rtla: {problem}")
