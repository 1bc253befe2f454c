# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse where each CPU's copies of the per-CPU variables begin: percpu.json and percpu.txt.

``percpu.json`` is written by the collector around a run and has the *unit* of each CPU; a
per-CPU variable's address on a CPU is the CPU's unit plus the variable's offset::

    {"method": "tracepoint",
     "units": {"0": "0xffff888627c00000", "1": "0xffff888627d00000"}, "stable": true,
     "tried": {"kcore": "/proc/kcore: no such file or directory", "tracepoint": null},
     "missing_cpus": [], "static_bytes": 185496, "reserved_bytes": 0,
     "dynamic_bytes": 31592, "unit_bytes": 1048576}

``unit_bytes`` is null on machines that do not align units to their size, every size is where the
kernel's log has gone, and ``units`` and ``stable`` are where no unit could be read.

``percpu.txt`` is what the kernel said of the sizes when it booted::

    percpu: Embedded 53 pages/cpu s185496 r0 d31592 u1048576

On x86 units are aligned to their size, so the sizes alone make a *candidate* for an offset.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from schedperf.bundle.json import Count, decode
from schedperf.model.errors import InputError

# NR_CPUS is 8192 where it is largest.
MOST_CPUS = 8192
ADDRESS_BITS = 64

_Cpu = Annotated[int, Meta(ge=0, lt=MOST_CPUS)]
_Address = Annotated[str, Meta(pattern=r"^0x[0-9a-f]{1,16}\Z")]
_EMBEDDED = re.compile(r"(?m)^(?:percpu|pcpu-alloc): .*?\bs(\d+) r(\d+) d(\d+) u(\d+)")
_CPU_IDS = re.compile(r"\bnr_cpu_ids:(\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class PercpuUnits:
    """Where the units are, or how they are aligned.

    :param method: how the units were learnt: "kcore", "tracepoint"; "alignment": not at all
    :param units: by CPU; empty where only the alignment is known
    :param unit_bytes: from one unit to the next where they are aligned; None: unknown
    :param first_chunk_bytes: of a unit that belong to the first chunk: static, reserved for
        modules, and dynamic memory; None: unknown
    :param cpus: how many CPUs the kernel may have; None: unknown
    """

    method: str
    units: Mapping[int, int]
    unit_bytes: int | None
    first_chunk_bytes: int | None
    cpus: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class _PercpuFile:
    """What percpu.json holds.

    :param method: how the units were learnt; None: they were not
    :param tried: by method the reason why it failed; None: it did not
    """

    method: str | None = None
    units: Annotated[Mapping[_Cpu, _Address], Meta(max_length=MOST_CPUS)] | None = None
    stable: bool | None = None
    tried: Mapping[str, str | None] | None = None
    static_bytes: Count | None = None
    reserved_bytes: Count | None = None
    dynamic_bytes: Count | None = None
    unit_bytes: Count | None = None

    def __post_init__(self) -> None:
        """Refuse units of which no machine has any."""
        if self.unit_bytes is not None and not _is_power_of_two(self.unit_bytes):
            raise ValueError(f"unit_bytes is {self.unit_bytes} (expected a power of two)")
        if len({int(unit, 16) for unit in (self.units or {}).values()}) < len(self.units or {}):
            raise ValueError("two CPUs have one unit")


def parse_percpu_units(content: bytes, label: str) -> PercpuUnits:
    """Read percpu.json.

    :raises InputError: it is damaged, it is of another form, the units changed while the run
        was recorded, or nothing is known of them; the reasons are those of the collector
    """
    found = decode(content, _PercpuFile, label)
    if found.method is None:
        raise InputError(f"{label}: no unit is known: {_why_nothing(found)}; fold nothing")
    if found.stable is False:
        raise InputError(f"{label}: units moved while the run was recorded; record again")
    if not found.units and found.unit_bytes is None:
        raise InputError(f"{label}: no unit and no size of units; record again")
    sizes = (found.static_bytes, found.reserved_bytes, found.dynamic_bytes)
    known = [size for size in sizes if size is not None]
    return PercpuUnits(
        method=found.method,
        units={cpu: int(unit, 16) for cpu, unit in (found.units or {}).items()},
        unit_bytes=found.unit_bytes,
        first_chunk_bytes=sum(known) if len(known) == len(sizes) else None,
        cpus=None,
    )


def parse_percpu_log(text: str, label: str) -> PercpuUnits:
    """Read percpu.txt of an x86 machine: sizes, and so the alignment.

    :raises InputError: it has no sizes
    """
    found = _EMBEDDED.search(text)
    sizes = [int(size[:20]) for size in found.groups()] if found else []
    if not sizes or not _is_power_of_two(sizes[3]) or sum(sizes[:3]) > sizes[3]:
        raise InputError(f"{label}: no sizes of per-CPU units; record on a freshly booted kernel")
    cpus = _CPU_IDS.search(text)
    return PercpuUnits(
        method="alignment",
        units={},
        unit_bytes=sizes[3],
        first_chunk_bytes=sum(sizes[:3]),
        cpus=min(int(cpus[1][:20]), MOST_CPUS) if cpus else None,
    )


def _is_power_of_two(value: int) -> bool:
    return 0 < value < 1 << ADDRESS_BITS and value & (value - 1) == 0


def _why_nothing(found: _PercpuFile) -> str:
    reasons = [f"{way}: {reason}" for way, reason in (found.tried or {}).items() if reason]
    return ", ".join(reasons)[:400] or "no reason is given"
