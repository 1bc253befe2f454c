"""The feature sections of perf.data: what perf noted about the machine and the events.

They follow the records, one for each bit that is set in the header. None of them
is needed to read the records, so a damaged one costs a note and nothing else.
Layouts are those of the ``write_*`` functions of the kernel tree's
``tools/perf/util/header.c``; its documentation has NRCPUS the wrong way round.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from schedperf.errors import InputError

BUILD_ID = 2
HOSTNAME = 3
OSRELEASE = 4
VERSION = 5
ARCH = 6
NRCPUS = 7
CMDLINE = 11
EVENT_DESC = 12
NUMA_TOPOLOGY = 14
CACHE = 20
DIR_FORMAT = 24
COMPRESSED = 27

# Far above the kernel's largest NR_CPUS (8192 on x86), far below what fills the memory.
MAX_CPUS = 1 << 16
# Offset and size of a section.
_TABLE_ENTRY_BYTES = 16
# struct perf_record_header_build_id: header 8, pid 4, build id 20 padded to 24, then the name.
_BUILD_ID_START = 12
_BUILD_ID_BYTES = 20
_BUILD_ID_NAME = 36
_KERNEL_NAMES = ("[kernel.kallsyms]", "[kernel.vmlinux]", "vmlinux")


@dataclass(frozen=True, kw_only=True, slots=True)
class Features:
    """What perf noted; None or empty where the file does not say.

    :param event_names: one for each event, in the order of the attributes
    :param node_of_cpu: CPU number to NUMA node
    :param line_bytes: size of the longest cache line
    :param kernel_build_id: hexadecimal
    """

    hostname: str | None
    os_release: str | None
    perf_version: str | None
    arch: str | None
    cpus_available: int | None
    cpus_online: int | None
    command: tuple[str, ...]
    event_names: tuple[str, ...]
    node_of_cpu: Mapping[int, int]
    line_bytes: int | None
    kernel_build_id: str | None


NO_FEATURES = Features(
    hostname=None,
    os_release=None,
    perf_version=None,
    arch=None,
    cpus_available=None,
    cpus_online=None,
    command=(),
    event_names=(),
    node_of_cpu={},
    line_bytes=None,
    kernel_build_id=None,
)


class Cursor:
    """Read numbers and strings one after the other, never past ``end``.

    :param order: "<" or ">"
    :param label: for messages
    :raises InputError: from every method, when fewer bytes are left than asked for
    """

    def __init__(self, data: bytes, order: str, start: int, end: int, label: str) -> None:
        self.data = data
        self.order = order
        self.offset = start
        self.end = min(end, len(data))
        self.label = label

    def skip(self, count: int) -> int:
        """Go on by some bytes and return the offset where they start."""
        start, left = self.offset, self.end - self.offset
        if count > left:
            raise InputError(
                f"{self.label}: {count} bytes wanted at offset {start:#x}, "
                f"{max(0, left)} are left; record it again"
            )
        self.offset = start + count
        return start

    def u32(self) -> int:
        """Read one 32-bit number."""
        return int(struct.unpack_from(f"{self.order}I", self.data, self.skip(4))[0])

    def u64(self) -> int:
        """Read one 64-bit number."""
        return int(struct.unpack_from(f"{self.order}Q", self.data, self.skip(8))[0])

    def text(self) -> str:
        """Read a string: its padded length, then that many bytes."""
        length = self.u32()
        start = self.skip(length)
        return text_until_nul(self.data[start : start + length])

    def texts(self) -> tuple[str, ...]:
        """Read a list of strings: how many, then each."""
        return tuple(self.text() for _ in range(self.u32()))


def text_until_nul(raw: bytes) -> str:
    """Decode what stands before the first NUL; bytes that are not UTF-8 are replaced."""
    return raw.partition(b"\0")[0].decode("utf-8", "replace")


def read_features(
    data: bytes, order: str, table: int, bits: Sequence[int], label: str
) -> tuple[Features, tuple[str, ...]]:
    """Read the sections that are of use here.

    :param table: offset of the table of sections, which lies behind the records
    :param bits: numbers of the sections in the table, ascending
    :return: what was read, and one sentence for each section that could not be
    """
    features, notes = NO_FEATURES, []
    for index, bit in enumerate(bits):
        if bit not in _READERS:
            continue
        try:
            place = Cursor(data, order, table + index * _TABLE_ENTRY_BYTES, len(data), label)
            start = place.u64()
            section = Cursor(data, order, start, start + place.u64(), label)
            features = _READERS[bit](section, features)
        except InputError as error:
            notes.append(f"header section {bit} is damaged: {error}")
    return features, tuple(notes)


def parse_cpu_list(text: str) -> list[int]:
    """Read a list of CPUs as the kernel prints it: ``0-3,8``.

    :raises ValueError: it is none, or names CPUs that no kernel has
    """
    cpus: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        if not 0 <= low <= high < MAX_CPUS or len(cpus) > MAX_CPUS:
            raise ValueError(f"not a list of CPUs: {text[:40]!r}")
        cpus.extend(range(low, high + 1))
    return cpus


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
            raw = cursor.data[start + _BUILD_ID_START :][:_BUILD_ID_BYTES]
            return replace(features, kernel_build_id=raw.hex())
    return features


def _read_cpu_counts(cursor: Cursor, features: Features) -> Features:
    return replace(features, cpus_available=cursor.u32(), cpus_online=cursor.u32())


def _read_event_names(cursor: Cursor, features: Features) -> Features:
    count, attr_bytes = cursor.u32(), cursor.u32()
    names = []
    for _ in range(count):
        cursor.skip(attr_bytes)
        ids = cursor.u32()
        names.append(cursor.text())
        cursor.skip(8 * ids)
    return replace(features, event_names=tuple(names))


def _read_nodes(cursor: Cursor, features: Features) -> Features:
    node_of_cpu: dict[int, int] = {}
    for _ in range(cursor.u32()):
        node = cursor.u32()
        cursor.skip(16)  # Memory in all and free, in kB.
        try:
            cpus = dict.fromkeys(parse_cpu_list(cursor.text()), node)
        except ValueError as error:
            raise InputError(f"{cursor.label}: node {node}: {error}; record it again") from error
        # This also bounds the work: no more CPUs are listed than there are.
        if not node_of_cpu.keys().isdisjoint(cpus):
            raise InputError(f"{cursor.label}: node {node} has another's CPUs; record it again")
        node_of_cpu.update(cpus)
    return replace(features, node_of_cpu=node_of_cpu)


def _read_line_bytes(cursor: Cursor, features: Features) -> Features:
    cursor.skip(4)  # The version, 1 since there are caches in perf.data.
    longest = 0
    for _ in range(cursor.u32()):
        cursor.skip(4)
        longest = max(longest, cursor.u32())
        cursor.skip(8)  # Sets and ways.
        for _ in ("type", "size", "map"):
            cursor.text()
    return replace(features, line_bytes=longest or None)


_READERS: Mapping[int, Callable[[Cursor, Features], Features]] = {
    BUILD_ID: _read_build_id,
    HOSTNAME: lambda cursor, features: replace(features, hostname=cursor.text()),
    OSRELEASE: lambda cursor, features: replace(features, os_release=cursor.text()),
    VERSION: lambda cursor, features: replace(features, perf_version=cursor.text()),
    ARCH: lambda cursor, features: replace(features, arch=cursor.text()),
    NRCPUS: _read_cpu_counts,
    CMDLINE: lambda cursor, features: replace(features, command=cursor.texts()),
    EVENT_DESC: _read_event_names,
    NUMA_TOPOLOGY: _read_nodes,
    CACHE: _read_line_bytes,
}
