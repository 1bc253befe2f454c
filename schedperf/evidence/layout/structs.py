# SPDX-License-Identifier: GPL-2.0-or-later
"""Compute the layout of a struct: its leaf fields, holes, and cacheline groups.

::

    unit = struct_unit(btf, "cfs_rq")
    [(entry.offset, entry.name) for entry in unit.entries]      # (128, "avg.last_update_time") …
    holes(unit), padding(unit)
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from schedperf.evidence.layout.model import Entry, Unit
from schedperf.inputs.kernel.btf import Btf, BtfMember, Kind
from schedperf.model.errors import InputError

# Limit on the fields of all expanded structs of a kernel: those of the scheduler have 2,000
# together, and the largest type of a kernel has as many. A file of 15 kB can nest structs with
# millions.
MOST_FIELDS = 20_000
# The kernel's markers of cacheline groups: __cacheline_group_begin__NAME.
GROUP_BEGIN = "__cacheline_group_begin__"
GROUP_END = "__cacheline_group_end__"
# Name of empty structs in the counts of omitted entries.
EMPTY_FIELDS = "fields without bytes"

_KINDS = {"struct": Kind.STRUCT, "union": Kind.UNION}
_BYTE_BITS = 8

# First byte and number of bytes.
Span = tuple[int, int]
# PAGE_SIZE, the largest alignment of fields and variables in the kernel.
LARGEST_ALIGNMENT = 4096
# Explicit alignments in the kernel are mostly ____cacheline_aligned, and current machines have
# lines of at least 64 bytes: a hole that an alignment of 32 or 64 explains is attributed to 64.
USUAL_ASKED = 64
# Limit on nested structs; task_struct has nine levels.
MOST_NESTED = 32

COMPOSITE = frozenset({int(Kind.STRUCT), int(Kind.UNION)})


@dataclass(slots=True)
class FieldBudget:
    """Remaining number of fields that may be visited, including empty ones.

    :param left: remaining number
    """

    left: int = MOST_FIELDS


@dataclass(kw_only=True, slots=True)
class _Leaves:
    # Results that are collected while a struct is expanded.
    btf: Btf
    budget: FieldBudget
    name: str
    size: int
    entries: list[Entry] = field(default_factory=list)
    marks: dict[str, int] = field(default_factory=dict)
    noise: Counter[str] = field(default_factory=Counter)


def struct_unit(btf: Btf, name: str, budget: FieldBudget | None = None) -> Unit:
    """Return the layout of a struct or union.

    :param name: "rq", "struct rq", "union thread_union", or a typedef of a struct
    :param budget: budget that the structs of a kernel share; None for a separate one
    :return: a unit called "struct rq", "union thread_union" or like the typedef. Fields of nested
        structs have paths; fields of anonymous structs belong to the enclosing struct; fields of
        unions overlap. An array is one entry, even an array of structs. Offset and size of a bit
        field are those of the bytes that it spans
    :raises InputError: there is no such struct, it has more fields than the budget has left, or the
        BTF is damaged
    """
    type_id, called, notes = _find(btf, name)
    leaves = _Leaves(btf=btf, budget=budget or FieldBudget(), name=called, size=btf.size(type_id))
    _take_apart(leaves, type_id, "", 0, (type_id,))
    return Unit(
        name=called,
        kind="struct",
        size=leaves.size,
        alignment=inferred_alignment(btf, type_id),
        is_alignment_inferred=True,
        entries=tuple(sorted(leaves.entries, key=lambda entry: entry.offset)),
        groups=_groups(leaves.marks),
        sources=("BTF", "BTF"),
        noise=dict(leaves.noise),
        notes=notes,
    )


def _find(btf: Btf, name: str) -> tuple[int, str, tuple[str, ...]]:
    # Return the type, its name, and a note on ambiguous names.
    tag, _, rest = name.rpartition(" ")
    if tag and tag not in _KINDS:
        raise InputError(
            f"{btf.label}: unknown struct {name[:60]!r} (expected a name such as rq or 'struct rq')"
        )
    for word in [tag] if tag else _KINDS:
        type_ids = btf.find(rest, _KINDS[word])
        if type_ids:
            return type_ids[0], f"{word} {rest}", _choice(btf, type_ids, f"{word} {rest}")
    for type_id in [] if tag else btf.find(rest, Kind.TYPEDEF):
        resolved = btf.resolve(type_id)
        if btf.kind(resolved) in COMPOSITE:
            return resolved, rest, ()
    raise InputError(f"{btf.label}: unknown {tag or 'struct'} {rest[:60]}")


def _choice(btf: Btf, type_ids: list[int], name: str) -> tuple[str, ...]:
    if len(type_ids) == 1:
        return ()
    sizes = ", ".join(str(btf.size(type_id)) for type_id in type_ids[:4])
    return (f"{len(type_ids)} types are named {name} ({sizes} bytes); the first is shown",)


def _take_apart(
    leaves: _Leaves, type_id: int, prefix: str, start_bit: int, path: tuple[int, ...]
) -> None:
    # The path contains the enclosing types, outermost first.
    if len(path) > MOST_NESTED:
        raise leaves.btf.endless(type_id)
    _spend(leaves, leaves.btf.count(type_id))
    for member in leaves.btf.members(type_id):
        resolved = leaves.btf.resolve(member.type_id)
        bit = start_bit + member.bit_offset
        if leaves.btf.kind(resolved) in COMPOSITE and leaves.btf.count(resolved):
            if resolved in path:
                raise InputError(
                    f"{leaves.btf.label}: {leaves.name} contains itself at "
                    f"{(prefix + member.name)[-60:]!r}; copy the file again"
                )
            inner = f"{prefix}{member.name}." if member.name else prefix
            _take_apart(leaves, resolved, inner, bit, (*path, resolved))
        else:
            _add_leaf(leaves, member, prefix + member.name, bit)


def _spend(leaves: _Leaves, fields: int) -> None:
    leaves.budget.left -= fields
    if leaves.budget.left < 0:
        raise InputError(
            f"{leaves.btf.label}: too many struct fields, at {leaves.name} (expected at "
            f"most {MOST_FIELDS} in total); copy the file again"
        )


def _add_leaf(leaves: _Leaves, member: BtfMember, name: str, bit: int) -> None:
    size = leaves.btf.size(member.type_id)
    bits = _BYTE_BITS * size if member.bit_size is None else member.bit_size
    if bit + bits > _BYTE_BITS * leaves.size:
        raise InputError(
            f"{leaves.btf.label}: {leaves.name} contains a field that ends at bit {bit + bits} "
            f"(expected at most {_BYTE_BITS * leaves.size}); copy the file again"
        )
    if size == 0 and _is_mark(member.name):
        leaves.marks[name] = bit // _BYTE_BITS
        return
    if size == 0 and leaves.btf.kind(leaves.btf.resolve(member.type_id)) != Kind.ARRAY:
        leaves.noise[EMPTY_FIELDS] += 1
        return
    # Unnamed bit fields are padding and never accessed.
    if not member.name:
        return
    leaves.entries.append(_entry(leaves.btf, member, name, bit, size))


def _is_mark(name: str) -> bool:
    return name.startswith((GROUP_BEGIN, GROUP_END))


def _entry(btf: Btf, member: BtfMember, name: str, bit: int, size: int) -> Entry:
    offset, bits = bit // _BYTE_BITS, None
    if member.bit_size is not None:
        bits = (bit, member.bit_size)
        size = (bit + member.bit_size - 1) // _BYTE_BITS - offset + 1
    return Entry(name=name, offset=offset, size=size, bits=bits, type=btf.spell(member.type_id))


def _groups(marks: Mapping[str, int]) -> dict[str, Span]:
    # First and last byte, by the name of the group, with the path of the struct that contains it.
    groups = {}
    for mark, first in marks.items():
        path, _, last_part = mark.rpartition(GROUP_BEGIN)
        end = marks.get(f"{path}{GROUP_END}{last_part}")
        if GROUP_BEGIN in mark and end is not None and end > first:
            groups[path + last_part] = (first, end - 1)
    return groups


def holes(unit: Unit) -> tuple[Span, ...]:
    """Return the unused bytes before the last entry, as (first byte, number of bytes).

    Unused bytes after the last entry are :func:`padding`, not a hole. Holes after an entry of
    unknown size are left out.
    """
    return tuple(_gaps(unit))


def _gaps(unit: Unit) -> Iterator[Span]:
    end = 0
    for entry in unit.entries:
        if entry.size is None:
            return
        if entry.offset > end:
            yield end, entry.offset - end
        end = max(end, entry.offset + entry.size)


def padding(unit: Unit) -> int | None:
    """Return the number of bytes after the last entry; None if any size is unknown."""
    ends = [entry.offset + entry.size for entry in unit.entries if entry.size is not None]
    if unit.size is None or len(ends) < len(unit.entries):
        return None
    return unit.size - max(ends, default=0)


def inferred_alignment(btf: Btf, type_id: int) -> int:
    """Return the alignment in bytes that explains a struct's layout.

    BTF has no alignments. A field has at least the alignment of its type; a hole before it that
    this does not explain, or padding at the struct's end, implies a larger one. An alignment that
    causes no padding cannot be detected.

    :raises InputError: the BTF is damaged
    """
    return _Alignments(btf).of(type_id, 0)


class _Alignments:
    # One walk over the types, with a cache of their alignments.

    def __init__(self, btf: Btf) -> None:
        self._btf = btf
        self._known: dict[int, int] = {}

    def of(self, type_id: int, depth: int) -> int:
        if depth > MOST_NESTED:
            raise self._btf.endless(type_id)
        resolved = self._btf.resolve(type_id)
        if resolved not in self._known:
            self._known[resolved] = self._find(resolved, depth)
        return self._known[resolved]

    def _find(self, type_id: int, depth: int) -> int:
        kind = self._btf.kind(type_id)
        if kind == Kind.ARRAY:
            return self.of(self._btf.array(type_id)[0], depth + 1)
        if kind in COMPOSITE:
            return self._of_struct(type_id, depth, has_holes=kind == Kind.STRUCT)
        # long double of i386 has 12 bytes and alignment 4, the largest power of two that divides
        # 12.
        return _largest_power(self._btf.size(type_id))

    def _of_struct(self, type_id: int, depth: int, *, has_holes: bool) -> int:
        largest, end = 1, 0
        for member in self._btf.members(type_id):
            offset, size = member.bit_offset // 8, self._btf.size(member.type_id)
            alignment = self.of(member.type_id, depth + 1)
            if member.bit_size is not None:
                end = max(end, (member.bit_offset + member.bit_size + 7) // 8)
            else:
                if has_holes:
                    alignment = _explaining(end, offset, alignment)
                # In a packed struct, and for u64 on i386, fields are not aligned to their type.
                alignment = min(alignment, _largest_power(offset))
                end = max(end, offset + size)
                largest = max(largest, alignment)
        size = self._btf.size(type_id)
        return min(_explaining(end, size, largest), _largest_power(size))


def _largest_power(number: int) -> int:
    # The largest power of two that divides the value; unlimited for 0.
    return min(number & -number or LARGEST_ALIGNMENT, LARGEST_ALIGNMENT)


def _explaining(end: int, start: int, least: int) -> int:
    # The alignment that moves a field from `end` to `start`: that of the type, else the usual
    # explicit one, else the smallest.
    if _aligned(end, least) == start:
        return least
    if least < USUAL_ASKED and _aligned(end, USUAL_ASKED) == start:
        return USUAL_ASKED
    alignment = 2 * least
    while alignment <= LARGEST_ALIGNMENT:
        if _aligned(end, alignment) == start:
            return alignment
        alignment *= 2
    return least


def _aligned(end: int, alignment: int) -> int:
    return -(-end // alignment) * alignment
