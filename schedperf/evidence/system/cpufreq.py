"""Frequencies of all clocks: a table that the collector made of /sys/devices/system/cpu/cpufreq.

::

    cpu  cur_khz  min_khz  max_khz  total_trans  time_in_state        cpus
    0    2100000  800000   3500000  1234         800000:90,3500000:7  0,1

A row is a policy: CPUs with one clock, ``cpu`` the first of ``cpus``. ``time_in_state`` has
FREQUENCY_KHZ:TICKS, a tick is 10 ms (Documentation/cpu-freq/cpufreq-stats.rst).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from schedperf.evidence.system._counters import (
    Row,
    optional_count,
    parse_count,
    parse_cpu,
    read_table,
)
from schedperf.model.errors import InputError

COLUMNS = (
    "cpu", "cur_khz", "min_khz", "max_khz", "total_trans", "time_in_state", "cpus",
)  # fmt: skip
# Drivers have some 50 frequencies.
MOST_FREQUENCIES = 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class FrequencyPolicy:
    """One clock; None where the driver does not say.

    :param cpus: that it drives, the first one names it
    :param total_trans: changes of frequency since the boot
    :param ticks: of 10 ms since the boot, by frequency in kHz; empty where nobody counts
    """

    cpus: tuple[int, ...]
    cur_khz: int | None
    min_khz: int | None
    max_khz: int | None
    total_trans: int | None
    ticks: Mapping[int, int]


def parse_cpufreq(lines: Iterable[str], label: str) -> tuple[FrequencyPolicy, ...]:
    """Read the table.

    :raises InputError: it is damaged, or a CPU is there twice
    """
    policies: dict[int, FrequencyPolicy] = {}
    for where, row in read_table(lines, COLUMNS, label):
        cpus = tuple(parse_cpu(cpu, where) for cpu in (row["cpus"] or row["cpu"] or "").split(","))
        if cpus[0] in policies:
            raise InputError(f"{where}: cpu{cpus[0]} a second time; record again")
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
    if len(pairs) > MOST_FREQUENCIES:
        raise InputError(f"{where}: {len(pairs)} frequencies; record again")
    ticks = {}
    for pair in pairs:
        frequency, _, count = pair.partition(":")
        ticks[parse_count(frequency, where)] = parse_count(count, where)
    return ticks
