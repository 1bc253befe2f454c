# SPDX-License-Identifier: GPL-2.0-or-later
"""Record system-wide counters around each run: idle states, pressure, interrupts, cgroups.

All files are read before and after the run, in the same order, so that the time between two
readings of a file is close to the time between the two readings of the clock::

    before/ after/  pressure_cpu pressure_memory pressure_io pressure_irq   /proc/pressure/*
                    interrupts softirqs stat    /proc/*
                    cpuidle cpufreq             tables
                    cgroups                     cpu.stat of cgroups
                    clock                       monotonic_ns, realtime_ns
    during/cgroups  cpu.stat of cgroups as last read during the run, also of removed ones
    facts.json      {"missing": {"cpufreq": "why"}, "notes": [], "seconds": 1.2,
                     "clock_stepped_ns": 0, "cpus_before": "0-3", "cpus_after": "0-3",
                     "ticks_per_second": 100, "look_s": {"before": 0.002, "after": 0.002},
                     "settings": {"sched": {"base_slice_ns": 2800000}}}   after the run

A file that cannot be read is listed under ``missing`` with the reason. Source:
Documentation/ABI/testing/sysfs-devices-system-cpu (cpuidle, cpufreq). Energy has a collector of its
own.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.cpu import CPUS, online_cpus
from schedperf_collectors.machine.kernel import settings_in_force
from schedperf_collectors.machine.sampling import repeated
from schedperf_collectors.machine.system import System, attempt, or_none
from schedperf_collectors.machine.throttled_groups import ThrottledGroups, find_hierarchy
from schedperf_collectors.machine.value_files import Row, ValueFiles, format_table
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, collector

PRESSURES = ("cpu", "memory", "io", "irq")
# 4096 CPUs with 1000 interrupts have 45 MB.
COPY_LIMIT_BYTES = 64 << 20
# Fraction of one CPU spent reading cgroups during a run, clean runs included, and as much
# again on groups that the kernel reports as changed.
LARGEST_SHARE = 0.001

Reader = Callable[[], bytes]

# Linux is built for 8192 CPUs at most; beyond 4096 the reading would take seconds.
_MOST_CPUS = 4096
# CPUIDLE_STATE_MAX is 10.
_MOST_STATES = 16
# Kernels before 5.19 may wait 10 ms for a CPU's frequency (arch_freq_get_on_cpu()).
_FREQUENCY_LIMIT_S = 0.25

_IDLE_COLUMNS = ("cpu", "state", "name", "usage", "time_us", "above", "below", "rejected")
_IDLE_FILES = ("name", "usage", "time", "above", "below", "rejected")
_FREQUENCY_COLUMNS = (
    "cpu", "cur_khz", "min_khz", "max_khz", "total_trans", "time_in_state", "cpus",
)  # fmt: skip

_STATE = re.compile(r"state[0-9]{1,2}")
_POLICY = re.compile(r"policy[0-9]{1,5}")


@dataclass(frozen=True)
class Look:
    """The files read at one point in time.

    :param monotonic_ns: CLOCK_MONOTONIC at the start of the reading
    :param realtime_ns: CLOCK_REALTIME at the same time
    :param seconds: duration of the reading
    :param cpus: CPUs online, ``0-3``; None if unknown
    :param files: content by name
    :param missing: reason for each missing file, by name
    """

    monotonic_ns: int
    realtime_ns: int
    seconds: float
    cpus: str | None
    files: Mapping[str, bytes]
    missing: Mapping[str, str]


@collector(
    scope="run",
    cost="1 ms with 2 CPUs, 0.1 s with 256, before and after each run; up to 0.2% of one CPU to "
    "watch cgroups",
)
def system_counters(capture: Capture) -> Iterator[str]:
    """Read idle states, pressure, interrupts and throttling before and after the run."""
    return capture_system_counters(System(), capture)


def capture_system_counters(system: System, capture: Capture) -> Iterator[str]:
    """Implement :func:`system_counters` for any system."""
    hierarchy, reason = attempt(find_hierarchy, system, capture.workload_pid)
    if hierarchy is None:
        yield PREPARED
        before = take_look(system)
        yield BEGUN
        after = take_look(system)
        facts = _facts(before, after, {"cgroups": reason}, ())
    else:
        groups = ThrottledGroups(system, hierarchy)
        yield PREPARED
        before = take_look(system, groups.first_look)
        changes = groups if groups.watch_changes() else None
        with contextlib.closing(groups), repeated(groups.look, LARGEST_SHARE, changes):
            yield BEGUN
        after = take_look(system, groups.last_look)
        facts = _facts(before, after, {}, groups.notes)
        _write(capture.folder / "during", {"cgroups": groups.last_seen()})
    _write(capture.folder / "before", before.files)
    _write(capture.folder / "after", after.files)
    facts["settings"] = settings_in_force(system)
    (capture.folder / "facts.json").write_text(json.dumps(facts, indent=1) + "\n")


def take_look(system: System, groups: Reader | None = None) -> Look:
    """Read all files, the slowest last; write nothing meanwhile.

    :param groups: function that reads the cgroups; None to leave them out
    """
    cpus = or_none(lambda: system.text(f"{CPUS}/online"))
    began_ns, realtime_ns = time.monotonic_ns(), time.time_ns()
    clock = f"monotonic_ns {began_ns}\nrealtime_ns {realtime_ns}\n"
    files, missing = {"clock": clock.encode()}, {}
    for name, read in _readers(system, groups).items():
        content, reason = attempt(read)
        if content is None:
            missing[name] = reason
        else:
            files[name] = content
    seconds = (time.monotonic_ns() - began_ns) / 1e9
    return Look(began_ns, realtime_ns, seconds, cpus, files, missing)


def _readers(system: System, groups: Reader | None) -> dict[str, Reader]:
    def copy(path: str) -> Reader:
        return lambda: system.bytes(path, COPY_LIMIT_BYTES)

    readers = {f"pressure_{name}": copy(f"/proc/pressure/{name}") for name in PRESSURES}
    readers.update({name: copy(f"/proc/{name}") for name in ("stat", "softirqs", "interrupts")})
    if groups is not None:
        readers["cgroups"] = groups
    readers["cpuidle"] = lambda: idle_table(system)
    readers["cpufreq"] = lambda: frequency_table(system)
    return readers


def _facts(
    before: Look, after: Look, missing: Mapping[str, str], notes: Iterable[str]
) -> dict[str, object]:
    elapsed_ns = after.monotonic_ns - before.monotonic_ns
    return {
        "missing": {**missing, **before.missing, **after.missing},
        "notes": sorted(notes),
        "seconds": elapsed_ns / 1e9,
        "clock_stepped_ns": after.realtime_ns - before.realtime_ns - elapsed_ns,
        "cpus_before": before.cpus,
        "cpus_after": after.cpus,
        "ticks_per_second": os.sysconf("SC_CLK_TCK"),
        "look_s": {"before": before.seconds, "after": after.seconds},
    }


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)


def idle_table(system: System) -> bytes:
    """Return a table of how often and how long each online CPU was in each idle state, since boot.

    Its columns are :data:`_IDLE_COLUMNS`. A state that a CPU is still in is not counted yet.

    :raises Unavailable: no CPU has idle states
    """
    files = ValueFiles(system)
    cpus = (or_none(lambda: online_cpus(system)) or [0])[:_MOST_CPUS]
    rows = [row for cpu in cpus for row in _idle_rows(files, cpu)]
    if not rows:
        raise Unavailable(f"{CPUS}/cpu{cpus[0]}/cpuidle: lists no idle states")
    return format_table(_IDLE_COLUMNS, rows)


def _idle_rows(files: ValueFiles, cpu: int) -> Iterator[Row]:
    folder = f"{CPUS}/cpu{cpu}/cpuidle"
    states = sorted(int(name[5:]) for name in files.names(folder) if _STATE.fullmatch(name))
    for state in states[:_MOST_STATES]:
        values = [files.value(f"{folder}/state{state}/{name}") for name in _IDLE_FILES]
        yield (str(cpu), str(state), *values)


def frequency_table(system: System) -> bytes:
    """Return a table of the frequencies of each group of CPUs with one clock (a cpufreq policy).

    Its columns are :data:`_FREQUENCY_COLUMNS`. ``time_in_state`` is FREQUENCY_KHZ:TICKS of 10 ms,
    with commas between. A value that cannot be read is ``-``, as is ``cur_khz`` of policies whose
    turn comes after 0.25 s.

    :raises Unavailable: there are no cpufreq policies
    """
    files = ValueFiles(system)
    folder = f"{CPUS}/cpufreq"
    policies = sorted(int(name[6:]) for name in files.names(folder) if _POLICY.fullmatch(name))
    del policies[_MOST_CPUS:]
    if not policies:
        raise Unavailable(f"{folder}: no policies")
    deadline_s = time.monotonic() + _FREQUENCY_LIMIT_S
    return format_table(
        _FREQUENCY_COLUMNS,
        [
            _frequency_row(files, f"{folder}/policy{policy}", deadline_s)
            for policy in policies[:_MOST_CPUS]
        ],
    )


def _frequency_row(files: ValueFiles, policy: str, deadline_s: float) -> Row:
    cpus = (files.value(f"{policy}/affected_cpus") or policy.rpartition("policy")[2]).split()
    is_late = time.monotonic() > deadline_s
    times = (files.value(f"{policy}/stats/time_in_state") or "").splitlines()
    return (
        cpus[0],
        None if is_late else files.value(f"{policy}/scaling_cur_freq"),
        files.value(f"{policy}/scaling_min_freq"),
        files.value(f"{policy}/scaling_max_freq"),
        files.value(f"{policy}/stats/total_trans"),
        ",".join(":".join(line.split()) for line in times),
        ",".join(cpus),
    )
