# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse cyclictest: the latency of timers, as a summary, histogram (``-h``) or JSON (``--json``).

>>> text = '''\\
... # /dev/cpu_dma_latency set to 0us
... T: 0 (23125) P:80 I:1000 C:   1000 Min:      2 Act:   68 Avg:    4 Max:      26
... T: 1 (23126) P:80 I:1500 C:    500 Min:      3 Act:   93 Avg:    7 Max:      75
... '''
>>> for item in parse_cyclictest(text.splitlines(), "stdout"):
...     print(item.metric.name, f"{item.value:g}", item.metric.unit, item.metric.family)
cyclictest latency max 7.5e-05 s primary

The values are those of all threads together: the maximum is the largest one, and percentiles are
those of the summed histograms. Averages are not read: a latency that is rarely long has the same
average. Without ``-q`` cyclictest prints the summary repeatedly; the last one is read.

A percentile above the largest bin is unknown. ``--json`` states the unit (``-N`` selects
nanoseconds), and so do the widths of the fields in a summary. The histogram of ``-N -h`` states
none: use ``--json``, or omit ``-N``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from schedperf.benchmarks import (
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
from schedperf.benchmarks._histograms import (
    measure_maximum,
    measure_percentiles,
    only_latencies,
    without_latencies,
)
from schedperf.benchmarks._json_text import Document, Path, Scalar, read_documents
from schedperf.model.comparison import Family
from schedperf.model.units import NANOSECOND_S

THREAD = re.compile(
    r"T: *(\d{1,6}) \( *\d{1,9}\) P: *\d{1,3} I: *\d{1,12} C: *(\d{1,18}) "
    r"Min: *\S+ Act:( *\S+) Avg:( *\S+) Max: *(\S+)\s*$",
    re.ASCII,
)
HISTOGRAM = "# Histogram"
ROW = re.compile(r"\d{6,9}[ \t]+\d{6,18}(?:[ \t]+\d{6,18})*\s*", re.ASCII)
SUMMARY = re.compile(
    r"# (Total|Min Latencies|Avg Latencies|Max Latencies|Histogram Overflows): *([\d ]*)$",
    re.ASCII,
)
JSON_NAME = re.compile(r'^\s*"cmdline:?"\s*:\s*"[^"\n]{0,200}cyclictest', re.MULTILINE)
CLAIMED = re.compile(
    r"^(?:T: *\d{1,6} \( *\d{1,9}\) P:|# (?:Max Latencies|Histogram)(?::|$))", re.MULTILINE
)

MOST_DIGITS = 18

# printf() pads "Act" to five characters in microseconds and to eight in nanoseconds, and "Avg" to
# five and eight.
NANOSECOND_WIDTH = 8

MAXIMUM = (
    "Maximum latency of a timer in a run, from its expiry until the thread runs, over all threads."
)
PERCENTILE = (
    "{percent}th percentile of the latency of a timer, from its expiry until the thread runs, over "
    "all threads."
)


class _Thread(Struct, frozen=True, kw_only=True):
    """What is printed about one thread."""

    cycles: int
    longest: str
    scale: float
    where: Where


@dataclass(kw_only=True, slots=True)
class _Histogram:
    """The histogram of one run: its rows by bin, and the columns of its summary."""

    where: Where
    rows: dict[int, Where] = field(default_factory=dict)
    summary: dict[str, tuple[list[str], Where]] = field(default_factory=dict)


def _claims(text: str) -> bool:
    return CLAIMED.search(text) is not None or JSON_NAME.search(text) is not None


def read_latencies(lines: Iterable[str], label: str) -> Iterator[Latencies]:
    """Read the latencies of each run."""
    return only_latencies(_read(lines, label))


@parser("cyclictest", class_="micro", claims=_claims, latencies=read_latencies)
def parse_cyclictest(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    """Parse the summary, histogram or JSON of each run."""
    return without_latencies(_read(lines, label))


def _read(lines: Iterable[str], label: str) -> Iterator[Item | Latencies]:
    lines = list(lines)
    yield from _read_text(lines, label)
    if any(JSON_NAME.match(line) for line in lines):
        for document in read_documents(lines, label, keep=_is_needed):
            yield from _read_json(document)


def _read_text(lines: Iterable[str], label: str) -> Iterator[Item | Latencies]:
    threads: dict[int, _Thread] = {}
    histogram: _Histogram | None = None
    for line_number, line in enumerate(lines, start=1):
        where = (label, line_number, line)
        if (match := THREAD.match(line)) is not None:
            thread = _thread(match, where)
            before = threads.get(int(match[1]))
            if before is not None and thread.cycles < before.cycles:
                yield from _read_threads(threads)
                threads = {}
            threads[int(match[1])] = thread
        elif line.rstrip() == HISTOGRAM:
            # It has the numbers of the summary before it.
            threads = {}
            histogram = _Histogram(where=where)
        elif histogram is not None and (summary := SUMMARY.match(line)) is not None:
            histogram.summary[summary[1]] = (summary[2].split(), where)
            if summary[1] == "Histogram Overflows":
                yield from _read_histogram(histogram)
                histogram = None
        elif histogram is not None and ROW.fullmatch(line):
            histogram.rows[int(line.split(maxsplit=1)[0])] = where
    if histogram is not None:
        yield _bad(histogram.where, "the histogram ends early; record the whole output")
    yield from _read_threads(threads)


def _thread(match: re.Match[str], where: Where) -> _Thread:
    is_ns = min(len(match[3]), len(match[4])) >= NANOSECOND_WIDTH
    return _Thread(
        cycles=int(match[2]),
        longest=match[5],
        scale=NANOSECOND_S if is_ns else MICROSECOND_S,
        where=where,
    )


def _read_threads(threads: Mapping[int, _Thread]) -> Iterator[Item | Latencies]:
    if not threads:
        return
    ran = [thread for thread in threads.values() if thread.cycles > 0]
    if not ran:
        where = next(iter(threads.values())).where
        yield _bad(where, "no timer expired; run cyclictest for longer")
        return
    maxima = (
        measure(_metric("max"), thread.longest, where=thread.where, scale=thread.scale)
        for thread in ran
    )
    samples = sum(thread.cycles for thread in ran)
    yield from measure_maximum(maxima, samples=samples, unit_s=ran[0].scale)


def _read_histogram(histogram: _Histogram) -> Iterator[Item | Latencies]:
    averages, _ = histogram.summary.get("Avg Latencies", ([], histogram.where))
    maxima, max_line = histogram.summary.get("Max Latencies", ([], histogram.where))
    # With -H the last column of all lines but the averages is the sum or maximum of the threads.
    threads = len(averages)
    counted = _columns(histogram, "Total", threads)
    above = _columns(histogram, "Histogram Overflows", threads)
    if counted is None or above is None or not 0 < threads <= len(maxima):
        yield _bad(histogram.where, "the histogram is damaged; record again")
        return
    counts = {
        index: sum(map(int, where[2].split()[1 : threads + 1]))
        for index, where in histogram.rows.items()
    }
    if sum(counts.values()) != sum(counted):
        yield _bad(
            histogram.where,
            f"the counts of the histogram add up to {sum(counts.values())}, but its total is "
            f"{sum(counted)}; record again",
        )
        return
    yield from measure_percentiles(
        _percentile,
        counts,
        histogram.rows,
        above=sum(above),
        scale=MICROSECOND_S,
        resolution=MICROSECOND_S,
    )
    yield from measure_maximum(
        (
            measure(_metric("max"), text, where=max_line, scale=MICROSECOND_S)
            for text in maxima[:threads]
        ),
        samples=sum(counted) + sum(above),
        unit_s=MICROSECOND_S,
        counts=counts,
        width=1,
        above=sum(above),
    )


def _columns(histogram: _Histogram, name: str, threads: int) -> list[int] | None:
    """Return the counts of the threads in a line of the summary; None if it is damaged."""
    texts, _ = histogram.summary.get(name, ([], histogram.where))
    if len(texts) < threads or any(len(text) > MOST_DIGITS for text in texts):
        return None
    return [int(text) for text in texts[:threads]]


def _is_needed(path: Path) -> bool:
    return path[0] in {"thread", "resolution_in_ns"}


def _read_json(document: Document) -> Iterator[Item | Latencies]:
    if document.problem is not None:
        yield document.problem
        return
    values = document.values
    is_ns = values.get(("resolution_in_ns",), Scalar("0", document.where)).text == "1"
    scale = NANOSECOND_S if is_ns else MICROSECOND_S
    threads = dict.fromkeys(path[1] for path in values if path[:1] == ("thread",) and path[2:])
    fields = [[values.get(("thread", name, key)) for name in threads] for key in _KEYS]
    maxima, cycles = ([item for item in column if item is not None] for column in fields)
    weights = [_count(item.text) for item in cycles]
    if not threads or not len(maxima) == len(weights) == len(threads):
        yield _bad(document.where, "no cycles or max of a thread; record again")
        return
    counts: dict[int, int] = {}
    lines: dict[int, Where] = {}
    for path, item in values.items():
        if path[2:3] == ("histogram",) and path[3:]:
            index = _count(path[3])
            counts[index] = counts.get(index, 0) + _count(item.text)
            lines[index] = item.where
    above = max(0, sum(weights) - sum(counts.values()))
    if counts:
        yield from measure_percentiles(
            _percentile, counts, lines, above=above, scale=scale, resolution=scale
        )
    yield from measure_maximum(
        (measure(_metric("max"), item.text, where=item.where, scale=scale) for item in maxima),
        samples=sum(weights),
        unit_s=scale,
        counts=counts or None,
        width=1,
        above=above if counts else 0,
    )


_KEYS = ("max", "cycles")


def _count(text: str) -> int:
    """Return a printed count; 0 if it is not one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else 0


def _metric(statistic: str) -> Metric:
    family: Family = "primary" if statistic == "max" else "secondary"
    percent = statistic.removeprefix("p")
    return Metric(
        name=f"cyclictest latency {statistic}",
        unit="s",
        better="lower",
        family=family,
        definition=MAXIMUM if statistic == "max" else PERCENTILE.format(percent=percent),
    )


def _percentile(percent: str) -> Metric:
    return _metric(f"p{percent}")


def _bad(where: Where, problem: str) -> BadLine:
    return BadLine(problem=f"{where[0]}:{where[1]}: cyclictest: {problem}")
