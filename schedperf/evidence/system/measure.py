# SPDX-License-Identifier: GPL-2.0-or-later
"""Compute the rates, shares and means of the counters of one run."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from schedperf.evidence.system.capture import SystemCounts, SystemKey, SystemValue
from schedperf.model.counted import Basis
from schedperf.model.host import Topology
from schedperf.model.run import Captured, Operations
from schedperf.stats.counted.rates import Measure, Measures, divide

# Times that are converted to a share of the run's time or of all CPUs' time, not to a rate.
STALLS = "pressure"
CPU_TIMES = ("idle", "cpu")
# The last snapshot of a task is before its end, so its sums are incomplete, but quotients are
# valid.
TASKS = "tasks"
GUESTS = ("guest", "guest_nice")
# Clock-driven counters: ticks, the softirqs that a tick raises, polls of machine checks, and quota
# periods. Names of interrupts: x86, powerpc and s390; arm64 and RISC-V; guests of Hyper-V.
_CLOCKED = (
    ("softirqs", "TIMER"),
    ("softirqs", "SCHED"),
    ("softirqs", "HRTIMER"),
    ("interrupts", "LOC"),
    ("interrupts", "CLK"),
    ("interrupts", "MCP"),
    ("interrupts", "HVS"),
    ("interrupts", "TMR"),
    ("interrupts", "BCT"),
    ("interrupts", "arch_timer"),
    ("interrupts", "arch_mem_timer"),
    ("interrupts", "riscv-timer"),
    ("interrupts", "Timer broadcast interrupts"),
)
# Names that end in the number of a timer or CPU: HPETs of x86, timers of a Xen guest.
_CLOCKED_INTERRUPT = re.compile(r"(?:hpet|timer)\d*")
_CLOCKED_FIELDS = (("cgroup", "nr_periods"),)

Cpus = Mapping[int | None, int]


class _Quotient(NamedTuple):
    """A count divided by another one of the same subject.

    :param unit: unit of the result; "" for a share
    """

    group: str
    name: str
    over: str
    under: str
    unit: str


_QUOTIENTS = (
    _Quotient("cgroup", "throttled_share", "nr_throttled", "nr_periods", ""),
    _Quotient("idle", "above_share", "above", "usage", ""),
    _Quotient("idle", "below_share", "below", "usage", ""),
    _Quotient(TASKS, "wait_mean", "wait_sum", "wait_count", "s"),
    _Quotient(TASKS, "iowait_mean", "iowait_sum", "iowait_count", "s"),
    _Quotient(TASKS, "slice_mean", "sum_exec_runtime", "nr_switches", "s"),
    _Quotient(TASKS, "involuntary_share", "nr_involuntary_switches", "nr_switches", ""),
    _Quotient(TASKS, "migrations_mean", "nr_migrations", "nr_switches", "1/switch"),
    _Quotient(TASKS, "remote_share", "nr_wakeups_remote", "nr_wakeups", ""),
)


def count_cpus(topology: Topology) -> Cpus:
    """Return the number of CPUs of each node; the key None has the total."""
    counts: Counter[int | None] = Counter(topology.node_of_cpu().values())
    counts[None] = len(topology.cpus)
    return counts


def measure(run: Captured[SystemCounts], cpus: Cpus) -> Measures[SystemKey]:
    """Return the rates, levels and shares of a run.

    Counts are divided by the time between both snapshots (the run's wall time if that is unknown;
    for a removed cgroup the time until its last snapshot) and by the operations. Clock-driven
    counts, and counts of a part of the run, are not divided by the operations. Stalls are a share
    of that time, CPU times and idle times a share of the time of all CPUs, throttled periods a
    share of all periods. Statistics of tasks are only means and shares. J/s become W.

    :param cpus: result of :func:`count_cpus` for the boot of the run
    """
    counts = run.content.counts
    seconds = run.content.seconds or run.wall_s
    grown = {key: value for key, value in counts.items() if value.kind == "count"}
    measures = {
        identity: quotient._replace(unit="W") if quotient.unit == "J/s" else quotient
        for key, value in grown.items()
        if key.group not in (STALLS, TASKS)
        for identity, quotient in _divide(key, value, seconds, run.ops)
    }
    for key, value in counts.items():
        if value.kind == "level":
            measures[key, "share"] = Measure(value.value, value.unit)
    plain = {key: value.value for key, value in grown.items()}
    measures |= {(key, "share"): quotient for key, quotient in _quotients(plain)}
    for key, share in _shares_of_time(plain, seconds, cpus):
        measures.pop((key, "time"), None)
        measures[key._replace(field="share"), "share"] = Measure(share, "")
    return measures


def _divide(
    key: SystemKey, value: SystemValue, seconds: float | None, ops: Operations | None
) -> Iterator[tuple[tuple[SystemKey, Basis], Measure]]:
    # Counts that cover only a part of the run are not divided by all of its operations.
    has_ops = not (value.is_partial or is_clocked(key))
    return divide(
        {key: Measure(value.value, value.unit)},
        seconds=seconds if value.seconds is None else value.seconds,
        ops=ops if has_ops else None,
    )


def is_clocked(key: SystemKey) -> bool:
    """Return whether a counter is clock-driven, so that per operation it only shows the duration.

    >>> is_clocked(SystemKey("softirqs", "TIMER", "count", None))
    True
    """
    if (key.group, key.subject) in _CLOCKED or (key.group, key.field) in _CLOCKED_FIELDS:
        return True
    return key.group == "interrupts" and bool(_CLOCKED_INTERRUPT.fullmatch(key.subject))


def accounted_share(run: Captured[SystemCounts], cpus: Cpus) -> float | None:
    """Return the share of all CPUs' wall time that /proc/stat accounts for; None if unknown.

    Every tick of a CPU has one kind, including idle, so the share is 1 unless ticks are lost. Guest
    time is included in "user" and "nice".
    """
    seconds, count = run.content.seconds, cpus.get(None)
    times = [
        value.value
        for key, value in run.content.counts.items()
        if (key.group, key.field, key.node) == ("cpu", "time", None) and key.subject not in GUESTS
    ]
    return sum(times) / (seconds * count) if times and seconds and count else None


def _quotients(counts: Mapping[SystemKey, float]) -> Iterator[tuple[SystemKey, Measure]]:
    for key, value in counts.items():
        for quotient in _QUOTIENTS:
            if (key.group, key.field) == (quotient.group, quotient.over):
                under = counts.get(key._replace(field=quotient.under))
                if under:
                    yield key._replace(field=quotient.name), Measure(value / under, quotient.unit)


def _shares_of_time(
    counts: Mapping[SystemKey, float], seconds: float | None, cpus: Cpus
) -> Iterator[tuple[SystemKey, float]]:
    if not seconds:
        return
    for key, value in counts.items():
        if key.group == STALLS:
            yield key, value / seconds
        elif key.group in CPU_TIMES and key.field == "time" and cpus.get(key.node):
            yield key, value / seconds / cpus[key.node]
