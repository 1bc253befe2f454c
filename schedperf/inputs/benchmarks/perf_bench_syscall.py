# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse perf bench syscall: basic, getpgid, fork and execve.

>>> text = '''\\
... # Running 'syscall/basic' benchmark:
... # Executed 10000 getppid() calls
...      Total time: 0.002 [sec]
...
...        0.240500 usecs/op
...         4158004 ops/sec
... '''
>>> for item in parse_syscall(text.splitlines(), "stdout"):
...     print(item.metric.name, f"{item.value:.6g}", item.metric.unit, item.metric.family)
syscall/basic time per operation 2.405e-07 s primary
syscall/basic operations 4.158e+06 1/s secondary

As in ``perf bench sched pipe``, the printed numbers are the same measurement.
"""

import re
from collections.abc import Iterable, Iterator

from schedperf.inputs.benchmarks import MICROSECOND_S, BadLine, Measurement, Metric, measure, parser
from schedperf.inputs.benchmarks._perf_bench import HEADER, is_printed, lines_of

# perf groups the digits of integers according to the locale: "4,158,004 ops/sec".
GROUPED = re.compile("[0-9]{1,3}(?:[.,'\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}][0-9]{3})+")

# The name of one operation, by benchmark.
OPERATIONS = {
    "syscall/basic": "a call of getppid()",
    "syscall/getpgid": "a call of getpgid()",
    "syscall/fork": "a fork(), the exit of the child and a waitpid()",
    "syscall/execve": "a fork(), an execve() of /bin/true in the child and a waitpid()",
}


def _results(name: str, operation: str) -> dict[str, tuple[Metric, float]]:
    """Return, by printed unit, the metric and the factor to its unit."""
    time = Metric(
        name=f"{name} time per operation",
        unit="s",
        better="lower",
        family="primary",
        definition=f"Total time divided by the number of operations; an operation is {operation}.",
    )
    rate = Metric(
        name=f"{name} operations",
        unit="1/s",
        better="higher",
        family="secondary",
        definition=f"Number of operations divided by the total time; an operation is {operation}.",
    )
    return {"usecs/op": (time, MICROSECOND_S), "ops/sec": (rate, 1.0)}


RESULTS = {name: _results(name, operation) for name, operation in OPERATIONS.items()}


@parser(
    "perf bench syscall",
    class_="micro",
    begins=HEADER,
    claims=lambda text: is_printed(OPERATIONS, text),
)
def parse_syscall(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    """Read the time per operation and the rate of each benchmark."""
    for name, line_number, line in lines_of(OPERATIONS, lines):
        text = line.strip()
        for unit, (metric, scale) in RESULTS[name].items():
            if text.endswith(unit):
                printed = _ungroup(text.removesuffix(unit).strip(), unit)
                yield measure(metric, printed, where=(label, line_number, line), scale=scale)


def _ungroup(printed: str, unit: str) -> str:
    if unit != "ops/sec" or GROUPED.fullmatch(printed) is None:
        return printed
    return "".join(filter(str.isdigit, printed))
