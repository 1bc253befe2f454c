# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse hackbench of rt-tests: the time all groups needed to pass their messages.

>>> text = '''\\
... Running in process mode with 1 groups using 40 file descriptors each (== 40 tasks)
... Each sender will pass 100 messages of 100 bytes
... Time: 0.056
... '''
>>> [found] = parse_hackbench(text.splitlines(), "stdout")
>>> found.metric.name, found.value, found.metric.unit, found.resolution
('hackbench time', 0.056, 's', 0.001)

A script that runs hackbench several times prints several times: each is a measurement.
"""

import re
from collections.abc import Iterable, Iterator

from schedperf.benchmarks import BadLine, Measurement, Metric, measure, parser

TIME = Metric(
    name="hackbench time",
    unit="s",
    better="lower",
    family="primary",
    definition="Time from the start signal until the last sender and receiver of all groups has "
    "ended; creating them is not in it.",
)

HEADER = re.compile(r"^Running in (?:process|threaded) mode with \d+ groups using ", re.MULTILINE)
RESULT = "Time:"


@parser("hackbench", claims=lambda text: HEADER.search(text) is not None)
def parse_hackbench(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    """Read the ``Time:`` that follows each header."""
    is_expected = False
    for line_number, line in enumerate(lines, start=1):
        if HEADER.match(line):
            is_expected = True
        elif is_expected and line.startswith(RESULT):
            is_expected = False
            printed = line.removeprefix(RESULT).strip()
            yield measure(TIME, printed, where=(label, line_number, line))
