# SPDX-License-Identifier: GPL-2.0-or-later
r"""Parse kernbench: elapsed, user and system time of kernel builds.

>>> text = '''\
... Optimal load -j 8 run number 1...
... Optimal load -j 8 run number 2...
... Average Optimal load -j 8 Run (std deviation):
... Elapsed Time 28.094 (0.182565)
... User Time 184.74 (0.397052)
... System Time 20.72 (0.18262)
... Percent CPU 730.8 (5.54076)
... '''
>>> for item in parse_kernbench(text.splitlines(), "stdout"):
...     print(item.metric.name, f"{item.value:g}", item.metric.unit, item.metric.family)
kernbench Optimal load elapsed time 28.094 s primary
kernbench Optimal load user time 184.74 s secondary
kernbench Optimal load system time 20.72 s secondary

The half, optimal and maximal load are different metrics; the number of jobs is not part of the
name. CPU utilization, context switches and sleeps are not read, because neither direction is
better. The kernbench of mmtests prints the output of ``time`` instead.
"""

import re
from collections.abc import Iterable, Iterator

from schedperf.inputs.benchmarks import BadLine, Measurement, Metric, measure, parser
from schedperf.model.rows import Family

HEADER = re.compile(r"^Average (\w{1,30} load) -j ?\d{0,9} ?Run \(std deviation\):", re.MULTILINE)
LINE = re.compile(r"(Elapsed|User|System) Time (\S*)")

KINDS: dict[str, tuple[Family, str]] = {
    "Elapsed": ("primary", "Wall-clock time of a kernel build, mean over the builds."),
    "User": ("secondary", "CPU time of a kernel build in user space, mean over the builds."),
    "System": ("secondary", "CPU time of a kernel build in the kernel, mean over the builds."),
}


@parser(
    "kernbench",
    class_="application",
    begins=HEADER,
    claims=lambda text: HEADER.search(text) is not None,
)
def parse_kernbench(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    """Parse the averages of each load."""
    load: str | None = None
    for line_number, line in enumerate(lines, start=1):
        if (header := HEADER.match(line)) is not None:
            load = header[1]
        elif load is not None and (match := LINE.match(line)) is not None:
            family, definition = KINDS[match[1]]
            metric = Metric(
                name=f"kernbench {load} {match[1].lower()} time",
                unit="s",
                better="lower",
                family=family,
                definition=definition,
            )
            yield measure(metric, match[2], where=(label, line_number, line))
