# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the feature sections of perf.data: perf's description of the machine.

The sections follow the records, one for each bit that is set in the header. The records can be read
without them, so a damaged section only adds a note. The ``write_*`` functions in the kernel's
``tools/perf/util/header.c`` define their layouts.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from schedperf.inputs.perf_data._bytes import Bytes
from schedperf_collectors.contract import Unavailable, parse_cpu_list
from schedperf_collectors.perf_header import (
    EVENT_DESC,
    BadPerfData,
    Cursor,
    Header,
    open_section,
    text_until_nul,
)

# MAX_NUMNODES with the largest CONFIG_NODES_SHIFT.
MAX_NODES = 1024
# More than any machine has: caches, PMUs.
_MOST_ENTRIES = 1 << 16

# struct perf_record_header_build_id: header 8, pid 4, build id 20, its size and 3 more, the name.
_BUILD_ID_START = 12
_BUILD_ID_BYTES = 20
_BUILD_ID_NAME = 36
# PERF_RECORD_MISC_BUILD_ID_SIZE: the byte after the build id is its size.
_MISC_BUILD_ID_SIZE = 1 << 15
# perf's names of the sections that are read, by number (tools/perf/util/header.h in Linux).
_NAMES = {
    2: "BUILD_ID",
    4: "OSRELEASE",
    5: "VERSION",
    6: "ARCH",
    9: "CPUID",
    EVENT_DESC: "EVENT_DESC",
    14: "NUMA_TOPOLOGY",
    16: "PMU_MAPPINGS",
    20: "CACHE",
}
_KERNEL_NAMES = ("[kernel.kallsyms]", "[kernel.vmlinux]", "vmlinux")


class Cache(Struct, frozen=True, kw_only=True):
    """One cache, and the CPUs that share it.

    :param level: 1 for L1
    :param line_size: size of a cache line in bytes
    :param sets: number of sets
    :param ways: number of ways (associativity)
    :param kind: ``Data``, ``Instruction`` or ``Unified``, as in the kernel's sysfs
    :param size: as the kernel prints it, ``32K``
    :param cpus: list of the CPUs that share it, ``0-1``
    """

    level: int
    line_size: int
    sets: int
    ways: int
    kind: str
    size: str
    cpus: str


class Features(Struct, frozen=True, kw_only=True):
    """perf's description of the machine; None if not recorded.

    :param node_of_cpu: NUMA node by CPU; empty if not recorded
    :param build_ids: hexadecimal build id by path; empty if not recorded
    :param pmus: PMU names by event type
    """

    os_release: str | None = None
    perf_version: str | None = None
    arch: str | None = None
    cpuid: str | None = None
    node_of_cpu: Mapping[int, int] = field(default_factory=dict)
    build_ids: Mapping[str, str] = field(default_factory=dict)
    caches: tuple[Cache, ...] | None = None
    pmus: Mapping[int, str] | None = None

    @property
    def kernel_build_id(self) -> str | None:
        """The build id of the recorded kernel, or of the vmlinux that perf used in its place.

        None if not recorded.
        """
        return next(
            (
                build_id
                for name, build_id in self.build_ids.items()
                if name.rpartition("/")[2].startswith(_KERNEL_NAMES)
            ),
            None,
        )

    @property
    def line_bytes(self) -> int | None:
        """The line size of the highest cache level, in bytes; None if not recorded."""
        sizes = [(cache.level, cache.line_size) for cache in self.caches or ()]
        return max(sizes)[1] if sizes else None


def section_cursors(data: Bytes, header: Header, label: str) -> tuple[dict[int, Cursor], list[str]]:
    """Locate the feature sections of a file.

    :return: sections by number, and one note for each damaged section
    """
    cursors, notes = {}, []
    for index, bit in enumerate(header.features):
        try:
            cursors[bit] = open_section(data, header.order, header.end, index, label)
        except BadPerfData as error:
            notes.append(_damaged(bit, error))
    return cursors, notes


def read_sections(sections: Mapping[int, Cursor]) -> tuple[Features, list[str]]:
    """Parse the supported sections.

    :return: the features, and one note for each damaged section
    """
    features: dict[str, Any] = {}
    notes = []
    for bit, cursor in sorted(sections.items()):
        try:
            if bit in _READERS:
                features |= _READERS[bit](cursor)
        except BadPerfData as error:
            notes.append(_damaged(bit, error))
    return Features(**features), notes


def _damaged(bit: int, error: BadPerfData) -> str:
    return f"header section {_NAMES.get(bit, bit)} is damaged ({error})"


def _count(cursor: Cursor, items: str, most: int = _MOST_ENTRIES) -> int:
    count = cursor.u32()
    if count > most:
        raise BadPerfData(
            f"{cursor.label}: {count} {items} (expected at most {most}); record it again"
        )
    return count


def _cpus(cursor: Cursor, owner: str) -> tuple[int, ...]:
    try:
        return tuple(parse_cpu_list(cursor.text()))
    except Unavailable as error:
        raise BadPerfData(f"{cursor.label}: {owner}: {error}; record it again") from error


def _text(name: str) -> Callable[[Cursor], dict[str, Any]]:
    return lambda cursor: {name: cursor.text()}


def _read_build_ids(cursor: Cursor) -> dict[str, Any]:
    return {"build_ids": read_build_ids(cursor)}


def read_build_ids(cursor: Cursor) -> dict[str, str]:
    """Parse the ``perf_record_header_build_id`` structs; return build ids by path.

    :raises BadPerfData: a struct is truncated
    """
    build_ids: dict[str, str] = {}
    # Sections of a pipe are padded.
    while cursor.end - cursor.offset >= _BUILD_ID_NAME:
        start = cursor.offset
        cursor.skip(4)  # The type is not always filled in.
        word = cursor.u32()
        misc, size = word & 0xFFFF, word >> 16
        if cursor.order == ">":
            misc, size = size, misc
        if size < _BUILD_ID_NAME:
            break
        cursor.skip(size - 8)
        raw = cursor.data[start + _BUILD_ID_START : start + size]
        length = raw[_BUILD_ID_BYTES] if misc & _MISC_BUILD_ID_SIZE else _BUILD_ID_BYTES
        name = text_until_nul(raw[_BUILD_ID_NAME - _BUILD_ID_START :])
        build_ids.setdefault(name, raw[: min(length, _BUILD_ID_BYTES)].hex())
    return build_ids


def _read_nodes(cursor: Cursor) -> dict[str, Any]:
    node_of_cpu: dict[int, int] = {}
    for _ in range(_count(cursor, "nodes", MAX_NODES)):
        node = cursor.u32()
        cursor.skip(16)  # Total and free memory.
        cpus = dict.fromkeys(_cpus(cursor, f"node {node}"), node)
        if not node_of_cpu.keys().isdisjoint(cpus):
            raise BadPerfData(
                f"{cursor.label}: a CPU of node {node} also belongs to another node; "
                "record it again"
            )
        node_of_cpu.update(cpus)
    return {"node_of_cpu": node_of_cpu}


def _read_pmus(cursor: Cursor) -> dict[str, Any]:
    return {"pmus": {cursor.u32(): cursor.text() for _ in range(_count(cursor, "PMUs"))}}


def _read_caches(cursor: Cursor) -> dict[str, Any]:
    version = cursor.u32()
    if version != 1:
        raise BadPerfData(
            f"{cursor.label}: unknown version {version} of header section CACHE (expected 1); "
            "use a newer schedperf"
        )
    return {
        "caches": tuple(
            Cache(
                level=cursor.u32(),
                line_size=cursor.u32(),
                sets=cursor.u32(),
                ways=cursor.u32(),
                kind=cursor.text(),
                size=cursor.text(),
                cpus=cursor.text(),
            )
            for _ in range(_count(cursor, "caches"))
        )
    }


_READERS: Mapping[int, Callable[[Cursor], dict[str, Any]]] = {
    2: _read_build_ids,
    4: _text("os_release"),
    5: _text("perf_version"),
    6: _text("arch"),
    9: _text("cpuid"),
    14: _read_nodes,
    16: _read_pmus,
    20: _read_caches,
}
