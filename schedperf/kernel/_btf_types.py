# SPDX-License-Identifier: GPL-2.0-or-later
"""Index the types and names of a BTF blob, and spell types as C does.

Laid out as Documentation/bpf/btf.rst says: a header, a type section of 32-bit
words, a string section. Types have no index, so a walk over all of them makes
one: the first word and the kind of each. Newer blobs bring a table with the
length of every kind, so that unknown kinds can be skipped.

C writes types from the inside out: ``int (*)(struct rq *, int)``.
"""

import struct
import sys
from array import array
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from schedperf.kernel.kallsyms import LONGEST_NAME
from schedperf.model.errors import InputError

# BTF_MAX_TYPE of include/uapi/linux/btf.h: the kernel itself loads no more types.
MOST_TYPES = 0xFFFFF
# A type begins with its name, its kind and count, and its size or the type it refers to.
TYPE_WORDS = 3

_MAGIC = 0xEB9F
_HEADER = "HBBIIIII"
_HEADER_BYTES = struct.calcsize("<" + _HEADER)
_WORD_BYTES = 4
# The header's two further fields where it is long enough: start and length of the kinds' table.
_LAYOUT_FIELDS = "II"
_LAYOUT_ENTRY = "BBH"
_LAYOUT_ENTRY_BYTES = 4
# BTF_MAX_VLEN of include/uapi/linux/btf.h; up to 6.19 its upper byte and the kind's upper two
# bits were unused and zero.
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


# Words that follow a type's three, by kind: always, and per member.
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


@dataclass(frozen=True, kw_only=True, slots=True)
class BtfIndex:
    """One blob, cut up.

    :param words: the type section, in this machine's byte order
    :param starts: index of each type's first word
    :param kinds: of each type
    """

    words: "array[int]"
    strings: bytes
    starts: "array[int]"
    kinds: bytes
    is_big_endian: bool
    label: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Header:
    order: str
    types: bytes
    strings: bytes
    layout: bytes


def index_btf(data: bytes, label: str, first_id: int) -> BtfIndex:
    """Cut up raw BTF of either byte order.

    :param label: names the source in messages
    :param first_id: what the first type is called: 1, or more where a base has the lower ones
    :raises InputError: it is not BTF, or it is damaged
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
    """Return whether this is BTF whose names go on behind those of another.

    A string section of its own begins with the empty name.

    :raises InputError: it is not BTF, or its header is damaged
    """
    return _split(data, "").strings[:1] not in {b"", b"\0"}


def _split(data: bytes, label: str) -> _Header:
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
    layout = b""
    if header_bytes >= _HEADER_BYTES + struct.calcsize(_LAYOUT_FIELDS):
        start, length = struct.unpack_from(order + _LAYOUT_FIELDS, data, _HEADER_BYTES)
        layout = _slice(data, header_bytes + start, length, f"{label}: lengths of kinds")
    return _Header(order=order, types=types, strings=strings, layout=layout)


def _slice(data: bytes, start: int, length: int, what: str) -> bytes:
    if start + length > len(data):
        raise InputError(
            f"{what} reach to byte {start + length} of {len(data)}; use an undamaged file"
        )
    return data[start : start + length]


def _lengths(header: _Header) -> dict[int, tuple[int, int]]:
    # The table has an entry for each kind from 0. Of kinds that are known here it can say nothing
    # new, and a damaged one shall not move what can be read without it.
    lengths = dict(_WORDS_AFTER)
    known = len(header.layout) // _LAYOUT_ENTRY_BYTES
    for kind in range(max(_WORDS_AFTER) + 1, min(known, KIND_MASK + 1)):
        always, per_member, _ = struct.unpack_from(
            header.order + _LAYOUT_ENTRY, header.layout, kind * _LAYOUT_ENTRY_BYTES
        )
        if always % _WORD_BYTES == 0 and per_member % _WORD_BYTES == 0:
            lengths[kind] = always // _WORD_BYTES, per_member // _WORD_BYTES
    return lengths


def _walk(
    words: "array[int]", lengths: dict[int, tuple[int, int]], label: str, first_id: int
) -> tuple["array[int]", bytes]:
    # This loop is most of the reading time: a kernel has 126,000 types.
    starts, kinds, total, position = array("I"), bytearray(), len(words), 0
    while position < total:
        # The last type's three words may be cut off; kind 0 does not exist.
        info = words[position + 1] if position + 1 < total else 0
        kind = info >> 24 & KIND_MASK
        if kind not in lengths:
            raise InputError(
                f"{label}: type {first_id + len(kinds)} is of unknown kind {kind}; "
                "use an undamaged file, or a newer schedperf"
            )
        starts.append(position)
        kinds.append(kind)
        always, per_member = lengths[kind]
        position += TYPE_WORDS + always + per_member * (info & COUNT_MASK)
    if position > total:
        raise InputError(
            f"{label}: type {first_id + len(kinds) - 1} reaches beyond the types; "
            "use an undamaged file"
        )
    if first_id + len(kinds) > MOST_TYPES:
        raise InputError(
            f"{label}: {first_id + len(kinds) - 1} types, more than {MOST_TYPES}; "
            "use the BTF of a real kernel"
        )
    return starts, bytes(kinds)


def text_at(strings: bytes, offset: int, label: str) -> str:
    """Return a name of the string section.

    :raises InputError: it begins or ends outside
    """
    if offset >= len(strings):
        raise InputError(
            f"{label}: name at {offset} of {len(strings)} bytes of strings; use an undamaged file"
        )
    end = strings.find(b"\0", offset, offset + LONGEST_NAME + 1)
    if end < 0:
        raise InputError(
            f"{label}: name at {offset} does not end within {LONGEST_NAME} bytes; "
            "use an undamaged file"
        )
    return strings[offset:end].decode("utf-8", "replace")


# Parameters of one function that are spelled; the kernel's functions have up to a dozen.
_MOST_PARAMETERS = 16
# Steps from a type to its innermost name: pointers, arrays and qualifiers.
_MOST_STEPS = 32

# By plain numbers: the hash of an enumeration's member is slow.
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
    # What of a Btf is needed here.
    label: str

    def kind(self, type_id: int) -> int: ...
    def name(self, type_id: int) -> str: ...
    def reference(self, type_id: int) -> int: ...
    def array(self, type_id: int) -> tuple[int, int]: ...
    def parameters(self, type_id: int) -> list[int]: ...
    def endless(self, type_id: int) -> InputError: ...
    def is_union(self, type_id: int) -> bool: ...


def spell_type(types: _Types, type_id: int, *, with_parameters: bool = True) -> str:
    """Return a type as C writes it, without the name of what has it.

    :param with_parameters: False: a function's are ``...``, which bounds functions that take
        functions
    :raises InputError: the blob is damaged
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
            # Of a pointer it stands behind the star, of anything else in front of the name.
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
        spell_type(types, one, with_parameters=False) if one else "..."
        for one in parameters[:_MOST_PARAMETERS]
    ]
    return ", ".join([*spelled, "..."] if len(parameters) > _MOST_PARAMETERS else spelled)


def _base(types: _Types, type_id: int, kind: int) -> str:
    if kind == Kind.VOID:
        return "void"
    tag = _TAGGED.get(kind)
    if tag is None:
        # A number, a typedef, or a kind that this reader does not know.
        return types.name(type_id) or "?"
    if kind == Kind.FWD and types.is_union(type_id):
        tag = "union"
    return f"{tag} {types.name(type_id) or '{...}'}"
