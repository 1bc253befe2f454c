"""What CPUs count of their idle states and clock, and what meters count of energy: tables.

Sources: Documentation/ABI/testing/sysfs-devices-system-cpu (cpuidle, cpufreq),
Documentation/power/powercap/powercap.rst (RAPL), Documentation/hwmon/sysfs-interface.rst.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.cpu import CPUS, online_cpus
from schedperf_collectors.machine.system import System, attempt, or_none
from schedperf_collectors.machine.value_files import Row, ValueFiles, format_table

POWERCAP = "/sys/class/powercap"
HWMON = "/sys/class/hwmon"

# Linux is built for 8192 CPUs at most; beyond 4096 the reading would take seconds.
MOST_CPUS = 4096
# CPUIDLE_STATE_MAX is 10.
MOST_STATES = 16
# Large servers have some 50 zones of RAPL and 200 meters.
MOST_METERS = 1024
# Kernels before 5.19 may wait 10 ms for a CPU's frequency (arch_freq_get_on_cpu()).
FREQUENCY_LIMIT_S = 0.25

IDLE_COLUMNS = ("cpu", "state", "name", "usage", "time_us", "above", "below", "rejected")
_IDLE_FILES = ("name", "usage", "time", "above", "below", "rejected")
FREQUENCY_COLUMNS = (
    "cpu", "cur_khz", "min_khz", "max_khz", "total_trans", "time_in_state", "cpus",
)  # fmt: skip
POWER_COLUMNS = ("zone", "name", "energy_uj", "max_energy_range_uj", "power_uw")

_STATE = re.compile(r"state[0-9]{1,2}")
_POLICY = re.compile(r"policy[0-9]{1,5}")
_METER = re.compile(r"(energy|power)[0-9]{1,4}_(?:input|average)")


def idle_table(system: System) -> bytes:
    """Return how often and how long each CPU was in each idle state, since the boot.

    A state that a CPU is still in is not counted yet.

    :raises Unavailable: no CPU has idle states
    """
    files = ValueFiles(system)
    cpus = (or_none(lambda: online_cpus(system)) or [0])[:MOST_CPUS]
    rows = [row for cpu in cpus for row in _idle_rows(files, cpu)]
    if not rows:
        raise Unavailable(f"{CPUS}/cpu{cpus[0]}/cpuidle: no idle states")
    return format_table(IDLE_COLUMNS, rows)


def _idle_rows(files: ValueFiles, cpu: int) -> Iterator[Row]:
    folder = f"{CPUS}/cpu{cpu}/cpuidle"
    states = sorted(int(name[5:]) for name in files.names(folder) if _STATE.fullmatch(name))
    for state in states[:MOST_STATES]:
        values = [files.value(f"{folder}/state{state}/{name}") for name in _IDLE_FILES]
        yield (str(cpu), str(state), *values)


def frequency_table(system: System) -> bytes:
    """Return the frequencies of each group of CPUs with one clock (a cpufreq policy).

    ``time_in_state`` is FREQUENCY_KHZ:TICKS of 10 ms, with commas between.

    :raises Unavailable: nothing here has a frequency that can be read
    """
    files = ValueFiles(system)
    folder = f"{CPUS}/cpufreq"
    policies = sorted(int(name[6:]) for name in files.names(folder) if _POLICY.fullmatch(name))
    del policies[MOST_CPUS:]
    if not policies:
        raise Unavailable(f"{folder}: no policies")
    deadline_s = time.monotonic() + FREQUENCY_LIMIT_S
    return format_table(
        FREQUENCY_COLUMNS,
        [
            _frequency_row(files, f"{folder}/policy{one}", deadline_s)
            for one in policies[:MOST_CPUS]
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


def power_table(system: System) -> bytes:
    """Return what the meters of the machine show: RAPL's zones, and hwmon's of energy and power.

    :raises Unavailable: there is none, or none that this user may read
    """
    files = ValueFiles(system)
    zones = [f"{POWERCAP}/{name}" for name in sorted(files.names(POWERCAP)) if ":" in name]
    sensors = [
        f"{HWMON}/{chip}/{name}"
        for chip in sorted(files.names(HWMON))
        for name in sorted(files.names(f"{HWMON}/{chip}"))
        if _METER.fullmatch(name)
    ]
    meters = [*((_zone_row, one) for one in zones), *((_sensor_row, one) for one in sensors)]
    if not meters:
        raise Unavailable(f"no meter of energy or power below {POWERCAP} and {HWMON}")
    rows: list[Row] = []
    refused = ""
    for read, name in meters[:MOST_METERS]:
        row, reason = attempt(read, files, name)
        refused = refused or reason
        if row is not None:
            rows.append(row)
    if not rows:
        raise Unavailable(f"none of {len(meters)} meters can be read: {refused}")
    return format_table(POWER_COLUMNS, rows)


def _zone_row(files: ValueFiles, zone: str) -> Row:
    energy = files.text(f"{zone}/energy_uj")
    most = files.value(f"{zone}/max_energy_range_uj")
    return (zone, files.value(f"{zone}/name"), energy, most, None)


def _sensor_row(files: ValueFiles, sensor: str) -> Row:
    value = files.text(sensor)
    folder, _, file = sensor.rpartition("/")
    stem = file.partition("_")[0]
    chip, label = files.value(f"{folder}/name"), files.value(f"{folder}/{stem}_label")
    name = f"{chip or os.path.basename(folder)} {label or stem}"  # noqa: PTH119 # a text
    is_energy = file.startswith("energy")
    return (sensor, name, value if is_energy else None, None, None if is_energy else value)
