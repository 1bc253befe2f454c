# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the directory system_counters of a run: increases of system-wide counters.

:func:`read_system_counters` reads both snapshots of the run and returns the increase of each
counter. A file that cannot be read is left out, with a note. :func:`read_task_counters` reads the
statistics of the workload's tasks from the collector task_sched.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Annotated, TypeVar

from msgspec import Meta, Struct

from schedperf.evidence.system._counters import parse_count
from schedperf.evidence.system.cgroup_cpu import CpuGroup, parse_cgroup_cpu
from schedperf.evidence.system.proc_files import parse_cpu_times, parse_interrupts, parse_pressure
from schedperf.evidence.system.record import BY_NAME
from schedperf.evidence.system.sums import (
    Clock,
    CpuKey,
    SystemKey,
    SystemSums,
    SystemValue,
    add_cpu_times,
    add_frequency,
    add_groups,
    add_idle,
    add_interrupts,
    add_power,
    add_pressure,
    add_tasks,
)
from schedperf.evidence.system.sys_tables import parse_cpufreq, parse_cpuidle, parse_power
from schedperf.evidence.system.task_sched import parse_task_sched
from schedperf.inputs.bundle.json import convert
from schedperf.inputs.bundle.lines import stream_lines
from schedperf.inputs.bundle.open import Bundle, Run
from schedperf.inputs.side import Side
from schedperf.model.errors import InputError
from schedperf.runs.settings import facts_member, read_facts

__all__ = [
    "CpuKey",
    "SystemCounts",
    "SystemKey",
    "SystemValue",
    "read_system_counters",
    "read_task_counters",
]

FOLDER = "system_counters"
TASKS = "task_sched/tasks.json"
PRESSURES = ("cpu", "memory", "io", "irq")
# Largest size of a file that the collector copies.
LARGEST_BYTES = 64 << 20
LARGEST_JSON_BYTES = 16 << 20
# NTP adjusts the clock by at most 500 ppm (MAXFREQ of the kernel); reading both clocks takes a few
# us.
SLEWED = 500e-6
LEAST_STEP_S = 1e-3
# USER_HZ is 100 on all current architectures, 1024 on Alpha.
LARGEST_TICKS = 10_000

Parsed = TypeVar("Parsed")
Parse = Callable[[Iterable[str], str], Parsed]


class SystemCounts(Struct, frozen=True, kw_only=True):
    """System-wide counters around one run.

    :param cpus: counts of each CPU; times in s
    :param seconds: time between both snapshots; None if unknown
    :param missing: why a file is missing, by name; this depends on the machine, not on the run
    :param notes: anomalies in this run, one sentence each
    """

    counts: Mapping[SystemKey, SystemValue]
    cpus: Mapping[CpuKey, Mapping[int, float]]
    seconds: float | None
    missing: Mapping[str, str]
    notes: tuple[str, ...]


class _Facts(Struct, frozen=True, kw_only=True):
    """Contents of facts.json.

    :param seconds: time between both snapshots; None if unknown
    :param cpus_before: online CPUs in the kernel's format: "0-3"
    :param clock_stepped_ns: change of CLOCK_REALTIME relative to CLOCK_MONOTONIC
    """

    seconds: Annotated[float, Meta(ge=0.0)] | None = None
    ticks_per_second: Annotated[int, Meta(ge=1, le=LARGEST_TICKS)]
    missing: Mapping[str, str]
    cpus_before: str | None = None
    cpus_after: str | None = None
    clock_stepped_ns: int | None = None
    notes: tuple[str, ...] | None = None


def read_system_counters(side: Side, run: Run) -> SystemCounts:
    """Read the system counters of a run.

    :raises InputError: the run has no counters, or facts.json is damaged
    """
    bundle, folder = side.bundle, f"{run.folder}/{FOLDER}"
    name = facts_member(run)
    if bundle.size(name) is None:
        raise InputError(f"{bundle.path}: {name} is missing; record with the collector {FOLDER}")
    facts = convert(read_facts(side, run), _Facts, name)
    host = next(boot.host for boot in bundle.boots if boot.number == run.boot)
    reading = _Reading(bundle, folder, SystemSums(host.topology.node_of_cpu()))
    _describe_run(reading.sums, facts)
    reading.read_all(facts.seconds, facts.ticks_per_second)
    return SystemCounts(
        counts=reading.sums.counts,
        cpus=reading.sums.cpus,
        seconds=facts.seconds,
        missing=facts.missing,
        notes=reading.sums.notes,
    )


def read_task_counters(side: Side, run: Run) -> SystemCounts:
    """Read the counters summed over the workload's tasks, from the last snapshot of each task.

    :raises InputError: the run has no task statistics, or tasks.json is damaged
    """
    bundle, name = side.bundle, f"{run.folder}/{TASKS}"
    if bundle.size(name) is None:
        raise InputError(f"{bundle.path}: {name} is missing; record with the collector task_sched")
    sums = SystemSums({})
    add_tasks(sums, parse_task_sched(bundle.read(name, LARGEST_JSON_BYTES), name))
    return SystemCounts(counts=sums.counts, cpus={}, seconds=None, missing={}, notes=sums.notes)


class _Reading:
    """Reads the files of one run independently of each other."""

    def __init__(self, bundle: Bundle, folder: str, sums: SystemSums) -> None:
        self.sums = sums
        self._bundle = bundle
        self._folder = folder

    def read_all(self, seconds: float | None, ticks: int) -> None:
        """Add the increases of the counters in all files.

        :param seconds: time between the snapshots; None if unknown
        :param ticks: ticks of USER_HZ per second
        """
        for name in PRESSURES:
            add_stalls = partial(add_pressure, self.sums, resource=name)
            self._compare(f"pressure_{name}", parse_pressure, add_stalls)
        for group in BY_NAME:
            add = partial(add_interrupts, self.sums, group=group)
            self._compare(group, parse_interrupts, add)
        self._compare("cpuidle", parse_cpuidle, partial(add_idle, self.sums))
        self._compare("cpufreq", parse_cpufreq, partial(add_frequency, self.sums))
        self._compare("power", parse_power, partial(add_power, self.sums, seconds=seconds))
        self._compare("stat", parse_cpu_times, partial(add_cpu_times, self.sums, ticks=ticks))
        self._compare("cgroups", parse_cgroup_cpu, self._add_groups)

    def _compare(
        self, name: str, parse: Parse[Parsed], add: Callable[[Parsed, Parsed], None]
    ) -> None:
        """Parse one file of both snapshots, and add the increases of its counters to the sums.

        A file that only one snapshot has, or that is damaged, is left out, with a note; a file that
        neither has is left out without one.

        :param parse: parses the lines of the file
        :param add: takes the parsed file before and after the run, and adds the increases
        """
        before, after = f"{self._folder}/before/{name}", f"{self._folder}/after/{name}"
        is_there = [self._bundle.size(path) is not None for path in (before, after)]
        if not all(is_there):
            if any(is_there):
                when = "before" if is_there[0] else "after"
                self.sums.note(f"{name} is not counted, because it was read only {when} the run")
            return
        try:
            add(self._parse(before, parse), self._parse(after, parse))
        except InputError as error:
            self.sums.note(str(error))

    def _parse(self, path: str, parse: Parse[Parsed]) -> Parsed:
        content = self._bundle.read_captured(path, LARGEST_BYTES)
        if content and not content.endswith(b"\n"):
            raise InputError(f"{path}: truncated last line; record again")
        return parse((line.removesuffix("\n") for line in stream_lines(content)), path)

    def _add_groups(self, before: tuple[CpuGroup, ...], after: tuple[CpuGroup, ...]) -> None:
        path = f"{self._folder}/during/cgroups"
        there = self._bundle.size(path) is not None
        during = self._parse(path, parse_cgroup_cpu) if there else ()
        add_groups(self.sums, before, after, during=during, clock=self._clock())

    def _clock(self) -> Clock | None:
        began, ended = (self._monotonic_ns(when) for when in ("before", "after"))
        return None if began is None or ended is None else Clock(began, ended)

    def _monotonic_ns(self, when: str) -> int | None:
        path = f"{self._folder}/{when}/clock"
        if self._bundle.size(path) is None:
            return None
        name, _, value = (
            self._bundle.read_text(path, LARGEST_BYTES).partition("\n")[0].partition(" ")
        )
        return parse_count(value, path) if name == "monotonic_ns" else None


def _describe_run(sums: SystemSums, facts: _Facts) -> None:
    for text in facts.notes or ():
        sums.note(text)
    before, after = facts.cpus_before, facts.cpus_after
    if before != after:
        sums.note(f"CPUs {before} were online before the run and {after} after it")
    stepped_s, seconds = abs(facts.clock_stepped_ns or 0) / 1e9, facts.seconds
    if seconds is not None and stepped_s > LEAST_STEP_S + SLEWED * seconds:
        sums.note("the clock was set during the run, or the machine was suspended")
