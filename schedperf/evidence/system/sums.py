# SPDX-License-Identifier: GPL-2.0-or-later
"""Sum what the system counted between two looks, by NUMA node and over all CPUs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from schedperf.evidence.system._counters import growth
from schedperf.evidence.system.cgroup_cpu import CpuGroup
from schedperf.evidence.system.proc_files import MODULUS, CpuTimes, InterruptTable, Pressure
from schedperf.evidence.system.record import Group
from schedperf.evidence.system.sys_tables import FrequencyPolicy, IdleState, Meter
from schedperf.evidence.system.task_sched import WorkloadTasks

# More power than any zone of RAPL has: what would count for longer than a range may wrap twice.
MOST_WATTS = 500.0
TOTAL = "all limited groups"
# What is added up over groups; usage is not, as a group has that of those below it.
ADDITIVE = ("nr_periods", "nr_throttled", "throttled", "nr_bursts", "burst")
# What of a task's numbers grows from its start on, so that it can be added up.
TASK_SUMS = (
    "sum_exec_runtime", "sum_sleep_runtime", "sum_block_runtime", "wait_sum", "wait_count",
    "iowait_sum", "iowait_count", "nr_switches", "nr_voluntary_switches",
    "nr_involuntary_switches", "nr_migrations", "nr_forced_migrations", "nr_migrations_cold",
    "nr_failed_migrations_affine", "nr_failed_migrations_running", "nr_failed_migrations_hot",
    "nr_wakeups", "nr_wakeups_sync", "nr_wakeups_migrate", "nr_wakeups_local",
    "nr_wakeups_remote", "nr_wakeups_affine", "nr_wakeups_affine_attempts",
    "nr_wakeups_passive", "nr_wakeups_idle", "numa_pages_migrated", "total_numa_faults",
)  # fmt: skip
_Counts = npt.NDArray[np.uint64]

# A note names so many; the others are counted.
_MOST_NAMED = 3
# Groups and fields whose counts are kept CPU by CPU; they are a few dozen numbers of a CPU.
_FIELDS_OF_CPUS = (
    ("cpu", "time"), ("idle", "time"), ("interrupts", "count"), ("softirqs", "count"),
)  # fmt: skip
# Subjects of one run: interrupts, cgroups and idle states of a large machine are some thousand.
_MOST_KEYS = 50_000


class SystemKey(NamedTuple):
    """What was counted: ``SystemKey("idle", "C6", "time", None)``.

    :ivar node: None: of the whole machine
    """

    group: Group
    subject: str
    field: str
    node: int | None


class SystemValue(NamedTuple):
    """A number of one run.

    :ivar unit: "1", "s", "J", "Hz", "W"
    :ivar kind: "count": by how much it grew; "level": a mean, taken as it is
    """

    value: float
    unit: str
    kind: Literal["count", "level"]


class CpuKey(NamedTuple):
    """What was counted of each CPU: ``CpuKey("idle", "C6", "s")``.

    :ivar subject: of interrupts "all", as a machine has hundreds of them
    :ivar unit: "1" or "s"
    """

    group: Group
    subject: str
    unit: str


class SystemSums:
    """The sums of one run, and what is odd in it.

    :param nodes: NUMA node by CPU; with one node there are no sums by node
    """

    def __init__(self, nodes: Mapping[int, int]) -> None:
        self.counts: dict[SystemKey, SystemValue] = {}
        self.cpus: dict[CpuKey, dict[int, float]] = {}
        self._nodes = nodes if len(set(nodes.values())) > 1 else {}
        self._notes: dict[str, None] = {}
        self._wrapped: dict[str, dict[str, None]] = {}
        self._restarted: dict[str, dict[str, None]] = {}

    def note(self, text: str) -> None:
        """Keep a sentence for the reader."""
        self._notes[text] = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what is odd, a sentence each."""
        wrapped = (
            f"{group}: wrapped, and counted as once, though it may have been more often: "
            f"{_names(subjects)}"
            for group, subjects in self._wrapped.items()
        )
        restarted = (
            f"{group}: decreased, so it was reset and its counts are left out: {_names(subjects)}"
            for group, subjects in self._restarted.items()
        )
        return (*self._notes, *wrapped, *restarted)

    def add_growth(
        self,
        key: SystemKey,
        before: int | None,
        after: int | None,
        *,
        unit: str = "1",
        scale: float = 1.0,
        modulus: int | None = None,
        cpu: int | None = None,
    ) -> None:
        """Add what one counter has grown; nothing where a value is not known.

        :param key: with the node None
        :param scale: makes ``unit`` of the counter's own unit
        :param modulus: the counter's number of values; None: it does not wrap
        :param cpu: whose counter it is; None: the machine's
        """
        if before is None or after is None:
            return
        grown, has_wrapped = growth(before, after, modulus)
        who = key.subject if cpu is None else f"{key.subject} of cpu{cpu}"
        if has_wrapped:
            self._wrapped.setdefault(key.group, {})[who] = None
        if grown is None:
            self._restarted.setdefault(key.group, {})[who] = None
        else:
            self.add_count(key, grown * scale, unit, cpu)

    def add_growths(
        self, key: SystemKey, cpus: Sequence[int], before: _Counts, after: _Counts, modulus: int
    ) -> None:
        """Add what the counters of many CPUs have grown.

        :param before: shape (cpus,); ``after`` as well
        """
        if (after < before).any():
            for cpu, *values in zip(cpus, before.tolist(), after.tolist(), strict=True):
                self.add_growth(key, *values, modulus=modulus, cpu=cpu)
            return
        grown = (after - before).astype(np.float64)
        self.add_count(key, float(grown.sum()), "1")
        for cpu, value in zip(cpus, grown.tolist(), strict=True):
            self._add_to_cpu(key, value, "1", cpu)
        nodes = np.array([self._nodes.get(cpu, -1) for cpu in cpus])
        for node in set(nodes.tolist()) - {-1}:
            self.add_count(key._replace(node=node), float(grown[nodes == node].sum()), "1")

    def add_count(self, key: SystemKey, value: float, unit: str, cpu: int | None = None) -> None:
        """Add to the count of a key, and to those of the CPU and of its node."""
        places = [key]
        if cpu is not None:
            self._add_to_cpu(key, value, unit, cpu)
        if cpu is not None and cpu in self._nodes:
            places.append(key._replace(node=self._nodes[cpu]))
        for place in places:
            if place not in self.counts and len(self.counts) >= _MOST_KEYS:
                self.note(f"more than {_MOST_KEYS} different counts; the others are left out")
                return
            sum_before = self.counts[place].value if place in self.counts else 0.0
            self.counts[place] = SystemValue(sum_before + value, unit, "count")

    def _add_to_cpu(self, key: SystemKey, value: float, unit: str, cpu: int) -> None:
        if (key.group, key.field) in _FIELDS_OF_CPUS:
            subject = "all" if key.group == "interrupts" else key.subject
            counts = self.cpus.setdefault(CpuKey(key.group, subject, unit), {})
            counts[cpu] = counts.get(cpu, 0.0) + value

    def set_level(self, key: SystemKey, value: float, unit: str) -> None:
        """Keep a mean."""
        self.counts[key] = SystemValue(value, unit, "level")


def add_pressure(
    sums: SystemSums, before: Sequence[Pressure], after: Sequence[Pressure], *, resource: str
) -> None:
    """Add the stall times of one resource ("cpu"), in seconds."""
    earlier = {one.kind: one.total_us for one in before}
    for one in after:
        key = SystemKey("pressure", f"{resource} {one.kind}", "total", None)
        sums.add_growth(key, earlier.get(one.kind), one.total_us, unit="s", scale=1e-6)


def add_idle(sums: SystemSums, before: Sequence[IdleState], after: Sequence[IdleState]) -> None:
    """Add entries of idle states, and the time in them in seconds."""
    earlier = {(one.cpu, one.state, one.name): one for one in before}
    for one in after:
        other = earlier.get((one.cpu, one.state, one.name))
        if other is None:
            continue
        key = SystemKey("idle", one.name, "time", None)
        sums.add_growth(key, other.time_us, one.time_us, unit="s", scale=1e-6, cpu=one.cpu)
        for field in ("usage", "above", "below", "rejected"):
            values = (getattr(other, field), getattr(one, field))
            sums.add_growth(key._replace(field=field), *values, cpu=one.cpu)


def add_frequency(
    sums: SystemSums, before: Sequence[FrequencyPolicy], after: Sequence[FrequencyPolicy]
) -> None:
    """Add changes of frequency, and means over CPUs in Hz.

    "cur", "min" and "max" are means of both looks, "mean" is of the run itself where the driver
    counts the time at each frequency.
    """
    earlier = {one.cpus[0]: one for one in before}
    pairs = [(earlier[one.cpus[0]], one) for one in after if one.cpus[0] in earlier]
    key = SystemKey("frequency", "CPUs", "total_trans", None)
    for old, new in pairs:
        sums.add_growth(key, old.total_trans, new.total_trans, cpu=new.cpus[0])
    for field in ("cur", "min", "max"):
        known = [
            (getattr(one, f"{field}_khz"), len(one.cpus))
            for pair in pairs
            for one in pair
            if getattr(one, f"{field}_khz") is not None
        ]
        _set_mean(sums, key._replace(field=field), known)
    spent = [
        (khz, len(new.cpus) * (ticks - old.ticks[khz]))
        for old, new in pairs
        for khz, ticks in new.ticks.items()
        if ticks >= old.ticks.get(khz, ticks + 1)
    ]
    _set_mean(sums, key._replace(field="mean"), spent)


def _set_mean(sums: SystemSums, key: SystemKey, weighted_khz: Sequence[tuple[int, int]]) -> None:
    weight = sum(weight for _, weight in weighted_khz)
    if weight:
        khz = sum(khz * weight for khz, weight in weighted_khz) / weight
        sums.set_level(key, khz * 1e3, "Hz")


def add_power(
    sums: SystemSums, before: Sequence[Meter], after: Sequence[Meter], *, seconds: float | None
) -> None:
    """Add the energy that meters counted, in J, and the mean of the power that others showed, in W.

    :param seconds: between the looks; None: unknown
    """
    earlier = {(one.zone, one.name): one for one in before}
    for new in after:
        old = earlier.get((new.zone, new.name))
        if old is None:
            continue
        key = SystemKey("power", new.name, "energy", None)
        sums.add_growth(key, old.energy_uj, _unwrapped(sums, old, new), unit="J", scale=1e-6)
        if new.energy_range_uj and seconds and seconds * MOST_WATTS * 1e6 > new.energy_range_uj:
            sums.note(
                f"power: {new.name} wraps at {new.energy_range_uj / 1e6:.0f} J, and the run is so "
                "long that it may have wrapped more often than is counted"
            )
        if old.power_uw is not None and new.power_uw is not None:
            watts = (old.power_uw + new.power_uw) / 2e6
            sums.set_level(key._replace(field="power"), watts, "W")


def _unwrapped(sums: SystemSums, old: Meter, new: Meter) -> int | None:
    # A meter of energy never starts again, so one that is lower has wrapped.
    energy, most = new.energy_uj, new.energy_range_uj
    if energy is None or old.energy_uj is None or most is None:
        return energy
    if energy >= old.energy_uj or old.energy_uj > most:
        return energy
    sums.note(f"power: {new.name} wrapped at {most / 1e6:.0f} J, counted as one wrap")
    return energy + most


def add_interrupts(
    sums: SystemSums, before: InterruptTable, after: InterruptTable, *, group: Group
) -> None:
    """Add how often CPUs were interrupted, by what did.

    :param group: "interrupts" or "softirqs"
    """
    columns = [{cpu: place for place, cpu in enumerate(look.cpus)} for look in (before, after)]
    cpus = [cpu for cpu in after.cpus if cpu in columns[0]]
    if before.cpus != after.cpus:
        sums.note(
            f"{group}: CPUs went online or offline during the run; only CPUs in both are counted"
        )
    places = [np.array([column[cpu] for cpu in cpus], dtype=np.intp) for column in columns]
    earlier = {(line.label, line.name): line for line in before.lines}
    for line in after.lines:
        other = earlier.get((line.label, line.name))
        if other is None:
            continue
        key = SystemKey(group, line.name, "count", None)
        if line.is_total:
            values = (int(other.counts[0]), int(line.counts[0]))
            sums.add_growth(key, *values, modulus=MODULUS)
        else:
            counts = (other.counts[places[0]], line.counts[places[1]])
            sums.add_growths(key, cpus, *counts, modulus=MODULUS)


def add_cpu_times(sums: SystemSums, before: CpuTimes, after: CpuTimes, *, ticks: int) -> None:
    """Add where the time of the CPUs went in seconds, context switches and new tasks.

    :param ticks: in a second
    """
    for cpu, kinds in after.ticks.items():
        for kind, value in kinds.items():
            key = SystemKey("cpu", kind, "time", None)
            earlier = before.ticks.get(cpu, {}).get(kind)
            sums.add_growth(key, earlier, value, unit="s", scale=1 / ticks, cpu=cpu)
    for name, value in after.totals.items():
        sums.add_growth(SystemKey("cpu", name, "count", None), before.totals.get(name), value)


def add_groups(
    sums: SystemSums,
    before: Iterable[CpuGroup],
    after: Iterable[CpuGroup],
    *,
    during: Iterable[CpuGroup],
) -> None:
    """Add what control groups counted, and their limits.

    :param during: the last look at those that may be gone after the run

    A group that was made in the run began with 0; of one that was removed the last look counts.
    """
    first = {(one.path, one.inode): one for one in before}
    at_end = {(one.path, one.inode): one for one in after}
    last = {**{(one.path, one.inode): one for one in during}, **at_end}
    for key in first.keys() - last.keys():
        sums.note(f"cgroup: {key[0]} was removed before the second snapshot, so it has no counts")
    for key, group in last.items():
        if key not in at_end:
            sums.note(
                f"cgroup: {group.path} was removed during the run; its counts are those of the "
                "last snapshot"
            )
        if key in first or group.is_new:
            _add_group(sums, first.get(key), group)
        else:
            sums.note(f"cgroup: {group.path} got its limit during the run, so it has no counts")


def _add_group(sums: SystemSums, earlier: CpuGroup | None, group: CpuGroup) -> None:
    is_limited = group.quota_s is not None
    for name, count in group.counts.items():
        key = SystemKey("cgroup", group.path, name, None)
        start = 0 if earlier is None else None
        if earlier is not None and name in earlier.counts:
            start = earlier.counts[name].value
        for one in (key, key._replace(subject=TOTAL)):
            if one.subject == group.path or (is_limited and name in ADDITIVE):
                sums.add_growth(one, start, count.value, unit=count.unit, scale=count.scale)
    if earlier is not None and earlier.quota_s != group.quota_s:
        sums.note(f"cgroup: the limit of {group.path} changed during the run")
    for field, seconds in (("quota", group.quota_s), ("period", group.period_s)):
        if is_limited and seconds is not None:
            sums.set_level(SystemKey("cgroup", group.path, field, None), seconds, "s")


def add_tasks(sums: SystemSums, found: WorkloadTasks) -> None:
    """Add up what the scheduler counted of the workload's tasks, each up to the last look at it."""
    for task in found.tasks:
        for name in TASK_SUMS:
            if name in task.fields:
                field = task.fields[name]
                sums.add_count(SystemKey("tasks", "all tasks", name, None), field.value, field.unit)
    if found.left_out:
        sums.note(f"tasks: only {len(found.tasks)} were looked at, more were there")


def _names(subjects: Mapping[str, None]) -> str:
    more = len(subjects) - _MOST_NAMED
    return ", ".join(list(subjects)[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
