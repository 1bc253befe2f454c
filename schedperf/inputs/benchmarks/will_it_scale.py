# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse will-it-scale: operations per second of parallel tasks.

One program, ``NAME_processes`` or ``NAME_threads`` with ``-s SECONDS``, prints its rate every
second. After the warm-up it averages the rates and prints the average at the end:

>>> text = '''\\
... testcase:Context switch via pipes
... warmup
... min:198884 max:198884 total:198884
... measurement
... min:272990 max:272990 total:272990
... average:272990
... '''
>>> [item] = parse_will_it_scale(text.splitlines(), "stdout")
>>> item.metric.name, item.value, item.metric.unit, item.resolution
('will-it-scale Context switch via pipes', 272990.0, '1/s', 1.0)

``runtest.py`` runs both forms of a test with 1, 2, 3 … tasks and prints a table without the
test's name:

>>> text = '''\\
... tasks,processes,processes_idle,threads,threads_idle,linear
... 0,0,100,0,100,0
... 1,623326,49.76,611007,49.98,623326
... '''
>>> for item in parse_will_it_scale(text.splitlines(), "stdout"):
...     print(item.metric.name, item.value, item.metric.unit, item.metric.family)
will-it-scale processes=1 623326.0 1/s primary
will-it-scale threads=1 611007.0 1/s primary

mmtests removes the first eight lines, and with them the name of the test:

>>> text = '''\\
... min:272990 max:272990 total:272990
... average:272990
... '''
>>> [item] = parse_will_it_scale(text.splitlines(), "stdout")
>>> item.metric.name, item.value
('will-it-scale operations', 272990.0)

The row of 0 tasks is the origin of the plot. In the other rows, 0 means that the form was not run,
and -1 that it failed. ``linear`` is extrapolated from the first row and is not read; idle time is
not read, because neither direction is better. Neither output contains both the name and the form of
the test, so each needs a separate run.
"""

import re
from collections.abc import Iterable, Iterator

from schedperf.inputs.benchmarks import BadLine, Measurement, Metric, measure, parser

TABLE = "tasks,processes,processes_idle,threads,threads_idle,linear"
COLUMNS = {"processes": 1, "threads": 3}
ROW = re.compile(r"-?\d+,", re.ASCII)
# The program refuses more than 2048 tasks.
TASKS = re.compile(r"\d{1,4}", re.ASCII)
DEFINITION = (
    "Iterations of the test case per second, summed over all tasks and averaged over the seconds "
    "after the warm-up."
)
NOT_RUN = "0"
FAILED = "-1"

TESTCASE = "testcase:"
# The longest name of the 65 tests has 56 characters.
NAME = re.compile(r"\s*([!-~](?:[ -~]{0,98}[!-~])?)\s*", re.ASCII)
RESULT = "average:"
HEADER = re.compile(rf"^(?:{TABLE}\s*$|testcase:.*\nwarmup\s*$)", re.MULTILINE)
# Output whose beginning is missing.
BARE = re.compile(
    r"(?:measurement\s*\n)?min:\d{1,20} max:\d{1,20} total:\d{1,20}\s*$", re.MULTILINE
)
BARE_STARTS = ("measurement", "min:")
BEGINS = re.compile(rf"testcase:|{TABLE}\s*$")
UNNAMED = "operations"


def _is_claimed(text: str) -> bool:
    return HEADER.search(text) is not None or BARE.match(text) is not None


@parser("will-it-scale", class_="micro", begins=BEGINS, claims=_is_claimed)
def parse_will_it_scale(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    """Parse the average of each program and the rows of the table."""
    name: str | None = None
    is_table = False
    for line_number, line in enumerate(lines, start=1):
        where = (label, line_number, line)
        if line.rstrip() == TABLE:
            is_table = True
        elif line_number == 1 and line.startswith(BARE_STARTS):
            name = UNNAMED
        elif line.startswith(TESTCASE):
            name = _read_name(line)
            if name is None:
                yield BadLine(
                    problem=f"{label}:{line_number}: invalid test name (expected at most 100 "
                    "printable characters)"
                )
        elif name and line.startswith(RESULT):
            yield measure(_metric(name), line.removeprefix(RESULT).strip(), where=where)
            name = None
        elif is_table and ROW.match(line):
            yield from _parse_row(line.rstrip().split(","), where)


def _read_name(line: str) -> str | None:
    name = NAME.fullmatch(line.removeprefix(TESTCASE))
    return name[1] if name else None


def _parse_row(fields: list[str], where: tuple[str, int, str]) -> Iterator[Measurement | BadLine]:
    label, line_number, _ = where
    if len(fields) != TABLE.count(",") + 1 or TASKS.fullmatch(fields[0]) is None:
        yield BadLine(problem=f"{label}:{line_number}: invalid row (expected {TABLE})")
        return
    tasks = int(fields[0])
    if tasks == 0:
        return
    for form, column in COLUMNS.items():
        metric = _metric(f"{form}={tasks}")
        if fields[column] == FAILED:
            yield BadLine(
                problem=f"{label}:{line_number}: {metric.name} is -1, because the test failed; "
                "record again"
            )
        elif fields[column] != NOT_RUN:
            yield measure(metric, fields[column], where=where)


def _metric(test: str) -> Metric:
    return Metric(
        name=f"will-it-scale {test}",
        unit="1/s",
        better="higher",
        family="primary",
        definition=DEFINITION,
    )
