# SPDX-License-Identifier: GPL-2.0-or-later
"""Read BTF, the kernel's type information, from /sys/kernel/btf/vmlinux or a .BTF section.

::

    btf = parse_btf(Path("/sys/kernel/btf/vmlinux").read_bytes(), "vmlinux")
    (rq,) = btf.find("rq", Kind.STRUCT)
    [(member.name, member.bit_offset) for member in btf.members(rq)]
    btf.section(".data..percpu").variables

Parsing only builds an index; names, members and sections are decoded on demand. Offsets of
variables are relative to the start of their section, and sizes are exact. BTF does not contain
variables that are static in a function, have size 0 or are defined in assembly, and, depending on
the build, variables that are not per-CPU.
"""

import copy
from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property
from typing import Literal

from msgspec import Struct

from schedperf.inputs.kernel._btf_types import (
    COUNT_MASK,
    TYPE_WORDS,
    BtfIndex,
    Kind,
    bytes_at,
    index_btf,
    is_split,
    spell_type,
    text_at,
)
from schedperf.model.errors import InputError

__all__ = [
    "PERCPU_SECTION",
    "Btf",
    "BtfMember",
    "BtfSection",
    "BtfVariable",
    "Kind",
    "needs_base",
    "parse_btf",
    "parse_percpu_section",
]

_Linkage = Literal["static", "global", "extern"]

PERCPU_SECTION = ".data..percpu"
# Limit on nested typedefs, qualifiers and array dimensions, as in the kernel's verifier
# (MAX_RESOLVE_DEPTH of kernel/bpf/btf.c).
MOST_STEPS = 32

_LINKAGES: dict[int, _Linkage] = {
    0: "static",
    1: "global",
    2: "extern",
}
# Sets of plain numbers, because hashing enumeration members is slow.
_TRANSPARENT = frozenset(
    map(
        int,
        (Kind.TYPEDEF, Kind.VOLATILE, Kind.CONST, Kind.RESTRICT, Kind.TYPE_TAG, Kind.DECL_TAG),
    )
)
_SIZED = frozenset(
    map(
        int,
        (Kind.INT, Kind.STRUCT, Kind.UNION, Kind.ENUM, Kind.FLOAT, Kind.ENUM64, Kind.DATASEC),
    )
)
# Names of integers with the width of a pointer: in GCC, in clang, short.
_POINTER_WIDE = ("long unsigned int", "unsigned long", "long int", "long")


class BtfVariable(Struct, frozen=True, kw_only=True):
    """One variable of a section.

    :param offset: bytes from the section's start
    :param size: bytes
    :param type: C declaration without the name; None if unknown
    """

    offset: int
    size: int
    name: str
    linkage: _Linkage
    type: str | None = None


class BtfSection(Struct, frozen=True, kw_only=True):
    """One section of variables (``BTF_KIND_DATASEC``).

    :param size: bytes
    :param variables: sorted by offset
    """

    size: int
    variables: tuple[BtfVariable, ...]


class BtfMember(Struct, frozen=True, kw_only=True):
    """One member of a struct or union.

    :param name: "" for an anonymous struct or union
    :param type_id: the member's type
    :param bit_offset: bits from the start of the struct
    :param bit_size: size of a bit field, in bits; None for other members
    """

    name: str
    type_id: int
    bit_offset: int
    bit_size: int | None


class Btf:
    """The types of one kernel, or of one module on top of the kernel's.

    Types are numbers (ids); type 0 is void. Methods that take a type raise :class:`InputError` if
    the blob is damaged, or if it has no such type.

    :ivar label: name of the source in messages
    :ivar base: the kernel's types, which the BTF of a module does not contain; None for a kernel
    """

    def __init__(self, index: BtfIndex, base: "Btf | None") -> None:
        self.label = index.label
        self.base = base
        self._index = index
        self._by_name: dict[Kind, Mapping[bytes, list[int]]] = {}
        # Caches, because members of structs refer to the same types many times.
        self._resolved: dict[int, int] = {}
        self._sizes: dict[int, int] = {}
        self._spelled: dict[int, str] = {}
        self._first_id = 1 if base is None else base.end_id
        self._end_id = self._first_id + len(index.kinds)
        self._first_string = 0 if base is None else base.end_string

    def labelled(self, label: str) -> "Btf":
        """Return the same types with another name of the source in messages."""
        other = copy.copy(self)
        other.label = label
        return other

    def __len__(self) -> int:
        return len(self._index.kinds)

    @property
    def end_id(self) -> int:
        """One more than the last type id; type 0 is void."""
        return self._end_id

    @property
    def end_string(self) -> int:
        """The string offset at which split BTF on top of this one begins."""
        return self._first_string + len(self._index.strings)

    @property
    def is_big_endian(self) -> bool:
        """Whether the kernel is big-endian."""
        return self._index.is_big_endian

    @cached_property
    def pointer_bytes(self) -> int | None:
        """Size of a pointer in bytes, which is that of ``long``; None if BTF has no such type."""
        for name in _POINTER_WIDE:
            for type_id in self.find(name, Kind.INT):
                return self._words(type_id)[2]
        return None

    def has_name(self, name: str) -> bool:
        """Return whether the name occurs: of a type, function, variable, section, member or value.

        Names of the base are included.
        """
        encoded = b"\0" + name.encode() + b"\0"
        return encoded in self._index.strings or (
            self.base is not None and self.base.has_name(name)
        )

    def kind(self, type_id: int) -> int:
        """Return the kind of a type: a :class:`Kind`, or the number of an unknown kind."""
        if type_id == 0:
            return 0
        if type_id < self._first_id and self.base is not None:
            return self.base.kind(type_id)
        if not self._first_id <= type_id < self._end_id:
            raise InputError(
                f"{self.label}: unknown type id {type_id} (expected at most {self.end_id - 1}); "
                "copy the file again, or give the BTF of the module's kernel too"
            )
        return self._index.kinds[type_id - self._first_id]

    def name(self, type_id: int) -> str:
        """Return a type's name; "" if it has none."""
        return "" if type_id == 0 else self._text(self._words(type_id)[0])

    def spell(self, type_id: int) -> str:
        """Return a type as a C declaration: ``struct rq *``, ``u64[4]``."""
        if type_id not in self._spelled:
            self._spelled[type_id] = spell_type(self, type_id)
        return self._spelled[type_id]

    def find(self, name: str, kind: Kind) -> list[int]:
        """Return the types with this kind and name, in file order; those of the base first."""
        of_base = [] if self.base is None else self.base.find(name, kind)
        return of_base + self._named(kind).get(name.encode(), [])

    def _named(self, kind: Kind) -> Mapping[bytes, list[int]]:
        # Built once per kind: a kernel has 10,000 structs, of which callers need a dozen.
        if kind not in self._by_name:
            words, starts, first_id = self._index.words, self._index.starts, self._first_id
            by_name: dict[bytes, list[int]] = defaultdict(list)
            for type_id in self.of_kind(kind):
                by_name[self._bytes(words[starts[type_id - first_id]])].append(type_id)
            self._by_name[kind] = by_name
        return self._by_name[kind]

    def of_kind(self, kind: Kind) -> list[int]:
        """Return the types of a kind, without those of the base."""
        kinds, number, first_id = self._index.kinds, int(kind), self._first_id
        type_ids, index = [], kinds.find(number)
        while index >= 0:
            type_ids.append(first_id + index)
            index = kinds.find(number, index + 1)
        return type_ids

    def reference(self, type_id: int) -> int:
        """Return the type that a pointer, typedef, qualifier, variable or function refers to."""
        return self._words(type_id)[2]

    def array(self, type_id: int) -> tuple[int, int]:
        """Return an array's element type and number of elements."""
        element, _, count = self._tail(type_id, 3)
        return element, count

    def int_bits(self, type_id: int) -> tuple[int, int]:
        """Return the bit offset of an integer within its storage, and its number of bits."""
        (encoding,) = self._tail(type_id, 1)
        return encoding >> 16 & 0xFF, encoding & 0xFF

    def parameters(self, type_id: int) -> list[int]:
        """Return the types of a function's parameters; a final 0 is ``...``."""
        return self._tail(type_id, 2 * self.count(type_id))[1::2]

    def is_union(self, type_id: int) -> bool:
        """Return whether a forward declaration is of a union."""
        return bool(self._words(type_id)[1] >> 31)

    def count(self, type_id: int) -> int:
        """Return the number of members, values, parameters or variables of a type."""
        return self._words(type_id)[1] & COUNT_MASK

    def resolve(self, type_id: int) -> int:
        """Return the type without typedefs, qualifiers and tags."""
        if type_id not in self._resolved:
            self._resolved[type_id] = self._resolve(type_id)
        return self._resolved[type_id]

    def _resolve(self, type_id: int) -> int:
        for _ in range(MOST_STEPS):
            if self.kind(type_id) not in _TRANSPARENT:
                return type_id
            type_id = self.reference(type_id)
        raise self.endless(type_id)

    def endless(self, type_id: int) -> InputError:
        """Return the error for circular types."""
        return InputError(
            f"{self.label}: type {type_id} is circular or nested more than {MOST_STEPS} "
            "levels; copy the file again"
        )

    def size(self, type_id: int) -> int:
        """Return a type's size in bytes.

        0 for types without a size: void, functions, variables, forward declarations, unknown kinds.
        A pointer has 8 bytes if ``pointer_bytes`` is None.
        """
        if type_id not in self._sizes:
            self._sizes[type_id] = self._measure(type_id)
        return self._sizes[type_id]

    def _measure(self, type_id: int) -> int:
        factor = 1
        for _ in range(MOST_STEPS):
            type_id = self.resolve(type_id)
            kind = self.kind(type_id)
            if kind == Kind.ARRAY:
                type_id, count = self.array(type_id)
                factor *= count
                continue
            if kind == Kind.PTR:
                return factor * (self.pointer_bytes or 8)
            return factor * self._words(type_id)[2] if kind in _SIZED else 0
        raise self.endless(type_id)

    def members(self, type_id: int) -> list[BtfMember]:
        """Return the members of a struct or union, in order of declaration."""
        has_bit_sizes = self._words(type_id)[1] >> 31
        tail = self._tail(type_id, 3 * self.count(type_id))
        return [
            self._member(name, member_type, position, has_bit_sizes=bool(has_bit_sizes))
            for name, member_type, position in zip(tail[::3], tail[1::3], tail[2::3], strict=True)
        ]

    def _member(self, name: int, type_id: int, position: int, *, has_bit_sizes: bool) -> BtfMember:
        if has_bit_sizes:
            bit_offset, bit_size = position & 0xFFFFFF, position >> 24 or None
        else:
            bit_offset, bit_size = self._old_bit_field(type_id, position)
        return BtfMember(
            name=self._text(name), type_id=type_id, bit_offset=bit_offset, bit_size=bit_size
        )

    def _old_bit_field(self, type_id: int, bit_offset: int) -> tuple[int, int | None]:
        # In BTF without bit sizes of members, a bit field has a separate integer type.
        resolved = self.resolve(type_id)
        if self.kind(resolved) != Kind.INT:
            return bit_offset, None
        first_bit, bits = self.int_bits(resolved)
        if first_bit == 0 and bits == 8 * self.size(resolved):
            return bit_offset, None
        return bit_offset + first_bit, bits

    def section_names(self) -> list[str]:
        """Return the names of all sections of variables, without those of the base."""
        return [self.name(type_id) for type_id in self.of_kind(Kind.DATASEC)]

    def section(self, name: str) -> BtfSection | None:
        """Return the variables of a section; None if the section does not exist.

        :raises InputError: an entry is not a variable, ends after the section, or has an unknown
            linkage
        """
        for type_id in self.of_kind(Kind.DATASEC):
            if self.name(type_id) == name:
                return self._section(type_id, name)
        return None

    def _section(self, type_id: int, name: str) -> BtfSection:
        size = self._words(type_id)[2]
        tail = self._tail(type_id, 3 * self.count(type_id))
        variables = []
        for variable, offset, length in zip(tail[::3], tail[1::3], tail[2::3], strict=True):
            if self.kind(variable) != Kind.VAR:
                raise InputError(
                    f"{self.label}: section {name} contains type {variable} (expected a variable); "
                    "copy the file again"
                )
            if offset + length > size:
                raise InputError(
                    f"{self.label}: a variable in section {name} ends at byte {offset + length} "
                    f"(expected at most {size}); copy the file again"
                )
            variables.append(self._variable(variable, offset, length))
        return BtfSection(
            size=size, variables=tuple(sorted(variables, key=lambda variable: variable.offset))
        )

    def _variable(self, type_id: int, offset: int, size: int) -> BtfVariable:
        (linkage,) = self._tail(type_id, 1)
        if linkage not in _LINKAGES:
            raise InputError(
                f"{self.label}: variable at offset {offset} has unknown linkage {linkage}; "
                "copy the file again"
            )
        return BtfVariable(
            offset=offset,
            size=size,
            name=self.name(type_id),
            linkage=_LINKAGES[linkage],
            type=self.spell(self.reference(type_id)),
        )

    def _words(self, type_id: int) -> "list[int]":
        return self._read(type_id, 0, TYPE_WORDS)

    def _tail(self, type_id: int, count: int) -> "list[int]":
        return self._read(type_id, TYPE_WORDS, count)

    def _read(self, type_id: int, first: int, count: int) -> "list[int]":
        if type_id < self._first_id and self.base is not None and type_id:
            return self.base._read(type_id, first, count)  # noqa: SLF001 # of its own class
        if not self._first_id <= type_id < self._end_id:
            self.kind(type_id)
        start = self._index.starts[type_id - self._first_id] + first
        return self._index.words[start : start + count].tolist()

    def _text(self, offset: int) -> str:
        if offset < self._first_string and self.base is not None:
            return self.base._text(offset)  # noqa: SLF001 # of its own class
        return text_at(self._index.strings, offset - self._first_string, self.label)

    def _bytes(self, offset: int) -> bytes:
        # Like _text, but without decoding: 10,000 names are searched for a dozen.
        if offset < self._first_string and self.base is not None:
            return self.base._bytes(offset)  # noqa: SLF001 # of its own class
        return bytes_at(self._index.strings, offset - self._first_string, self.label)


def needs_base(data: bytes) -> bool:
    """Return whether this is the split BTF of a module, which needs the BTF of its kernel.

    Also False for damaged BTF; parsing it reports the damage.
    """
    try:
        return is_split(data)
    except InputError:
        return False


def parse_btf(data: bytes, label: str, base: Btf | None = None) -> Btf:
    """Index raw BTF of either byte order.

    :param label: name of the source in messages: "btf of base.tar"
    :param base: the kernel's BTF, if this is a module's
    :raises InputError: ``data`` is not BTF, is damaged, is a module's and ``base`` is None, or has
        another byte order than ``base``
    """
    index = index_btf(data, label, 1 if base is None else base.end_id)
    if base is None and is_split(data):
        raise InputError(
            f"{label}: split BTF of a module; put the BTF of its kernel into the same directory, "
            "as vmlinux"
        )
    if base is not None and base.is_big_endian != index.is_big_endian:
        raise InputError(
            f"{label}: byte order differs from that of {base.label}; "
            "use BTF files from the same build"
        )
    return Btf(index, base)


def parse_percpu_section(data: bytes, label: str) -> BtfSection:
    """Read the per-CPU variables from raw BTF of either byte order.

    :param label: name of the source in messages: "btf of base.tar"
    :raises InputError: ``data`` is not BTF, is damaged, or has no per-CPU section
    """
    section = parse_btf(data, label).section(PERCPU_SECTION)
    if section is None:
        raise InputError(
            f"{label}: no {PERCPU_SECTION} section "
            "(the kernel is not SMP, or was built with pahole older than 1.18); use System.map"
        )
    return section
