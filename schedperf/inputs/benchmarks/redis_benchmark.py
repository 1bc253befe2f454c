# SPDX-License-Identifier: GPL-2.0-or-later
r"""Parse redis-benchmark: the text, ``-q`` and ``--csv``.

>>> text = '''\
... ====== SET ======
...   100000 requests completed in 0.87 seconds
...   50 parallel clients
...
... Summary:
...   throughput summary: 114942.53 requests per second
...   latency summary (msec):
...           avg       min       p50       p95       p99       max
...         0.306     0.200     0.307     0.407     0.839     1.743
... GET: 117647.06 requests per second, p50=0.303 msec
... '''
>>> for item in parse_redis_benchmark(text.splitlines(), "stdout"):
...     print(item.metric.name, f"{item.value:g}", item.metric.unit, item.metric.family)
redis-benchmark SET requests 114943 1/s primary
redis-benchmark SET latency average 0.000306 s secondary
redis-benchmark SET latency p50 0.000307 s secondary
redis-benchmark SET latency p95 0.000407 s secondary
redis-benchmark SET latency p99 0.000839 s secondary
redis-benchmark SET latency max 0.001743 s informational
redis-benchmark GET requests 117647 1/s primary
redis-benchmark GET latency p50 0.000303 s secondary

Versions before 6.2 print latencies as shares of the requests up to each millisecond; for these
versions only the rates are read. The CSV of versions before 6.2, which has no header, is not read.
"""

import csv
import re
from collections.abc import Iterable, Iterator

from schedperf.inputs.benchmarks import (
    MILLISECOND_S,
    BadLine,
    Item,
    Measurement,
    Metric,
    Where,
    measure,
    parser,
)
from schedperf.model.text import cut

TITLE = re.compile(r"====== (.{1,4000}) ======\s*$")
# Carriage returns of the progress output count as line ends.
QUIET = re.compile(r" *(\S.{0,4000}?): (\S{1,60}) requests per second(?:, p50=(\S+) msec)?\s*$")
THROUGHPUT = re.compile(r"  throughput summary: (\S+) requests per second\s*$")
OLD_THROUGHPUT = re.compile(r"(\d\S*) requests per second\s*$", re.ASCII)
NAMES = re.compile(r" +avg +min +p50 +p95 +p99 +max\s*$")
CSV_HEADER = '"test","rps","avg_latency_ms",'
# Other programs print rates too. redis-benchmark prints the name of a command before them, or a
# median after them.
CLAIMED = re.compile(
    rf"^(?:{CSV_HEADER}|  throughput summary: )"
    r"|: \d{1,18}\.\d\d requests per second, p50="
    r"|^[\r ]*[A-Z][A-Z_0-9]{2,30}(?: \([^)\n]{1,60}\))?: \d{1,18}\.\d\d requests per second\s*$"
    r"|^====== [A-Z].{0,4000} ======\s*\n  \d{1,18} requests completed in ",
    re.MULTILINE | re.ASCII,
)
BEGINS = re.compile(rf"====== |{CSV_HEADER}|{QUIET.pattern}")
# Names of the statistics by the columns of the table and of the CSV; None is not read.
STATISTICS = {
    "avg": "average", "min": None, "p50": "p50", "p95": "p95", "p99": "p99", "max": "max",
}  # fmt: skip
# Longest name, since every row of the comparison contains it.
LONGEST_TEST_NAME = 40


@parser(
    "redis-benchmark",
    class_="application",
    begins=BEGINS,
    claims=lambda text: CLAIMED.search(text) is not None,
)
def parse_redis_benchmark(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    """Parse the rate and the latencies of each test."""
    test = ""
    is_csv = is_table = False
    for line_number, line in enumerate(lines, start=1):
        where = (label, line_number, line)
        if line.startswith(CSV_HEADER):
            is_csv = True
        elif is_csv and line.startswith('"'):
            yield from _read_csv(where)
        elif (match := TITLE.match(line)) is not None:
            test, is_table = match[1], False
        elif test and (match := THROUGHPUT.match(line) or OLD_THROUGHPUT.match(line)) is not None:
            yield measure(_rate(test), match[1], where=where)
        elif test and NAMES.match(line):
            is_table = True
        elif test and is_table:
            is_table = False
            yield from _read_latencies(test, line.split(), where)
        elif (match := QUIET.match(line)) is not None:
            yield measure(_rate(match[1]), match[2], where=where)
            if match[3] is not None:
                yield _latency(match[1], "p50", match[3], where)


def _read_csv(where: Where) -> Iterator[Item]:
    try:
        test, rate, *latencies = next(csv.reader([where[2]], strict=True))
    except (csv.Error, ValueError):
        yield BadLine(problem=f"{where[0]}:{where[1]}: invalid row of CSV; record again")
        return
    yield measure(_rate(test), rate, where=where)
    yield from _read_latencies(test, latencies, where)


def _read_latencies(test: str, texts: list[str], where: Where) -> Iterator[Item]:
    if len(texts) != len(STATISTICS):
        yield BadLine(
            problem=f"{where[0]}:{where[1]}: {len(texts)} latencies (expected {len(STATISTICS)}: "
            f"{', '.join(STATISTICS)}); record again"
        )
        return
    for statistic, text in zip(STATISTICS.values(), texts, strict=True):
        if statistic is not None:
            yield _latency(test, statistic, text, where)


def _rate(test: str) -> Metric:
    return Metric(
        name=f"redis-benchmark {_short(test)} requests",
        unit="1/s",
        better="higher",
        family="primary",
        definition="Requests of all clients divided by the run time of the test.",
    )


def _latency(test: str, statistic: str, text: str, where: Where) -> Item:
    percentile = f"{statistic.removeprefix('p')}th percentile"
    start = {"average": "Mean", "max": "Maximum"}.get(statistic, percentile)
    metric = Metric(
        name=f"redis-benchmark {_short(test)} latency {statistic}",
        unit="s",
        better="lower",
        family="informational" if statistic == "max" else "secondary",
        definition=f"{start} of the time from sending a request to its reply.",
    )
    return measure(metric, text, where=where, scale=MILLISECOND_S)


def _short(test: str) -> str:
    return cut(test.strip(), LONGEST_TEST_NAME)
