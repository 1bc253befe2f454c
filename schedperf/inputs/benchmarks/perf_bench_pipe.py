# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse perf bench sched pipe: two tasks that wake each other through a pipe.

>>> text = '''\\
... # Running 'sched/pipe' benchmark:
... # Executed 1000 pipe operations between two processes
...
...      Total time: 0.033 [sec]
...
...       33.561000 usecs/op
...           29796 ops/sec
... '''
>>> for item in parse_pipe(text.splitlines(), "stdout"):
...     print(item.metric.name, f"{item.value:.6g}", item.metric.unit, item.metric.family)
sched/pipe time per operation 3.3561e-05 s primary
sched/pipe operations 29796 1/s secondary

The three printed numbers are the same measurement. The time per operation has the most digits and
is the primary metric; the rate is secondary; the total time is read only with ``--format=simple``,
which prints nothing else. This form is recognized by the command of the run.
"""

from collections.abc import Iterable, Iterator

from schedperf.inputs.benchmarks import MICROSECOND_S, BadLine, Measurement, Metric, measure, parser
from schedperf.inputs.benchmarks._perf_bench import (
    HEADER,
    is_printed,
    is_simple,
    lines_of,
    simple_times,
)

NAME = "sched/pipe"
TIME = Metric(
    name="sched/pipe time per operation",
    unit="s",
    better="lower",
    family="primary",
    definition="Total time divided by the number of operations; an operation is one round trip of "
    "a message between two tasks.",
)
RATE = Metric(
    name="sched/pipe operations",
    unit="1/s",
    better="higher",
    family="secondary",
    definition="Number of operations divided by the total time; an operation is one round trip of "
    "a message between two tasks.",
)
TOTAL = Metric(
    name="sched/pipe total time",
    unit="s",
    better="lower",
    family="primary",
    definition="Time until two tasks have passed all messages through a pipe.",
)

# By printed unit: the metric, and the factor to the metric's unit.
RESULTS = {"usecs/op": (TIME, MICROSECOND_S), "ops/sec": (RATE, 1.0)}


@parser(
    "perf bench sched pipe",
    class_="micro",
    begins=HEADER,
    claims=lambda text: is_printed({NAME}, text),
    claims_command=is_simple(NAME),
)
def parse_pipe(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    """Read the time per operation and the rate, or the total time."""
    lines = list(lines)
    for line_number, line in simple_times(lines):
        yield measure(TOTAL, line.strip(), where=(label, line_number, line))
    for _, line_number, line in lines_of({NAME}, lines):
        for unit, (metric, scale) in RESULTS.items():
            text = line.strip()
            if text.endswith(unit):
                printed = text.removesuffix(unit).strip()
                yield measure(metric, printed, where=(label, line_number, line), scale=scale)
