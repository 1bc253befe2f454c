"""The feature sections of perf.data: what perf noted about the machine.

They follow the records, one for each bit that is set in the header. None of them
is needed to read the records, so a damaged one costs a note and nothing else.
Layouts are those of the ``write_*`` functions of the kernel tree's
``tools/perf/util/header.c``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from schedperf_collectors._perf_data import (
    BadPerfData,
    Cursor,
    Header,
    open_section,
    text_until_nul,
)
from schedperf_collectors._system import Unavailable, parse_cpu_list

BUILD_ID = 2
NUMA_TOPOLOGY = 14
DIR_FORMAT = 24
COMPRESSED = 27

# MAX_NUMNODES is 1024 where CONFIG_NODES_SHIFT is largest.
MAX_NODES = 1024
# struct perf_record_header_build_id: header 8, pid 4, build id 20 padded to 24, then the name.
_BUILD_ID_START = 12
_BUILD_ID_BYTES = 20
_BUILD_ID_NAME = 36
_KERNEL_NAMES = ("[kernel.kallsyms]", "[kernel.vmlinux]", "vmlinux")


@dataclass(frozen=True, kw_only=True, slots=True)
class Features:
    """What perf noted; None or empty where the file does not say.

    :param node_of_cpu: CPU number to NUMA node
    :param kernel_build_id: hexadecimal
    """

    node_of_cpu: Mapping[int, int]
    kernel_build_id: str | None


NO_FEATURES = Features(node_of_cpu={}, kernel_build_id=None)


def read_features(data: bytes, header: Header, label: str) -> tuple[Features, tuple[str, ...]]:
    """Read the sections that are of use here.

    :return: what was read, and one sentence for each section that could not be
    """
    features, notes = NO_FEATURES, []
    for place, bit in enumerate(header.features):
        if bit not in _READERS:
            continue
        try:
            section = open_section(data, header.order, header.end, place, label)
            features = _READERS[bit](section, features)
        except BadPerfData as error:
            notes.append(f"header section {bit} is damaged: {error}")
    return features, tuple(notes)


def _read_build_id(cursor: Cursor, features: Features) -> Features:
    while cursor.offset < cursor.end:
        start = cursor.offset
        cursor.skip(4)  # The type is not always filled in.
        size = cursor.u32() >> 16 if cursor.order == "<" else cursor.u32() & 0xFFFF
        if size < _BUILD_ID_NAME:
            break
        cursor.skip(size - 8)
        name = text_until_nul(cursor.data[start + _BUILD_ID_NAME : start + size])
        if name.startswith(_KERNEL_NAMES):
            at = start + _BUILD_ID_START
            raw = cursor.data[at : at + _BUILD_ID_BYTES]
            return replace(features, kernel_build_id=raw.hex())
    return features


def _read_nodes(cursor: Cursor, features: Features) -> Features:
    node_of_cpu: dict[int, int] = {}
    count = cursor.u32()
    if count > MAX_NODES:
        raise BadPerfData(f"{cursor.label}: {count} nodes; record it again")
    for _ in range(count):
        node = cursor.u32()
        cursor.skip(16)  # Memory in all and free, in kB.
        try:
            cpus = dict.fromkeys(parse_cpu_list(cursor.text()), node)
        except Unavailable as error:
            raise BadPerfData(f"{cursor.label}: node {node}: {error}; record it again") from error
        if not node_of_cpu.keys().isdisjoint(cpus):
            raise BadPerfData(f"{cursor.label}: node {node} has another's CPUs; record it again")
        node_of_cpu.update(cpus)
    return replace(features, node_of_cpu=node_of_cpu)


_READERS: Mapping[int, Callable[[Cursor, Features], Features]] = {
    BUILD_ID: _read_build_id,
    NUMA_TOPOLOGY: _read_nodes,
}
