# SPDX-License-Identifier: GPL-2.0-or-later
r"""Determine the number of operations that a benchmark run did; costs are divided by it.

Samples, counted events and contended loads grow with the duration and the work of a run. Divided by
the work, they are comparable between runs. The work comes from, best first:

* a count that the benchmark prints, or parameters that determine it (hackbench: messages)
* a rate that it prints, times the duration of the run (which includes startup and exit)
* a time that it prints for a fixed amount of work: the run is one operation

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

from schedperf.inputs.benchmarks import Measurement, Metric, stress_ng, sysbench
from schedperf.model.run import Operations

BYTES_PER_MB = 1e6
# No machine does more operations in a year; a larger number is not a benchmark result.
LARGEST_COUNT = 1e18
# One byte in MB. Fewer operations are not counted as work, since division by tiny numbers
# overflows.
LEAST_COUNT = 1e-6

# The name of a time for a fixed amount of work contains a word of the first set and none of the
# second. Words of the second set name the time of one operation, whose number per run is unknown.
FIXED_WORK_WORDS = frozenset(("time", "elapsed", "runtime", "walltime", "duration"))
OTHER_TIMES = frozenset(("latency", "wait", "delay", "lag", "connection", "real", "per"))

OF_A_THREAD = " per thread"

# By unit of a rate: the name of its operation, and how many units one operation is.
RATES = {"1/s": ("operation", 1.0), "B/s": ("MB", BYTES_PER_MB)}


def count_printed(text: str) -> Operations | None:
    """Return the operation count that a benchmark's output states or implies; None if unknown.

    If a script ran the benchmark several times, their counts are added. Counts of different
    benchmarks cannot be added: the result is None.
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
    rf"^{stress_ng.TAG}(\S{{1,60}}) +(\d{{1,15}})(?: +\d{{1,15}}\.\d{{1,9}}){{5}}",
    re.MULTILINE | re.ASCII,
)
_STRESS_NG_YAML = re.compile(
    r"^ {1,40}- stressor: (\S{1,60})\s*\n +bogo-ops: (\d{1,15})\s*$", re.MULTILINE | re.ASCII
)
_SYSBENCH = re.compile(r"^ +total number of events: +(\d{1,15})\s*$", re.MULTILINE | re.ASCII)
_PGBENCH = re.compile(
    r"^number of transactions actually processed: (\d{1,15})(?:/\d+)?\s*$",
    re.MULTILINE | re.ASCII,
)


def _messages(text: str) -> Iterator[float]:
    # Half of a group's file descriptors belong to senders, half to receivers. Each sender sends its
    # messages to each receiver (sender() in hackbench.c of rt-tests).
    for groups, descriptors, loops in _HACKBENCH.findall(text):
        yield float(groups) * (int(descriptors) // 2) ** 2 * float(loops)


def _bogo_operations(text: str) -> Iterator[float]:
    # Operations of different stressors are not comparable.
    counts: list[tuple[str, str]] = []
    if stress_ng.YAML.search(text):
        # The table repeats the same numbers.
        counts = _STRESS_NG_YAML.findall(text)
    elif stress_ng.HEADER.search(text):
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
    """Return the operation count that the results of a run imply; None if unknown.

    A rate is multiplied by the duration. If all results are times for a fixed amount of work, each
    time is one operation.

    :param wall_s: duration from fork to exit; None if unknown
    """
    # Primary results describe the work. Different rates come from several benchmarks, so the work
    # is unknown. If the primary result is a latency, the only rate beside it is used.
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
