# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the parts of the kernel's BTF that collectors need.

Layout: Documentation/bpf/btf.rst and include/uapi/linux/btf.h. Each function walks all types once,
by their sizes; it decodes only the requested names.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from schedperf_collectors.contract import Unavailable

MAGIC = 0xEB9F
HEADER_BYTES = 24
TYPE_BYTES = 12
ENTRY_BYTES = 12
KIND_FUNC = 12
KIND_VAR = 14
KIND_DATASEC = 15
# Bytes after each btf_type: a fixed part, and a part for each of its vlen entries.
EXTRA_BYTES = {
    1: (4, 0), 2: (0, 0), 3: (12, 0), 4: (0, 12), 5: (0, 12), 6: (0, 8), 7: (0, 0), 8: (0, 0),
    9: (0, 0), 10: (0, 0), 11: (0, 0), 12: (0, 0), 13: (0, 8), 14: (4, 0), 15: (0, 12),
    16: (0, 0), 17: (4, 0), 18: (0, 0), 19: (0, 12),
}  # fmt: skip
PERCPU_SECTION = b".data..percpu"


@dataclass(frozen=True)
class _Type:
    name: int
    kind: int
    count: int
    body: int


def run_queues_offset(btf: bytes) -> int:
    """Return the offset of ``runqueues`` in the section of per-CPU variables, in bytes.

    :param btf: BTF of vmlinux
    :raises Unavailable: the BTF is damaged, has a type of an unknown kind, or has no such variable
    """
    try:
        return _run_queues_offset(btf)
    except struct.error as error:
        raise Unavailable(f"BTF of vmlinux is truncated: {error}") from error


def _run_queues_offset(btf: bytes) -> int:
    order, types_at, types_end, strings = _read_header(btf)
    name, section = (_string_offset(strings, each) for each in (b"runqueues", PERCPU_SECTION))
    variable = offset = None
    for number, record in enumerate(_walk(btf, order, types_at, types_end), start=1):
        if record.kind == KIND_VAR and record.name == name:
            variable = number
        elif record.kind == KIND_DATASEC and record.name == section:
            entries = struct.iter_unpack(
                f"{order}III", btf[record.body : record.body + record.count * ENTRY_BYTES]
            )
            offset = next((at for type_id, at, _ in entries if type_id == variable), None)
    if offset is None:
        raise Unavailable("BTF of vmlinux has no per-CPU variable 'runqueues'")
    return int(offset)


def _read_header(btf: bytes) -> tuple[str, int, int, bytes]:
    order = "<" if btf[:2] == MAGIC.to_bytes(2, "little") else ">"
    magic, _, _, header, types, types_bytes, text, text_bytes = struct.unpack_from(
        f"{order}HBBIIIII", btf
    )
    if magic != MAGIC or header < HEADER_BYTES:
        raise Unavailable(
            f"BTF of vmlinux has an invalid header (expected magic {MAGIC:#x} and at least "
            f"{HEADER_BYTES} bytes)"
        )
    strings = btf[header + text : header + text + text_bytes]
    return order, header + types, min(header + types + types_bytes, len(btf)), strings


def _string_offset(strings: bytes, name: bytes) -> int:
    offset = strings.find(b"\0" + name + b"\0")
    if offset < 0:
        raise Unavailable(f"BTF of vmlinux does not contain the name {name.decode()!r}")
    return offset + 1


def _walk(btf: bytes, order: str, at: int, end: int) -> Iterator[_Type]:
    unpack = struct.Struct(f"{order}II").unpack_from
    while at + TYPE_BYTES <= end:
        name, info = unpack(btf, at)
        kind, count = info >> 24 & 0x1F, info & 0xFFFF
        if kind not in EXTRA_BYTES:
            raise Unavailable(f"BTF of vmlinux has a type of unknown kind {kind}")
        yield _Type(name, kind, count, at + TYPE_BYTES)
        fixed, each = EXTRA_BYTES[kind]
        at += TYPE_BYTES + fixed + each * count


def function_arguments(btf: bytes, names: Collection[str]) -> dict[str, int]:
    """Return the number of arguments of functions of vmlinux; functions not in BTF are omitted.

    :param btf: BTF of vmlinux
    :raises Unavailable: the BTF is damaged, or has a type of an unknown kind
    """
    try:
        return dict(_function_arguments(btf, names))
    except struct.error as error:
        raise Unavailable(f"BTF of vmlinux is truncated: {error}") from error


def _function_arguments(btf: bytes, names: Collection[str]) -> Iterator[tuple[str, int]]:
    order, types_at, types_end, strings = _read_header(btf)
    offsets = {strings.find(b"\0" + name.encode() + b"\0") + 1: name for name in names}
    prototypes: list[tuple[str, int]] = []
    counts = [0]
    for record in _walk(btf, order, types_at, types_end):
        counts.append(record.count)
        if record.kind == KIND_FUNC and record.name in offsets:
            # The last word of a type is the number of the one that it refers to.
            [prototype] = struct.unpack_from(f"{order}I", btf, record.body - 4)
            prototypes.append((offsets[record.name], prototype))
    for name, prototype in prototypes:
        if prototype < len(counts):
            yield name, counts[prototype]
