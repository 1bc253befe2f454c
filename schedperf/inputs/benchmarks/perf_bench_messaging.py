# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse perf bench sched messaging, perf's version of hackbench.

>>> text = '''\\
... # Running 'sched/messaging' benchmark:
... # 20 sender and receiver processes per group
... # 10 groups == 400 processes run
...
...      Total time: 0.271 [sec]
... '''
>>> [item] = parse_messaging(text.splitlines(), "stdout")
>>> item.metric.name, item.value, item.metric.unit, item.resolution
('sched/messaging time', 0.271, 's', 0.001)
"""

from collections.abc import Iterable, Iterator

from schedperf.inputs.benchmarks import (
    BadLine,
    Measurement,
    Metric,
    lines_of_failure,
    measure,
    parser,
)
from schedperf.inputs.benchmarks._perf_bench import (
    HEADER,
    is_printed,
    is_simple,
    lines_of,
    simple_times,
)

NAME = "sched/messaging"
TIME = Metric(
    name="sched/messaging time",
    unit="s",
    better="lower",
    family="primary",
    definition="Time from the start signal until all senders and receivers have exited; task "
    "creation is excluded.",
)

RESULT = "Total time:"
UNIT = "[sec]"

# After a failed task, the time of the remaining tasks is still printed.
FAILURES = {
    r"^perf: (?:SENDER|SERVER|CLIENT): ": "a task of perf bench sched messaging failed before all "
    "messages were passed; record again"
}


@parser(
    "perf bench sched messaging",
    class_="micro",
    claims=lambda text: is_printed({NAME}, text),
    claims_command=is_simple(NAME),
    begins=HEADER,
    find_failure=lines_of_failure(FAILURES),
)
def parse_messaging(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    """Read the total time; with ``--format=simple`` nothing else is printed."""
    lines = list(lines)
    for line_number, line in simple_times(lines):
        yield measure(TIME, line.strip(), where=(label, line_number, line))
    for _, line_number, line in lines_of({NAME}, lines):
        text = line.strip()
        if text.startswith(RESULT):
            printed = text.removeprefix(RESULT).removesuffix(UNIT).strip()
            yield measure(TIME, printed, where=(label, line_number, line))
