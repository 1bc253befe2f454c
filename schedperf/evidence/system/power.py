"""Meters of energy and power: a table that the collector made of powercap (RAPL) and hwmon.

::

    zone                                 name       energy_uj   max_energy_range_uj  power_uw
    /sys/class/powercap/intel-rapl:0     package-0  1284423345  262143328850         -
    /sys/class/powercap/intel-rapl:0:0   core       284423345   262143328850         -
    /sys/class/hwmon/hwmon2/power1_average  amdgpu power1  -    -                    15000000

Energy is counted in microjoules up to ``max_energy_range_uj``, and from 0 again
(Documentation/power/powercap/powercap.rst).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from schedperf.evidence.system._counters import optional_count, read_table
from schedperf.model.errors import InputError

COLUMNS = ("zone", "name", "energy_uj", "max_energy_range_uj", "power_uw")
LONGEST_NAME = 128


@dataclass(frozen=True, kw_only=True, slots=True)
class Meter:
    """One meter.

    :param zone: its folder or file
    :param name: "package-0", "package-0 core"; no two meters have one
    :param energy_uj: counted so far, in microjoules; None: it measures power
    :param energy_range_uj: it wraps there; None: it does not
    :param power_uw: at this moment, in microwatts; None: it counts energy
    """

    zone: str
    name: str
    energy_uj: int | None
    energy_range_uj: int | None
    power_uw: int | None


def parse_power(lines: Iterable[str], label: str) -> tuple[Meter, ...]:
    """Read the table.

    :raises InputError: it is damaged, or a meter is there twice
    """
    meters: dict[str, Meter] = {}
    for where, row in read_table(lines, COLUMNS, label):
        zone = row["zone"] or ""
        if not zone or zone in meters:
            raise InputError(f"{where}: no meter, or one a second time; record again")
        meters[zone] = Meter(
            zone=zone,
            name=(row["name"] or zone.rpartition("/")[2])[:LONGEST_NAME],
            energy_uj=optional_count(row, "energy_uj", where),
            energy_range_uj=optional_count(row, "max_energy_range_uj", where),
            power_uw=optional_count(row, "power_uw", where),
        )
    return _with_own_names(meters)


def _with_own_names(meters: Mapping[str, Meter]) -> tuple[Meter, ...]:
    # Each package has a zone "core" below its own, and intel-rapl-mmio repeats the packages.
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
