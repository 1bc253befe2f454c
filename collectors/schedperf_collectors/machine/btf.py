# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the few facts of the kernel's BTF that a collector needs.

Layout: Documentation/bpf/btf.rst and include/uapi/linux/btf.h. Types are walked
once, by their sizes; only the requested names are decoded.
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
# Bytes behind each btf_type: the fixed ones, and those for each of its vlen entries.
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
    """Return the offset of the per-CPU variable ``runqueues`` in a CPU's unit.

    :param btf: that of vmlinux
    :raises Unavailable: damaged, or without per-CPU variables
    """
    try:
        return _run_queues_offset(btf)
    except struct.error as error:
        raise Unavailable(f"BTF of vmlinux is truncated: {error}") from error


def _run_queues_offset(btf: bytes) -> int:
    order, types_at, types_end, strings = _read_header(btf)
    name, section = (_string_offset(strings, each) for each in (b"runqueues", PERCPU_SECTION))
    variable = offset = None
    for number, found in enumerate(_walk(btf, order, types_at, types_end), start=1):
        if found.kind == KIND_VAR and found.name == name:
            variable = number
        elif found.kind == KIND_DATASEC and found.name == section:
            entries = struct.iter_unpack(
                f"{order}III", btf[found.body : found.body + found.count * ENTRY_BYTES]
            )
            offset = next((at for type_id, at, _ in entries if type_id == variable), None)
    if offset is None:
        raise Unavailable("BTF of vmlinux has no per-CPU variable runqueues")
    return int(offset)


def _read_header(btf: bytes) -> tuple[str, int, int, bytes]:
    order = "<" if btf[:2] == MAGIC.to_bytes(2, "little") else ">"
    magic, _, _, header, types, types_bytes, text, text_bytes = struct.unpack_from(
        f"{order}HBBIIIII", btf
    )
    if magic != MAGIC or header < HEADER_BYTES:
        raise Unavailable("BTF of vmlinux has an unknown header")
    strings = btf[header + text : header + text + text_bytes]
    return order, header + types, min(header + types + types_bytes, len(btf)), strings


def _string_offset(strings: bytes, name: bytes) -> int:
    found = strings.find(b"\0" + name + b"\0")
    if found < 0:
        raise Unavailable(f"BTF of vmlinux has no {name.decode()}")
    return found + 1


def _walk(btf: bytes, order: str, at: int, end: int) -> Iterator[_Type]:
    unpack = struct.Struct(f"{order}II").unpack_from
    while at + TYPE_BYTES <= end:
        name, info = unpack(btf, at)
        kind, count = info >> 24 & 0x1F, info & 0xFFFF
        if kind not in EXTRA_BYTES:
            raise Unavailable(f"BTF of vmlinux has types of unknown kind {kind}")
        yield _Type(name, kind, count, at + TYPE_BYTES)
        fixed, each = EXTRA_BYTES[kind]
        at += TYPE_BYTES + fixed + each * count


def function_arguments(btf: bytes, names: Collection[str]) -> dict[str, int]:
    """Count the arguments of functions of vmlinux; those that its BTF does not have are left out.

    :raises Unavailable: damaged
    """
    try:
        return dict(_function_arguments(btf, names))
    except struct.error as error:
        raise Unavailable(f"BTF of vmlinux is truncated: {error}") from error


def _function_arguments(btf: bytes, names: Collection[str]) -> Iterator[tuple[str, int]]:
    order, types_at, types_end, strings = _read_header(btf)
    wanted = {strings.find(b"\0" + name.encode() + b"\0") + 1: name for name in names}
    prototypes: list[tuple[str, int]] = []
    counts = [0]
    for found in _walk(btf, order, types_at, types_end):
        counts.append(found.count)
        if found.kind == KIND_FUNC and found.name in wanted:
            # The last word of a type is the number of the one that it refers to.
            [prototype] = struct.unpack_from(f"{order}I", btf, found.body - 4)
            prototypes.append((wanted[found.name], prototype))
    for name, prototype in prototypes:
        if prototype < len(counts):
            yield name, counts[prototype]
