# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the energy counters of a run: the increase of each between the first and the last reading.

Counters are never added: core and uncore are parts of their package, dram is not, psys includes
the packages, and two drivers may count the same package.

>>> readings = [Value(0, 262_143_000_000), Value(10_000_000_000, 171_149)]
>>> count_joules(readings, 262_143_328_850, "package-0")
0.5
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from schedperf.evidence.energy.record import Kind
from schedperf.inputs.bundle.json import Count, Sentence, decode
from schedperf.inputs.bundle.open import Run
from schedperf.inputs.side import Side
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line, cut

FOLDER = "energy"
FACTS = "energy.json"
PERF = "perf.csv"
LARGEST_JSON_BYTES = 16 << 20
LARGEST_PERF_BYTES = 1 << 20
MOST_COUNTERS = 1024
MOST_READINGS = 1 << 17
LONGEST_NAME = 60
SHOWN = 40

# Largest plausible power in W. The collector reads often enough that less power cannot use half of
# a counter's range between two readings.
MOST_WATTS = 2000.0
LARGEST_COUNT = 2**64 - 1
UJ_PER_J = 1e6
NS_PER_S = 1e9

_COUNT = re.compile(r"[0-9]{1,20}", re.ASCII)
_ZONE = re.compile(r"/sys/class/powercap/([^/:]+)((?::[0-9]+)+)/energy_uj", re.ASCII)
_KINDS: Sequence[tuple[re.Pattern[str], Kind]] = (
    (re.compile(r"package-[0-9]+(-die-[0-9]+)?|Esocket[0-9]+", re.ASCII), "package"),
    (re.compile(r"core|Ecore[0-9]+", re.ASCII), "core"),
    (re.compile(r"uncore"), "uncore"),
    (re.compile(r"dram"), "dram"),
    (re.compile(r"psys"), "psys"),
)
# The driver of RAPL; names of other drivers' counters are prefixed with the driver.
RAPL = "intel-rapl"

# S0,1,12.50,Joules,power/energy-pkg/,1003245678,100.00,,
_PERF = re.compile(
    r"S(?P<socket>[0-9]{1,4})(?:-D(?P<die>[0-9]{1,4}))?,(?P<cpus>[0-9]{1,5}),(?P<value>[^,]*),"
    r"(?P<unit>[^,]*),(?P<event>[^,]*),(?P<ns>[0-9]{1,19})(?:,.*)?",
    re.ASCII,
)
_JOULES = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?", re.ASCII)
_EVENTS: Mapping[str, Kind] = {
    "power/energy-pkg/": "package",
    "power/energy-cores/": "core",
    "power/energy-gpu/": "uncore",
    "power/energy-ram/": "dram",
    "power/energy-psys/": "psys",
}


class Domain(NamedTuple):
    """The domain that a counter measures.

    :param name: "package-0", "package-0 dram", "psys", "amd_energy Esocket0"
    """

    name: str
    kind: Kind


class Value(NamedTuple):
    """A reading of a counter in microjoules, and its time."""

    ns: int
    energy_uj: int


class Used(NamedTuple):
    """Energy that a domain used, and the time in which it was counted."""

    joules: float
    seconds: float


class EnergyCounts(Struct, frozen=True, kw_only=True):
    """The energy of one run.

    :param missing: why a counter has no energy, by name or path
    """

    used: Mapping[Domain, Used]
    missing: Mapping[str, str]


class _Counter(Struct, frozen=True, kw_only=True):
    # The device is missing in recordings of older versions.
    path: Sentence
    name: Sentence | None
    chip: Sentence | None
    device: Sentence | None = None
    max_energy_range_uj: Sentence | None


class _Reading(Struct, frozen=True, kw_only=True):
    ns: Count
    energy_uj: Annotated[tuple[Sentence | None, ...], Meta(max_length=MOST_COUNTERS)]


class _Facts(Struct, frozen=True, kw_only=True):
    """Contents of energy.json.

    :param readings: texts in the order of the counters; None if not read
    :param refused: errors of unreadable counters, by path
    """

    counters: Annotated[tuple[_Counter, ...], Meta(max_length=MOST_COUNTERS)]
    readings: Annotated[tuple[_Reading, ...], Meta(max_length=MOST_READINGS)]
    refused: Mapping[str, Sentence]


def read_energy(side: Side, run: Run) -> EnergyCounts:
    """Read the energy capture of a run.

    :raises InputError: the capture is missing or damaged
    """
    bundle, folder = side.bundle, f"{run.folder}/{FOLDER}"
    name = f"{folder}/{FACTS}"
    if bundle.size(name) is None:
        raise InputError(f"{bundle.path}: {name} is missing; record with the collector {FOLDER}")
    where = f"{bundle.path}: {name}"
    counts = parse_energy(bundle.read(name, LARGEST_JSON_BYTES), where)
    name = f"{folder}/{PERF}"
    if bundle.size(name) is None:
        return counts
    text = bundle.read_text(name, LARGEST_PERF_BYTES)
    of_perf = parse_perf(text, f"{bundle.path}: {name}")
    return EnergyCounts(
        used={**of_perf.used, **counts.used}, missing={**counts.missing, **of_perf.missing}
    )


def parse_energy(content: bytes, where: str) -> EnergyCounts:
    """Parse energy.json; counters with unknown energy are listed with the reason.

    :raises InputError: the file is damaged
    """
    facts = decode(content, _Facts, where)
    _check_readings(facts, where)
    used: dict[Domain, Used] = {}
    missing = {clean_line(path): clean_line(reason) for path, reason in facts.refused.items()}
    for index, domain in enumerate(_name_domains(facts.counters)):
        if domain in used:
            raise InputError(f"{where}: two counters are called {domain.name}; record again")
        try:
            values = list(_values(facts.readings, index))
            range_uj = _range_of(facts.counters[index])
            joules = count_joules(values, range_uj, domain.name)
        except InputError as error:
            missing[domain.name] = str(error).removeprefix(f"{domain.name}: ")
        else:
            used[domain] = Used(joules, (values[-1].ns - values[0].ns) / NS_PER_S)
    return EnergyCounts(used=used, missing=missing)


def _check_readings(facts: _Facts, where: str) -> None:
    for index, reading in enumerate(facts.readings):
        if len(reading.energy_uj) != len(facts.counters):
            raise InputError(
                f"{where}: readings[{index}] has {len(reading.energy_uj)} values (expected "
                f"{len(facts.counters)}, one per counter); record again"
            )
    times = [reading.ns for reading in facts.readings]
    if any(after <= before for before, after in pairwise(times)):
        raise InputError(f"{where}: readings are not in the order of time; record again")


def _name_domains(counters: Sequence[_Counter]) -> Iterator[Domain]:
    zones = {
        (match[1], match[2]): counter.name
        for counter in counters
        if (match := _ZONE.fullmatch(counter.path))
    }
    names = [_name(counter, zones) for counter in counters]
    counts = Counter(names)
    for counter, name in zip(counters, names, strict=True):
        is_unique = counts[name] == 1
        yield Domain(name if is_unique else _long_name(counter), _kind_of(counter.name or ""))


def _name(counter: _Counter, zones: Mapping[tuple[str, str], str | None]) -> str:
    zone = _ZONE.fullmatch(counter.path)
    if zone is None:
        return _join(counter.chip, _name_of_sensor(counter))
    control, number = zone.groups()
    parent = number.rpartition(":")[0]
    # The name of a subdomain does not contain its package.
    above = (zones.get((control, parent)) or f"{control}{parent}") if parent else None
    driver = None if control == RAPL else control
    return _join(driver, above, counter.name or f"{control}{number}")


def _long_name(counter: _Counter) -> str:
    """Return a unique name for a counter whose name is ambiguous."""
    folder = counter.path.rpartition("/")[0].rpartition("/")[2]
    if _ZONE.fullmatch(counter.path):
        return _join(folder, counter.name)
    return _join(counter.chip, counter.device or folder, _name_of_sensor(counter))


def _name_of_sensor(counter: _Counter) -> str:
    return counter.name or counter.path.rpartition("/")[2].partition("_")[0]


def _join(*words: str | None) -> str:
    return cut(clean_line(" ".join(filter(None, words))), LONGEST_NAME)


def _kind_of(name: str) -> Kind:
    return next((kind for pattern, kind in _KINDS if pattern.fullmatch(name)), "other")


def _values(readings: Sequence[_Reading], index: int) -> Iterator[Value]:
    for reading in readings:
        text = reading.energy_uj[index]
        if text is not None:
            yield Value(reading.ns, _parse_count(text))
        elif reading is readings[0] or reading is readings[-1]:
            raise InputError("the counter could not be read before or after the run")


def _parse_count(text: str) -> int:
    if not _COUNT.fullmatch(text) or int(text) > LARGEST_COUNT:
        raise InputError(
            f"invalid count {cut(clean_line(text), SHOWN)!r} (expected an unsigned 64-bit integer)"
        )
    return int(text)


def _range_of(counter: _Counter) -> int | None:
    # hwmon sensors have no range, and the range of a zone may be 0 or invalid.
    text = counter.max_energy_range_uj
    if text is None or not _COUNT.fullmatch(text) or not 0 < int(text) <= LARGEST_COUNT:
        return None
    return int(text)


def count_joules(values: Sequence[Value], range_uj: int | None, where: str) -> float:
    """Return the energy between the first and the last value.

    A counter with a range wraps to 0. If a wrap would imply an increase of more than half of the
    range, the counter was reset instead. If a whole range fits between two readings, it may have
    wrapped unnoticed. In both cases the energy is unknown.

    :param range_uj: the largest value; None if unknown
    :param where: name of the counter, for messages
    :return: in J
    :raises InputError: the energy is unknown, or there are fewer than two values
    """
    if len(values) < 2:  # noqa: PLR2004 # a difference
        raise InputError(f"{where}: fewer than two readings")
    total = 0
    for before, after in pairwise(values):
        growth = after.energy_uj - before.energy_uj
        seconds = (after.ns - before.ns) / NS_PER_S
        if range_uj is not None and seconds * MOST_WATTS * UJ_PER_J > range_uj:
            raise InputError(
                f"{where}: readings are {seconds:.1f} s apart, so the counter may have wrapped "
                f"unseen (range {range_uj / UJ_PER_J:.0f} J)"
            )
        if growth < 0 and range_uj is not None and before.energy_uj <= range_uj:
            growth += range_uj + 1
            growth = -1 if growth > range_uj // 2 else growth
        if growth < 0:
            raise InputError(f"{where}: the counter was reset during the run")
        total += growth
    return total / UJ_PER_J


def parse_perf(text: str, where: str) -> EnergyCounts:
    """Parse the CSV of ``perf stat -a --per-socket -x,`` with events of the PMU "power".

    >>> line = "S0,1,12.50,Joules,power/energy-ram/,2000000000,100.00,,"
    >>> parse_perf(line, "perf.csv").used
    {Domain(name='package-0 dram', kind='dram'): Used(joules=12.5, seconds=2.0)}

    :raises InputError: a line is not such an event, or a domain has two lines
    """
    used: dict[Domain, Used] = {}
    missing: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _PERF.fullmatch(line.strip())
        kind = None if match is None else _EVENTS.get(match["event"])
        if match is None or kind is None:
            shown = cut(clean_line(line), SHOWN)
            raise InputError(
                f"{where}:{number}: invalid line {shown!r} (expected an energy event of perf stat "
                "--per-socket -x,); record again"
            )
        domain = _domain_of(match, kind)
        if domain in used or domain.name in missing:
            raise InputError(f"{where}:{number}: {domain.name} is there twice; record again")
        cpus, ns = int(match["cpus"]), int(match["ns"])
        if not _JOULES.fullmatch(match["value"]) or match["unit"] != "Joules" or not (cpus and ns):
            value = cut(clean_line(match["value"]), SHOWN)
            missing[domain.name] = f"perf counted {value!r} (expected a number of Joules)"
        else:
            used[domain] = Used(float(match["value"]), ns / cpus / NS_PER_S)
    return EnergyCounts(used=used, missing=missing)


def _domain_of(match: re.Match[str], kind: Kind) -> Domain:
    if kind == "psys":
        return Domain("psys", kind)
    die = "" if match["die"] in (None, "0") else f"-die-{match['die']}"
    package = f"package-{match['socket']}{die}"
    return Domain(package if kind == "package" else f"{package} {kind}", kind)
