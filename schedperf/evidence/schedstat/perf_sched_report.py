"""The text of ``perf sched stats report``: what was counted on each CPU between two snapshots.

::

    Time elapsed (in jiffies)                                        :      150000
    CPU 0
    schedule() called                                                :     6249493
    schedule() left the processor idle                               :     1347960  (    21.57% )
    CPU 0, DOMAIN MC CPUS <0-15, >
    ----------------------------------------- <Category busy> ----------------------------------
    load_balance() count on cpu busy                                 :           0  $     0.00 $

It names its fields by sentences and not its version, which the sentences and the order of the
categories tell. Its summary is a mean over CPUs and is passed over, as are the lines with a star,
which follow from the others. Its "in jiffies" is wrong for the times: the kernel counts ns.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from schedperf.evidence.schedstat.capture import (
    MOST_CPUS,
    MOST_DOMAINS,
    SHOWN,
    Domain,
    refuse_missing_cpus,
)
from schedperf.evidence.schedstat.change import (
    MOST_WRAPPED,
    Change,
    Floats,
    describe_restarts,
)
from schedperf.evidence.schedstat.fields import FIELDS, LAYOUTS, Column, Layout
from schedperf.evidence.schedstat.record import Idle
from schedperf.model.errors import InputError

FIRST_LINE = "Columns description"
LONGEST_LINE = 8192
ADVICE = "write the report again"

_BLOCK = re.compile(
    r"CPU (?:(?P<cpu>\d{1,5})|<ALL CPUS SUMMARY>)"
    r"(?:, DOMAIN (?P<name>[\w-]{1,32})(?: CPUS <(?P<cpus>[\d, -]*)>)?)?",
    re.ASCII,
)
_VALUE = re.compile(r"([^:]{1,100}?) *: *(\d{1,20})(,?)(?: .*)?", re.ASCII)
_IDLE = re.compile(r"(.*) on cpu (busy|idle|newly idle)", re.ASCII)
_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)
_ELAPSED = "Time elapsed (in jiffies)"

_FIELDS: Mapping[str, str] = {
    "sched_yield() count": "yld_count",
    "Legacy counter can be ignored": "array_exp",
    "schedule() called": "sched_count",
    "schedule() left the processor idle": "sched_goidle",
    "try_to_wake_up() was called": "ttwu_count",
    "try_to_wake_up() was called to wake up the local cpu": "ttwu_local",
    "total runtime by tasks on this processor (in jiffies)": "rq_cpu_time",
    "total waittime by tasks on this processor (in jiffies)": "run_delay",
    "total timeslices run on this cpu": "pcount",
    "load_balance() count": "lb_count",
    "load_balance() found balanced": "lb_balanced",
    "load_balance() move task failed": "lb_failed",
    "imbalance sum": "lb_imbalance",
    "imbalance in load": "lb_imbalance_load",
    "imbalance in utilization": "lb_imbalance_util",
    "imbalance in number of tasks": "lb_imbalance_task",
    "imbalance in misfit tasks": "lb_imbalance_misfit",
    "pull_task() count": "lb_gained",
    "pull_task() when target task was cache-hot": "lb_hot_gained",
    "load_balance() failed to find busier queue": "lb_nobusyq",
    "load_balance() failed to find busier group": "lb_nobusyg",
    "active_load_balance() count": "alb_count",
    "active_load_balance() move task failed": "alb_failed",
    "active_load_balance() successfully moved a task": "alb_pushed",
    **{
        f"{name}_{what} is not used": f"{name}_{what}"
        for name in ("sbe", "sbf")
        for what in ("count", "balanced", "pushed")
    },
    # perf says it wrong: the kernel compares with the waker's CPU, not with the task's last one.
    "try_to_wake_up() awoke a task that last ran on a diff cpu": "ttwu_wake_remote",
    "try_to_wake_up() moved task because cache-cold on own cpu": "ttwu_move_affine",
    "try_to_wake_up() started passive balancing": "ttwu_move_balance",
}
_IDLE_TYPES: Mapping[str, Idle] = {"busy": "busy", "idle": "idle", "newly idle": "newidle"}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Block:
    # Of one CPU, or of one of its domains. Columns are in the order of the lines.
    cpu: int
    domain: Domain | None
    counts: dict[Column, int] = field(default_factory=dict)


def is_sched_stats_report(head: str) -> bool:
    """Say whether a text begins as the report does, or as that of ``perf sched stats diff``."""
    return head.startswith(FIRST_LINE)


def parse_sched_stats_report(lines: Iterable[str], label: str) -> Change:
    """Read a report.

    :param label: of the file, for messages
    :raises InputError: it is none, it is one of a comparison, it is cut off or damaged
    """
    reading = _Reading(label)
    for number, line in enumerate(lines, 1):
        # perf takes its last comma back on a terminal, which in a file leaves both and backspaces.
        reading.take(number, line.replace("\b", "").rstrip())
    return reading.finish()


class _Reading:
    """The lines of one report, taken one after the other."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.jiffies: int | None = None
        self.cpus: list[_Block] = []
        self.domains: list[_Block] = []
        self.seen: set[int] = set()
        # How many domains of the last CPU there were.
        self.levels = 0
        # None: the lines belong to a summary, or to no block yet.
        self.block: _Block | None = None

    def bad(self, number: int, problem: str, advice: str = ADVICE) -> InputError:
        return InputError(f"{self.label}:{number}: {problem}; {advice}")

    def take(self, number: int, line: str) -> None:
        if len(line) > LONGEST_LINE:
            raise self.bad(number, f"the line has {len(line)} characters, perf writes fewer")
        if line.startswith("CPU "):
            self._begin(number, line)
        elif ":" in line and not line.startswith(("*", "-")):
            self._take_value(number, line)

    def _begin(self, number: int, line: str) -> None:
        found = _BLOCK.fullmatch(line)
        if found is None:
            raise self.bad(number, f"neither a CPU nor a domain: {line[:SHOWN]!r}")
        self.block = None
        if found["cpu"] is None:
            return
        cpu = int(found["cpu"])
        if found["name"] is None:
            if cpu >= MOST_CPUS or cpu in self.seen:
                raise self.bad(number, f"CPU {cpu} a second time, or of more than {MOST_CPUS}")
            self.seen.add(cpu)
            self.levels = 0
            self.block = _Block(cpu=cpu, domain=None)
            self.cpus.append(self.block)
            return
        self._begin_domain(number, cpu, found)

    def _begin_domain(self, number: int, cpu: int, found: re.Match[str]) -> None:
        if not self.cpus or self.cpus[-1].cpu != cpu or len(self.domains) >= MOST_DOMAINS:
            raise self.bad(number, f"a domain of CPU {cpu}, which is not the last one before it")
        name = found["name"]
        domain = Domain(
            cpu=cpu,
            number=int(name) if name.isdigit() else self.levels,
            name=None if name.isdigit() else name,
            span=None if found["cpus"] is None else self._span(number, found["cpus"]),
        )
        self.levels += 1
        self.block = _Block(cpu=cpu, domain=domain)
        self.domains.append(self.block)

    def _span(self, number: int, cpus: str) -> int:
        span = 0
        for part in cpus.replace(",", " ").split():
            found = _RANGE.fullmatch(part)
            low, high = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
            if not low <= high < MOST_CPUS:
                raise self.bad(number, f"no list of CPUs: {cpus[:SHOWN]!r}")
            span |= (1 << high + 1) - (1 << low)
        return span

    def _take_value(self, number: int, line: str) -> None:
        found = _VALUE.fullmatch(line)
        if found is None:
            raise self.bad(number, f"no count: {line[:SHOWN]!r}")
        if found[3]:
            advice = "it joins kernels by position; give the reports of both sides instead"
            raise self.bad(number, "is the output of perf sched stats diff", advice)
        if found[1] == _ELAPSED:
            self.jiffies = int(found[2])
        elif self.block is not None:
            self._add(number, found[1], int(found[2]))

    def _add(self, number: int, text: str, value: int) -> None:
        assert self.block is not None
        of_idle = _IDLE.fullmatch(text)
        name = _FIELDS.get(of_idle[1] if of_idle else text)
        if name is None:
            raise self.bad(number, f"an unknown field: {text[:SHOWN]!r}", "read the data instead")
        column = Column(_IDLE_TYPES[of_idle[2]] if of_idle else "", name)
        if column in self.block.counts or value >> (FIELDS[name].bits or 64):
            raise self.bad(number, f"{name} a second time, or more than its counter holds")
        self.block.counts[column] = value

    def finish(self) -> Change:
        if not self.cpus:
            problem = "has no CPU"
            raise InputError(f"{self.label}: {problem}; give the whole perf sched stats report")
        domains = [block.domain for block in self.domains if block.domain is not None]
        refuse_missing_cpus([block.cpu for block in self.cpus], domains, self.label)
        layout = self._layout()
        cpu_counts = self._table(self.cpus, layout.cpu)
        domain_counts = self._table(self.domains, layout.domain)
        notes = [
            *describe_restarts("CPUs", cpu_counts),
            *describe_restarts("domains", domain_counts),
        ]
        return Change(
            version=layout.version,
            jiffies=self.jiffies or None,
            cpus=tuple(block.cpu for block in self.cpus),
            cpu_counts=cpu_counts,
            domains=tuple(domains),
            domain_counts=domain_counts,
            notes=tuple(notes),
        )

    def _layout(self) -> Layout:
        # Without any domain there is nothing in which the versions differ.
        columns = tuple(self.domains[0].counts) if self.domains else LAYOUTS[17].domain
        for layout in LAYOUTS.values():
            if layout.domain == columns:
                return layout
        first = next(iter(self.domains[0].counts), None)
        problem = "the first domain is cut off, or of an unknown version"
        raise InputError(f"{self.label}: {problem} (it begins with {first}); {ADVICE}")

    def _table(self, blocks: list[_Block], columns: tuple[Column, ...]) -> Floats:
        for block in blocks:
            if tuple(block.counts) != columns:
                where = f"CPU {block.cpu}{'' if block.domain is None else ', a domain'}"
                raise InputError(
                    f"{self.label}: {where} has {len(block.counts)} of {len(columns)} counts; "
                    f"it is cut off, {ADVICE}"
                )
        rows = [list(block.counts.values()) for block in blocks]
        counts = np.array(rows, dtype=np.float64).reshape(len(blocks), len(columns))
        # perf subtracts without sign, so a counter that started again shows as one near 2**32.
        is_narrow = np.array([FIELDS[column.field].bits == 32 for column in columns])  # noqa: PLR2004 # a width
        counts[(is_narrow & (counts >= MOST_WRAPPED)).any(axis=1)] = np.nan
        return counts
