# SPDX-License-Identifier: GPL-2.0-or-later
"""Pack entries into the fewest lines, and predict their offsets in another order."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from schedperf.evidence.layout.model import Entry, Unit

# Orders of up to this many are all tried: 8! is 40,320 before equal ones are left out. The sets
# that were measured have two to eight members.
MOST_EXACT = 8
# What plain C types are aligned to at most, in bytes: of long and pointers on 64 bit. A larger
# alignment is asked for in the source and seen by the gap that it makes.
NATURAL_ALIGNMENT = 8


class Block(Struct, frozen=True, kw_only=True):
    """Bytes that move as a whole.

    :param name: of a struct's member its first path component
    :param size: bytes, at least 1
    :param alignment: bytes, a power of two
    """

    name: str
    size: int
    alignment: int


class Packing(Struct, frozen=True, kw_only=True):
    """How few lines blocks need.

    :param at_least: no order needs fewer lines
    :param lines: how many ``order`` takes if it begins at a line; ``at_least`` where all orders
        were tried
    """

    at_least: int
    lines: int
    order: tuple[Block, ...]

    @property
    def is_exact(self) -> bool:
        """Whether no order is better than the one found."""
        return self.at_least == self.lines


def align_up(offset: int, alignment: int) -> int:
    """Return the first multiple of an alignment that is not before an offset."""
    return -(-offset // alignment) * alignment


def span_lines(start: int, size: int, line_bytes: int) -> range:
    """Return the lines that bytes lie on."""
    return range(start // line_bytes, (start + max(size, 1) - 1) // line_bytes + 1)


def fewest_lines(blocks: Iterable[Block], line_bytes: int) -> Packing:
    """Return the fewest lines that blocks can occupy, declared one after the other.

    :param line_bytes: a power of two
    """
    # Large alignments first leaves no padding where sizes are multiples of them.
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
    # Depth first. How it goes on depends on where it ends, what is left and how many lines are
    # taken, so no such state is tried twice.
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
    """Entries that move as a whole: a member with all that is in it, or one variable.

    :param lead: bytes in front of it that belong to nobody that is known
    """

    block: Block
    entries: tuple[Entry, ...]
    lead: int

    @property
    def start(self) -> int:
        """Where it is in the unit's own layout, in bytes."""
        return self.entries[0].offset


class Arrangement(Struct, frozen=True, kw_only=True):
    """Where atoms are, in bytes.

    :param first: from this atom on, and before ``last``, it differs from the unit's own layout
    :param order: of the members of the hot set
    :param after: what they stand behind; None: at the unit's start
    :param is_aligned: whether the first of them is aligned to a line
    """

    first: int
    last: int
    atoms: tuple[Atom, ...]
    starts: tuple[int, ...]
    order: tuple[str, ...]
    after: str | None
    is_aligned: bool


def atoms_of(unit: Unit, line_bytes: int) -> tuple[Atom, ...]:
    """Return what of a unit can be moved, by offset.

    What begins within another entry, as in a union, and what has the same first path component
    as the one before it, goes with it.
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
        # An unknown size ends at the latest where the next entry begins.
        size = entry.size if entry.size is not None else max(limit - entry.offset, 1)
        gathered.append(entry)
        end = max(end, entry.offset + size)
    if gathered:
        atoms.append(_atom(unit, gathered, previous_end, end, line_bytes))
    return tuple(atoms)


def _is_same_member(unit: Unit, first: Entry, second: Entry) -> bool:
    # Variables are no members of anything, whatever dots their names have.
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
    # The largest that the place allows, so that no real one can be violated: that of its type,
    # or a line's where a gap in front of it or its own length says that more was asked for.
    natural = min(_power(size) if entries == 1 else NATURAL_ALIGNMENT, NATURAL_ALIGNMENT)
    most = natural
    if gap >= natural or size >= line_bytes:
        most = line_bytes
    return min(most, _power(start))


def _power(number: int) -> int:
    # The largest power of two that divides it; 0 is divided by all.
    return number & -number or 1 << 30


def as_it_is(atoms: tuple[Atom, ...], hot: frozenset[str]) -> Arrangement:
    """Return the unit's own layout."""
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
    """Return where atoms in a new order come to lie.

    :param bounds: first and behind the last atom of which the order differs; before them all is
        as it was, and behind them as soon as an atom is where it was
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
    """Yield the entries of a part of the atoms where the arrangement has them."""
    for atom, start in zip(arrangement.atoms[part], arrangement.starts[part], strict=True):
        shift = start - atom.start
        for entry in atom.entries:
            bits = entry.bits and (entry.bits[0] + 8 * shift, entry.bits[1])
            yield replace(entry, offset=entry.offset + shift, bits=bits)
