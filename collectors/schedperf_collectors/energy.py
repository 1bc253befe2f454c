# SPDX-License-Identifier: GPL-2.0-or-later
"""Record the machine's energy counters around and during each run: powercap, hwmon and perf.

::

    energy.json     {"counters": [{"path": "/sys/class/powercap/intel-rapl:0/energy_uj",
                                   "name": "package-0", "chip": null, "device": null,
                                   "max_energy_range_uj": "262143328850"}, …],
                     "readings": [{"ns": 5140900, "energy_uj": ["1284423345", …]}, …],
                     "every_s": 10.0, "refused": {"/sys/…/energy_uj": "permission denied"}}
    perf.csv        of `perf stat -a --per-socket`, if no counter of powercap can be read

Only counters of energy are read: powercap zones with ``energy_uj`` (RAPL, SCMI firmware) and the
energy sensors of hwmon (``energyN_input``). If no powercap zone can be read, e.g. by an ordinary
user, perf counts the events of the PMU ``power``, which reads the same RAPL registers. Power
sensors are not read, because energy computed from power and time would not be a measurement. All
numbers are stored as the kernel printed them.

All counters are read before and after the run. A counter with a range starts from 0 again at
``max_energy_range_uj``. It is therefore also read during the run, every ``every_s`` seconds (null
if no counter has a range), so that it counts less than half of its range between two readings,
unless these would take more than 0.1% of a CPU. Counters that are not read at that time are null.

Formats: Documentation/power/powercap/powercap.rst, Documentation/ABI/testing/sysfs-class-powercap,
Documentation/hwmon/sysfs-interface.rst, drivers/powercap/arm_scmi_powercap.c,
arch/x86/events/rapl.c.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass

from schedperf_collectors.machine.sampling import repeated
from schedperf_collectors.machine.system import System, attempt
from schedperf_collectors.machine.value_files import ValueFiles
from schedperf_collectors.perf.running import (
    PARANOID_REMEDY,
    PerfFailed,
    Recording,
    perf_running,
)
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, Skipped, collector

POWERCAP = "/sys/class/powercap"
HWMON = "/sys/class/hwmon"
PERF_EVENTS = "/sys/bus/event_source/devices/power/events"

# More than any powercap zone consumes, in W; a socket consumes some hundreds.
MOST_WATTS = 2000.0
# RAPL counts up to 65 or 262 kJ; at MOST_WATTS half of 65 kJ takes 16 s.
LONGEST_PAUSE_S = 10.0
SHORTEST_PAUSE_S = 0.1
# Reading a zone interrupts a CPU of its package.
LARGEST_SHARE = 0.001
# A machine of 8 sockets has some 40 zones; amd_energy has a sensor for each core.
MOST_COUNTERS = 1024

_SENSOR = re.compile(r"energy[0-9]{1,4}_input")
_EVENT = re.compile(r"energy-[a-z]{1,20}")


@dataclass(frozen=True)
class Counter:
    """A counter of energy, in microjoules.

    :param path: path of the file with its value
    :param name: name of the zone, or label of the sensor; None if it has none
    :param chip: name of the hwmon device; None for a zone of powercap
    :param device: the device that the hwmon device measures, e.g. "1-0040", because several may
        have the same name; None if unknown, or for a zone of powercap
    :param max_energy_range_uj: the largest value, as the kernel printed it; None if it has none
    """

    path: str
    name: str | None
    chip: str | None
    device: str | None
    max_energy_range_uj: str | None

    @property
    def range_uj(self) -> int:
        """Return the largest value in uJ; 0 if unknown, as for all sensors of hwmon."""
        text = self.max_energy_range_uj or ""
        return int(text) if text.isdecimal() and text.isascii() else 0


@collector(
    scope="run",
    cost="one read of each counter before and after the run and every 10 s; at most 0.1% of a CPU",
    options=("perf",),
)
def energy(capture: Capture) -> Iterator[str]:
    """Read the energy counters of powercap (RAPL, SCMI) and hwmon around the run.

    Counters with a range are also read during the run. perf counts if powercap cannot be read.
    """
    return capture_energy(System(), capture)


def capture_energy(system: System, capture: Capture) -> Generator[str, None, str]:
    """Implement :func:`energy` for any system.

    :return: which counters cannot be read and why, for ``doctor``; "" if all can be read
    :raises Skipped: no counter can be read, and perf cannot count
    :raises PerfFailed: perf ended with an error after it had started
    """
    files = ValueFiles(system)
    counters, refused = find_counters(files)
    readings = Readings(files, counters)
    with contextlib.ExitStack() as stack:
        recording = None
        if not any(counter.chip is None for counter in counters):
            recording = _start_perf(stack, files, capture, refused)
        if not counters and recording is None:
            raise _nothing(files, refused)
        yield PREPARED
        if recording is not None:
            recording.begin()
        readings.read_all()
        with readings.repeated():
            yield BEGUN
        readings.read_all()
    facts = {
        "counters": [vars(counter) for counter in counters],
        "readings": readings.rows,
        "every_s": readings.every_s,
        "refused": refused,
    }
    (capture.folder / "energy.json").write_text(json.dumps(facts, indent=1) + "\n")
    return "; ".join(f"{path}: {reason}" for path, reason in refused.items())


def find_counters(files: ValueFiles) -> tuple[list[Counter], dict[str, str]]:
    """Return the counters that can be read, and by path why others cannot.

    Only the first :data:`MOST_COUNTERS` counters of the machine are tried.
    """
    counters: list[Counter] = []
    refused: dict[str, str] = {}
    for counter in [*_zones(files), *_sensors(files)][:MOST_COUNTERS]:
        text, reason = attempt(files.text, counter.path)
        if text is None:
            refused[counter.path] = reason.rpartition(": ")[2]
        else:
            counters.append(counter)
    return counters, refused


def _zones(files: ValueFiles) -> Iterator[Counter]:
    for zone in sorted(files.names(POWERCAP)):
        folder = f"{POWERCAP}/{zone}"
        # A control type such as intel-rapl has no counter, nor has a zone that only limits power.
        if "energy_uj" in files.names(folder):
            yield Counter(
                path=f"{folder}/energy_uj",
                name=files.value(f"{folder}/name"),
                chip=None,
                device=None,
                max_energy_range_uj=files.value(f"{folder}/max_energy_range_uj"),
            )


def _sensors(files: ValueFiles) -> Iterator[Counter]:
    for device in sorted(files.names(HWMON)):
        folder = f"{HWMON}/{device}"
        for sensor in sorted(filter(_SENSOR.fullmatch, files.names(folder))):
            stem = sensor.partition("_")[0]
            yield Counter(
                path=f"{folder}/{sensor}",
                name=files.value(f"{folder}/{stem}_label"),
                chip=files.value(f"{folder}/name") or device,
                device=files.target(f"{folder}/device"),
                max_energy_range_uj=None,
            )


class Readings:
    """The values of all counters, read one after the other.

    :ivar rows: one per reading: "ns" is the time on the monotonic clock before its first read,
        "energy_uj" the values in the order of the counters, as the kernel printed them; None if a
        counter was not read or cannot be read any more
    :ivar every_s: seconds between readings of counters with a range during the run; None if no
        counter has a range
    """

    def __init__(self, files: ValueFiles, counters: Sequence[Counter]) -> None:
        self.rows: list[Mapping[str, object]] = []
        ranges = [counter.range_uj for counter in counters if counter.range_uj]
        self.every_s = _pause(min(ranges)) if ranges else None
        self._files = files
        self._paths = [counter.path for counter in counters]
        self._wrapping = [counter.path if counter.range_uj else None for counter in counters]

    def read_all(self) -> None:
        """Read all counters."""
        self._read(self._paths)

    def repeated(self) -> contextlib.AbstractContextManager[None]:
        """Return a context manager that reads the counters with a range until its block ends."""
        if self.every_s is None:
            return contextlib.nullcontext()
        pauses_s = (self.every_s, self.every_s)
        return repeated(lambda: self._read(self._wrapping), LARGEST_SHARE, pauses_s=pauses_s)

    def _read(self, paths: Sequence[str | None]) -> None:
        now_ns = time.monotonic_ns()
        values = [None if path is None else self._files.value(path) for path in paths]
        self.rows.append({"ns": now_ns, "energy_uj": values})


def _pause(range_uj: int) -> float:
    half_s = range_uj / 2e6 / MOST_WATTS
    return max(SHORTEST_PAUSE_S, min(LONGEST_PAUSE_S, half_s))


def _start_perf(
    stack: contextlib.ExitStack, files: ValueFiles, capture: Capture, refused: dict[str, str]
) -> Recording | None:
    # The PMU "power" counts the same registers; perf extends them to 64 bits.
    names = sorted(filter(_EVENT.fullmatch, files.names(PERF_EVENTS)))
    program = capture.options.get("perf", "perf")
    if not names:
        return None
    if shutil.which(program) is None:
        refused["perf"] = f"{program} is not on PATH"
        return None
    events = ",".join(f"power/{name}/" for name in names)
    command = [program, "stat", "-a", "--per-socket", "-x,", "-e", events, "-o"]
    try:
        return stack.enter_context(perf_running([*command, str(capture.folder / "perf.csv")]))
    except (Skipped, PerfFailed) as error:
        refused["perf"] = str(error)
        return None


def _nothing(files: ValueFiles, refused: Mapping[str, str]) -> Skipped:
    if not refused:
        return Skipped(f"no energy counter in {POWERCAP} or {HWMON}")
    path, reason = next(iter(refused.items()))
    more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
    remedy = PARANOID_REMEDY if files.names(PERF_EVENTS) else "run as root"
    return Skipped(f"{path}: {reason}{more}", remedy if os.geteuid() else "")
