# SPDX-License-Identifier: GPL-2.0-or-later
"""Index the types and names of a BTF blob, and format types as C declarations.

Documentation/bpf/btf.rst describes the format: a header, a type section of 32-bit words, and a
string section. BTF has no index of types, so a walk over all types records the first word and the
kind of each. Newer blobs have a table with the length of each kind, so that unknown kinds can be
skipped.

C declarators are built from the inside out: ``int (*)(struct rq *, int)``.
"""

import struct
import sys
from array import array
from enum import IntEnum
from typing import Protocol

from msgspec import Struct

from schedperf.inputs.kernel.symbol_lines import LONGEST_NAME
from schedperf.model.errors import InputError

# BTF_MAX_TYPE of include/uapi/linux/btf.h: the kernel does not load more types.
MOST_TYPES = 0xFFFFF
# The first words of a type: name; kind and count; size or referenced type.
TYPE_WORDS = 3

_MAGIC = 0xEB9F
_HEADER = "HBBIIIII"
_HEADER_BYTES = struct.calcsize("<" + _HEADER)
_WORD_BYTES = 4
# Two more fields of longer headers: start and length of the table of kinds.
_LAYOUT_FIELDS = "II"
_LAYOUT_ENTRY = "BBH"
_LAYOUT_ENTRY_BYTES = 4
# BTF_MAX_VLEN of include/uapi/linux/btf.h; up to 6.19 its upper byte and the kind's upper two
# bits are unused and 0.
COUNT_MASK = 0xFFFFFF
KIND_MASK = 0x7F


class Kind(IntEnum):
    """Kinds of BTF types, as in include/uapi/linux/btf.h."""

    VOID = 0
    INT = 1
    PTR = 2
    ARRAY = 3
    STRUCT = 4
    UNION = 5
    ENUM = 6
    FWD = 7
    TYPEDEF = 8
    VOLATILE = 9
    CONST = 10
    RESTRICT = 11
    FUNC = 12
    FUNC_PROTO = 13
    VAR = 14
    DATASEC = 15
    FLOAT = 16
    DECL_TAG = 17
    TYPE_TAG = 18
    ENUM64 = 19


# Words after the first three, by kind: fixed, and per member.
_WORDS_AFTER: dict[int, tuple[int, int]] = {
    int(Kind.INT): (1, 0),
    int(Kind.PTR): (0, 0),
    int(Kind.ARRAY): (3, 0),
    int(Kind.STRUCT): (0, 3),
    int(Kind.UNION): (0, 3),
    int(Kind.ENUM): (0, 2),
    int(Kind.FWD): (0, 0),
    int(Kind.TYPEDEF): (0, 0),
    int(Kind.VOLATILE): (0, 0),
    int(Kind.CONST): (0, 0),
    int(Kind.RESTRICT): (0, 0),
    int(Kind.FUNC): (0, 0),
    int(Kind.FUNC_PROTO): (0, 2),
    int(Kind.VAR): (1, 0),
    int(Kind.DATASEC): (0, 3),
    int(Kind.FLOAT): (0, 0),
    int(Kind.DECL_TAG): (1, 0),
    int(Kind.TYPE_TAG): (0, 0),
    int(Kind.ENUM64): (0, 3),
}


class BtfIndex(Struct, frozen=True, kw_only=True):
    """The index of one blob.

    :param words: the type section, in this machine's byte order
    :param strings: the string section
    :param starts: index of each type's first word
    :param kinds: kind of each type, one byte per type
    :param label: name of the source in messages
    """

    words: "array[int]"
    strings: bytes
    starts: "array[int]"
    kinds: bytes
    is_big_endian: bool
    label: str


class _Header(Struct, frozen=True, kw_only=True):
    order: str
    types: bytes
    strings: bytes
    layout: bytes


def index_btf(data: bytes, label: str, first_id: int) -> BtfIndex:
    """Index raw BTF of either byte order.

    :param label: name of the source in messages
    :param first_id: id of the first type: 1, or more if a base has the lower ids
    :raises InputError: the data are not BTF, or damaged
    """
    header = _split(data, label)
    words = array("I", header.types)
    if header.order != ("<" if sys.byteorder == "little" else ">"):
        words.byteswap()
    lengths = _lengths(header)
    starts, kinds = _walk(words, lengths, label, first_id)
    return BtfIndex(
        words=words,
        strings=header.strings,
        starts=starts,
        kinds=kinds,
        is_big_endian=header.order == ">",
        label=label,
    )


def is_split(data: bytes) -> bool:
    """Return whether this is split BTF, which continues the names of a base.

    The string section of other BTF begins with the empty name.

    :raises InputError: the data are not BTF, or the header is damaged
    """
    return _split(data, "").strings[:1] not in {b"", b"\0"}


def _split(data: bytes, label: str) -> _Header:
    if len(data) < _HEADER_BYTES:
        raise InputError(
            f"{label}: truncated BTF header ({len(data)} bytes, expected {_HEADER_BYTES}); "
            "copy the file again"
        )
    order = next((o for o in "<>" if struct.unpack_from(o + "H", data)[0] == _MAGIC), None)
    if order is None:
        raise InputError(
            f"{label}: invalid BTF magic {data[:2].hex()} (expected eb9f); use the raw .BTF section"
        )
    header = struct.unpack_from(order + _HEADER, data)
    _, version, _, header_bytes, type_at, type_bytes, string_at, string_bytes = header
    if version != 1:
        raise InputError(
            f"{label}: unknown BTF version {version} (expected 1); use a newer schedperf"
        )
    types = _slice(data, header_bytes + type_at, type_bytes, f"{label}: types")
    strings = _slice(data, header_bytes + string_at, string_bytes, f"{label}: strings")
    if header_bytes < _HEADER_BYTES or type_bytes % _WORD_BYTES:
        raise InputError(f"{label}: invalid BTF header; copy the file again")
    layout = b""
    if header_bytes >= _HEADER_BYTES + struct.calcsize(_LAYOUT_FIELDS):
        start, length = struct.unpack_from(order + _LAYOUT_FIELDS, data, _HEADER_BYTES)
        layout = _slice(data, header_bytes + start, length, f"{label}: kind lengths")
    return _Header(order=order, types=types, strings=strings, layout=layout)


def _slice(data: bytes, start: int, length: int, part: str) -> bytes:
    if start + length > len(data):
        raise InputError(
            f"{part} end at byte {start + length} (expected at most {len(data)}); "
            "copy the file again"
        )
    return data[start : start + length]


def _lengths(header: _Header) -> dict[int, tuple[int, int]]:
    # The table has an entry for each kind from 0. Use it only for unknown kinds, so that a damaged
    # table does not affect the others.
    lengths = dict(_WORDS_AFTER)
    count = len(header.layout) // _LAYOUT_ENTRY_BYTES
    for kind in range(max(_WORDS_AFTER) + 1, min(count, KIND_MASK + 1)):
        always, per_member, _ = struct.unpack_from(
            header.order + _LAYOUT_ENTRY, header.layout, kind * _LAYOUT_ENTRY_BYTES
        )
        if always % _WORD_BYTES == 0 and per_member % _WORD_BYTES == 0:
            lengths[kind] = always // _WORD_BYTES, per_member // _WORD_BYTES
    return lengths


def _walk(
    words: "array[int]", lengths: dict[int, tuple[int, int]], label: str, first_id: int
) -> tuple["array[int]", bytes]:
    # This loop takes most of the reading time: a kernel has 126,000 types, so each step does as
    # little as possible. An unknown kind has length 0, where the scan stays and ends.
    fixed, per_member = [0] * (KIND_MASK + 1), [0] * (KIND_MASK + 1)
    for kind, (always, each) in lengths.items():
        fixed[kind], per_member[kind] = TYPE_WORDS + always, each
    starts, total, position = array("I"), len(words), 0
    add, end = starts.append, total - 1
    kinds = bytearray()
    add_kind = kinds.append
    while position < end:
        info = words[position + 1]
        kind = info >> 24 & KIND_MASK
        step = fixed[kind]
        if not step:
            break
        add(position)
        add_kind(kind)
        position += step
        if each := per_member[kind]:
            position += each * (info & COUNT_MASK)
    next_id = first_id + len(kinds)
    if position < total:
        # The last type may be truncated; kind 0 is invalid.
        kind = words[position + 1] >> 24 & KIND_MASK if position < end else 0
        raise InputError(
            f"{label}: type {next_id} has unknown kind {kind}; "
            "copy the file again, or use a newer schedperf"
        )
    if position > total:
        raise InputError(
            f"{label}: type {next_id - 1} ends after the type section; copy the file again"
        )
    if next_id > MOST_TYPES:
        raise InputError(
            f"{label}: {next_id - 1} types (expected at most {MOST_TYPES}); "
            "use the BTF of a real kernel"
        )
    return starts, bytes(kinds)


def text_at(strings: bytes, offset: int, label: str) -> str:
    """Return a name of the string section.

    :param label: name of the source in messages
    :raises InputError: the name begins or ends outside of the section, or has more than 512 bytes
    """
    return bytes_at(strings, offset, label).decode("utf-8", "replace")


def bytes_at(strings: bytes, offset: int, label: str) -> bytes:
    """Return the bytes of a name; parameters and errors as in :func:`text_at`."""
    if offset >= len(strings):
        raise InputError(
            f"{label}: invalid name offset {offset} (expected less than {len(strings)}); "
            "copy the file again"
        )
    end = strings.find(b"\0", offset, offset + LONGEST_NAME + 1)
    if end < 0:
        raise InputError(
            f"{label}: name at offset {offset} is longer than {LONGEST_NAME} bytes; "
            "copy the file again"
        )
    return strings[offset:end]


# Parameters of a function that are printed; the kernel's functions have up to a dozen.
_MOST_PARAMETERS = 16
# Steps from a type to its innermost name: pointers, arrays and qualifiers.
_MOST_STEPS = 32

# Keys are plain numbers, because hashing enumeration members is slow.
_TAGGED: dict[int, str] = {
    int(Kind.STRUCT): "struct",
    int(Kind.UNION): "union",
    int(Kind.ENUM): "enum",
    int(Kind.ENUM64): "enum",
    int(Kind.FWD): "struct",
}
_QUALIFIERS: dict[int, str] = {
    int(Kind.CONST): "const",
    int(Kind.VOLATILE): "volatile",
    int(Kind.RESTRICT): "restrict",
}
_TAGS = frozenset({int(Kind.TYPE_TAG), int(Kind.DECL_TAG)})
_SUFFIXED = frozenset({int(Kind.ARRAY), int(Kind.FUNC_PROTO)})


class _Types(Protocol):
    """The methods of ``Btf`` that :func:`spell_type` uses."""

    label: str

    def kind(self, type_id: int) -> int: ...
    def name(self, type_id: int) -> str: ...
    def reference(self, type_id: int) -> int: ...
    def array(self, type_id: int) -> tuple[int, int]: ...
    def parameters(self, type_id: int) -> list[int]: ...
    def endless(self, type_id: int) -> InputError: ...
    def is_union(self, type_id: int) -> bool: ...


def spell_type(types: _Types, type_id: int, *, with_parameters: bool = True) -> str:
    """Return a type as a C declaration without a name.

    :param with_parameters: False to print the parameters of a function as ``...``, which limits the
        depth for functions with function parameters
    :raises InputError: the blob is damaged, or the type is nested more than 32 levels
    """
    inner, before = "", ""
    for _ in range(_MOST_STEPS):
        kind = types.kind(type_id)
        if kind == Kind.ARRAY:
            type_id, count = types.array(type_id)
            inner += f"[{count}]"
        elif kind == Kind.FUNC_PROTO:
            inner += f"({_parameters(types, type_id) if with_parameters else '...'})"
            type_id = types.reference(type_id)
        elif kind == Kind.PTR:
            type_id = types.reference(type_id)
            inner = f"*{inner}"
            if types.kind(type_id) in _SUFFIXED:
                inner = f"({inner})"
        elif kind in _QUALIFIERS:
            type_id = types.reference(type_id)
            word = _QUALIFIERS[kind]
            # The qualifier follows the star of a pointer and precedes any other type.
            if types.kind(type_id) == Kind.PTR:
                inner = f" {word}{_joint(inner)}{inner}"
            else:
                before += f"{word} "
        elif kind in _TAGS:
            type_id = types.reference(type_id)
        else:
            return f"{before}{_base(types, type_id, kind)}{_joint(inner)}{inner}"
    raise types.endless(type_id)


def _joint(inner: str) -> str:
    return "" if inner[:1] in {"", "[", " "} else " "


def _parameters(types: _Types, type_id: int) -> str:
    parameters = types.parameters(type_id)
    if not parameters:
        return "void"
    spelled = [
        spell_type(types, parameter, with_parameters=False) if parameter else "..."
        for parameter in parameters[:_MOST_PARAMETERS]
    ]
    return ", ".join([*spelled, "..."] if len(parameters) > _MOST_PARAMETERS else spelled)


def _base(types: _Types, type_id: int, kind: int) -> str:
    if kind == Kind.VOID:
        return "void"
    tag = _TAGGED.get(kind)
    if tag is None:
        # An integer, a typedef or an unknown kind.
        return types.name(type_id) or "?"
    if kind == Kind.FWD and types.is_union(type_id):
        tag = "union"
    return f"{tag} {types.name(type_id) or '{...}'}"
