# SPDX-License-Identifier: GPL-2.0-or-later
r"""Parse wrk and wrk2: request rate and latency of an HTTP server.

>>> text = '''\
... Running 1s test @ http://127.0.0.1:8080/
...   1 threads and 2 connections
...   Thread Stats   Avg      Stdev     Max   +/- Stdev
...     Latency   635.91us    0.89ms  12.92ms   93.69%
...     Req/Sec     3.02k     8.07k    6.20k    86.54%
...   Latency Distribution
...      50%  250.00us
...      99%    5.80ms
...   3020 requests in 1.00s, 0.88MB read
...   Socket errors: connect 0, read 0, write 0, timeout 2
... Requests/sec:   3019.53
... Transfer/sec:      0.88MB
... '''
>>> for item in parse_wrk(text.splitlines(), "stdout"):
...     print(item.metric.name, f"{item.value:g}", item.metric.unit, item.metric.family)
wrk latency average 0.00063591 s secondary
wrk latency max 0.01292 s informational
wrk latency p50 0.00025 s secondary
wrk latency p99 0.0058 s secondary
wrk socket errors 2 count informational
wrk requests 3019.53 1/s primary

wrk2 prints the same report. Its user sets the rate (``-R``), so its p99 is primary and its rate is
informational. Its latencies are measured from the time at which a request was due. With ``-U`` it
also prints those from the time at which the request was sent, which are not read. The bytes
transferred are not read, because they follow from the requests.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from schedperf.inputs.benchmarks import (
    MICROSECOND_S,
    MILLISECOND_S,
    BadLine,
    Item,
    Measurement,
    Metric,
    Where,
    measure,
    parser,
)
from schedperf.model.rows import Better, Family

# Text copied from a mail is indented.
BEGIN = re.compile(r"^[ \t]{0,40}Running \S+ test @ \S", re.MULTILINE | re.ASCII)
LATENCY = re.compile(r"\s+Latency +(\S+) +\S+ +(\S+) +\S+%\s*$", re.ASCII)
PERCENTILE = re.compile(r"\s*(\d{1,3}(?:\.\d{1,5})?)% +(\S+)\s*$", re.ASCII)
ERRORS = re.compile(r"\s+Socket errors: connect (\S+), read (\S+), write (\S+), timeout (\S+)\s*$")
STATUS = re.compile(r"\s+Non-2xx or 3xx responses: (\S+)\s*$")
RATE = re.compile(r"\s*Requests/sec: +(\S+)\s*$")
WRK2 = "Latency Distribution (HdrHistogram"
SCALES = {"us": MICROSECOND_S, "ms": MILLISECOND_S, "s": 1.0, "m": 60.0, "h": 3600.0}
TIME = re.compile(r"([^a-z]*)(us|ms|s|m|h)", re.ASCII)

DEFINITIONS = {
    "requests": "Responses received in all connections, divided by the run time.",
    "latency average": "Mean time from sending a request to the end of its response.",
    "latency max": "Maximum time from sending a request to the end of its response.",
    "socket errors": "Number of connections, reads and writes that failed or timed out.",
    "error responses": "Number of responses whose HTTP status is neither 2xx nor 3xx.",
}


@dataclass(kw_only=True, slots=True)
class _Report:
    """The lines of one report, in their order; a report without a rate is incomplete."""

    is_wrk2: bool = False
    lines: list[Where] = field(default_factory=list)


@parser(
    "wrk", class_="application", begins=BEGIN, claims=lambda text: BEGIN.search(text) is not None
)
def parse_wrk(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    """Parse the report of each run."""
    report: _Report | None = None
    for line_number, line in enumerate(lines, start=1):
        where = (label, line_number, line)
        if BEGIN.match(line):
            report = _Report()
        elif report is not None:
            report.is_wrk2 = report.is_wrk2 or WRK2 in line
            report.lines.append(where)
            if RATE.match(line):
                yield from _read_report(report)
                report = None


def _read_report(report: _Report) -> Iterator[Item]:
    # With -U, wrk2 prints a second distribution of latencies.
    names: set[str] = set()
    for item in _read_lines(report):
        if isinstance(item, BadLine):
            yield item
        elif item.metric.name not in names:
            names.add(item.metric.name)
            yield item


def _read_lines(report: _Report) -> Iterator[Item]:
    for where in report.lines:
        line = where[2]
        if (match := LATENCY.match(line)) is not None:
            yield _time("latency average", match[1], where, is_wrk2=report.is_wrk2)
            yield _time("latency max", match[2], where, is_wrk2=report.is_wrk2)
        elif (match := PERCENTILE.match(line)) is not None:
            name = f"latency p{float(match[1]):g}"
            yield _time(name, match[2], where, is_wrk2=report.is_wrk2)
        elif (match := ERRORS.match(line)) is not None:
            yield _sum(_metric("socket errors"), match.groups(), where)
        elif (match := STATUS.match(line)) is not None:
            yield measure(_metric("error responses"), match[1], where=where)
        elif (match := RATE.match(line)) is not None:
            yield measure(_metric("requests", is_wrk2=report.is_wrk2), match[1], where=where)


def _time(name: str, text: str, where: Where, *, is_wrk2: bool) -> Item:
    match = TIME.fullmatch(text)
    printed, unit = match.groups() if match is not None else (text, "s")
    metric = _metric(name, is_wrk2=is_wrk2)
    return measure(metric, printed, where=where, scale=SCALES[unit])


def _sum(metric: Metric, texts: Iterable[str], where: Where) -> Item:
    total = 0.0
    for text in texts:
        item = measure(metric, text, where=where)
        if isinstance(item, BadLine):
            return item
        total += item.value
    return measure(metric, f"{total:.0f}", where=where)


def _metric(name: str, *, is_wrk2: bool = False) -> Metric:
    percent = name.rpartition(" p")[2]
    unit, better = _UNITS.get(name, ("s", "lower"))
    return Metric(
        name=f"wrk {name}",
        unit=unit,
        better=better,
        family=_family(name, is_wrk2=is_wrk2),
        definition=DEFINITIONS.get(
            name,
            f"{percent}th percentile of the time from sending a request to the end of its "
            "response.",
        ),
    )


_UNITS: dict[str, tuple[str, Better]] = {
    "requests": ("1/s", "higher"),
    "socket errors": ("count", "lower"),
    "error responses": ("count", "lower"),
}


def _family(name: str, *, is_wrk2: bool) -> Family:
    if name == ("latency p99" if is_wrk2 else "requests"):
        return "primary"
    is_percentile = name.startswith("latency p") or name == "latency average"
    return "secondary" if is_percentile else "informational"
