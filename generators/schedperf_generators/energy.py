# SPDX-License-Identifier: GPL-2.0-or-later
"""Write trees of sysfs with energy counters that advance, and captures with known energy.

The layouts are those of Documentation/power/powercap/powercap.rst,
Documentation/ABI/testing/sysfs-class-powercap, drivers/powercap/arm_scmi_powercap.c and
Documentation/hwmon/sysfs-interface.rst: the entries of a class are links to the devices.

::

    tree = EnergyTree(root, zones=intel_rapl(packages=2), sensors=amd_energy(sockets=2))
    tree.use({"intel-rapl:0": 90.0})

On real hardware a counter advances by itself; here :meth:`EnergyTree.use` advances it.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

# 32 bits of 2^-14 J, in microjoules: the range of most Intel processors.
RAPL_RANGE_UJ = 262_143_328_850
# The kernel lets only root read a counter: it reveals secrets of other processes (CVE-2020-8694).
ROOT_ONLY = 0o400
NS_PER_S = 1_000_000_000
FIRST_NS = 5_140_900_000_000


class Zone(Struct, frozen=True, kw_only=True):
    """A zone of powercap.

    :param folder: name of its directory: ``intel-rapl:0:1``
    :param energy_uj: content of the file energy_uj, which may be invalid
    :param range_uj: content of max_energy_range_uj; None: no such file
    """

    folder: str
    name: str
    energy_uj: str = "1284423345"
    range_uj: str | None = str(RAPL_RANGE_UJ)


class Sensor(Struct, frozen=True, kw_only=True):
    """An energy sensor of hwmon.

    :param folder: name of its directory: ``hwmon2``
    :param chip: content of the file name
    :param number: number of the sensor in the names of its files: energy1_input
    :param label: content of energyN_label; None: no such file
    :param device: name of the platform device that has the sensor; None: that of the chip
    :param energy_uj: content of energyN_input, which may be invalid
    """

    folder: str
    chip: str
    number: int
    label: str | None = None
    device: str | None = None
    energy_uj: str = "77000000"


def intel_rapl(packages: int, *, psys: bool = False) -> Iterator[Zone]:
    """Yield the zones of RAPL: packages with core, uncore and dram, and psys, if asked for.

    :param packages: number of packages
    """
    for package in range(packages):
        top = f"intel-rapl:{package}"
        yield Zone(folder=top, name=f"package-{package}")
        for number, name in enumerate(("core", "uncore", "dram")):
            energy_uj = "0" if name == "uncore" else "284423345"
            yield Zone(folder=f"{top}:{number}", name=name, energy_uj=energy_uj)
    if psys:
        yield Zone(folder=f"intel-rapl:{packages}", name="psys")


def arm_scmi(*names: str) -> Iterator[Zone]:
    """Yield zones of SCMI firmware with these names; the first zone contains the others."""
    for number, name in enumerate(names):
        folder = "arm-scmi:0" if number == 0 else f"arm-scmi:0:{number - 1}"
        yield Zone(folder=folder, name=name, range_uj=str(2**64 - 1))


def amd_energy(sockets: int, cores: int = 0) -> Iterator[Sensor]:
    """Yield the sensors of the driver amd_energy: cores, then sockets."""
    labels = [f"Ecore{core:03d}" for core in range(cores)]
    labels += [f"Esocket{socket}" for socket in range(sockets)]
    for number, label in enumerate(labels, 1):
        yield Sensor(folder="hwmon3", chip="amd_energy", number=number, label=label)


class EnergyTree:
    """Energy counters below a root directory, laid out as sysfs.

    In all methods, the name of a counter is the directory of a zone, the label of a sensor, or,
    for a sensor without a label, ``energyN``.

    :ivar root: directory that a collector reads in place of "/"
    """

    def __init__(
        self, root: Path, *, zones: Iterable[Zone] = (), sensors: Iterable[Sensor] = ()
    ) -> None:
        self.root = root
        self._files: dict[str, Path] = {}
        self._ranges: dict[str, int] = {}
        for zone in zones:
            self._write_zone(zone)
        for sensor in sensors:
            self._write_sensor(sensor)

    def use(self, joules: Mapping[str, float]) -> None:
        """Advance counters; one that exceeds its range starts from 0 again.

        :param joules: used energy by name of the counter
        """
        for name, energy in joules.items():
            value = int(self._files[name].read_text()) + round(energy * 1e6)
            most = self._ranges.get(name)
            self.set(name, str(value if most is None else value % (most + 1)))

    def set(self, name: str, text: str) -> None:
        """Replace the content of a counter."""
        self._files[name].chmod(0o600)
        self._files[name].write_text(f"{text}\n")
        self._files[name].chmod(ROOT_ONLY)

    def remove(self, name: str) -> None:
        """Remove a counter, as when its driver is unloaded."""
        self._files[name].unlink()

    def deny(self, name: str) -> None:
        """Replace a counter by a link to itself, which even root cannot read."""
        self.remove(name)
        self._files[name].symlink_to(self._files[name].name)

    def _write_zone(self, zone: Zone) -> None:
        control, *_ = zone.folder.split(":")
        parts = zone.folder.split(":")[1:]
        nested = [":".join((control, *parts[: depth + 1])) for depth in range(len(parts))]
        device = self.root.joinpath("sys/devices/virtual/powercap", control, *nested)
        files = {"name": zone.name, "enabled": "1", "constraint_0_power_limit_uw": "165000000"}
        if zone.range_uj is not None:
            files["max_energy_range_uj"] = zone.range_uj
            if zone.range_uj.isdecimal() and int(zone.range_uj):
                self._ranges[zone.folder] = int(zone.range_uj)
        _write_files(device, files)
        _link_class(self.root, "powercap", device)
        _link_class(self.root, "powercap", self.root / "sys/devices/virtual/powercap" / control)
        self._files[zone.folder] = device / "energy_uj"
        self._write_counter(zone.folder, zone.energy_uj)

    def _write_sensor(self, sensor: Sensor) -> None:
        parent = self.root / "sys/devices/platform" / (sensor.device or sensor.chip)
        device = parent / "hwmon" / sensor.folder
        _write_files(device, {"name": sensor.chip})
        if not (device / "device").is_symlink():
            (device / "device").symlink_to(f"../../../{parent.name}")
        name = f"energy{sensor.number}"
        if sensor.label is not None:
            _write_files(device, {f"{name}_label": sensor.label})
        _link_class(self.root, "hwmon", device)
        self._files[sensor.label or name] = device / f"{name}_input"
        self._write_counter(sensor.label or name, sensor.energy_uj)

    def _write_counter(self, name: str, text: str) -> None:
        self._files[name].touch()
        self.set(name, text)


def _write_files(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n")


def _link_class(root: Path, kind: str, device: Path) -> None:
    link = root / "sys/class" / kind / device.name
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(os.path.relpath(device, link.parent))


class Domain(Struct, frozen=True, kw_only=True):
    """A counter of a capture.

    :param path: path of its file
    :param name: name of its zone or label of its sensor; None without one
    :param joules: energy used in the run
    :param chip: name of the hwmon chip; None for a zone of powercap
    :param device: name of the device of the chip; None if unknown
    :param range_uj: largest value of the counter; None if unknown
    :param start_uj: its value before the run
    """

    path: str
    name: str | None
    joules: float
    chip: str | None = None
    device: str | None = None
    range_uj: int | None = RAPL_RANGE_UJ
    start_uj: int = 1_284_423_345


def rapl_domain(zone: str, name: str, joules: float) -> Domain:
    """Return a zone of RAPL: ``rapl_domain("0:2", "dram", 7.5)``."""
    path = f"/sys/class/powercap/intel-rapl:{zone}/energy_uj"
    return Domain(path=path, name=name, joules=joules)


def write_capture(
    domains: Sequence[Domain],
    *,
    seconds: float,
    readings: int = 2,
    refused: Mapping[str, str] | None = None,
) -> str:
    """Return the energy.json of a run in which the domains used their energy evenly.

    :param seconds: duration of the run
    :param readings: number of readings, including those before and after the run; at least 2
    :param refused: why other counters could not be read, by path; None for none
    """
    steps = [step / (readings - 1) for step in range(readings)]
    facts = {
        "counters": [
            {
                "path": domain.path,
                "name": domain.name,
                "chip": domain.chip,
                "device": domain.device,
                "max_energy_range_uj": None if domain.range_uj is None else str(domain.range_uj),
            }
            for domain in domains
        ],
        "readings": [
            {
                "ns": FIRST_NS + round(part * seconds * NS_PER_S),
                "energy_uj": [str(_value(domain, part)) for domain in domains],
            }
            for part in steps
        ],
        "every_s": 10.0,
        "refused": refused or {},
    }
    return json.dumps(facts)


def _value(domain: Domain, part: float) -> int:
    value = domain.start_uj + round(part * domain.joules * 1e6)
    return value if domain.range_uj is None else value % (domain.range_uj + 1)
