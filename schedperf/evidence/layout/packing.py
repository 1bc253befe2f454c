# SPDX-License-Identifier: GPL-2.0-or-later
"""Pack entries into the fewest lines, and predict their offsets in another order."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from schedperf.evidence.layout.model import Entry, Unit

# Up to this number of blocks, all orders are tried (8! = 40,320, less equivalent ones). The
# measured sets have two to eight members.
MOST_EXACT = 8
# Largest natural alignment of C types in bytes: that of long and pointers on 64 bit. A larger
# alignment is requested in the source and visible by the gap that it causes.
NATURAL_ALIGNMENT = 8


class Block(Struct, frozen=True, kw_only=True):
    """Bytes that move as a whole.

    :param name: name of the entry; for several fields of a struct, their first path component
    :param size: bytes, at least 1
    :param alignment: bytes, a power of two
    """

    name: str
    size: int
    alignment: int


class Packing(Struct, frozen=True, kw_only=True):
    """The number of lines that blocks need.

    :param at_least: lower bound for all orders
    :param lines: number of lines of ``order`` if it begins at a line; equals ``at_least`` if all
        orders were tried
    """

    at_least: int
    lines: int
    order: tuple[Block, ...]

    @property
    def is_exact(self) -> bool:
        """Whether no order is better than the one found."""
        return self.at_least == self.lines


def align_up(offset: int, alignment: int) -> int:
    """Round an offset up to a multiple of an alignment."""
    return -(-offset // alignment) * alignment


def span_lines(start: int, size: int, line_bytes: int) -> range:
    """Return the numbers of the lines that contain these bytes; size 0 counts as one byte."""
    return range(start // line_bytes, (start + max(size, 1) - 1) // line_bytes + 1)


def fewest_lines(blocks: Iterable[Block], line_bytes: int) -> Packing:
    """Find an order in which consecutive blocks occupy few lines.

    It is the best order for up to :data:`MOST_EXACT` blocks. More blocks are only sorted by falling
    alignment and size.

    :param line_bytes: a power of two
    """
    # Sorting by falling alignment needs no padding if sizes are multiples of alignments.
    ordered = sorted(blocks, key=lambda block: (-block.alignment, -block.size, block.name))
    at_least = -(-sum(block.size for block in ordered) // line_bytes)
    best = ordered
    lines = _lines(best, line_bytes)
    if lines > at_least and len(ordered) <= MOST_EXACT:
        best = _search(ordered, line_bytes)
        lines = at_least = _lines(best, line_bytes)
    return Packing(at_least=at_least, lines=lines, order=tuple(best))


def _lines(blocks: Sequence[Block], line_bytes: int) -> int:
    end, lines = 0, set[int]()
    for block in blocks:
        start = align_up(end, block.alignment)
        end = start + block.size
        lines.update(span_lines(start, block.size, line_bytes))
    return len(lines)


def _search(blocks: Sequence[Block], line_bytes: int) -> list[Block]:
    # Depth-first search. The rest depends only on the end offset, the remaining blocks and the
    # number of lines, so no such state is tried twice.
    best, best_lines = list(blocks), _lines(blocks, line_bytes)
    seen: set[tuple[int, frozenset[int], int]] = set()

    def go(end: int, left: frozenset[int], order: tuple[int, ...]) -> None:
        nonlocal best, best_lines
        chosen = [blocks[index] for index in order]
        lines = _lines(chosen, line_bytes)
        if lines >= best_lines or (end, left, lines) in seen:
            return
        seen.add((end, left, lines))
        if not left:
            best, best_lines = chosen, lines
        for index in sorted(left):
            start = align_up(end, blocks[index].alignment)
            go(start + blocks[index].size, left - {index}, (*order, index))

    go(0, frozenset(range(len(blocks))), ())
    return best


class Atom(Struct, frozen=True, kw_only=True):
    """Entries that move as a whole: a member with its inner fields, or one variable.

    :param lead: bytes before it that belong to no known entry
    """

    block: Block
    entries: tuple[Entry, ...]
    lead: int

    @property
    def start(self) -> int:
        """Its offset in the unit's current layout, in bytes."""
        return self.entries[0].offset


class Arrangement(Struct, frozen=True, kw_only=True):
    """Offsets of atoms, in bytes.

    :param first: index of the first atom that differs from the unit's current layout
    :param last: index after the last atom that differs; equal to ``first`` if none does
    :param atoms: in the order of this arrangement
    :param starts: offset of each atom
    :param order: order of the members of the hot set
    :param after: the entry before them; None at the unit's start
    :param is_aligned: True if the first of them is aligned to a line
    """

    first: int
    last: int
    atoms: tuple[Atom, ...]
    starts: tuple[int, ...]
    order: tuple[str, ...]
    after: str | None
    is_aligned: bool


def atoms_of(unit: Unit, line_bytes: int) -> tuple[Atom, ...]:
    """Return the atoms of a unit, by offset.

    Entries that begin within another entry, as in a union, belong to one atom. So do adjacent
    fields of a struct with the same first path component.
    """
    atoms: list[Atom] = []
    gathered: list[Entry] = []
    end = previous_end = 0
    ordered = sorted(unit.entries, key=lambda entry: entry.offset)
    limits = [entry.offset for entry in ordered[1:]] + [unit.size or 0]
    for entry, limit in zip(ordered, limits, strict=True):
        if gathered and entry.offset >= end and not _is_same_member(unit, entry, gathered[-1]):
            atoms.append(_atom(unit, gathered, previous_end, end, line_bytes))
            gathered, previous_end = [], end
        # An entry of unknown size ends at the start of the next entry at the latest.
        size = entry.size if entry.size is not None else max(limit - entry.offset, 1)
        gathered.append(entry)
        end = max(end, entry.offset + size)
    if gathered:
        atoms.append(_atom(unit, gathered, previous_end, end, line_bytes))
    return tuple(atoms)


def _is_same_member(unit: Unit, first: Entry, second: Entry) -> bool:
    # Variables have no members, even if their names contain dots.
    return unit.kind == "struct" and _member(first) == _member(second)


def _member(entry: Entry) -> str:
    return entry.name.partition(".")[0]


def _atom(unit: Unit, entries: list[Entry], previous: int, end: int, line_bytes: int) -> Atom:
    start, size = entries[0].offset, max(end - entries[0].offset, 1)
    alignment = _alignment(start, size, start - previous, len(entries), line_bytes)
    lead = start - previous
    if align_up(previous, alignment) == start:
        lead = 0
    name = entries[0].name
    if unit.kind == "struct" and len(entries) > 1:
        name = _member(entries[0])
    block = Block(name=name, size=size, alignment=alignment)
    return Atom(block=block, entries=tuple(entries), lead=lead)


def _alignment(start: int, size: int, gap: int, entries: int, line_bytes: int) -> int:
    # The largest alignment that the offset allows, so that no real one is violated: that of the
    # type, or of a line if the preceding gap or the size indicates a larger one.
    natural = min(_power(size) if entries == 1 else NATURAL_ALIGNMENT, NATURAL_ALIGNMENT)
    most = natural
    if gap >= natural or size >= line_bytes:
        most = line_bytes
    return min(most, _power(start))


def _power(number: int) -> int:
    # The largest power of two that divides the offset; unlimited for 0.
    return number & -number or 1 << 30


def as_it_is(atoms: tuple[Atom, ...], hot: frozenset[str]) -> Arrangement:
    """Return the unit's current layout.

    :param atoms: of the unit, by offset
    :param hot: names of the blocks of the hot set
    """
    names = [atom.block.name for atom in atoms]
    first = next((index for index, name in enumerate(names) if name in hot), 0)
    return Arrangement(
        first=0,
        last=0,
        atoms=atoms,
        starts=tuple(atom.start for atom in atoms),
        order=tuple(name for name in names if name in hot),
        after=names[first - 1] if first else None,
        is_aligned=False,
    )


def laid_out(
    now: Arrangement,
    atoms: tuple[Atom, ...],
    bounds: tuple[int, int],
    order: tuple[str, ...],
    after: str | None,
    *,
    is_aligned: bool,
) -> Arrangement:
    """Return the offsets of atoms in a new order.

    :param now: the unit's current layout
    :param atoms: in the new order
    :param bounds: range of atoms whose order differs; atoms before it keep their offsets, and so do
        all atoms from the first one after it whose offset is unchanged
    :param order: as in :class:`Arrangement`, like ``after`` and ``is_aligned``
    """
    first, last = bounds
    starts = list(now.starts)
    end = starts[first - 1] + atoms[first - 1].block.size if first else 0
    for index in range(first, len(atoms)):
        atom = atoms[index]
        start = align_up(end + atom.lead, atom.block.alignment)
        if index >= last and start == starts[index]:
            break
        starts[index] = start
        end = start + atom.block.size
        last = max(last, index + 1)
    return Arrangement(
        first=first,
        last=last,
        atoms=atoms,
        starts=tuple(starts),
        order=order,
        after=after,
        is_aligned=is_aligned,
    )


def entries_of(arrangement: Arrangement, part: slice = slice(None)) -> Iterator[Entry]:
    """Yield the entries of a range of atoms with their offsets in the arrangement."""
    for atom, start in zip(arrangement.atoms[part], arrangement.starts[part], strict=True):
        shift = start - atom.start
        for entry in atom.entries:
            bits = entry.bits and (entry.bits[0] + 8 * shift, entry.bits[1])
            yield replace(entry, offset=entry.offset + shift, bits=bits)
