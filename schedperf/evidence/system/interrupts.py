"""/proc/interrupts and /proc/softirqs: how often each CPU was interrupted, since the boot.

::

               CPU0       CPU1
     24:          0         59   PCI-MSI 81921-edge      virtio3-virtqueues
    LOC:       1664       1746   Local timer interrupts
    ERR:          0

Only CPUs that are online have a column. The numbers of lines move from boot to boot, so an
interrupt of a device is called by the device, and those of architectures by their label; the
IPIs of arm64 have numbers as well (``IPI0``) and are called by their words.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schedperf.evidence.system._counters import MOST_CPUS, SHOWN
from schedperf.model.errors import InputError

# Large machines have some thousand.
MOST_LINES = 1 << 15
# A column has 11 characters.
LONGEST_LINE = 16 * MOST_CPUS
LONGEST_NAME = 128
# 32-bit Arm names its fast interrupts on a line without counts (show_fiq_list()).
WITHOUT_COUNTS = "FIQ:"
# Their counters are unsigned int (struct irqstat, irq_cpustat_t).
MODULUS = 2**32

_CPU = re.compile(r"CPU([0-9]{1,5})", re.ASCII)
# 19 digits are less than 64 bits hold, and the counters have 32.
_COUNTS = re.compile(r"[0-9]{1,19}(?: [0-9]{1,19})*", re.ASCII)
_NUMBERED = re.compile(r"[0-9]+|IPI[0-9]+", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class InterruptLine:
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
    lines: tuple[InterruptLine, ...]


def parse_interrupts(lines: Iterable[str], label: str) -> InterruptTable:
    """Read /proc/interrupts or /proc/softirqs.

    :raises InputError: it is none, or damaged
    """
    cpus: tuple[int, ...] = ()
    found: dict[str, InterruptLine] = {}
    for number, line in enumerate(lines, 1):
        where = f"{label}:{number}"
        if len(line) > LONGEST_LINE or number > MOST_LINES:
            raise InputError(f"{where}: more than a machine can have; record again")
        if not cpus:
            cpus = _parse_header(line, where)
        elif line.strip() and not line.lstrip().startswith(WITHOUT_COUNTS):
            one = _parse_line(line, len(cpus), where)
            if one.label in found:
                raise InputError(f"{where}: {one.label[:SHOWN]!r} a second time; record again")
            found[one.label] = one
    if not found:
        raise InputError(f"{label}: no interrupts; record again")
    return InterruptTable(cpus=cpus, lines=tuple(found.values()))


def _parse_header(line: str, where: str) -> tuple[int, ...]:
    columns = [_CPU.fullmatch(word) for word in line.split()]
    cpus = tuple(int(column[1]) for column in columns if column)
    if not cpus or len(cpus) < len(columns) or len(set(cpus)) < len(cpus):
        raise InputError(f"{where}: no line of CPUs: {line[:SHOWN]!r}; record again")
    if max(cpus) >= MOST_CPUS:
        raise InputError(f"{where}: cpu{max(cpus)} of at most {MOST_CPUS}; record again")
    return cpus


def _parse_line(line: str, columns: int, where: str) -> InterruptLine:
    label, colon, rest = line.strip().partition(":")
    words = rest.split(None, columns)
    # ERR and MIS of x86 have one number, and Err of arm64 has words behind its own.
    is_total = label.upper() in {"ERR", "MIS"}
    numbers = words[: 1 if is_total else columns]
    if not colon or not label or len(numbers) != (1 if is_total else columns):
        raise InputError(f"{where}: {len(numbers)} counts of {columns} CPUs; record again")
    # All at once: large machines have a million of them.
    if not _COUNTS.fullmatch(" ".join(numbers)):
        raise InputError(f"{where}: not counts: {' '.join(numbers)[:SHOWN]!r}; record again")
    counts = np.array([int(number) for number in numbers], dtype=np.uint64)
    text = words[columns] if len(words) > columns else ""
    return InterruptLine(
        label=label[:LONGEST_NAME], name=_name(label, text), is_total=is_total, counts=counts
    )


def _name(label: str, text: str) -> str:
    # "PCI-MSI 81921-edge      virtio3-virtqueues": chip, number and trigger come first.
    words = text.strip()
    if not _NUMBERED.fullmatch(label) or not words:
        return label[:LONGEST_NAME]
    return words.rpartition("  ")[2].strip()[:LONGEST_NAME]
