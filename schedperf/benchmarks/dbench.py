# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse dbench and tbench (dbench over a socket); their output does not distinguish them.

>>> text = '''\\
... dbench version 4.00 - Copyright Andrew Tridgell 1999-2004
...
...    2     21588   266.49 MB/sec  execute   1 sec  latency 53.053 ms
...    2     35551   207.73 MB/sec  execute   2 sec  latency 216.785 ms
...
... Throughput 207.726 MB/sec  2 clients  2 procs  max_latency=216.785 ms
... '''
>>> for found in parse_dbench(text.splitlines(), "stdout"):
...     print(found.metric.name, f"{found.value:g}", found.metric.unit, found.metric.family)
dbench throughput 2.07726e+08 B/s primary
dbench latency max 0.216785 s secondary

The rates of the ``execute`` lines are averages since the start, so each contains the ones
before it, and only the last line counts. MB is 10^6 B. Versions before 4 print neither
the number of clients nor a latency. The table of operations prints averages in steps of 1 us,
which is as long as many of them take, so it is not read. A script that runs the program several
times prints several results: each is a measurement.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import floor, log10

from schedperf.benchmarks import MILLISECOND_S, BadLine, Measurement, Metric, measure, parser

THROUGHPUT = Metric(
    name="dbench throughput",
    unit="B/s",
    better="higher",
    family="primary",
    definition="Bytes that all clients read and wrote, divided by the time after the warm-up.",
)
# The one largest latency of a whole run varies too much to decide over a verdict.
LATENCY = Metric(
    name="dbench latency max",
    unit="s",
    better="lower",
    family="secondary",
    definition="The longest time that one operation of any client took.",
)

HEADER = re.compile(r"^dbench version \d\S* - Copyright Andrew Tridgell", re.MULTILINE | re.ASCII)
RESULT_START = re.compile(r"Throughput \S+ MB/sec")
RESULT = re.compile(
    r"Throughput (\S+) MB/sec(?: \(sync open\))?(?: \(sync dirs\))?"
    r"(?: +\d+ clients)? +\d+ procs(?: +max_latency=(\S+) ms)?\s*",
    re.ASCII,
)

MEGABYTE_B = 1e6

# The result is printed with C's %g: so many digits, and no zeros at their end.
PRINTED_DIGITS = 6


@parser("dbench", claims=lambda text: HEADER.search(text) is not None)
def parse_dbench(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    """Read the final line of each run."""
    for line_number, line in enumerate(lines, start=1):
        if RESULT_START.match(line):
            yield from _parse_result((label, line_number, line))


def _parse_result(where: tuple[str, int, str]) -> Iterator[Measurement | BadLine]:
    label, line_number, line = where
    result = RESULT.fullmatch(line)
    if result is None:
        yield BadLine(problem=f"{label}:{line_number}: dbench throughput: the line is not complete")
        return
    throughput = measure(THROUGHPUT, result[1], where=where, scale=MEGABYTE_B)
    if isinstance(throughput, BadLine):
        yield throughput
    elif throughput.value <= 0.0:
        # The first second of measurement must be over before there is a rate.
        yield BadLine(
            problem=f"{label}:{line_number}: dbench throughput is {result[1]}: the run was "
            "too short; give it more seconds with -t"
        )
        return
    else:
        yield replace(throughput, resolution=_printed_step(throughput.value))
    if result[2] is not None:
        yield measure(LATENCY, result[2], where=where, scale=MILLISECOND_S)


def _printed_step(value: float) -> float:
    return float(10.0 ** (floor(log10(value)) + 1 - PRINTED_DIGITS))
