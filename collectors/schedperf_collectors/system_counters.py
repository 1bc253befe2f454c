"""What the whole system counted around each run: idle states, power, pressure, interrupts, groups.

Each look is taken before and after the run, in the same order, so that what lies between two
readings of one file is as long as what lies between the two readings of the clock::

    before/ after/  pressure_cpu pressure_memory pressure_io pressure_irq   /proc/pressure/*
                    interrupts softirqs stat    /proc/*
                    cpuidle cpufreq power       tables
                    cgroups                     cpu.stat of control groups
                    clock                       monotonic_ns, realtime_ns
    during/cgroups  groups that came or may have gone, as they were seen last
    facts.json      {"missing": {"power": "why"}, "notes": [], "seconds": 1.2,
                     "clock_stepped_ns": 0, "cpus_before": "0-3", "cpus_after": "0-3",
                     "ticks_per_second": 100, "look_s": {"before": 0.002, "after": 0.002}}
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from schedperf_collectors.machine.cpu import CPUS
from schedperf_collectors.machine.cpu_counters import frequency_table, idle_table, power_table
from schedperf_collectors.machine.sampling import repeated
from schedperf_collectors.machine.system import System, attempt, or_none
from schedperf_collectors.machine.throttled_groups import ThrottledGroups, find_hierarchy
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, collector

PRESSURES = ("cpu", "memory", "io", "irq")
# 4096 CPUs with 1000 interrupts have 45 MB.
COPY_LIMIT_BYTES = 64 << 20
# Of one CPU: looks at control groups while a run goes on, clean runs included.
LARGEST_SHARE = 0.001

Reader = Callable[[], bytes]


@dataclass(frozen=True)
class Look:
    """What was read at one moment.

    :param monotonic_ns: CLOCK_MONOTONIC when it began; ``realtime_ns`` is CLOCK_REALTIME then
    :param seconds: how long it took
    :param cpus: those that were online, ``0-3``; None: unknown
    :param files: content by name
    :param missing: why a file is not there, by its name
    """

    monotonic_ns: int
    realtime_ns: int
    seconds: float
    cpus: str | None
    files: Mapping[str, bytes]
    missing: Mapping[str, str]


@collector(
    scope="run",
    cost="1 ms on 2 CPUs, 0.1 s on 256, before and after; 0.1 % of one CPU for control groups",
)
def system_counters(capture: Capture) -> Iterator[str]:
    """Read idle states, power, pressure, interrupts and throttling before and after the run."""
    return capture_system_counters(System(), capture)


def capture_system_counters(system: System, capture: Capture) -> Iterator[str]:
    """Do the work of :func:`system_counters` on any system."""
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
        with repeated(groups.look, LARGEST_SHARE):
            yield BEGUN
        after = take_look(system, groups.last_look)
        facts = _facts(before, after, {}, groups.notes)
        _write(capture.folder / "during", {"cgroups": groups.last_seen()})
    _write(capture.folder / "before", before.files)
    _write(capture.folder / "after", after.files)
    (capture.folder / "facts.json").write_text(json.dumps(facts, indent=1) + "\n")


def take_look(system: System, groups: Reader | None = None) -> Look:
    """Read everything, the slowest last; nothing is written meanwhile.

    :param groups: reads the control groups
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
    readers["power"] = lambda: power_table(system)
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
