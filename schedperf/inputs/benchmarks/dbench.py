# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse dbench and tbench (dbench over a socket), which print the same output.

>>> text = '''\\
... dbench version 4.00 - Copyright Andrew Tridgell 1999-2004
...
...    2     21588   266.49 MB/sec  execute   1 sec  latency 53.053 ms
...    2     35551   207.73 MB/sec  execute   2 sec  latency 216.785 ms
...
... Throughput 207.726 MB/sec  2 clients  2 procs  max_latency=216.785 ms
... '''
>>> for item in parse_dbench(text.splitlines(), "stdout"):
...     print(item.metric.name, f"{item.value:g}", item.metric.unit, item.metric.family)
dbench throughput 2.07726e+08 B/s primary
dbench latency max 0.216785 s secondary

The rates of the ``execute`` lines are averages since the start, so only the ``Throughput`` line is
read. MB is 10^6 B. Versions before 4 print no number of clients and no latency. The table of
operations prints averages in steps of 1 us, which is too coarse for many operations, so it is not
read. Only the command of a run distinguishes tbench from dbench. If a script runs the program
several times, each result is a measurement.
"""

import re
from collections.abc import Iterable, Iterator
from math import floor, log10

from msgspec.structs import replace

from schedperf.inputs.benchmarks import MILLISECOND_S, BadLine, Measurement, Metric, measure, parser

THROUGHPUT = Metric(
    name="dbench throughput",
    unit="B/s",
    better="higher",
    family="primary",
    definition="Bytes read and written by all clients per second, warm-up excluded.",
)
# The maximum latency of a run varies too much to be used for the verdict.
LATENCY = Metric(
    name="dbench latency max",
    unit="s",
    better="lower",
    family="secondary",
    definition="Longest time of a single operation, over all clients.",
)

HEADER = re.compile(r"^dbench version \d\S* - Copyright Andrew Tridgell", re.MULTILINE | re.ASCII)
RESULT_START = re.compile(r"Throughput \S+ MB/sec")
RESULT = re.compile(
    r"Throughput (\S+) MB/sec(?: \(sync open\))?(?: \(sync dirs\))?"
    r"(?: +\d+ clients)? +\d+ procs(?: +max_latency=(\S+) ms)?\s*",
    re.ASCII,
)

MEGABYTE_B = 1e6

# The result is printed with C's %g: 6 significant digits without trailing zeros.
PRINTED_DIGITS = 6


@parser(
    "dbench",
    class_="semi",
    begins=HEADER,
    claims=lambda text: HEADER.search(text) is not None,
    programs=("tbench",),
)
def parse_dbench(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    """Read the final line of each run."""
    for line_number, line in enumerate(lines, start=1):
        if RESULT_START.match(line):
            yield from _parse_result((label, line_number, line))


def _parse_result(where: tuple[str, int, str]) -> Iterator[Measurement | BadLine]:
    label, line_number, line = where
    result = RESULT.fullmatch(line)
    if result is None:
        yield BadLine(
            problem=f"{label}:{line_number}: incomplete dbench throughput (expected "
            "`Throughput NUMBER MB/sec …`); record again"
        )
        return
    throughput = measure(THROUGHPUT, result[1], where=where, scale=MEGABYTE_B)
    if isinstance(throughput, BadLine):
        yield throughput
    elif throughput.value <= 0.0:
        # dbench prints 0 during the first second of measurement.
        yield BadLine(
            problem=f"{label}:{line_number}: dbench throughput is {result[1]}, because the "
            "run was too short; use a larger -t"
        )
        return
    else:
        yield replace(throughput, resolution=_printed_step(throughput.value))
    if result[2] is not None:
        yield measure(LATENCY, result[2], where=where, scale=MILLISECOND_S)


def _printed_step(value: float) -> float:
    return float(10.0 ** (floor(log10(value)) + 1 - PRINTED_DIGITS))
