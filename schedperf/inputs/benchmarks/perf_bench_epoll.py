# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse perf bench epoll: wait and ctl.

>>> text = '''\\
... # Running 'epoll/wait' benchmark:
... Run summary [PID 21358]: 1 threads monitoring on 64 file-descriptors for 1 secs.
...
... Averaged 215750 operations/sec (+- 0.00%), total secs = 1
... # Running 'epoll/ctl' benchmark:
... Run summary [PID 21446]: 2 threads doing epoll_ctl ops 64 file-descriptors for 2 secs.
...
... Averaged 73600 ADD operations (+- 15.39%)
... Averaged 73600 MOD operations (+- 15.39%)
... Averaged 73600 DEL operations (+- 15.39%)
... '''
>>> for item in parse_epoll(text.splitlines(), "stdout"):
...     print(item.metric.name, f"{item.value:.6g}", item.metric.unit, item.metric.family)
epoll/wait operations per thread 215750 1/s primary
epoll/ctl ADD operations per thread 36800 1/s primary
epoll/ctl MOD operations per thread 36800 1/s secondary
epoll/ctl DEL operations per thread 36800 1/s secondary

``epoll ctl`` prints numbers of operations; they are divided by the run time, which its summary
prints. Each thread does the three operations in turn, so only one of them is primary.
"""

import re
from collections.abc import Iterable, Iterator

from schedperf.inputs.benchmarks import BadLine, Measurement, Metric, measure, parser
from schedperf.inputs.benchmarks._perf_bench import HEADER, is_printed, lines_of
from schedperf.model.rows import Family

WAIT, CTL = "epoll/wait", "epoll/ctl"
RATE = re.compile(r"Averaged (\S+) operations/sec")
COUNT = re.compile(r"Averaged (\S+) (ADD|MOD|DEL) operations ")
SUMMARY = re.compile(r"Run summary \[PID \d+\]: .{0,200} for (\d{1,9}) secs", re.ASCII)


@parser(
    "perf bench epoll",
    class_="micro",
    begins=HEADER,
    claims=lambda text: is_printed({WAIT, CTL}, text),
)
def parse_epoll(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    """Read the means over the threads."""
    lines = list(lines)
    for _, line_number, line in lines_of({WAIT}, lines):
        if (match := RATE.match(line)) is not None:
            metric = _metric(
                f"{WAIT} operations",
                "primary",
                "Events that epoll_wait() returned per second, mean over the threads.",
            )
            yield measure(metric, match[1], where=(label, line_number, line))
    yield from _read_ctl(lines, label)


def _read_ctl(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    seconds = 0
    for _, line_number, line in lines_of({CTL}, lines):
        if (summary := SUMMARY.match(line)) is not None:
            seconds = int(summary[1])
        if (match := COUNT.match(line)) is None:
            continue
        if seconds == 0:
            yield BadLine(
                problem=f"{label}:{line_number}: no run time for epoll/ctl operations (expected "
                "'Run summary … for N secs' before); record the whole output"
            )
            return
        metric = _metric(
            f"{CTL} {match[2]} operations",
            "primary" if match[2] == "ADD" else "secondary",
            f"Calls of epoll_ctl() with EPOLL_CTL_{match[2]} per second, mean over the threads.",
        )
        yield measure(metric, match[1], where=(label, line_number, line), scale=1.0 / seconds)


def _metric(name: str, family: Family, definition: str) -> Metric:
    return Metric(
        name=f"{name} per thread",
        unit="1/s",
        better="higher",
        family=family,
        definition=definition,
    )
