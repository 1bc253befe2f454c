"""A struct as it is declared: its own members with the holes behind them, as pahole counts them.

Where :mod:`schedperf.layout.structs` goes down to the leaves, this keeps the top level members.
A bit field lies in a storage unit of its type; bits of that unit that nobody has are a bit hole,
and bytes between units are a hole.
"""

from dataclasses import dataclass

from schedperf.captures.btf import Btf, BtfMember, Kind

_BYTE_BITS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """One member.

    :param name: "" of an anonymous struct or union
    :param offset: bytes; of a bit field of its storage unit
    :param size: bytes; of a bit field of its storage unit
    :param bits: of a bit field its first bit in the storage unit, in memory order, and how many
    :param hole: bytes behind it that nobody has
    :param bit_hole: bits behind it, of its storage unit, that nobody has
    """

    name: str
    offset: int
    size: int
    bits: tuple[int, int] | None
    hole: int
    bit_hole: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Declared:
    """One struct.

    :param size: bytes
    :param leading_hole: bytes in front of the first member that nobody has
    :param leading_bit_hole: bits there, of its storage unit
    :param padding: bytes behind the last member
    :param bit_padding: bits of the last member's storage unit that nobody has
    """

    name: str
    size: int
    members: tuple[Member, ...]
    leading_hole: int
    leading_bit_hole: int
    padding: int
    bit_padding: int

    def cachelines(self, line_bytes: int) -> int:
        """Return how many lines it covers if it begins at one."""
        return -(-self.size // line_bytes)


@dataclass(kw_only=True, slots=True)
class _Cursor:
    # How far the members reach, in bits, and where the open storage unit ends.
    last: int = 0
    unit_end: int | None = None
    unit_bits: int = 0

    def close_unit(self, limit: int) -> int:
        """Return the bits that the open unit still has up to a limit, and pass them."""
        if self.unit_end is None:
            return 0
        end = min(limit, self.unit_end)
        free, self.last = end - self.last, end
        return free

    def gap_to(self, start: int, unit_bits: int | None) -> tuple[int, int]:
        """Return bytes and bits that are free in front of a member.

        :param unit_bits: of a bit field the bits of its type
        """
        bits = self.close_unit(start)
        if unit_bits is None:
            return start // _BYTE_BITS - self.last // _BYTE_BITS, bits
        unit_start = start // unit_bits * unit_bits
        gap = 0
        if self.last < unit_start:
            gap = (unit_start - self.last) // _BYTE_BITS
            self.last = unit_start
        return gap, bits + start - self.last

    def pass_member(self, start: int, bits: int, unit_bits: int | None) -> None:
        self.last = start + bits
        if unit_bits is None:
            self.unit_end, self.unit_bits = None, 0
        elif self.unit_end is None or self.last > self.unit_end or unit_bits > self.unit_bits:
            # A field that began in the unit before ends in the next one.
            unit_start = start // unit_bits * unit_bits
            self.unit_bits = unit_bits
            self.unit_end = unit_start + unit_bits * (1 + (self.last > unit_start + unit_bits))


def declared_struct(btf: Btf, type_id: int) -> Declared:
    """Return a struct's own members; those of a union have no holes.

    :raises InputError: the BTF is damaged
    """
    has_holes = btf.kind(type_id) == Kind.STRUCT
    cursor, members, gaps = _Cursor(), btf.members(type_id), []
    sizes = [btf.size(member.type_id) for member in members]
    for member, size in zip(members, sizes, strict=True):
        bits, unit = _extent(member, size)
        gaps.append(cursor.gap_to(member.bit_offset, unit) if has_holes else (0, 0))
        cursor.pass_member(member.bit_offset, bits, unit)
    size, bit_padding, end = btf.size(type_id), 0, max(sizes, default=0)
    if has_holes:
        bit_padding = cursor.close_unit(size * _BYTE_BITS)
        end = cursor.last // _BYTE_BITS
    leading, *behind = [*gaps, (0, 0)]
    return Declared(
        name=btf.name(type_id),
        size=size,
        members=tuple(map(_member, members, sizes, behind)),
        leading_hole=leading[0],
        leading_bit_hole=leading[1],
        padding=size - end,
        bit_padding=bit_padding,
    )


def _extent(member: BtfMember, size: int) -> tuple[int, int | None]:
    # How many bits it has, and of a bit field how many its storage unit has.
    if member.bit_size is None:
        return size * _BYTE_BITS, None
    return member.bit_size, max(size, 1) * _BYTE_BITS


def _member(member: BtfMember, size: int, behind: tuple[int, int]) -> Member:
    offset, bits = member.bit_offset // _BYTE_BITS, None
    if member.bit_size is not None:
        unit_bits = max(size, 1) * _BYTE_BITS
        start = member.bit_offset // unit_bits * unit_bits
        offset, bits = start // _BYTE_BITS, (member.bit_offset - start, member.bit_size)
    hole, bit_hole = behind
    return Member(
        name=member.name, offset=offset, size=size, bits=bits, hole=hole, bit_hole=bit_hole
    )
