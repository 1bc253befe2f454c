# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse files of /proc with counts since boot: CPU times, stalls and interrupts.

/proc/stat, in ticks of USER_HZ, which is 100 on all current architectures (proc_stat(5))::

    cpu  244 0 696 2631 6 0 25 0 0 0
    cpu0 48 0 209 690 3 0 6 0 0 0
    intr 22038 94 9 …
    ctxt 20613
    processes 202

/proc/pressure/{cpu,memory,io,irq}; ``some``: at least one task waited, ``full``: all non-idle tasks
waited; the total is in microseconds (Documentation/accounting/psi.rst)::

    some avg10=6.17 avg60=1.70 avg300=0.38 total=1333957
    full avg10=0.00 avg60=0.00 avg300=0.00 total=0

/proc/interrupts and /proc/softirqs::

               CPU0       CPU1
     24:          0         59   PCI-MSI 81921-edge      virtio3-virtqueues
    LOC:       1664       1746   Local timer interrupts
    ERR:          0

/proc/interrupts has columns of online CPUs, /proc/softirqs of possible ones. Interrupt numbers
change between boots, so device interrupts are named by the device, and architecture interrupts by
their label; the numbered IPIs of arm64 (``IPI0``) are named by their description.

    >>> parse_pressure(["some avg10=6.17 avg60=1.70 avg300=0.38 total=1333957"], "cpu")
    (Pressure(kind='some', total_us=1333957),)
"""

import re
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from schedperf.evidence.system._counters import MOST_CPUS, SHOWN, parse_count, parse_cpu
from schedperf.model.errors import InputError
from schedperf.model.text import cut

KINDS = (
    "user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice",
)  # fmt: skip
# Counts of the whole machine: context switches, and created tasks.
TOTALS = ("ctxt", "processes")

_CPU_LABEL = re.compile(r"cpu([0-9]{1,5})", re.ASCII)
_STALLED = re.compile(r"(some|full) (?:[a-z0-9]{1,20}=[0-9.]{1,20} ){0,8}total=([0-9]{1,20})")
# Largest number of interrupts; large machines have a few thousand.
_MOST_LINES = 1 << 15
# Longest line; a column has 11 characters.
_LONGEST_LINE = 16 * MOST_CPUS
_LONGEST_INTERRUPT = 128
# 32-bit Arm names its fast interrupts on a line without counts (show_fiq_list()).
_WITHOUT_COUNTS = "FIQ:"
# Counters of interrupts and softirqs are unsigned int (struct irqstat, irq_cpustat_t).
MODULUS = 2**32

_CPU_COLUMN = re.compile(r"CPU([0-9]{1,5})", re.ASCII)
# 19 digits fit into 64 bits; the counters have 32 bits.
_INTERRUPT_COUNTS = re.compile(r"[0-9]{1,19}(?: [0-9]{1,19})*", re.ASCII)
_NUMBERED_INTERRUPT = re.compile(r"[0-9]+|IPI[0-9]+", re.ASCII)


class CpuTimes(Struct, frozen=True, kw_only=True):
    """One snapshot of /proc/stat.

    :param ticks: by CPU, then by kind of time; older kernels have fewer kinds
    :param totals: counts by name, of :data:`TOTALS`
    """

    ticks: Mapping[int, Mapping[str, int]]
    totals: Mapping[str, int]


def parse_cpu_times(lines: Iterable[str], label: str) -> CpuTimes:
    """Read /proc/stat.

    :raises InputError: the file has another format or is damaged
    """
    ticks: dict[int, dict[str, int]] = {}
    totals: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        # The line "intr" has a number for each interrupt, so lines are not split completely.
        name, _, rest = line.partition(" ")
        where = f"{label}:{number}"
        if match := _CPU_LABEL.fullmatch(name):
            values = rest.split()[: len(KINDS)]
            cpu = parse_cpu(match[1], where)
            if cpu in ticks or not values or number > MOST_CPUS + 1:
                raise InputError(
                    f"{where}: invalid `cpu{cpu}` line (expected one line of times per CPU); "
                    "record again"
                )
            ticks[cpu] = {
                kind: parse_count(value, where) for kind, value in zip(KINDS, values, strict=False)
            }
        elif name in TOTALS:
            totals[name] = parse_count(rest.strip(), where)
    if not ticks:
        raise InputError(f"{label}: no `cpuN` lines; pass a copy of /proc/stat")
    return CpuTimes(ticks=ticks, totals=totals)


class Pressure(Struct, frozen=True, kw_only=True):
    """One line of a file of /proc/pressure.

    :param kind: "some" or "full"
    :param total_us: stall time since boot, in microseconds
    """

    kind: str
    total_us: int


def parse_pressure(lines: Iterable[str], label: str) -> tuple[Pressure, ...]:
    """Parse the stall times of one resource: a file of /proc/pressure.

    :raises InputError: a line is damaged or duplicate, or there is none
    """
    stalls: dict[str, Pressure] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        match = _STALLED.fullmatch(line.strip())
        if match is None or match[1] in stalls:
            raise InputError(
                f"{label}:{number}: invalid stall time {line[:SHOWN]!r} "
                "(expected one `some` and one `full` line, "
                "e.g. `some avg10=0.00 total=12`); record again"
            )
        total = parse_count(match[2], f"{label}:{number}")
        stalls[match[1]] = Pressure(kind=match[1], total_us=total)
    if not stalls:
        raise InputError(f"{label}: empty file (expected stall times); record again")
    return tuple(stalls.values())


class _InterruptLine(Struct, frozen=True, kw_only=True):
    """Counts of one interrupt.

    :param label: first word of the line: "24", "LOC"
    :param name: "virtio3-virtqueues", "LOC", "Rescheduling interrupts"
    :param is_total: True if the kernel has one count for all CPUs
    :param counts: shape (cpus,), or (1,) for a total
    """

    label: str
    name: str
    is_total: bool
    counts: npt.NDArray[np.uint64]


class InterruptTable(Struct, frozen=True, kw_only=True):
    """One snapshot of /proc/interrupts or /proc/softirqs.

    :param cpus: CPUs of the columns, in their order: the online ones in /proc/interrupts, all
        possible ones in /proc/softirqs
    """

    cpus: tuple[int, ...]
    lines: tuple[_InterruptLine, ...]


def parse_interrupts(lines: Iterable[str], label: str) -> InterruptTable:
    """Read /proc/interrupts or /proc/softirqs.

    :raises InputError: the file has another format or is damaged
    """
    cpus: tuple[int, ...] = ()
    by_label: dict[str, _InterruptLine] = {}
    for number, line in enumerate(lines, 1):
        where = f"{label}:{number}"
        if len(line) > _LONGEST_LINE or number > _MOST_LINES:
            limit = f"expected at most {_MOST_LINES} lines of up to {_LONGEST_LINE} characters"
            raise InputError(f"{where}: table is too large ({limit}); record again")
        if not cpus:
            cpus = _parse_header(line, where)
        elif line.strip() and not line.lstrip().startswith(_WITHOUT_COUNTS):
            parsed = _parse_interrupt_line(line, len(cpus), where)
            if parsed.label in by_label:
                raise InputError(f"{where}: duplicate line {parsed.label[:SHOWN]!r}; record again")
            by_label[parsed.label] = parsed
    if not by_label:
        raise InputError(f"{label}: no interrupt lines; record again")
    return InterruptTable(cpus=cpus, lines=tuple(by_label.values()))


def _parse_header(line: str, where: str) -> tuple[int, ...]:
    columns = [_CPU_COLUMN.fullmatch(word) for word in line.split()]
    cpus = tuple(int(column[1]) for column in columns if column)
    if not cpus or len(cpus) < len(columns) or len(set(cpus)) < len(cpus):
        raise InputError(
            f"{where}: invalid header {line[:SHOWN]!r} "
            "(expected CPU names, e.g. CPU0 CPU1); record again"
        )
    if max(cpus) >= MOST_CPUS:
        raise InputError(
            f"{where}: cpu{max(cpus)} is out of range (expected at most "
            f"cpu{MOST_CPUS - 1}); record again"
        )
    return cpus


def _parse_interrupt_line(line: str, columns: int, where: str) -> _InterruptLine:
    label, colon, rest = line.strip().partition(":")
    words = rest.split(None, columns)
    # ERR and MIS of x86 have one number, and Err of arm64 has text after its number.
    is_total = label.upper() in {"ERR", "MIS"}
    numbers = words[: 1 if is_total else columns]
    if not colon or not label or len(numbers) != (1 if is_total else columns):
        raise InputError(
            f"{where}: line of {len(numbers)} counts "
            f"(expected {1 if is_total else columns}); record again"
        )
    # Convert all numbers at once, because large machines have a million.
    if not _INTERRUPT_COUNTS.fullmatch(" ".join(numbers)):
        raise InputError(
            f"{where}: invalid counts {' '.join(numbers)[:SHOWN]!r} (expected "
            "unsigned integers); record again"
        )
    counts = np.array([int(number) for number in numbers], dtype=np.uint64)
    text = words[columns] if len(words) > columns else ""
    return _InterruptLine(
        label=cut(label, _LONGEST_INTERRUPT),
        name=_interrupt_name(label, text),
        is_total=is_total,
        counts=counts,
    )


def _interrupt_name(label: str, text: str) -> str:
    # "PCI-MSI 81921-edge      virtio3-virtqueues": chip, number and trigger come first.
    words = text.strip()
    if not _NUMBERED_INTERRUPT.fullmatch(label) or not words:
        return cut(label, _LONGEST_INTERRUPT)
    return cut(words.rpartition("  ")[2].strip(), _LONGEST_INTERRUPT)
