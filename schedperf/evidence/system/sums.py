# SPDX-License-Identifier: GPL-2.0-or-later
"""Sum system counters between two snapshots, by NUMA node and over all CPUs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from schedperf.evidence.system._counters import growth
from schedperf.evidence.system.cgroup_cpu import CpuGroup
from schedperf.evidence.system.proc_files import MODULUS, CpuTimes, InterruptTable, Pressure
from schedperf.evidence.system.record import Group
from schedperf.evidence.system.sys_tables import FrequencyPolicy, IdleState, Meter
from schedperf.evidence.system.task_sched import WorkloadTasks
from schedperf.model.text import list_some

# Upper limit of the power of a RAPL zone, to detect runs in which it may wrap twice.
MOST_WATTS = 500.0
TOTAL = "all limited groups"
# Counters that are summed over groups; not usage, since a group includes the usage of its children.
ADDITIVE = ("nr_periods", "nr_throttled", "throttled", "nr_bursts", "burst")
# The last snapshot of a removed group must be in the second half of the run, since later counts are
# unknown. If several groups are summed, their times must agree within a tenth.
LEAST_OF_RUN = 0.5
LEAST_OF_OTHERS = 0.9
# Cumulative counters of a task, which can be summed over tasks.
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

# Number of counters that a note lists by name.
_MOST_NAMED = 3
# Groups and fields whose counts are kept per CPU: a few dozen numbers per CPU.
_FIELDS_OF_CPUS = (
    ("cpu", "time"), ("idle", "time"), ("interrupts", "count"), ("softirqs", "count"),
)  # fmt: skip
# Largest number of subjects per run; a large machine has a few thousand interrupts, cgroups and
# idle states.
_MOST_KEYS = 50_000


class SystemKey(NamedTuple):
    """Identity of a count: ``SystemKey("idle", "C6", "time", None)``.

    :ivar node: NUMA node; None for the whole machine
    """

    group: Group
    subject: str
    field: str
    node: int | None


class SystemValue(NamedTuple):
    """A number of one run.

    :ivar unit: "1", "s", "J", "Hz", "W"
    :ivar kind: "count": increase of a counter; "level": a mean or a limit
    :ivar seconds: from the start of the run to the last snapshot of the counter; None for the whole
        run
    :ivar is_partial: True if the counter may have increased after its last snapshot
    """

    value: float
    unit: str
    kind: Literal["count", "level"]
    seconds: float | None = None
    is_partial: bool = False


class CpuKey(NamedTuple):
    """Identity of a count of each CPU: ``CpuKey("idle", "C6", "s")``.

    :ivar subject: "all" for interrupts, because a machine has hundreds of them
    :ivar unit: "1" or "s"
    """

    group: Group
    subject: str
    unit: str


class SystemSums:
    """The sums of one run, and notes on anomalies.

    :param nodes: NUMA node by CPU; with one node there are no sums per node
    """

    def __init__(self, nodes: Mapping[int, int]) -> None:
        self.counts: dict[SystemKey, SystemValue] = {}
        self.cpus: dict[CpuKey, dict[int, float]] = {}
        self._nodes = nodes if len(set(nodes.values())) > 1 else {}
        self._notes: dict[str, None] = {}
        self._wrapped: dict[str, dict[str, None]] = {}
        self._restarted: dict[str, dict[str, None]] = {}

    def note(self, text: str) -> None:
        """Add a note, unless it was added before."""
        self._notes[text] = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes on anomalies, one sentence each."""
        wrapped = (
            f"{group}: {_names(subjects)} wrapped (one wrap is assumed, more are possible)"
            for group, subjects in self._wrapped.items()
        )
        restarted = (
            f"{group}: {_names(subjects)} decreased, so these counters were reset and are left out"
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
        """Add the increase of one counter; ignore unknown values.

        :param key: key with node None
        :param scale: factor from the counter's unit to ``unit``
        :param modulus: number of values of the counter; None if it does not wrap
        :param cpu: CPU of the counter; None for the whole machine
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
        """Add the increase of the counters of many CPUs.

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
        """Add a value to the sum of a counter, and to the sums of the CPU and its node.

        Beyond ``_MOST_KEYS`` counters, further ones are left out, with a note.

        :param key: key with node None
        :param cpu: CPU of the counter; None for the whole machine
        """
        keys = [key]
        if cpu is not None:
            self._add_to_cpu(key, value, unit, cpu)
        if cpu is not None and cpu in self._nodes:
            keys.append(key._replace(node=self._nodes[cpu]))
        for summed_key in keys:
            if summed_key not in self.counts and len(self.counts) >= _MOST_KEYS:
                self.note(f"more than {_MOST_KEYS} counters; further counters are left out")
                return
            sum_before = self.counts[summed_key].value if summed_key in self.counts else 0.0
            self.counts[summed_key] = SystemValue(sum_before + value, unit, "count")

    def _add_to_cpu(self, key: SystemKey, value: float, unit: str, cpu: int) -> None:
        if (key.group, key.field) in _FIELDS_OF_CPUS:
            subject = "all" if key.group == "interrupts" else key.subject
            counts = self.cpus.setdefault(CpuKey(key.group, subject, unit), {})
            counts[cpu] = counts.get(cpu, 0.0) + value

    def set_level(self, key: SystemKey, value: float, unit: str) -> None:
        """Set a level: a mean or a limit."""
        self.counts[key] = SystemValue(value, unit, "level")


def add_pressure(
    sums: SystemSums, before: Sequence[Pressure], after: Sequence[Pressure], *, resource: str
) -> None:
    """Add the stall times of one resource ("cpu"), in seconds."""
    earlier = {stall.kind: stall.total_us for stall in before}
    for stall in after:
        key = SystemKey("pressure", f"{resource} {stall.kind}", "total", None)
        sums.add_growth(key, earlier.get(stall.kind), stall.total_us, unit="s", scale=1e-6)


def add_idle(sums: SystemSums, before: Sequence[IdleState], after: Sequence[IdleState]) -> None:
    """Add entries of idle states, and the time in them in seconds."""
    earlier = {(state.cpu, state.state, state.name): state for state in before}
    for state in after:
        old = earlier.get((state.cpu, state.state, state.name))
        if old is None:
            continue
        key = SystemKey("idle", state.name, "time", None)
        sums.add_growth(key, old.time_us, state.time_us, unit="s", scale=1e-6, cpu=state.cpu)
        for field in ("usage", "above", "below", "rejected"):
            values = (getattr(old, field), getattr(state, field))
            sums.add_growth(key._replace(field=field), *values, cpu=state.cpu)


def add_frequency(
    sums: SystemSums, before: Sequence[FrequencyPolicy], after: Sequence[FrequencyPolicy]
) -> None:
    """Add frequency transitions, and means over CPUs in Hz.

    "cur", "min" and "max" are means of both snapshots; "mean" is of the run itself, if the driver
    counts the time at each frequency.
    """
    earlier = {policy.cpus[0]: policy for policy in before}
    pairs = [(earlier[policy.cpus[0]], policy) for policy in after if policy.cpus[0] in earlier]
    key = SystemKey("frequency", "CPUs", "total_trans", None)
    for old, new in pairs:
        sums.add_growth(key, old.total_trans, new.total_trans, cpu=new.cpus[0])
    for field in ("cur", "min", "max"):
        frequencies = [
            (getattr(policy, f"{field}_khz"), len(policy.cpus))
            for pair in pairs
            for policy in pair
            if getattr(policy, f"{field}_khz") is not None
        ]
        _set_mean(sums, key._replace(field=field), frequencies)
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
    """Add the energy of energy meters in J, and the mean power of power meters in W.

    :param seconds: time between the snapshots; None if unknown
    """
    earlier = {(meter.zone, meter.name): meter for meter in before}
    for new in after:
        old = earlier.get((new.zone, new.name))
        if old is None:
            continue
        key = SystemKey("power", new.name, "energy", None)
        sums.add_growth(key, old.energy_uj, _unwrapped(sums, old, new), unit="J", scale=1e-6)
        if new.energy_range_uj and seconds and seconds * MOST_WATTS * 1e6 > new.energy_range_uj:
            sums.note(
                f"power: {new.name} wraps at {new.energy_range_uj / 1e6:.0f} J; in a run of this "
                "length the meter may have wrapped more often than counted"
            )
        if old.power_uw is not None and new.power_uw is not None:
            watts = (old.power_uw + new.power_uw) / 2e6
            sums.set_level(key._replace(field="power"), watts, "W")


def _unwrapped(sums: SystemSums, old: Meter, new: Meter) -> int | None:
    # Energy meters are never reset, so a lower value has wrapped.
    energy, most = new.energy_uj, new.energy_range_uj
    if energy is None or old.energy_uj is None or most is None:
        return energy
    if energy >= old.energy_uj or old.energy_uj > most:
        return energy
    sums.note(f"power: {new.name} wrapped at {most / 1e6:.0f} J (one wrap is assumed)")
    return energy + most


def add_interrupts(
    sums: SystemSums, before: InterruptTable, after: InterruptTable, *, group: Group
) -> None:
    """Add interrupts or softirqs, by name.

    :param group: "interrupts" or "softirqs"
    """
    columns = [{cpu: index for index, cpu in enumerate(look.cpus)} for look in (before, after)]
    cpus = [cpu for cpu in after.cpus if cpu in columns[0]]
    if before.cpus != after.cpus:
        sums.note(
            f"{group}: CPUs went online or offline during the run; only CPUs in both snapshots "
            "are counted"
        )
    indices = [np.array([column[cpu] for cpu in cpus], dtype=np.intp) for column in columns]
    earlier = {(line.label, line.name): line for line in before.lines}
    for line in after.lines:
        old = earlier.get((line.label, line.name))
        if old is None:
            continue
        key = SystemKey(group, line.name, "count", None)
        if line.is_total:
            values = (int(old.counts[0]), int(line.counts[0]))
            sums.add_growth(key, *values, modulus=MODULUS)
        else:
            counts = (old.counts[indices[0]], line.counts[indices[1]])
            sums.add_growths(key, cpus, *counts, modulus=MODULUS)


def add_cpu_times(sums: SystemSums, before: CpuTimes, after: CpuTimes, *, ticks: int) -> None:
    """Add the CPU times in seconds, context switches and created tasks.

    :param ticks: ticks of USER_HZ per second
    """
    for cpu, kinds in after.ticks.items():
        for kind, value in kinds.items():
            key = SystemKey("cpu", kind, "time", None)
            earlier = before.ticks.get(cpu, {}).get(kind)
            sums.add_growth(key, earlier, value, unit="s", scale=1 / ticks, cpu=cpu)
    for name, value in after.totals.items():
        sums.add_growth(SystemKey("cpu", name, "count", None), before.totals.get(name), value)


class Clock(NamedTuple):
    """CLOCK_MONOTONIC at both snapshots of a run, in ns."""

    began_ns: int
    ended_ns: int


class _GroupPart(NamedTuple):
    # The contribution of one group to a counter. ``is_last``: nothing was counted after the group's
    # last snapshot. ``seconds``: from the start of the run to that snapshot; None for the whole
    # run.
    value: float
    seconds: float | None
    is_last: bool


def add_groups(
    sums: SystemSums,
    before: Iterable[CpuGroup],
    after: Iterable[CpuGroup],
    *,
    during: Iterable[CpuGroup],
    clock: Clock | None,
) -> None:
    """Add the counters of cgroups, and their limits.

    The counters of a group created during the run start at 0. For a removed group, the last
    snapshot is used, with its time (:attr:`SystemValue.seconds`). A group has no counts, and a
    note, if its limit was set during the run or its last snapshot is too early.

    :param during: last snapshot of groups that may be removed before the end of the run
    :param clock: None if unknown; removed groups then have no counts
    """
    first = {(cpu_group.path, cpu_group.inode): cpu_group for cpu_group in before}
    at_end = {(cpu_group.path, cpu_group.inode): cpu_group for cpu_group in after}
    last = {**{(cpu_group.path, cpu_group.inode): cpu_group for cpu_group in during}, **at_end}
    for key in first.keys() - last.keys():
        sums.note(f"cgroup: {key[0]} was removed before the second snapshot and has no counts")
    parts: dict[SystemKey, list[_GroupPart]] = {}
    for key, group in last.items():
        if key not in first and not group.is_new:
            sums.note(
                f"cgroup: {group.path} has no counts, because its CPU quota was set during the run"
            )
            continue
        seconds = None if key in at_end else _seconds_until(group, clock)
        for counter, value in _add_group(sums, first.get(key), group):
            is_last = key in at_end or group.is_empty
            parts.setdefault(counter, []).append(_GroupPart(value, seconds, is_last))
        if key not in at_end:
            sums.note(_describe_removed(group))
    _limit_times(sums, parts, clock)


def _seconds_until(group: CpuGroup, clock: Clock | None) -> float:
    # 0 if unknown, which is too short for a rate.
    return 0.0 if clock is None else max(group.seen_ns - clock.began_ns, 0) / 1e9


def _describe_removed(group: CpuGroup) -> str:
    removed = f"cgroup: {group.path} was removed during the run"
    until = "rates per second refer to the time until its last snapshot"
    if group.is_empty:
        return f"{removed}, after its last task had exited; {until}"
    return (
        f"{removed}, at an unknown time after its last snapshot; {until}, and rates per "
        "operation are not computed"
    )


def _limit_times(
    sums: SystemSums, parts: Mapping[SystemKey, Sequence[_GroupPart]], clock: Clock | None
) -> None:
    # The counting time of each counter, combined over all groups.
    run_s = 0.0 if clock is None else (clock.ended_ns - clock.began_ns) / 1e9
    for key, of_groups in parts.items():
        if all(part.seconds is None for part in of_groups) or key not in sums.counts:
            continue
        times = [run_s if part.seconds is None else part.seconds for part in of_groups]
        longest = max(times)
        partial = [
            part_s for part_s, part in zip(times, of_groups, strict=True) if not part.is_last
        ]
        least = LEAST_OF_RUN * run_s if len(of_groups) == 1 else LEAST_OF_OTHERS * longest
        if not longest or (partial and min(partial) < least):
            del sums.counts[key]
            sums.note(
                f"cgroup: {key.subject} has no counts, because the last snapshot before its "
                "removal was taken too early in the run"
            )
            continue
        rate = sum(
            part.value / (longest if part.is_last else part_s)
            for part_s, part in zip(times, of_groups, strict=True)
        )
        seconds = sums.counts[key].value / rate if rate else longest
        sums.counts[key] = sums.counts[key]._replace(
            seconds=None if seconds == run_s else seconds, is_partial=bool(partial)
        )


def _add_group(
    sums: SystemSums, earlier: CpuGroup | None, group: CpuGroup
) -> Iterator[tuple[SystemKey, float]]:
    # Yields the contribution to each counter.
    is_limited = group.quota_s is not None
    for name, count in group.counts.items():
        key = SystemKey("cgroup", group.path, name, None)
        start = 0 if earlier is None else None
        if earlier is not None and name in earlier.counts:
            start = earlier.counts[name].value
        for summed_key in (key, key._replace(subject=TOTAL)):
            if summed_key.subject == group.path or (is_limited and name in ADDITIVE):
                sums.add_growth(summed_key, start, count.value, unit=count.unit, scale=count.scale)
                if start is not None and start <= count.value:
                    yield summed_key, (count.value - start) * count.scale
    if earlier is not None and earlier.quota_s != group.quota_s:
        sums.note(f"cgroup: the CPU quota of {group.path} changed during the run")
    for field, seconds in (("quota", group.quota_s), ("period", group.period_s)):
        if is_limited and seconds is not None:
            sums.set_level(SystemKey("cgroup", group.path, field, None), seconds, "s")


def add_tasks(sums: SystemSums, tasks: WorkloadTasks) -> None:
    """Sum the scheduler statistics of the workload's tasks, from the last snapshot of each."""
    for task in tasks.tasks:
        for name in TASK_SUMS:
            if name in task.fields:
                field = task.fields[name]
                sums.add_count(SystemKey("tasks", "all tasks", name, None), field.value, field.unit)
    if tasks.left_out:
        sums.note(
            f"tasks: {len(tasks.tasks)} workload tasks were read, {tasks.left_out} more left out"
        )


def _names(subjects: Mapping[str, None]) -> str:
    return list_some(list(subjects), _MOST_NAMED)
