# SPDX-License-Identifier: GPL-2.0-or-later
"""Find the *unit* of each CPU: the start address of its copy of the per-CPU variables.

The address of a per-CPU variable on one CPU is the CPU's unit plus the variable's
offset in section ``.data..percpu`` (mm/percpu.c). Subtracting the unit from a sampled address
therefore identifies the variable and merges the copies of all CPUs. There are two methods to find
the units. Both are tried, and their results must agree:

==========  ====================================================================
kcore       ``__per_cpu_offset`` read from /proc/kcore, plus ``__per_cpu_start``;
            both addresses from kallsyms, else from a matching System.map
tracepoint  addresses of the run queues minus the offset of ``runqueues`` in BTF;
            needs BPF, but neither kcore nor data symbols
==========  ====================================================================

If both fail, the sizes in the kernel log are used: x86 embeds the first chunk in a block aligned
to 2 MiB, so units that divide it are aligned to their own size, and an address modulo the
size is a *candidate* for an offset. ``percpu.json`` contains units as hexadecimal text::

    {"method": "kcore", "units": {"0": "0xffff88807dc00000", …}, "stable": true,
     "tried": {"kcore": null, "tracepoint": "run_queues: raw_tp: operation not permitted"},
     "missing_cpus": [], "static_bytes": 185496, "reserved_bytes": 0,
     "dynamic_bytes": 31592, "unit_bytes": 1048576}

``method`` is "kcore", "tracepoint" or "alignment"; null if all methods failed. ``units`` is null if
neither "kcore" nor "tracepoint" worked, or if they disagree. ``stable`` records whether the units
were the same after the run; null if they were not found both times. Sizes are null if the kernel
log does not contain them; ``unit_bytes`` also if units are not aligned to their size.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedperf_collectors.bpf.libbpf import Candidate, load_what_works
from schedperf_collectors.bpf.objects import read_object
from schedperf_collectors.contract import BTF_LIMIT_BYTES, Unavailable
from schedperf_collectors.layout import percpu_lines
from schedperf_collectors.machine.btf import run_queues_offset
from schedperf_collectors.machine.cpu import online_cpus
from schedperf_collectors.machine.kernel_files import find_system_map, read_kallsyms
from schedperf_collectors.machine.system import X86_MACHINES, System, attempt, unavailable

ADDRESS_MASK = (1 << 64) - 1
# Symbols of the kernel's image are in the upper half; below it they are absolute or offsets.
KERNEL_HALF = 1 << 63
SIZES_LINE = re.compile(r"^pcpu-alloc: s(\d+) r(\d+) d(\d+) u(\d+) alloc=\d+\*(\d+)", re.MULTILINE)
SIZE_KEYS = ("static_bytes", "reserved_bytes", "dynamic_bytes", "unit_bytes")
_RUN_QUEUES = "run_queues"
_QUEUE_PROBE = Candidate(_RUN_QUEUES, "remember", "raw_tp", "sched_update_nr_running_tp")
# Sleep briefly on each CPU, so that a task is queued there.
_STAY_S = 0.001
_KCORE = "/proc/kcore"
_ELF_HEADER_BYTES = 64
_PROGRAM_HEADER_BYTES = 56
_CLASS_64 = 2
_ORDERS = {1: "<", 2: ">"}
_TYPE_CORE = 4
_PT_LOAD = 1
# One region for each block of memory, of modules and of the vmemmap; some hundred on the largest
# machines. From 65535 on (PN_XNUM), the number would be elsewhere.
_REGIONS_LIMIT = 0xFFFF


@dataclass(frozen=True)
class Reading:
    """The units at one point in time.

    :param method: the method used; None if both failed, or if they disagree
    :param units: address by CPU, for the CPUs whose unit was found; empty without a method
    :param tried: by method, why it failed; None if it worked
    """

    method: str | None
    units: Mapping[int, int]
    tried: Mapping[str, str | None]


class UnitBases:
    """Reads the units of one machine; looks up symbols and BTF offsets only once.

    :param options: ``kernel_files`` may name a directory with a System.map
    """

    def __init__(self, system: System, options: Mapping[str, str]) -> None:
        self._system = system
        self._options = options
        self._symbols: tuple[int, int] | None = None
        self._run_queues_offset: int | None = None

    def read(self) -> Reading:
        """Read the units by both methods; return those of the first method that works.

        If the methods disagree on a CPU that both cover, no units are returned.
        """
        ways = {"kcore": self._from_kcore, "tracepoint": self._from_tracepoint}
        tried: dict[str, str | None] = {}
        readings: list[Reading] = []
        for name, way in ways.items():
            units, reason = attempt(way)
            tried[name] = None if units else reason
            if units:
                readings.append(Reading(name, units, tried))
        if not readings:
            return Reading(None, {}, tried)
        first, *others = readings
        for candidate in others:
            if not _agree(first.units, candidate.units):
                reason = f"{first.method} and {candidate.method} report different per-CPU addresses"
                return Reading(None, {}, dict.fromkeys(ways, reason))
        return first

    def _from_kcore(self) -> dict[int, int]:
        cpus = online_cpus(self._system)
        with contextlib.closing(Kcore(self._system)) as kcore:
            if self._symbols is None:
                self._symbols = percpu_symbols(self._system, self._options)
            table, start = self._symbols
            offsets = struct.unpack(
                f"{kcore.order}{max(cpus) + 1}Q", kcore.read(table, 8 * (max(cpus) + 1))
            )
        return {cpu: offsets[cpu] + start & ADDRESS_MASK for cpu in cpus}

    def _from_tracepoint(self) -> dict[int, int]:
        if self._run_queues_offset is None:
            btf = self._system.bytes("/sys/kernel/btf/vmlinux", BTF_LIMIT_BYTES)
            self._run_queues_offset = run_queues_offset(btf)
        offset = self._run_queues_offset
        addresses = run_queue_addresses(online_cpus(self._system))
        if not addresses:
            raise Unavailable("the probe observed no task enqueue on any CPU")
        return {cpu: address - offset for cpu, address in addresses.items()}


def percpu_symbols(system: System, options: Mapping[str, str]) -> tuple[int, int]:
    """Return the addresses of ``__per_cpu_offset`` and ``__per_cpu_start`` at run time.

    Before Linux 6.15 the second is 0 on x86-64, where the section was linked to 0.

    :param options: ``kernel_files`` may name a directory with a System.map
    :raises Unavailable: the addresses are hidden from this user; or kallsyms lacks these symbols,
        and no System.map that matches the kernel has them
    """
    names = ("__per_cpu_offset", "__per_cpu_start")
    kallsyms = read_kallsyms(system)
    table, start = (_address(kallsyms, name) for name in names)
    if table is not None and start is not None:
        return table, start
    content, reason = attempt(find_system_map, system, options, kallsyms)
    if content is None:
        raise Unavailable(f"/proc/kallsyms has no data symbols; {reason}")
    linked, running = _address(content, "_stext"), _address(kallsyms, "_stext")
    table, start = (_address(content, name) for name in names)
    if linked is None or running is None or table is None or start is None:
        raise Unavailable(
            "System.map: symbol __per_cpu_offset, __per_cpu_start or _stext is missing"
        )
    slide = running - linked
    return table + slide, start + slide if start >= KERNEL_HALF else start


def _address(symbols: bytes, name: str) -> int | None:
    match = re.search(rf"^([0-9a-f]{{8,16}}) \S {name}$".encode(), symbols, re.MULTILINE)
    return int(match[1], 16) if match else None


def describe_units(system: System, before: Reading, after: Reading) -> dict[str, object]:
    """Return the contents of percpu.json.

    :param before: units before the run
    :param after: units after the run, to determine whether they changed
    """
    sizes = percpu_sizes(system)
    seen_twice = before.method is not None and after.method is not None
    online = attempt(online_cpus, system)[0] or []
    return {
        "method": before.method or ("alignment" if sizes["unit_bytes"] else None),
        "units": {str(cpu): hex(unit) for cpu, unit in before.units.items()} or None,
        "stable": _agree(before.units, after.units) if seen_twice else None,
        "tried": dict(before.tried),
        "missing_cpus": [cpu for cpu in online if cpu not in before.units],
        **sizes,
    }


def percpu_sizes(system: System) -> dict[str, int | None]:
    """Return the sizes of the first chunk in bytes, from the kernel log, by the keys of SIZE_KEYS.

    A size is None if the log does not contain it. The unit size is also None if units are not
    aligned to their size.
    """
    lines = attempt(percpu_lines, system)[0] or b""
    match = SIZES_LINE.search(lines.decode())
    if match is None:
        return dict.fromkeys(SIZE_KEYS)
    *sizes, unit, atom = (int(size) for size in match.groups())
    # x86 aligns the block of units to an atom: 2 MiB, but one page where the CPU has no large ones
    # or percpu_alloc=page is set. Only units that divide it are then aligned to their own size.
    is_aligned = system.machine in X86_MACHINES and unit > 0 and atom % unit == 0
    return dict(zip(SIZE_KEYS, (*sizes, unit if is_aligned else None)))


def _agree(units: Mapping[int, int], others: Mapping[int, int]) -> bool:
    # A method may miss a CPU, and a CPU may have gone online or offline in between.
    return all(others[cpu] == unit for cpu, unit in units.items() if cpu in others)


def run_queue_addresses(cpus: Sequence[int]) -> dict[int, int]:
    """Return the address of the run queue of each CPU that queued a task; others are omitted.

    The tracepoint passes the run queue whenever a task is enqueued. This process visits each CPU
    once, so that each CPU enqueues a task. No symbols are needed.

    :param cpus: online CPUs; this process visits those that its cpuset allows
    :raises Unavailable: no libbpf or no object, or the kernel refuses the program
    """
    size = max(cpus) + 1
    loaded = load_what_works(
        read_object(_RUN_QUEUES),
        _RUN_QUEUES,
        [_QUEUE_PROBE],
        lambda it: it.resize(_RUN_QUEUES, size),
    )
    with loaded.object:
        _visit(cpus)
        queues = loaded.object.map(_RUN_QUEUES)
        pointers = {cpu: queues.read(struct.pack("=I", cpu)) or bytes(8) for cpu in cpus}
    addresses = {cpu: int(struct.unpack("=Q", value)[0]) for cpu, value in pointers.items()}
    return {cpu: address for cpu, address in addresses.items() if address}


def _visit(cpus: Sequence[int]) -> None:
    allowed = os.sched_getaffinity(0)
    try:
        for cpu in cpus:
            # A cpuset may exclude some CPUs, but their own tasks are queued there anyway.
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, {cpu})
                time.sleep(_STAY_S)
    finally:
        os.sched_setaffinity(0, allowed)


@dataclass(frozen=True)
class _Region:
    address: int
    size: int
    offset: int


class Kcore:
    """Read access to the kernel's memory.

    /proc/kcore is a 64-bit ELF core file whose program headers map addresses to file offsets
    (fs/proc/kcore.c).

    :param system: the machine to read /proc/kcore of
    :raises Unavailable: the file does not exist, is not readable, or has an unknown format
    """

    def __init__(self, system: System) -> None:
        try:
            self._file = os.open(system.path(_KCORE), os.O_RDONLY)
        except OSError as error:
            raise unavailable(_KCORE, error) from error
        try:
            self.order, self._regions = self._read_headers()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def read(self, address: int, size: int) -> bytes:
        """Return ``size`` bytes of memory.

        :raises Unavailable: no segment contains all of them, or they cannot be read
        """
        for region in self._regions:
            start = address - region.address
            if start >= 0 and start + size <= region.size:
                return self._at(region.offset + start, size)
        raise Unavailable(f"{_KCORE}: address {address:#x} is not in any segment")

    def _read_headers(self) -> tuple[str, list[_Region]]:
        header = self._at(0, _ELF_HEADER_BYTES)
        order = _ORDERS.get(header[5], "")
        if header[:4] != b"\x7fELF" or header[4] != _CLASS_64 or not order:
            raise Unavailable(f"{_KCORE}: invalid header (expected a 64-bit ELF file)")
        kind, _, _, _, table = struct.unpack_from(f"{order}HHIQQ", header, 16)
        entry_bytes, count = struct.unpack_from(f"{order}HH", header, 54)
        if kind != _TYPE_CORE or entry_bytes != _PROGRAM_HEADER_BYTES or count == _REGIONS_LIMIT:
            raise Unavailable(
                f"{_KCORE}: invalid ELF file (expected a core file with program headers)"
            )
        entries = self._at(table, entry_bytes * count)
        regions = [
            _Region(address=address, size=size, offset=offset)
            for kind, _, offset, address, _, _, size, _ in struct.iter_unpack(
                f"{order}IIQQQQQQ", entries
            )
            if kind == _PT_LOAD
        ]
        return order, regions

    def _at(self, offset: int, size: int) -> bytes:
        try:
            content = os.pread(self._file, size, offset)
        except (OSError, OverflowError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            raise Unavailable(f"{_KCORE}: offset {offset:#x}: {reason}") from error
        if len(content) < size:
            raise Unavailable(f"{_KCORE}: ends before offset {offset + size:#x}")
        return content
