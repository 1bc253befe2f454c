# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse hackbench (rt-tests): the time until all groups have passed their messages.

>>> text = '''\\
... Running in process mode with 1 groups using 40 file descriptors each (== 40 tasks)
... Each sender will pass 100 messages of 100 bytes
... Time: 0.056
... '''
>>> [item] = parse_hackbench(text.splitlines(), "stdout")
>>> item.metric.name, item.value, item.metric.unit, item.resolution
('hackbench time', 0.056, 's', 0.001)

If a script runs hackbench several times, each ``Time:`` line is a measurement. If any of them was
stopped by a signal or an error, the run has no result.
"""

import re
from collections.abc import Iterable, Iterator

from schedperf.inputs.benchmarks import (
    BadLine,
    Measurement,
    Metric,
    lines_of_failure,
    measure,
    parser,
)

TIME = Metric(
    name="hackbench time",
    unit="s",
    better="lower",
    family="primary",
    definition="Time from the start signal until all senders and receivers have exited; task "
    "creation is excluded.",
)

HEADER = re.compile(r"^Running in (?:process|threaded) mode with \d+ groups using ", re.MULTILINE)
RESULT = "Time:"

# Stopped by a signal or after an error, hackbench prints the time until then and exits with 0.
STOPPED = "hackbench was stopped before all messages were passed; record again"
FAILURES = {
    r"^signaling \d{1,9} worker threads to terminate": STOPPED,
    r"^Signal \d{1,3} caught, longjmp'ing out!": STOPPED,
    r"^(?:SENDER|SERVER|CLIENT|READER): [^\n(]{1,80}\(error: ": STOPPED,
}


@parser(
    "hackbench",
    class_="micro",
    claims=lambda text: HEADER.search(text) is not None,
    begins=HEADER,
    find_failure=lines_of_failure(FAILURES),
)
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
