"""What a struct must be aligned to, concluded from where its fields are.

BTF has no alignments. A field has at least that of its type; a hole in front of it that
this does not explain, or padding at the struct's end, was made by a larger one. An
alignment that moved nothing cannot be seen.
"""

from schedperf.kernel.btf import Btf, Kind

# PAGE_SIZE: what the kernel aligns fields and variables to at most.
LARGEST_ALIGNMENT = 4096
# What the kernel asks for is mostly ____cacheline_aligned, and the shortest line of the machines
# that it is made for today: a hole that 32 explains as well is taken for one of 64.
USUAL_ASKED = 64
# Structs in structs: task_struct goes nine deep.
MOST_NESTED = 32

COMPOSITE = frozenset({int(Kind.STRUCT), int(Kind.UNION)})


def inferred_alignment(btf: Btf, type_id: int) -> int:
    """Return the alignment in bytes that explains a struct's layout.

    :raises InputError: the BTF is damaged
    """
    return _Alignments(btf).of(type_id, 0)


class _Alignments:
    # One walk; what is known of a type is kept.

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
        # long double of i386 has 12 bytes and is aligned to 4, the largest power in it.
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
                # A packed struct, or u64 of i386, has fields where their type would not be put.
                alignment = min(alignment, _largest_power(offset))
                end = max(end, offset + size)
                largest = max(largest, alignment)
        size = self._btf.size(type_id)
        return min(_explaining(end, size, largest), _largest_power(size))


def _largest_power(number: int) -> int:
    # The largest power of two that divides it; 0 is divided by all.
    return min(number & -number or LARGEST_ALIGNMENT, LARGEST_ALIGNMENT)


def _explaining(end: int, start: int, least: int) -> int:
    # The alignment that moves what would begin at `end` to `start`: that of the type, else the
    # usual one that is asked for, else the smallest.
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
