# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the feature sections of a perf.data: perf's description of the machine.

The ``write_*`` functions in the kernel's ``tools/perf/util/header.c`` define their layouts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from schedperf_generators._binary import name_bytes, pack, padded, text_bytes
from schedperf_generators.events import Event


class Feature(IntEnum):
    """HEADER_*: numbers of the feature sections, and of their bits in the header."""

    BUILD_ID = 2
    HOSTNAME = 3
    OSRELEASE = 4
    VERSION = 5
    ARCH = 6
    NRCPUS = 7
    CPUDESC = 8
    CPUID = 9
    TOTAL_MEM = 10
    CMDLINE = 11
    EVENT_DESC = 12
    CPU_TOPOLOGY = 13
    NUMA_TOPOLOGY = 14
    PMU_MAPPINGS = 16
    GROUP_DESC = 17
    CACHE = 20
    SAMPLE_TIME = 21
    MEM_TOPOLOGY = 22
    CLOCKID = 23
    DIR_FORMAT = 24
    COMPRESSED = 27
    HYBRID_TOPOLOGY = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Cpu:
    """Topology of one CPU; its number is its index in :attr:`Machine.cpus`."""

    core: int
    socket: int = 0
    die: int = 0
    node: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Cache:
    """One cache.

    :param type: "Data", "Instruction" or "Unified"
    :param size: size as sysfs prints it: "32K"
    :param cpus: CPUs that share it, as the kernel lists them: "0-3,8"
    """

    level: int
    line_bytes: int
    sets: int = 64
    ways: int = 8
    type: str = "Data"
    size: str = "32K"
    cpus: str = "0"


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildId:
    """The build id of a mapped file.

    :param raw: 20 bytes, or fewer
    :param mode: mode of the code: 1 kernel, 2 user
    """

    path: str
    raw: bytes
    mode: int = 2
    pid: int = 0xFFFFFFFF


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """The recorded machine; a field that is None or empty has no section, except ``command``.

    :param cpus: topology and node of each CPU
    :param memory_bytes: memory of each node
    :param memory_block_bytes: size of memory blocks (hotplug)
    :param with_memory: whether there is a section with the memory blocks of each node
    :param groups: name, index of the leading event, number of members
    :param pmus: name of each PMU by its number
    :param hybrid: list of CPUs of each PMU, by its name
    :param sample_time: times of the first and of the last sample, in ns
    """

    hostname: str | None = "bench01"
    os_release: str | None = "6.14.0"
    perf_version: str | None = "6.14"
    arch: str | None = "x86_64"
    cpu_description: str | None = "Generated CPU"
    cpuid: str | None = "GenuineIntel,6,143,8"
    command: tuple[str, ...] = ("/usr/bin/perf", "record", "-a")
    cpus: tuple[Cpu, ...] = ()
    memory_bytes: int = 1 << 32
    memory_block_bytes: int = 1 << 27
    with_memory: bool = False
    caches: tuple[Cache, ...] = ()
    build_ids: tuple[BuildId, ...] = ()
    groups: tuple[tuple[str, int, int], ...] = ()
    pmus: Mapping[int, str] | None = None
    hybrid: Mapping[str, str] | None = None
    clockid_resolution_ns: int | None = None
    sample_time: tuple[int, int] | None = None

    def sections(self, order: str, events: Sequence[Event]) -> dict[int, bytes]:
        """Return the content of the feature sections by number.

        :param order: byte order, "<" or ">"
        :param events: events of the recording; at least one
        """
        texts = {
            Feature.HOSTNAME: self.hostname,
            Feature.OSRELEASE: self.os_release,
            Feature.VERSION: self.perf_version,
            Feature.ARCH: self.arch,
            Feature.CPUDESC: self.cpu_description,
            Feature.CPUID: self.cpuid,
        }
        sections: dict[int, bytes] = {
            feature: text_bytes(order, text) for feature, text in texts.items() if text is not None
        }
        sections[Feature.CMDLINE] = _texts(order, self.command)
        sections[Feature.EVENT_DESC] = _event_descriptions(order, events)
        return sections | self._topology(order) | self._facts(order)

    def _topology(self, order: str) -> dict[int, bytes]:
        if not self.cpus:
            return {}
        count = len(self.cpus)
        sections: dict[int, bytes] = {
            # perf writes the available CPUs first, contrary to its documentation.
            Feature.NRCPUS: pack(order, "2I", count, count),
            Feature.TOTAL_MEM: pack(order, "Q", self.memory_bytes * len(self._nodes()) >> 10),
            Feature.CPU_TOPOLOGY: self._cpu_topology(order),
            Feature.NUMA_TOPOLOGY: self._numa_topology(order),
        }
        if self.with_memory:
            sections[Feature.MEM_TOPOLOGY] = self._memory_topology(order)
        return sections

    def _nodes(self) -> dict[int, list[int]]:
        nodes: dict[int, list[int]] = {}
        for number, cpu in enumerate(self.cpus):
            nodes.setdefault(cpu.node, []).append(number)
        return nodes

    def _cpu_topology(self, order: str) -> bytes:
        def siblings(key: str, *further: str) -> tuple[str, ...]:
            groups: dict[tuple[int, ...], list[int]] = {}
            for number, cpu in enumerate(self.cpus):
                topology = tuple(getattr(cpu, name) for name in (key, *further))
                groups.setdefault(topology, []).append(number)
            return tuple(cpu_list(group) for group in groups.values())

        places = b"".join(pack(order, "2I", cpu.core, cpu.socket) for cpu in self.cpus)
        dies = _texts(order, siblings("socket", "die"))
        dies += b"".join(pack(order, "I", cpu.die) for cpu in self.cpus)
        cores = _texts(order, siblings("socket"))
        threads = _texts(order, siblings("socket", "die", "core"))
        return cores + threads + places + dies

    def _numa_topology(self, order: str) -> bytes:
        nodes, kib = self._nodes(), self.memory_bytes >> 10
        return pack(order, "I", len(nodes)) + b"".join(
            pack(order, "I2Q", node, kib, kib) + text_bytes(order, cpu_list(cpus))
            for node, cpus in nodes.items()
        )

    def _memory_topology(self, order: str) -> bytes:
        # A set bit is a memory block of the node; perf writes the number of bits twice.
        nodes, blocks = sorted(self._nodes()), self.memory_bytes // self.memory_block_bytes
        raw = pack(order, "3Q", 1, self.memory_block_bytes, len(nodes))
        for index, node in enumerate(nodes):
            bits = (index + 1) * blocks
            words = -(-bits // 64)
            bitmap = ((1 << blocks) - 1) << index * blocks
            values = [bitmap >> 64 * word & (1 << 64) - 1 for word in range(words)]
            raw += pack(order, f"3Q{words}Q", node, bits, bits, *values)
        return raw

    def _facts(self, order: str) -> dict[int, bytes]:
        sections: dict[int, bytes] = {}
        if self.build_ids:
            sections[Feature.BUILD_ID] = b"".join(
                _build_id(order, build_id) for build_id in self.build_ids
            )
        if self.caches:
            sections[Feature.CACHE] = pack(order, "2I", 1, len(self.caches)) + b"".join(
                _cache(order, cache) for cache in self.caches
            )
        if self.groups:
            sections[Feature.GROUP_DESC] = pack(order, "I", len(self.groups)) + b"".join(
                text_bytes(order, name) + pack(order, "2I", leader, members)
                for name, leader, members in self.groups
            )
        if self.pmus is not None:
            sections[Feature.PMU_MAPPINGS] = pack(order, "I", len(self.pmus)) + b"".join(
                pack(order, "I", number) + text_bytes(order, name)
                for number, name in self.pmus.items()
            )
        if self.hybrid is not None:
            sections[Feature.HYBRID_TOPOLOGY] = pack(order, "I", len(self.hybrid)) + b"".join(
                text_bytes(order, name) + text_bytes(order, cpus)
                for name, cpus in self.hybrid.items()
            )
        if self.clockid_resolution_ns is not None:
            sections[Feature.CLOCKID] = pack(order, "Q", self.clockid_resolution_ns)
        if self.sample_time is not None:
            sections[Feature.SAMPLE_TIME] = pack(order, "2Q", *self.sample_time)
        return sections


def cpu_list(cpus: Sequence[int]) -> str:
    """Return CPU numbers as the kernel lists them: ``0-3,8``."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(f"{first}-{last}" if first < last else str(first) for first, last in ranges)


def _texts(order: str, texts: Sequence[str]) -> bytes:
    return pack(order, "I", len(texts)) + b"".join(text_bytes(order, text) for text in texts)


def _event_descriptions(order: str, events: Sequence[Event]) -> bytes:
    raw = pack(order, "2I", len(events), events[0].attr_bytes)
    for event in events:
        raw += event.attr(order) + pack(order, "I", len(event.ids)) + text_bytes(order, event.name)
        raw += pack(order, f"{len(event.ids)}Q", *event.ids)
    return raw


def _build_id(order: str, build_id: BuildId) -> bytes:
    # A bit of misc means that the size follows the 20 bytes of the build id.
    has_size = 1 << 15
    raw = build_id.raw.ljust(20, b"\0") + pack(order, "B3x", len(build_id.raw))
    body = pack(order, "I", build_id.pid) + raw + padded(name_bytes(build_id.path), 64)
    return pack(order, "IHH", 67, build_id.mode | has_size, 8 + len(body)) + body


def _cache(order: str, cache: Cache) -> bytes:
    raw = pack(order, "4I", cache.level, cache.line_bytes, cache.sets, cache.ways)
    return raw + b"".join(text_bytes(order, text) for text in (cache.type, cache.size, cache.cpus))
