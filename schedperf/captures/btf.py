"""Per-CPU variables in BTF, the kernel's own type data (/sys/kernel/btf/vmlinux).

Laid out as Documentation/bpf/btf.rst says: a header, a type section of 32-bit
words, a string section. Types have no index, so finding the one DATASEC
``.data..percpu`` takes a walk over all of them. Offsets in it count from the
section's start, and sizes are exact. Not in BTF: variables that are static in a
function, of size zero, or defined in assembly.
"""

import struct
import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from schedperf.captures._symbol_table import LONGEST_NAME
from schedperf.errors import InputError

PERCPU_SECTION = ".data..percpu"

_MAGIC = 0xEB9F
_HEADER = "HBBIIIII"
_HEADER_BYTES = struct.calcsize("<" + _HEADER)
_WORD_BYTES = 4
_TYPE_WORDS = 3

_VAR = 14
_DATASEC = 15
# Words that follow a type's three, by kind (include/uapi/linux/btf.h): always, and per member.
_WORDS_AFTER = {
    1: (1, 0),  # INT
    2: (0, 0),  # PTR
    3: (3, 0),  # ARRAY
    4: (0, 3),  # STRUCT
    5: (0, 3),  # UNION
    6: (0, 2),  # ENUM
    7: (0, 0),  # FWD
    8: (0, 0),  # TYPEDEF
    9: (0, 0),  # VOLATILE
    10: (0, 0),  # CONST
    11: (0, 0),  # RESTRICT
    12: (0, 0),  # FUNC
    13: (0, 2),  # FUNC_PROTO
    _VAR: (1, 0),
    _DATASEC: (0, 3),
    16: (0, 0),  # FLOAT
    17: (1, 0),  # DECL_TAG
    18: (0, 0),  # TYPE_TAG
    19: (0, 3),  # ENUM64
}
_LINKAGES: dict[int, Literal["static", "global"]] = {0: "static", 1: "global"}


@dataclass(frozen=True, kw_only=True, slots=True)
class BtfVariable:
    """One variable of a section.

    :param offset: bytes from the section's start
    :param size: bytes
    """

    offset: int
    size: int
    name: str
    linkage: Literal["static", "global"]


@dataclass(frozen=True, kw_only=True, slots=True)
class BtfSection:
    """One DATASEC.

    :param size: bytes
    :param variables: by offset
    """

    size: int
    variables: tuple[BtfVariable, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Btf:
    # The two parts of the file; words are in this machine's byte order.
    words: "array[int]"
    strings: bytes
    label: str

    def name(self, offset: int) -> str:
        if offset >= len(self.strings):
            raise InputError(
                f"{self.label}: name at {offset} of {len(self.strings)} bytes of strings; "
                "use an undamaged file"
            )
        end = self.strings.find(b"\0", offset, offset + LONGEST_NAME + 1)
        if end < 0:
            raise InputError(
                f"{self.label}: name at {offset} does not end within {LONGEST_NAME} bytes; "
                "use an undamaged file"
            )
        return self.strings[offset:end].decode("utf-8", "replace")


def parse_percpu_section(data: bytes, label: str) -> BtfSection:
    """Read the per-CPU variables from raw BTF of either byte order.

    :param label: names the source in messages: "btf of base.tar"
    :raises InputError: it is no BTF, it is damaged, or it holds no per-CPU section
    """
    btf = _split(data, label)
    variables: dict[int, int] = {}
    section = None
    for type_id, kind, position in _for_each_type(btf):
        if kind == _VAR:
            variables[type_id] = position
        elif kind == _DATASEC and btf.name(btf.words[position]) == PERCPU_SECTION:
            section = position
    if section is None:
        raise InputError(
            f"{label}: no {PERCPU_SECTION}; "
            "the kernel is not SMP, or was built with pahole older than 1.18"
        )
    return _read_section(btf, section, variables)


def _split(data: bytes, label: str) -> _Btf:
    # Find both parts, and turn the types into words.
    if len(data) < _HEADER_BYTES:
        raise InputError(f"{label}: {len(data)} bytes are too few for BTF; use an undamaged file")
    order = next((o for o in "<>" if struct.unpack_from(o + "H", data)[0] == _MAGIC), None)
    if order is None:
        raise InputError(
            f"{label}: starts with {data[:2].hex()}, not with BTF's magic number eb9f; "
            "use the raw .BTF section"
        )
    header = struct.unpack_from(order + _HEADER, data)
    _, version, _, header_bytes, type_at, type_bytes, string_at, string_bytes = header
    if version != 1:
        raise InputError(f"{label}: BTF version {version} is not known; version 1 is")
    types = _slice(data, header_bytes + type_at, type_bytes, f"{label}: types")
    strings = _slice(data, header_bytes + string_at, string_bytes, f"{label}: strings")
    if header_bytes < _HEADER_BYTES or type_bytes % _WORD_BYTES:
        raise InputError(f"{label}: the BTF header makes no sense; use an undamaged file")
    words = array("I", types)
    if order != ("<" if sys.byteorder == "little" else ">"):
        words.byteswap()
    return _Btf(words=words, strings=strings, label=label)


def _slice(data: bytes, start: int, length: int, what: str) -> bytes:
    if start + length > len(data):
        raise InputError(
            f"{what} reach to byte {start + length} of {len(data)}; use an undamaged file"
        )
    return data[start : start + length]


def _for_each_type(btf: _Btf) -> Iterator[tuple[int, int, int]]:
    # Yield (type id, kind, index of its first word); nothing refers from type to type
    # here, so types that contain each other cannot trap the walk.
    words, total = btf.words, len(btf.words)
    position, type_id = 0, 1
    while position < total:
        info = words[position + 1] if position + 1 < total else 0
        kind = info >> 24 & 0x1F
        after = _WORDS_AFTER.get(kind)
        if after is None:
            raise InputError(
                f"{btf.label}: type {type_id} is of unknown kind {kind}; "
                "use an undamaged file, or a newer schedperf"
            )
        following = position + _TYPE_WORDS + after[0] + after[1] * (info & 0xFFFF)
        if following > total:
            raise InputError(
                f"{btf.label}: type {type_id} reaches beyond the types; use an undamaged file"
            )
        if kind in {_VAR, _DATASEC}:
            yield type_id, kind, position
        position = following
        type_id += 1


def _read_section(btf: _Btf, position: int, positions: dict[int, int]) -> BtfSection:
    # A DATASEC: its name, kind and count, its size; then type id, offset and size a variable.
    _, info, size = btf.words[position : position + _TYPE_WORDS]
    first = position + _TYPE_WORDS
    variables = []
    for at in range(first, first + 3 * (info & 0xFFFF), 3):
        type_id, offset, variable_size = btf.words[at : at + 3]
        if type_id not in positions:
            raise InputError(
                f"{btf.label}: {PERCPU_SECTION} names type {type_id}, which is no variable; "
                "use an undamaged file"
            )
        if offset + variable_size > size:
            raise InputError(
                f"{btf.label}: a variable ends at byte {offset + variable_size} of {size} "
                f"of {PERCPU_SECTION}; use an undamaged file"
            )
        variables.append(_read_variable(btf, positions[type_id], offset, variable_size))
    return BtfSection(
        size=size, variables=tuple(sorted(variables, key=lambda variable: variable.offset))
    )


def _read_variable(btf: _Btf, position: int, offset: int, size: int) -> BtfVariable:
    linkage = btf.words[position + _TYPE_WORDS]
    if linkage not in _LINKAGES:
        raise InputError(
            f"{btf.label}: variable at offset {offset} has the unknown linkage {linkage}; "
            "use an undamaged file"
        )
    return BtfVariable(
        offset=offset,
        size=size,
        name=btf.name(btf.words[position]),
        linkage=_LINKAGES[linkage],
    )
