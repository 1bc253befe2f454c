# SPDX-License-Identifier: GPL-2.0-or-later
r"""Determine the number of benchmark operations in a run, by which costs are divided.

A profile's samples, counted events and contended loads grow with the time that a run takes
and with the work that it does. Divided by the work they can be compared. Three
ways to know it, best first:

* the benchmark prints a count, or what the count follows from (hackbench: messages)
* it prints a rate: rate times the time of the run, which also has its beginning and end
* it does a fixed amount of work and prints the time that this took: one "run"

>>> count_printed('''Running in process mode with 2 groups using 40 file descriptors each (== 80 tasks)
... Each sender will pass 50 messages of 100 bytes
... Time: 10.140
... ''')
Operations(count=40000.0, unit='message', exact=True)
"""  # noqa: E501 # real output is this wide

import math
import re
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

from schedperf.benchmarks import Measurement, Metric, sysbench
from schedperf.model.run import Operations

BYTES_PER_MB = 1e6
# More operations than any machine does in a year; beyond it the text was not a benchmark's.
LARGEST_COUNT = 1e18
# A byte in MB; less than a millionth of an operation does not count as work. Division by far less
# leaves the range of floating-point numbers.
LEAST_COUNT = 1e-6

# A time in which a fixed amount of work was done has one of these words in its name, and none of
# those: they are times of one operation, of which a run does an unknown number.
FIXED_WORK_WORDS = frozenset(("time", "elapsed", "runtime", "walltime", "duration"))
OTHER_TIMES = frozenset(("latency", "wait", "delay", "lag", "connection", "real", "per"))

OF_A_THREAD = " per thread"

# Rates by their unit: what one operation is called, and how many of the unit it is.
RATES = {"1/s": ("operation", 1.0), "B/s": ("MB", BYTES_PER_MB)}


def count_printed(text: str) -> Operations | None:
    """Return the count that a benchmark's text says or implies; None where it does not.

    A script that runs the benchmark several times did the sum of all. Several benchmarks in
    one text have nothing in common to divide by.
    """
    counters = [
        Operations(count=total, unit=unit, exact=True)
        for unit, count in _COUNTERS.items()
        if 0.0 < (total := math.fsum(count(text))) < LARGEST_COUNT
    ]
    return counters[0] if len(counters) == 1 else None


# Counts of up to 15 digits are exact as floating-point numbers.
_HACKBENCH = re.compile(
    r"^Running in (?:process|threaded) mode with (\d{1,7}) groups using (\d{1,7}) file descriptors"
    r" each [^\n]*\nEach sender will pass (\d{1,12}) messages of \d+ bytes\s*\n(?:[^\n]*\n){0,3}?"
    r"Time: ",
    re.MULTILINE | re.ASCII,
)
_PIPE = re.compile(r"^# Executed (\d{1,15}) pipe operations between", re.MULTILINE | re.ASCII)
_STRESS_NG = re.compile(
    r"^stress-ng:(?: [\d:.]+)? (?:metrc|info): +\[\d+\] (\S+) +(\d{1,15})(?: +\d+\.\d+){5}",
    re.MULTILINE | re.ASCII,
)
_SYSBENCH = re.compile(r"^ +total number of events: +(\d{1,15})\s*$", re.MULTILINE | re.ASCII)
_PGBENCH = re.compile(
    r"^number of transactions actually processed: (\d{1,15})(?:/\d+)?\s*$",
    re.MULTILINE | re.ASCII,
)


def _messages(text: str) -> Iterator[float]:
    # Half of a group's file descriptors are senders', the other half receivers', and each sender
    # passes its messages to each receiver (sender() in rt-tests' hackbench.c).
    for groups, descriptors, loops in _HACKBENCH.findall(text):
        yield float(groups) * (int(descriptors) // 2) ** 2 * float(loops)


def _bogo_operations(text: str) -> Iterator[float]:
    # What one stressor counts as an operation is nothing to another.
    counts = _STRESS_NG.findall(text)
    if len({stressor for stressor, _ in counts}) == 1:
        yield from (float(count) for _, count in counts)


def _events(text: str) -> Iterator[float]:
    if sysbench.HEADER.search(text):
        yield from (float(count) for count in _SYSBENCH.findall(text))


def _numbers(pattern: re.Pattern[str]) -> Callable[[str], Iterator[float]]:
    return lambda text: (float(count) for count in pattern.findall(text))


_COUNTERS: dict[str, Callable[[str], Iterator[float]]] = {
    "message": _messages,
    "pipe operation": _numbers(_PIPE),
    "bogo operation": _bogo_operations,
    "event": _events,
    "transaction": _numbers(_PGBENCH),
}


def count_measured(results: Sequence[Measurement], wall_s: float | None) -> Operations | None:
    """Return the count that a run's results imply; None where they do not.

    :param wall_s: from fork to exit; None where that is unknown
    """
    # What decides is what the run did. Several results are several benchmarks, and none of them
    # alone is what it did; where a latency decides, the one rate beside it counts.
    for family in ("primary", "secondary"):
        of_family = [item for item in results if item.metric.family == family]
        rates = [item for item in of_family if item.metric.unit in RATES]
        if rates:
            return _of_rate(rates, wall_s)
        if of_family and all(_is_fixed_work(item.metric) for item in of_family):
            return Operations(count=float(len(of_family)), unit="run", exact=True)
    return None


def _of_rate(rates: Sequence[Measurement], wall_s: float | None) -> Operations | None:
    if wall_s is None or len({item.metric for item in rates}) > 1:
        return None
    unit, scale = RATES[rates[0].metric.unit]
    count = fmean(item.value for item in rates) * wall_s / scale
    is_possible = LEAST_COUNT <= count < LARGEST_COUNT and rates[0].metric.better == "higher"
    # The number of threads is unknown.
    is_possible = is_possible and not rates[0].metric.name.endswith(OF_A_THREAD)
    return Operations(count=count, unit=unit, exact=False) if is_possible else None


def _is_fixed_work(metric: Metric) -> bool:
    words = frozenset(re.findall(r"[a-z]+", metric.name.lower()))
    is_named = bool(words & FIXED_WORK_WORDS) and not words & OTHER_TIMES
    return metric.unit == "s" and metric.better == "lower" and is_named
