# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse files of /proc that count since the boot: CPU times, stalls and interrupts.

/proc/stat, in ticks of USER_HZ, which is 100 on all of today's architectures (proc_stat(5))::

    cpu  244 0 696 2631 6 0 25 0 0 0
    cpu0 48 0 209 690 3 0 6 0 0 0
    intr 22038 94 9 …
    ctxt 20613
    processes 202

/proc/pressure/{cpu,memory,io,irq}; ``some``: at least one task waited, ``full``: all that were not
idle did; the total is in microseconds (Documentation/accounting/psi.rst)::

    some avg10=6.17 avg60=1.70 avg300=0.38 total=1333957
    full avg10=0.00 avg60=0.00 avg300=0.00 total=0

/proc/interrupts and /proc/softirqs::

               CPU0       CPU1
     24:          0         59   PCI-MSI 81921-edge      virtio3-virtqueues
    LOC:       1664       1746   Local timer interrupts
    ERR:          0

Only CPUs that are online have a column. The numbers of lines move from boot to boot, so an
interrupt of a device is called by the device, and those of architectures by their label; the
IPIs of arm64 have numbers as well (``IPI0``) and are called by their words.

    >>> parse_pressure(["some avg10=6.17 avg60=1.70 avg300=0.38 total=1333957"], "cpu")
    (Pressure(kind='some', total_us=1333957),)
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schedperf.evidence.system._counters import MOST_CPUS, SHOWN, parse_count, parse_cpu
from schedperf.model.errors import InputError

KINDS = (
    "user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice",
)  # fmt: skip
# What is counted for all CPUs together: context switches, and tasks that were created.
TOTALS = ("ctxt", "processes")

_CPU_LABEL = re.compile(r"cpu([0-9]{1,5})", re.ASCII)
_STALLED = re.compile(r"(some|full) (?:[a-z0-9]{1,20}=[0-9.]{1,20} ){0,8}total=([0-9]{1,20})")
# Large machines have some thousand.
_MOST_LINES = 1 << 15
# A column has 11 characters.
_LONGEST_LINE = 16 * MOST_CPUS
_LONGEST_INTERRUPT = 128
# 32-bit Arm names its fast interrupts on a line without counts (show_fiq_list()).
_WITHOUT_COUNTS = "FIQ:"
# Their counters are unsigned int (struct irqstat, irq_cpustat_t).
MODULUS = 2**32

_CPU_COLUMN = re.compile(r"CPU([0-9]{1,5})", re.ASCII)
# 19 digits are less than 64 bits hold, and the counters have 32.
_INTERRUPT_COUNTS = re.compile(r"[0-9]{1,19}(?: [0-9]{1,19})*", re.ASCII)
_NUMBERED_INTERRUPT = re.compile(r"[0-9]+|IPI[0-9]+", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuTimes:
    """One look.

    :param ticks: by CPU, then by kind of time; older kernels know fewer kinds
    :param totals: by name, of :data:`TOTALS`
    """

    ticks: Mapping[int, Mapping[str, int]]
    totals: Mapping[str, int]


def parse_cpu_times(lines: Iterable[str], label: str) -> CpuTimes:
    """Read /proc/stat.

    :raises InputError: it is none, or damaged
    """
    ticks: dict[int, dict[str, int]] = {}
    totals: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        # The line "intr" has a number for each interrupt, so no line is split whole.
        name, _, rest = line.partition(" ")
        where = f"{label}:{number}"
        if found := _CPU_LABEL.fullmatch(name):
            values = rest.split()[: len(KINDS)]
            cpu = parse_cpu(found[1], where)
            if cpu in ticks or not values or number > MOST_CPUS + 1:
                raise InputError(f"{where}: cpu{cpu} a second time, or empty; record again")
            ticks[cpu] = {
                kind: parse_count(value, where) for kind, value in zip(KINDS, values, strict=False)
            }
        elif name in TOTALS:
            totals[name] = parse_count(rest.strip(), where)
    if not ticks:
        raise InputError(f"{label}: no CPU lines; give a copy of /proc/stat")
    return CpuTimes(ticks=ticks, totals=totals)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pressure:
    """One line.

    :param kind: "some" or "full"
    :param total_us: stalled since the boot, in microseconds
    """

    kind: str
    total_us: int


def parse_pressure(lines: Iterable[str], label: str) -> tuple[Pressure, ...]:
    """Read the stall times of one resource.

    :raises InputError: a line is damaged or there twice, or there is none
    """
    found: dict[str, Pressure] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        match = _STALLED.fullmatch(line.strip())
        if match is None or match[1] in found:
            raise InputError(f"{label}:{number}: invalid stall time {line[:SHOWN]!r}; record again")
        total = parse_count(match[2], f"{label}:{number}")
        found[match[1]] = Pressure(kind=match[1], total_us=total)
    if not found:
        raise InputError(f"{label}: empty; record again")
    return tuple(found.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class _InterruptLine:
    """What was counted of one interrupt.

    :param label: as the line begins: "24", "LOC"
    :param name: "virtio3-virtqueues", "LOC", "Rescheduling interrupts"
    :param is_total: the kernel counts it for all CPUs together
    :param counts: shape (cpus,) as the table's; (1,) of a total
    """

    label: str
    name: str
    is_total: bool
    counts: npt.NDArray[np.uint64]


@dataclass(frozen=True, kw_only=True, slots=True)
class InterruptTable:
    """One look.

    :param cpus: that were online
    """

    cpus: tuple[int, ...]
    lines: tuple[_InterruptLine, ...]


def parse_interrupts(lines: Iterable[str], label: str) -> InterruptTable:
    """Read /proc/interrupts or /proc/softirqs.

    :raises InputError: it is none, or damaged
    """
    cpus: tuple[int, ...] = ()
    found: dict[str, _InterruptLine] = {}
    for number, line in enumerate(lines, 1):
        where = f"{label}:{number}"
        if len(line) > _LONGEST_LINE or number > _MOST_LINES:
            raise InputError(f"{where}: more than a machine can have; record again")
        if not cpus:
            cpus = _parse_header(line, where)
        elif line.strip() and not line.lstrip().startswith(_WITHOUT_COUNTS):
            one = _parse_interrupt_line(line, len(cpus), where)
            if one.label in found:
                raise InputError(f"{where}: {one.label[:SHOWN]!r} a second time; record again")
            found[one.label] = one
    if not found:
        raise InputError(f"{label}: no interrupt lines; record again")
    return InterruptTable(cpus=cpus, lines=tuple(found.values()))


def _parse_header(line: str, where: str) -> tuple[int, ...]:
    columns = [_CPU_COLUMN.fullmatch(word) for word in line.split()]
    cpus = tuple(int(column[1]) for column in columns if column)
    if not cpus or len(cpus) < len(columns) or len(set(cpus)) < len(cpus):
        raise InputError(f"{where}: invalid CPU header {line[:SHOWN]!r}; record again")
    if max(cpus) >= MOST_CPUS:
        raise InputError(f"{where}: cpu{max(cpus)} of at most {MOST_CPUS}; record again")
    return cpus


def _parse_interrupt_line(line: str, columns: int, where: str) -> _InterruptLine:
    label, colon, rest = line.strip().partition(":")
    words = rest.split(None, columns)
    # ERR and MIS of x86 have one number, and Err of arm64 has words behind its own.
    is_total = label.upper() in {"ERR", "MIS"}
    numbers = words[: 1 if is_total else columns]
    if not colon or not label or len(numbers) != (1 if is_total else columns):
        raise InputError(f"{where}: {len(numbers)} counts of {columns} CPUs; record again")
    # All at once: large machines have a million of them.
    if not _INTERRUPT_COUNTS.fullmatch(" ".join(numbers)):
        raise InputError(f"{where}: not counts: {' '.join(numbers)[:SHOWN]!r}; record again")
    counts = np.array([int(number) for number in numbers], dtype=np.uint64)
    text = words[columns] if len(words) > columns else ""
    return _InterruptLine(
        label=label[:_LONGEST_INTERRUPT],
        name=_interrupt_name(label, text),
        is_total=is_total,
        counts=counts,
    )


def _interrupt_name(label: str, text: str) -> str:
    # "PCI-MSI 81921-edge      virtio3-virtqueues": chip, number and trigger come first.
    words = text.strip()
    if not _NUMBERED_INTERRUPT.fullmatch(label) or not words:
        return label[:_LONGEST_INTERRUPT]
    return words.rpartition("  ")[2].strip()[:_LONGEST_INTERRUPT]
