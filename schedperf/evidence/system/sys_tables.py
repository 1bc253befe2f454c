# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse the collector's tables of /sys: idle states, frequencies and energy meters.

Idle states of /sys/devices/system/cpu/cpu*/cpuidle; ``usage`` counts entries, ``time_us`` the time
in the state, ``above`` entries that were too short for it, ``below`` those long enough for a deeper
one, ``rejected`` those that the hardware refused::

    cpu  state  name  usage    time_us      above  below  rejected
    0    1      C1    9036313  19721279633  740    0      0

Frequencies of /sys/devices/system/cpu/cpufreq; a row is a policy: CPUs with one clock, ``cpu`` the
first of ``cpus``. ``time_in_state`` has FREQUENCY_KHZ:TICKS, a tick is 10 ms
(Documentation/cpu-freq/cpufreq-stats.rst)::

    cpu  cur_khz  min_khz  max_khz  total_trans  time_in_state        cpus
    0    2100000  800000   3500000  1234         800000:90,3500000:7  0,1

Meters of energy and power, of powercap (RAPL) and hwmon, which earlier versions recorded. Energy is
counted in microjoules up to ``max_energy_range_uj``, and then wraps to 0
(Documentation/power/powercap/powercap.rst)::

    zone                                 name       energy_uj   max_energy_range_uj  power_uw
    /sys/class/powercap/intel-rapl:0     package-0  1284423345  262143328850         -
    /sys/class/powercap/intel-rapl:0:0   core       284423345   262143328850         -
    /sys/class/hwmon/hwmon2/power1_average  amdgpu power1  -    -                    15000000
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from schedperf.evidence.system._counters import (
    Row,
    optional_count,
    parse_count,
    parse_cpu,
    read_table,
)
from schedperf.model.errors import InputError
from schedperf.model.text import cut

IDLE_COLUMNS = ("cpu", "state", "name", "usage", "time_us", "above", "below", "rejected")
_LONGEST_STATE = 64
FREQUENCY_COLUMNS = (
    "cpu", "cur_khz", "min_khz", "max_khz", "total_trans", "time_in_state", "cpus",
)  # fmt: skip
# Largest number of frequencies; drivers have about 50.
_MOST_FREQUENCIES = 1024
POWER_COLUMNS = ("zone", "name", "energy_uj", "max_energy_range_uj", "power_uw")
_LONGEST_ZONE = 128


class IdleState(Struct, frozen=True, kw_only=True):
    """Counts of one idle state of one CPU since boot; None if the kernel does not count.

    :param state: its number; 0 is the shallowest
    :param name: the driver's name: "POLL", "C1", "C6"
    """

    cpu: int
    state: int
    name: str
    usage: int | None
    time_us: int | None
    above: int | None
    below: int | None
    rejected: int | None


def parse_cpuidle(lines: Iterable[str], label: str) -> tuple[IdleState, ...]:
    """Parse the table of idle states.

    :raises InputError: the table is damaged, or a state is duplicate
    """
    states: dict[tuple[int, int], IdleState] = {}
    for where, row in read_table(lines, IDLE_COLUMNS, label):
        cpu, state = parse_cpu(row["cpu"], where), parse_cpu(row["state"], where)
        if (cpu, state) in states:
            raise InputError(f"{where}: duplicate idle state {state} of cpu{cpu}; record again")
        states[cpu, state] = IdleState(
            cpu=cpu,
            state=state,
            name=cut(row["name"] or f"state{state}", _LONGEST_STATE),
            usage=optional_count(row, "usage", where),
            time_us=optional_count(row, "time_us", where),
            above=optional_count(row, "above", where),
            below=optional_count(row, "below", where),
            rejected=optional_count(row, "rejected", where),
        )
    return tuple(states.values())


class FrequencyPolicy(Struct, frozen=True, kw_only=True):
    """One cpufreq policy; fields that the driver does not provide are None.

    :param cpus: CPUs of the policy; the first one names it
    :param total_trans: frequency transitions since boot
    :param ticks: ticks of 10 ms since boot, by frequency in kHz; empty if not counted
    """

    cpus: tuple[int, ...]
    cur_khz: int | None
    min_khz: int | None
    max_khz: int | None
    total_trans: int | None
    ticks: Mapping[int, int]


def parse_cpufreq(lines: Iterable[str], label: str) -> tuple[FrequencyPolicy, ...]:
    """Parse the table of frequencies.

    :raises InputError: the table is damaged, or two policies have the same first CPU
    """
    policies: dict[int, FrequencyPolicy] = {}
    for where, row in read_table(lines, FREQUENCY_COLUMNS, label):
        cpus = tuple(parse_cpu(cpu, where) for cpu in (row["cpus"] or row["cpu"] or "").split(","))
        if cpus[0] in policies:
            raise InputError(f"{where}: duplicate line for cpu{cpus[0]}; record again")
        policies[cpus[0]] = FrequencyPolicy(
            cpus=cpus,
            cur_khz=optional_count(row, "cur_khz", where),
            min_khz=optional_count(row, "min_khz", where),
            max_khz=optional_count(row, "max_khz", where),
            total_trans=optional_count(row, "total_trans", where),
            ticks=_ticks(row, where),
        )
    return tuple(policies.values())


def _ticks(row: Row, where: str) -> dict[int, int]:
    text = row["time_in_state"]
    pairs = text.split(",") if text else []
    if len(pairs) > _MOST_FREQUENCIES:
        raise InputError(
            f"{where}: `time_in_state` has {len(pairs)} frequencies "
            f"(expected at most {_MOST_FREQUENCIES}); record again"
        )
    ticks = {}
    for pair in pairs:
        frequency, _, count = pair.partition(":")
        ticks[parse_count(frequency, where)] = parse_count(count, where)
    return ticks


class Meter(Struct, frozen=True, kw_only=True):
    """One meter of energy or power.

    :param zone: its directory or file
    :param name: "package-0", "package-0 core"; unique
    :param energy_uj: energy count in microjoules; None for a power meter
    :param energy_range_uj: value at which it wraps; None if it does not wrap
    :param power_uw: current power in microwatts; None for an energy meter
    """

    zone: str
    name: str
    energy_uj: int | None
    energy_range_uj: int | None
    power_uw: int | None


def parse_power(lines: Iterable[str], label: str) -> tuple[Meter, ...]:
    """Parse the table of energy and power meters.

    :raises InputError: the table is damaged, or a meter is duplicate or has no zone
    """
    meters: dict[str, Meter] = {}
    for where, row in read_table(lines, POWER_COLUMNS, label):
        zone = row["zone"] or ""
        if not zone or zone in meters:
            raise InputError(
                f"{where}: invalid power zone {zone!r} (expected a unique path); record again"
            )
        meters[zone] = Meter(
            zone=zone,
            name=cut(row["name"] or zone.rpartition("/")[2], _LONGEST_ZONE),
            energy_uj=optional_count(row, "energy_uj", where),
            energy_range_uj=optional_count(row, "max_energy_range_uj", where),
            power_uw=optional_count(row, "power_uw", where),
        )
    return _with_own_names(meters)


def _with_own_names(meters: Mapping[str, Meter]) -> tuple[Meter, ...]:
    # Each package has a subzone "core", and intel-rapl-mmio repeats the packages, so names are not
    # unique.
    taken: set[str] = set()
    named = []
    for zone, meter in meters.items():
        above = meters.get(zone.rpartition(":")[0])
        name = f"{above.name} {meter.name}" if above else meter.name
        if name in taken:
            name = f"{name} ({zone})"
        taken.add(name)
        named.append(replace(meter, name=name))
    return tuple(named)
