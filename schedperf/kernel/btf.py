# SPDX-License-Identifier: GPL-2.0-or-later
"""Read BTF, the kernel's type information, from /sys/kernel/btf/vmlinux or a .BTF section.

::

    btf = parse_btf(Path("/sys/kernel/btf/vmlinux").read_bytes(), "vmlinux")
    (rq,) = btf.find("rq", Kind.STRUCT)
    [(member.name, member.bit_offset) for member in btf.members(rq)]
    btf.section(".data..percpu").variables

Reading makes an index and no more; names, members and sections are read when they are asked for.
Offsets of a section's variables count from the section's start, and sizes are exact.
Not in BTF: variables that are static in a function, of size zero, or defined in
assembly, and, unless the kernel's build asked for them, those that are not per-CPU.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from schedperf.kernel._btf_types import (
    COUNT_MASK,
    TYPE_WORDS,
    BtfIndex,
    Kind,
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
# How many typedefs, qualifiers and array dimensions may stand in front of a type: the kernel's
# own verifier follows 32 (MAX_RESOLVE_DEPTH of kernel/bpf/btf.c).
MOST_STEPS = 32

_LINKAGES: dict[int, _Linkage] = {
    0: "static",
    1: "global",
    2: "extern",
}
# Sets of plain numbers: the hash of an enumeration's member is slow.
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
# What C calls the integer that is as wide as a pointer; of GCC, then of clang, then short.
_POINTER_WIDE = ("long unsigned int", "unsigned long", "long int", "long")


@dataclass(frozen=True, kw_only=True, slots=True)
class BtfVariable:
    """One variable of a section.

    :param offset: bytes from the section's start
    :param size: bytes
    :param type: as C writes it; None where it was not asked for
    """

    offset: int
    size: int
    name: str
    linkage: _Linkage
    type: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BtfSection:
    """One DATASEC.

    :param size: bytes
    :param variables: by offset
    """

    size: int
    variables: tuple[BtfVariable, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class BtfMember:
    """One member of a struct or union.

    :param name: "" of an anonymous struct or union
    :param bit_offset: from the start of its struct, as bytes lie in memory
    :param bit_size: of a bit field; None of any other member
    """

    name: str
    type_id: int
    bit_offset: int
    bit_size: int | None


class Btf:
    """The types of one kernel, or of one module on top of the kernel's.

    Every method raises :class:`InputError` where the blob is damaged.

    :ivar label: names the source in messages
    :ivar base: the kernel's types, of which a module's BTF holds none
    """

    def __init__(self, index: BtfIndex, base: "Btf | None") -> None:
        self.label = index.label
        self.base = base
        self._index = index
        self._by_name: dict[Kind, Mapping[str, list[int]]] = {}
        # What is known of types, since a struct's members ask for the same ones again and again.
        self._resolved: dict[int, int] = {}
        self._sizes: dict[int, int] = {}
        self._spelled: dict[int, str] = {}
        self._first_id = 1 if base is None else base.end_id
        self._first_string = 0 if base is None else base.end_string

    def __len__(self) -> int:
        return len(self._index.kinds)

    @property
    def end_id(self) -> int:
        """One more than the last type's number; type 0 is void."""
        return self._first_id + len(self._index.kinds)

    @property
    def end_string(self) -> int:
        """Where names of BTF that is split from this one begin."""
        return self._first_string + len(self._index.strings)

    @property
    def is_big_endian(self) -> bool:
        """How the kernel's machine orders bytes."""
        return self._index.is_big_endian

    @cached_property
    def pointer_bytes(self) -> int | None:
        """Size of a pointer; None where no integer of that width is named."""
        for name in _POINTER_WIDE:
            for type_id in self.find(name, Kind.INT):
                return self._words(type_id)[2]
        return None

    def has_name(self, name: str) -> bool:
        """Return whether anything has that name: a type, a function, a member, a value."""
        encoded = b"\0" + name.encode() + b"\0"
        return encoded in self._index.strings or (
            self.base is not None and self.base.has_name(name)
        )

    def kind(self, type_id: int) -> int:
        """Return what a type is: a :class:`Kind`, or a number that this reader does not know."""
        if type_id == 0:
            return 0
        if type_id < self._first_id and self.base is not None:
            return self.base.kind(type_id)
        if not self._first_id <= type_id < self.end_id:
            raise InputError(
                f"{self.label}: type {type_id} of {self.end_id - 1} is named; use an undamaged "
                "file, or give the BTF of the kernel beside that of its module"
            )
        return self._index.kinds[type_id - self._first_id]

    def name(self, type_id: int) -> str:
        """Return a type's name; "" where it has none."""
        return "" if type_id == 0 else self._text(self._words(type_id)[0])

    def spell(self, type_id: int) -> str:
        """Return a type as C writes it: ``struct rq *``, ``u64[4]``."""
        if type_id not in self._spelled:
            self._spelled[type_id] = spell_type(self, type_id)
        return self._spelled[type_id]

    def find(self, name: str, kind: Kind) -> list[int]:
        """Return the types of that kind and name, in the order of the file."""
        found = [] if self.base is None else self.base.find(name, kind)
        return found + self._named(kind).get(name, [])

    def _named(self, kind: Kind) -> Mapping[str, list[int]]:
        # Made once a kind: a dozen structs are asked for, and a kernel has 10,000.
        if kind not in self._by_name:
            found: dict[str, list[int]] = defaultdict(list)
            for type_id in self.of_kind(kind):
                found[self.name(type_id)].append(type_id)
            self._by_name[kind] = found
        return self._by_name[kind]

    def of_kind(self, kind: Kind) -> list[int]:
        """Return the types of a kind, without those of the base."""
        wanted = int(kind)
        return [
            number
            for number, found in enumerate(self._index.kinds, start=self._first_id)
            if found == wanted
        ]

    def reference(self, type_id: int) -> int:
        """Return the type that a pointer, typedef, qualifier, variable or function refers to."""
        return self._words(type_id)[2]

    def array(self, type_id: int) -> tuple[int, int]:
        """Return an array's element type and number of elements."""
        element, _, count = self._tail(type_id, 3)
        return element, count

    def int_bits(self, type_id: int) -> tuple[int, int]:
        """Return where an integer's bits begin in its bytes, and how many they are."""
        (encoding,) = self._tail(type_id, 1)
        return encoding >> 16 & 0xFF, encoding & 0xFF

    def parameters(self, type_id: int) -> list[int]:
        """Return the types of a function's parameters; 0 at the end stands for ``...``."""
        return self._tail(type_id, 2 * self.count(type_id))[1::2]

    def is_union(self, type_id: int) -> bool:
        """Return whether a forward declaration is one of a union."""
        return bool(self._words(type_id)[1] >> 31)

    def count(self, type_id: int) -> int:
        """Return how many members, values, parameters or variables a type has."""
        return self._words(type_id)[1] & COUNT_MASK

    def resolve(self, type_id: int) -> int:
        """Return what is behind typedefs, qualifiers and tags."""
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
        """Return the error for types that refer to each other in a circle."""
        return InputError(
            f"{self.label}: type {type_id} leads back to itself or through more than "
            f"{MOST_STEPS} types; use an undamaged file"
        )

    def size(self, type_id: int) -> int:
        """Return a type's size in bytes; 0 of void, functions and forward declarations."""
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
        """Return the members of a struct or union in the order of the declaration."""
        has_bit_sizes = self._words(type_id)[1] >> 31
        tail = self._tail(type_id, 3 * self.count(type_id))
        return [
            self._member(name, member_type, place, has_bit_sizes=bool(has_bit_sizes))
            for name, member_type, place in zip(tail[::3], tail[1::3], tail[2::3], strict=True)
        ]

    def _member(self, name: int, type_id: int, place: int, *, has_bit_sizes: bool) -> BtfMember:
        if has_bit_sizes:
            bit_offset, bit_size = place & 0xFFFFFF, place >> 24 or None
        else:
            bit_offset, bit_size = self._old_bit_field(type_id, place)
        return BtfMember(
            name=self._text(name), type_id=type_id, bit_offset=bit_offset, bit_size=bit_size
        )

    def _old_bit_field(self, type_id: int, bit_offset: int) -> tuple[int, int | None]:
        # Before bit sizes stood with the member, a bit field had an integer type of its own.
        resolved = self.resolve(type_id)
        if self.kind(resolved) != Kind.INT:
            return bit_offset, None
        first_bit, bits = self.int_bits(resolved)
        if first_bit == 0 and bits == 8 * self.size(resolved):
            return bit_offset, None
        return bit_offset + first_bit, bits

    def section_names(self) -> list[str]:
        """Return the names of the sections whose variables are described."""
        return [self.name(type_id) for type_id in self.of_kind(Kind.DATASEC)]

    def section(self, name: str) -> BtfSection | None:
        """Return the variables of a section; None where there is no such section.

        :raises InputError: it names something other than a variable, or a variable leaves it
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
                    f"{self.label}: {name} names type {variable}, which is not a variable; "
                    "use an undamaged file"
                )
            if offset + length > size:
                raise InputError(
                    f"{self.label}: a variable ends at byte {offset + length} of {size} "
                    f"of {name}; use an undamaged file"
                )
            variables.append(self._variable(variable, offset, length))
        return BtfSection(size=size, variables=tuple(sorted(variables, key=lambda one: one.offset)))

    def _variable(self, type_id: int, offset: int, size: int) -> BtfVariable:
        (linkage,) = self._tail(type_id, 1)
        if linkage not in _LINKAGES:
            raise InputError(
                f"{self.label}: variable at offset {offset} has the unknown linkage {linkage}; "
                "use an undamaged file"
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
        self.kind(type_id)
        start = self._index.starts[type_id - self._first_id] + first
        return self._index.words[start : start + count].tolist()

    def _text(self, offset: int) -> str:
        if offset < self._first_string and self.base is not None:
            return self.base._text(offset)  # noqa: SLF001 # of its own class
        return text_at(self._index.strings, offset - self._first_string, self.label)


def needs_base(data: bytes) -> bool:
    """Return whether this is a module's BTF, whose names begin in its kernel's.

    False also of what is damaged: reading it says why.
    """
    try:
        return is_split(data)
    except InputError:
        return False


def parse_btf(data: bytes, label: str, base: Btf | None = None) -> Btf:
    """Index raw BTF of either byte order.

    :param label: names the source in messages: "btf of base.tar"
    :param base: of a module's BTF the kernel's
    :raises InputError: it is not BTF, it is damaged, or it is a module's and there is no base
    """
    index = index_btf(data, label, 1 if base is None else base.end_id)
    if base is None and is_split(data):
        raise InputError(
            f"{label}: is split BTF of a module; give the BTF of its kernel beside it, as vmlinux"
        )
    if base is not None and base.is_big_endian != index.is_big_endian:
        raise InputError(
            f"{label}: has another byte order than {base.label}; use the BTF of one build"
        )
    return Btf(index, base)


def parse_percpu_section(data: bytes, label: str) -> BtfSection:
    """Read the per-CPU variables from raw BTF of either byte order.

    :param label: names the source in messages: "btf of base.tar"
    :raises InputError: it is not BTF, it is damaged, or it holds no per-CPU section
    """
    section = parse_btf(data, label).section(PERCPU_SECTION)
    if section is None:
        raise InputError(
            f"{label}: no {PERCPU_SECTION}; "
            "the kernel is not SMP, or was built with pahole older than 1.18"
        )
    return section
