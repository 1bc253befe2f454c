# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse the base addresses of the per-CPU variables on each CPU: percpu.json and percpu.txt.

The collector writes ``percpu.json`` for each run. It has the *unit* of each CPU: the address of a
per-CPU variable on a CPU is the CPU's unit plus the variable's offset::

    {"method": "tracepoint",
     "units": {"0": "0xffff888627c00000", "1": "0xffff888627d00000"}, "stable": true,
     "tried": {"kcore": "/proc/kcore: no such file or directory", "tracepoint": null},
     "missing_cpus": [], "static_bytes": 185496, "reserved_bytes": 0,
     "dynamic_bytes": 31592, "unit_bytes": 1048576}

``unit_bytes`` is null if the machine does not align units to their size. All sizes are null if the
kernel log no longer contains them. ``units`` and ``stable`` are null if no unit could be read.

``percpu.txt`` has the sizes that the kernel logged at boot::

    percpu: Embedded 53 pages/cpu s185496 r0 d31592 u1048576

On x86 units are aligned to their size ``u``, so even without the addresses of the units, an address
modulo ``u`` is a possible offset of a per-CPU variable.
"""

import re
from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from schedperf.inputs.bundle.json import Count, decode
from schedperf.model.errors import InputError

# The largest NR_CPUS.
MOST_CPUS = 8192
ADDRESS_BITS = 64

_Cpu = Annotated[int, Meta(ge=0, lt=MOST_CPUS)]
_Address = Annotated[str, Meta(pattern=r"^0x[0-9a-f]{1,16}\Z")]
_EMBEDDED = re.compile(r"(?m)^(?:percpu|pcpu-alloc): .*?\bs(\d+) r(\d+) d(\d+) u(\d+)")
_CPU_IDS = re.compile(r"\bnr_cpu_ids:(\d+)")


class PercpuUnits(Struct, frozen=True, kw_only=True):
    """Addresses of the per-CPU units, or their alignment.

    :param method: source of the units: "kcore" or "tracepoint"; "alignment" if only their size is
        known
    :param units: address of the unit by CPU; empty if only the alignment is known
    :param unit_bytes: size of a unit, to which units are aligned; None if unknown, or if they are
        not aligned to their size
    :param first_chunk_bytes: bytes of a unit in the first chunk: static memory, memory reserved
        for modules, and dynamic memory; None if unknown
    :param cpus: number of possible CPUs; None if unknown
    """

    method: str
    units: Mapping[int, int]
    unit_bytes: int | None
    first_chunk_bytes: int | None
    cpus: int | None


class _PercpuFile(Struct, frozen=True, kw_only=True):
    """The contents of percpu.json.

    :param method: source of the units; None if no method succeeded
    :param tried: error of each method; None if it succeeded
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
        """Refuse a unit size that is not a power of two, and CPUs with the same unit.

        :raises ValueError: the sizes or units are invalid
        """
        if self.unit_bytes is not None and not _is_power_of_two(self.unit_bytes):
            raise ValueError(f"`unit_bytes` is {self.unit_bytes} (expected a power of two)")
        if len({int(unit, 16) for unit in (self.units or {}).values()}) < len(self.units or {}):
            raise ValueError("two CPUs have the same per-CPU unit address")


def parse_percpu_units(content: bytes, label: str) -> PercpuUnits:
    """Parse percpu.json; ``cpus`` of the result is None.

    :param label: name of the file in messages
    :raises InputError: the file is damaged, the units changed during the run, or both the units and
        their size are unknown
    """
    file = decode(content, _PercpuFile, label)
    if file.method is None:
        raise InputError(
            f"{label}: contains no addresses of per-CPU units ({_reasons(file)}); record as root"
        )
    if file.stable is False:
        raise InputError(f"{label}: per-CPU units changed during the run; record again")
    if not file.units and file.unit_bytes is None:
        raise InputError(
            f"{label}: contains neither addresses nor the size of per-CPU units; record again"
        )
    sizes = (file.static_bytes, file.reserved_bytes, file.dynamic_bytes)
    recorded = [size for size in sizes if size is not None]
    return PercpuUnits(
        method=file.method,
        units={cpu: int(unit, 16) for cpu, unit in (file.units or {}).items()},
        unit_bytes=file.unit_bytes,
        first_chunk_bytes=sum(recorded) if len(recorded) == len(sizes) else None,
        cpus=None,
    )


def parse_percpu_log(text: str, label: str) -> PercpuUnits:
    """Parse percpu.txt of an x86 machine: sizes and alignment of units, and the number of CPUs.

    :param label: name of the file in messages
    :raises InputError: the text has no valid sizes
    """
    match = _EMBEDDED.search(text)
    sizes = [int(size[:20]) for size in match.groups()] if match else []
    if not sizes or not _is_power_of_two(sizes[3]) or sum(sizes[:3]) > sizes[3]:
        raise InputError(
            f"{label}: no valid per-CPU unit sizes (expected the pcpu-alloc line of the "
            "kernel log); record again after a reboot"
        )
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


def _reasons(file: _PercpuFile) -> str:
    reasons = [f"{method}: {reason}" for method, reason in (file.tried or {}).items() if reason]
    return ", ".join(reasons)[:400] or "reason unknown"
