# SPDX-License-Identifier: GPL-2.0-or-later
r"""Parse sysbench: CPU, threads, mutex, memory, file I/O and database (OLTP) tests.

>>> text = '''\
... sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)
...
... CPU speed:
...     events per second:  5133.22
...
... General statistics:
...     total time:                          1.0003s
...     total number of events:              5139
...
... Latency (ms):
...          min:                                    0.19
...          avg:                                    0.39
...          max:                                    9.09
...          95th percentile:                        0.39
...          sum:                                 1997.99
... '''
>>> for item in parse_sysbench(text.splitlines(), "stdout"):
...     print(item.metric.name, f"{item.value:g}", item.metric.unit, item.metric.family)
sysbench cpu events 5133.22 1/s primary
sysbench cpu latency average 0.00039 s secondary
sysbench cpu latency p95 0.00039 s secondary
sysbench cpu latency max 0.00909 s informational

sysbench prints neither the name of the test nor its limit (of time or of events). The parser
identifies a test by the lines that only this test prints. All other tests (threads, user scripts)
are ``sysbench events``: events divided by the total time, which is valid with either limit. If
every thread ran one event, the test is mutex, and its result is the total time.

With ``--rate`` the user sets the rate, so the latency is primary and the rate informational. Lines
of ``--report-interval`` are not read. With ``--report-checkpoints`` the last report covers only the
time since the last checkpoint, so nothing is read. Versions 0.4 and 0.5 print ``approx.  95
percentile: 2.21ms``, and no rate for the cpu test; it is derived as for the other tests. Version
1.1 prints ``time elapsed`` for the total time.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from schedperf.inputs.benchmarks import (
    MILLISECOND_S,
    BadLine,
    Execution,
    Failure,
    Measurement,
    Metric,
    lines_of_failure,
    measure,
    parser,
)
from schedperf.model.numbers import LARGEST_NUMBER
from schedperf.model.rows import Better, Family

HEADER = re.compile(r"^sysbench \d+\.\d[\w.+-]*(?: \(|: +multi-threaded )", re.MULTILINE | re.ASCII)

# Versions 0.4 and 0.5 print only this line of the cpu test.
PRIMES = "Maximum prime number checked in CPU test"

# A line is "name: value"; for counts, the rate follows in parentheses.
LINE = re.compile(
    r"(events per second|total time|time elapsed|total number of events|events \(avg/stddev\)"
    r"|avg|max|(?:approx\. +)?\d{1,3}(?:th|st|nd|rd)? percentile"
    r"|transactions|queries|ignored errors|reconnects|Total operations"
    r"|reads/s|writes/s|fsyncs/s|read, MiB/s|written, MiB/s|Target transaction rate"
    rf"|{PRIMES})"
    r": +(\S+)(?: +\((\S+) per sec)?",
    re.ASCII,
)
IN_PARENTHESES = ("transactions", "queries", "ignored errors", "reconnects", "Total operations")
# Versions 0.4 and 0.5 print MB, but divide by 1024 * 1024 too.
TRANSFERRED = re.compile(r"\S+ Mi?B transferred \((\S+) Mi?B/sec\)", re.ASCII)
PERCENTILE = re.compile(r"(approx\. +)?(\d{1,3})(?:th|st|nd|rd)? percentile", re.ASCII)
CHECKPOINT = "Checkpoint report:"
# The last line of a report.
LAST = re.compile(r" +execution time \(avg/stddev\):")

MEBIBYTE_B = 1 << 20

# Since 1.0 percentiles come from a histogram of 1024 logarithmic steps from 0.001 ms to 1e5 ms
# (OPER_LOG_* in sb_logger.c): adjacent steps are 1.8% apart, which is often coarser than the
# printed digits.
HISTOGRAM_STEP = math.expm1(math.log(1e5 / 1e-3) / 1023)

FILE_READS = "read, MiB/s"
FAIRNESS = "events (avg/stddev)"
# Printed as the threads' fairness if each thread ran one event.
ONE_EVENT_EACH = "1.0000/0.00"


class _Result(Struct, frozen=True, kw_only=True):
    """The result of a test, from a line that only this test prints."""

    key: str
    test: str
    name: str
    definition: str
    unit: str = "1/s"
    scale: float = 1.0


CPU = _Result(
    key="events per second",
    test="cpu",
    name="events",
    definition="Events of all threads per second; an event computes all primes up to a limit.",
)
# The operations of the memory test are redundant with its throughput, except with
# ``--memory-oper=none``, which transfers no data.
RESULTS = (
    CPU,
    _Result(
        key="transactions",
        test="OLTP",
        name="transactions",
        definition="Transactions of all threads, divided by the total time.",
    ),
    _Result(
        key="transferred",
        test="memory",
        name="throughput",
        definition="Bytes read or written by all threads, divided by the total time.",
        unit="B/s",
        scale=MEBIBYTE_B,
    ),
    _Result(
        key="Total operations",
        test="memory",
        name="operations",
        definition="Memory blocks processed by all threads, divided by the total time.",
    ),
)
FILE_THROUGHPUT = "Bytes read and written by all threads, divided by the total time."
MUTEX_TIME = "Time until all threads have completed their mutex lock and unlock loops."
EVENT_RATE = "Events of all threads divided by the total time; an event is defined by the test."
LATENCY_MEAN = "Mean latency of an event, over all threads."
LATENCY_MAX = "Maximum latency of an event, over all threads."

# Informational rates: printed name, name of the metric, direction.
EXPLAINING: tuple[tuple[str, str, Better], ...] = (
    ("reads/s", "reads", "higher"),
    ("writes/s", "writes", "higher"),
    ("fsyncs/s", "fsyncs", "higher"),
    ("queries", "queries", "higher"),
    ("ignored errors", "ignored errors", "lower"),
    ("reconnects", "reconnects", "lower"),
)

Item = Measurement | BadLine


class _Value(Struct, frozen=True, kw_only=True):
    """A printed number and its line."""

    text: str
    where: tuple[str, int, str]


@dataclass(kw_only=True, slots=True)
class _Report:
    """The values that one sysbench printed, by the name of the line."""

    values: dict[str, _Value] = field(default_factory=dict)
    checkpoint: tuple[str, int, str] | None = None


FATAL = lines_of_failure({r"^FATAL: ": "sysbench failed; record again"})
TESTED = re.compile(
    r"^(?:Running the test with | {1,20}(?:total time|time elapsed): )", re.MULTILINE
)


def find_failure(text: str, execution: Execution) -> Failure | None:
    """Return the line that shows that a test failed; None if there is none.

    A failed ``prepare`` before a later test is ignored, because its tables may exist.
    """
    headers = (match.start() for match in HEADER.finditer(text))
    last_test = max((match.start() for match in TESTED.finditer(text)), default=0)
    for begin, end in pairwise([0, *headers, len(text)]):
        failure = FATAL(text[begin:end], execution)
        is_prepare = HEADER.match(text, begin) and not TESTED.search(text, begin, end)
        if failure is None or (is_prepare and last_test > end):
            continue
        return Failure(failure.line_number + text.count("\n", 0, begin), failure.problem)
    return None


@parser(
    "sysbench",
    class_="semi",
    claims=lambda text: HEADER.search(text) is not None,
    begins=HEADER,
    find_failure=find_failure,
)
def parse_sysbench(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    """Parse the report of each ``sysbench run``; ``prepare`` and ``cleanup`` print none."""
    report: _Report | None = None
    for line_number, line in enumerate(lines, start=1):
        if HEADER.match(line):
            if report is not None:
                yield from _read_report(report)
            report = _Report()
        elif report is not None:
            _add_line(report, line.strip(), (label, line_number, line))
            if LAST.match(line):
                yield from _read_report(report)
                report = None
    if report is not None:
        yield from _read_report(report)


def _add_line(report: _Report, text: str, where: tuple[str, int, str]) -> None:
    if text.endswith(CHECKPOINT):
        report.checkpoint = where
    elif match := LINE.match(text):
        printed = match[3] or "" if match[1] in IN_PARENTHESES else match[2]
        report.values[match[1]] = _Value(text=printed, where=where)
    elif match := TRANSFERRED.match(text):
        report.values["transferred"] = _Value(text=match[1], where=where)


def _read_report(report: _Report) -> Iterator[Item]:
    values = report.values
    total = values.get("total time") or values.get("time elapsed")
    if total is None:
        return
    if report.checkpoint is not None:
        label, line_number, _ = report.checkpoint
        yield BadLine(
            problem=f"{label}:{line_number}: sysbench resets its counts at each checkpoint "
            "report; record without --report-checkpoints"
        )
        return
    is_known = values.keys() & {FAIRNESS, FILE_READS, *(result.key for result in RESULTS)}
    if not is_known and "total number of events" in values:
        # The test is unknown.
        label, line_number, _ = total.where
        yield BadLine(
            problem=f"{label}:{line_number}: sysbench: the report ends early (expected `Threads "
            "fairness` at its end); record the whole output"
        )
        return
    is_throttled = "Target transaction rate" in values
    test, results = _read_result(values, total, "informational" if is_throttled else "primary")
    yield from results
    yield from _read_latencies(test, values, "primary" if is_throttled else "secondary")
    for key, name, better in EXPLAINING:
        if (value := values.get(key)) is not None:
            definition = f"Number of {name}, summed over all threads and divided by the total time."
            metric = _metric(test, name, "1/s", better, "informational", definition)
            yield measure(metric, value.text, where=value.where)


def _read_result(
    values: Mapping[str, _Value], total: _Value, family: Family
) -> tuple[str, list[Item]]:
    """Return the name of the test, "" if unknown, and its results.

    :param total: the total time
    :param family: family of the result's metric
    """
    for result in RESULTS:
        value = values.get(result.key)
        if value is not None:
            metric = _metric(
                result.test, result.name, result.unit, "higher", family, result.definition
            )
            item = measure(metric, value.text, where=value.where, scale=result.scale)
            return result.test, [item]
    if FILE_READS in values and "written, MiB/s" in values:
        return "fileio", [_sum_of_transfers(values, family)]
    fairness = values.get(FAIRNESS)
    if fairness is not None and fairness.text == ONE_EVENT_EACH:
        metric = _metric("mutex", "time", "s", "lower", family, MUTEX_TIME)
        return "mutex", [_seconds(metric, total)]
    test, definition = (CPU.test, CPU.definition) if PRIMES in values else ("", EVENT_RATE)
    metric = _metric(test, "events", "1/s", "higher", family, definition)
    return test, list(_derive_rate(metric, values, total))


def _sum_of_transfers(values: Mapping[str, _Value], family: Family) -> Item:
    # A test mode reads, writes, or does both in a ratio chosen by the user.
    metric = _metric("fileio", "throughput", "B/s", "higher", family, FILE_THROUGHPUT)
    parts: list[Measurement] = []
    for key in (FILE_READS, "written, MiB/s"):
        part = measure(metric, values[key].text, where=values[key].where, scale=MEBIBYTE_B)
        if isinstance(part, BadLine):
            return part
        parts.append(part)
    read, written = parts
    resolution = (read.resolution or 0.0) + (written.resolution or 0.0)
    return replace(written, value=read.value + written.value, resolution=resolution)


def _derive_rate(
    metric: Metric, values: Mapping[str, _Value], total: _Value
) -> Iterator[Measurement | BadLine]:
    # Threads complete their current event, so the total time ends with an event, and the rate is
    # only as precise as the printed time.
    events = values.get("total number of events")
    if events is None:
        return
    time = _seconds(metric, total)
    count = measure(metric, events.text, where=events.where)
    if isinstance(time, BadLine) or isinstance(count, BadLine):
        yield from (item for item in (time, count) if isinstance(item, BadLine))
        return
    rate = count.value / time.value if time.value > 0.0 else math.inf
    if abs(rate) > LARGEST_NUMBER:
        label, line_number, _ = total.where
        yield BadLine(
            problem=f"{label}:{line_number}: invalid total time {total.text!r} "
            "(expected a positive time, long enough to compute events per second); record again"
        )
        return
    yield replace(count, value=rate, resolution=abs(rate) * (time.resolution or 0.0) / time.value)


def _read_latencies(test: str, values: Mapping[str, _Value], family: Family) -> Iterator[Item]:
    # 0.00 is a measured time below the printed step: keep it, with its resolution.
    if (value := values.get("avg")) is not None:
        metric = _metric(test, "latency average", "s", "lower", family, LATENCY_MEAN)
        yield _latency(metric, value)
    for key, value in values.items():
        match = PERCENTILE.fullmatch(key)
        if match is not None and int(match[2]) > 0:
            percent = int(match[2])
            definition = f"{percent}th percentile of event latency, over all threads."
            metric = _metric(test, f"latency p{percent}", "s", "lower", "secondary", definition)
            latency = _latency(metric, value)
            if isinstance(latency, Measurement) and match[1] is None:
                step = abs(latency.value) * HISTOGRAM_STEP
                latency = replace(latency, resolution=max(step, latency.resolution or 0.0))
            yield latency
    if (value := values.get("max")) is not None:
        metric = _metric(test, "latency max", "s", "lower", "informational", LATENCY_MAX)
        yield _latency(metric, value)


def _seconds(metric: Metric, value: _Value) -> Item:
    return measure(metric, value.text.removesuffix("s"), where=value.where)


def _latency(metric: Metric, value: _Value) -> Item:
    return measure(metric, value.text.removesuffix("ms"), where=value.where, scale=MILLISECOND_S)


def _metric(  # noqa: PLR0917 # the fields of a metric, in their order
    test: str, name: str, unit: str, better: Better, family: Family, definition: str
) -> Metric:
    full_name = f"sysbench {test} {name}" if test else f"sysbench {name}"
    return Metric(name=full_name, unit=unit, better=better, family=family, definition=definition)
