"""/proc/stat: where the time of the CPUs went since the boot, and a few totals.

::

    cpu  244 0 696 2631 6 0 25 0 0 0
    cpu0 48 0 209 690 3 0 6 0 0 0
    intr 22038 94 9 …
    ctxt 20613
    processes 202

Times are in ticks of USER_HZ, which is 100 on all of today's architectures (proc_stat(5)).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from schedperf.evidence.system._counters import MOST_CPUS, parse_count, parse_cpu
from schedperf.model.errors import InputError

KINDS = (
    "user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice",
)  # fmt: skip
# What is counted for all CPUs together: context switches, and tasks that were created.
TOTALS = ("ctxt", "processes")

_CPU = re.compile(r"cpu([0-9]{1,5})", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuTimes:
    """One look.

    :param ticks: by CPU, then by kind of time; older kernels know fewer kinds
    :param totals: by name, of :data:`TOTALS`
    """

    ticks: Mapping[int, Mapping[str, int]]
    totals: Mapping[str, int]


def parse_cpu_times(lines: Iterable[str], label: str) -> CpuTimes:
    """Read /proc/stat.

    :raises InputError: it is none, or damaged
    """
    ticks: dict[int, dict[str, int]] = {}
    totals: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        # The line "intr" has a number for each interrupt, so no line is split whole.
        name, _, rest = line.partition(" ")
        where = f"{label}:{number}"
        if found := _CPU.fullmatch(name):
            values = rest.split()[: len(KINDS)]
            cpu = parse_cpu(found[1], where)
            if cpu in ticks or not values or number > MOST_CPUS + 1:
                raise InputError(f"{where}: cpu{cpu} a second time, or empty; record again")
            ticks[cpu] = {
                kind: parse_count(value, where) for kind, value in zip(KINDS, values, strict=False)
            }
        elif name in TOTALS:
            totals[name] = parse_count(rest.strip(), where)
    if not ticks:
        raise InputError(f"{label}: no CPUs; give a copy of /proc/stat")
    return CpuTimes(ticks=ticks, totals=totals)
