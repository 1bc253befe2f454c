# SPDX-License-Identifier: GPL-2.0-or-later
"""Merge both layouts of a unit into one chain that predicts layouts by the linker's rules.

A linker, and a compiler in a struct, places *atoms* as a whole (a variable, a field, the fields of
a union), each at the next multiple of its alignment. The chain contains the atoms of both sides in
one order. Without the atoms of new alone, and with base's sizes and alignments, it yields base; the
reverse yields new. Any combination is a prediction, e.g. "new without this insertion". Alignments
are not recorded, so they are inferred from the padding on both sides.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import islice, takewhile

from msgspec import Struct

from schedperf.evidence.layout.cotenancy import Span
from schedperf.evidence.layout.matching import Matching, sees_all
from schedperf.evidence.layout.model import Unit
from schedperf.evidence.layout.record import LayoutEdit

# Largest natural alignment of a type, in bytes, on every 64-bit ABI of Linux.
WORD_BYTES = 8
# From this size on, compilers align variables more strictly than their type requires (GCC's
# DATA_ALIGNMENT on x86: 32 bytes), and aligned types have sizes that are multiples of their
# alignment.
LARGE_BYTES = 32
LINE_BYTES = 64
# The largest page size of Linux (arm64, ppc64), which is the largest alignment of a section.
MOST_ALIGNMENT = 1 << 16
# If more blocks than this are reordered, they are one edit: the link order changed.
MOST_REORDERED = 8
# Index of the position before the first atom.
NOBODY = -1
# First byte, end, name, whether the size is known.
_Row = tuple[int, int, str, bool]


@dataclass(slots=True)
class Seat:
    """Placement of an atom after its predecessor on one side.

    :param offset: bytes from the unit's start
    :param room: bytes up to the next atom
    :param used: bytes from start to end; None if a size is unknown
    :param before: index of the preceding atom; -1 for the first
    :param alignment: inferred, in bytes
    :param gap: bytes that the alignment does not explain; negative if atoms overlap
    """

    offset: int
    room: int
    used: int | None
    before: int
    alignment: int = 1
    gap: int = 0


@dataclass(slots=True)
class Atom:
    """Entries that move together: a variable, a field, or the fields of a union.

    :param base: placement in base; None if only new has it
    :param new: placement in new; None if only base has it
    :param shifts: by entry, the distance from the atom's start in base and in new
    :param used: bytes on each side, base first; estimated if the size is unknown
    :param is_at_most: True if the bytes are an upper bound
    :param resized: index of the edit that changes its size or inner distances; -1 if none
    :param realigned: index of the edit that changes its alignment or gap; -1 if none
    """

    names: list[str]
    base: Seat | None = None
    new: Seat | None = None
    shifts: dict[str, tuple[int, int]] = field(default_factory=dict)
    used: tuple[int, int] = (0, 0)
    is_at_most: bool = False
    resized: int = -1
    realigned: int = -1


class Change(Struct, frozen=True):
    """An edit and the indices of the slots of the chain that it affects."""

    edit: LayoutEdit
    slots: tuple[int, ...]


@dataclass(slots=True)
class Chain:
    """The chain, and the edits that lead from base to new.

    :param slots: (atom, edit, flag): edit is -1 for an atom that stays; otherwise the flag is True
        if the edit puts the atom into this slot in new, False if the edit removes it from here
    :param atom_of: index of the atom of each entry
    """

    atoms: list[Atom]
    slots: list[tuple[int, int, bool]]
    changes: list[Change]
    atom_of: dict[str, int]


def round_up(value: int, alignment: int) -> int:
    """Round a value up to a multiple of a power of two."""
    return (value + alignment - 1) & -alignment


def build_chain(
    matching: Matching,
    base: Unit,
    new: Unit,
    spans: tuple[Mapping[str, Span], Mapping[str, Span]],
    asked: AbstractSet[str],
) -> Chain:
    """Merge both sides into one chain and infer the edits between them.

    :param spans: the bytes of every entry of base and of new, with all known sizes
    :param asked: entries that predictions are requested for
    """
    shown = None if matching.is_coverage_equal else matching.common
    is_struct = "struct" in {base.kind, new.kind}
    atoms, atom_of = _make_atoms(spans, shown, asked, (base.size, new.size), is_struct=is_struct)
    chain = Chain(atoms=atoms, slots=[], changes=[], atom_of=atom_of)
    _lay_slots(chain)
    _infer_alignments(chain, base, new, spans)
    return chain


def _lay_slots(chain: Chain) -> None:
    # Merge both orders around the atoms that keep their order; a moved atom has two slots.
    atoms = chain.atoms
    base_order = _order(atom.base for atom in atoms)
    new_order = _order(atom.new for atom in atoms)
    steady = _longest_in_order(base_order, new_order)
    gone: list[int] = []
    came: list[int] = []
    at = 0
    for index in [*base_order, NOBODY]:
        if index != NOBODY and index not in steady:
            gone.append(len(chain.slots))
            chain.slots.append((index, NOBODY, False))
            continue
        while at < len(new_order) and new_order[at] != index:
            came.append(len(chain.slots))
            chain.slots.append((new_order[at], NOBODY, True))
            at += 1
        at += 1
        if index != NOBODY:
            chain.slots.append((index, NOBODY, False))
    _name_edits(chain, gone, came)


def _order(seats: Iterable[Seat | None]) -> list[int]:
    present = [(seat.offset, index) for index, seat in enumerate(seats) if seat is not None]
    return [index for _, index in sorted(present)]


def _longest_in_order(base: Sequence[int], new: Sequence[int]) -> set[int]:
    # The longest increasing subsequence: the atoms with the same order on both sides.
    new_index = {index: at for at, index in enumerate(new)}
    common = [index for index in base if index in new_index]
    tails: list[int] = []
    tail_at: list[int] = []
    before: list[int] = []
    for at, index in enumerate(common):
        length = bisect_left(tails, new_index[index])
        before.append(tail_at[length - 1] if length else NOBODY)
        tails[length : length + 1] = [new_index[index]]
        tail_at[length : length + 1] = [at]
    in_order: set[int] = set()
    at = tail_at[-1] if tail_at else NOBODY
    while at != NOBODY:
        in_order.add(common[at])
        at = before[at]
    return in_order


def _name_edits(chain: Chain, gone: Sequence[int], came: Sequence[int]) -> None:
    # Each run of adjacent slots is one insertion, removal or reordering.
    blocks: list[tuple[int, ...]] = []
    new_slot = {chain.slots[slot][0]: slot for slot in came}
    base_slot = {chain.slots[slot][0]: slot for slot in gone}
    for run in _runs(gone, [new_slot.get(chain.slots[slot][0]) for slot in gone]):
        targets = [new_slot[atom] for slot in run if (atom := chain.slots[slot][0]) in new_slot]
        if targets:
            blocks.append((*run, *targets))
        else:
            _add_edit(chain, run, "removed")
    for run in _runs(came, [base_slot.get(chain.slots[slot][0]) for slot in came]):
        if chain.slots[run[0]][0] not in base_slot:
            _add_edit(chain, run, "inserted")
    if len(blocks) > MOST_REORDERED:
        blocks = [tuple(slot for block in blocks for slot in block)]
    for block in blocks:
        _add_edit(chain, block, "reordered")


def _runs(slots: Sequence[int], others: Sequence[int | None]) -> Iterator[tuple[int, ...]]:
    # Adjacent slots whose other slots, if any, are adjacent too.
    run: list[int] = []
    last_other: int | None = None
    for slot, other_slot in zip(slots, others, strict=True):
        expected = None if last_other is None else last_other + 1
        if run and (slot != run[-1] + 1 or other_slot != expected):
            yield tuple(run)
            run = []
        run.append(slot)
        last_other = other_slot
    if run:
        yield tuple(run)


def _add_edit(chain: Chain, slots: tuple[int, ...], kind: str) -> None:
    number = len(chain.changes)
    indices = list(dict.fromkeys(chain.slots[slot][0] for slot in slots))
    atoms = [chain.atoms[index] for index in indices]
    names = tuple(name for atom in atoms for name in atom.names)
    is_at_most = any(atom.is_at_most for atom in atoms)
    base_bytes = sum(atom.used[0] for atom in atoms)
    new_bytes = sum(atom.used[1] for atom in atoms)
    edit = LayoutEdit(
        kind="inserted" if kind == "inserted" else "removed" if kind == "removed" else "reordered",
        entry=names[0],
        entries=names,
        base_bytes=None if kind == "inserted" else base_bytes,
        new_bytes=None if kind == "removed" else new_bytes,
        is_at_most=is_at_most,
    )
    chain.changes.append(Change(edit=edit, slots=slots))
    for slot in slots:
        index, _, is_new = chain.slots[slot]
        chain.slots[slot] = (index, number, is_new)


def _infer_alignments(
    chain: Chain, base: Unit, new: Unit, spans: tuple[Mapping[str, Span], Mapping[str, Span]]
) -> None:
    # Infer alignment and gap of each atom on both sides; differences are edits.
    floor = _large_floor(spans)
    # Entries left out as noise still occupy bytes, except in a struct.
    shows_all = all(
        sees_all(unit) and (unit.kind == "struct" or not any(unit.noise.values()))
        for unit in (base, new)
    )
    for slot, (index, number, is_new) in enumerate(chain.slots):
        if number != NOBODY and not is_new and chain.atoms[index].new is not None:
            continue
        atom = chain.atoms[index]
        _note_resize(chain, slot, atom)
        _align(chain, slot, atom, floor, shows_all)


def _large_floor(spans: tuple[Mapping[str, Span], Mapping[str, Span]]) -> int:
    # Stricter alignment of large entries is inferred from the unit, not assumed.
    starts = [
        span.start
        for side in spans
        for span in side.values()
        if span.is_sized and span.end - span.start >= LARGE_BYTES
    ]
    return LARGE_BYTES if starts and not any(at % LARGE_BYTES for at in starts) else 1


def _note_resize(chain: Chain, slot: int, atom: Atom) -> None:
    # The size changed, or the distances of a union's fields.
    if atom.base is None or atom.new is None:
        return
    is_same_inside = all(base_shift == new_shift for base_shift, new_shift in atom.shifts.values())
    if atom.used[0] == atom.used[1] and is_same_inside:
        return
    atom.resized = len(chain.changes)
    edit = LayoutEdit(
        kind="resized" if atom.used[0] != atom.used[1] else "reordered",
        entry=atom.names[0],
        entries=tuple(atom.names),
        base_bytes=atom.used[0],
        new_bytes=atom.used[1],
        is_at_most=atom.is_at_most,
    )
    chain.changes.append(Change(edit=edit, slots=(slot,)))


def _align(chain: Chain, slot: int, atom: Atom, floor: int, shows_all: bool) -> None:  # noqa: FBT001 - private
    seats = [(side, seat) for side, seat in enumerate((atom.base, atom.new)) if seat is not None]
    ends = [_end_before(chain.atoms, seat, side) for side, seat in seats]
    natural = _natural_alignment(atom, floor)
    needed = [_needed(end, seat.offset) for end, (_, seat) in zip(ends, seats, strict=True)]
    common = max([natural, *(need for need in needed if need is not None)])
    is_common = all(
        round_up(end, common) == seat.offset for end, (_, seat) in zip(ends, seats, strict=True)
    )
    gaps = {
        seat.offset - round_up(end, natural) for end, (_, seat) in zip(ends, seats, strict=True)
    }
    if not is_common and len(gaps) == 1:
        # An equal gap on both sides that no alignment explains is unknown content, but not an edit.
        common, is_common = natural, True
    for need, end, (_, seat) in zip(needed, ends, seats, strict=True):
        seat.alignment = common if is_common else natural if need is None else max(need, natural)
        seat.gap = seat.offset - round_up(end, seat.alignment)
    if atom.base is not None and atom.new is not None and atom.base.before == atom.new.before:
        same = (atom.base.alignment, atom.base.gap) == (atom.new.alignment, atom.new.gap)
        if not same:
            _note_realignment(chain, slot, atom, ends, shows_all)


def _end_before(atoms: Sequence[Atom], seat: Seat, side: int) -> int:
    if seat.before == NOBODY:
        return 0
    before = atoms[seat.before]
    ahead = before.base if side == 0 else before.new
    assert ahead is not None
    return ahead.offset + before.used[side]


def _natural_alignment(atom: Atom, floor: int) -> int:
    # The natural alignment of a type of this size, if the offsets of both sides are multiples of
    # it.
    seats = [seat for seat in (atom.base, atom.new) if seat is not None]
    size = max(atom.used)
    offsets = 0
    for seat in seats:
        offsets |= seat.offset
    allowed = offsets & -offsets if offsets else MOST_ALIGNMENT
    alignment = min(size & -size if size else 1, WORD_BYTES)
    if size >= LARGE_BYTES and floor > 1 and not atom.is_at_most:
        alignment = LINE_BYTES if size % LINE_BYTES == 0 else floor
    return min(alignment, allowed)


def _needed(end: int, offset: int) -> int | None:
    # The smallest alignment that results in this padding; None if there is none.
    if offset < end:
        return None
    alignment = 1 << (offset - end).bit_length()
    return alignment if alignment <= MOST_ALIGNMENT and offset % alignment == 0 else None


def _note_realignment(
    chain: Chain,
    slot: int,
    atom: Atom,
    ends: Sequence[int],
    shows_all: bool,  # noqa: FBT001 - private
) -> None:
    assert atom.base is not None
    assert atom.new is not None
    before = atom.base.before
    is_sized = before == NOBODY or not chain.atoms[before].is_at_most
    # Without sizes, padding up to a full line is more likely an alignment than a neighbour that
    # grew by exactly this amount; smaller padding may be either.
    is_wide = max(atom.base.alignment, atom.new.alignment) >= LINE_BYTES
    is_alignment = atom.base.gap == atom.new.gap == 0 and shows_all and (is_sized or is_wide)
    paddings = [seat.offset - end for seat, end in zip((atom.base, atom.new), ends, strict=True)]
    atom.realigned = len(chain.changes)
    edit = LayoutEdit(
        kind="realigned" if is_alignment else "unexplained",
        entry=atom.names[0],
        entries=tuple(atom.names),
        base_bytes=atom.base.alignment if is_alignment else paddings[0],
        new_bytes=atom.new.alignment if is_alignment else paddings[1],
        is_at_most=not is_sized,
    )
    chain.changes.append(Change(edit=edit, slots=(slot,)))


def _make_atoms(
    spans: tuple[Mapping[str, Span], Mapping[str, Span]],
    shown: AbstractSet[str] | None,
    asked: AbstractSet[str],
    unit_bytes: tuple[int | None, int | None],
    *,
    is_struct: bool,
) -> tuple[list[Atom], dict[str, int]]:
    """Return the atoms of both sides, and for each entry the index of its atom.

    Atoms before the first and after the last difference are left out, except requested ones and one
    atom at each end, from which the rest is placed.

    :param shown: names to include; None for all
    :param asked: names that must not be left out
    :param unit_bytes: size of the unit on both sides
    :param is_struct: True if entries may overlap
    """
    base, new = (
        sorted(
            (span.start, span.end, name, span.is_sized)
            for name, span in side.items()
            if shown is None or name in shown
        )
        for side in spans
    )
    # A union may extend across a difference.
    first, behind = (0, 0) if is_struct else _equal_ends(base, new, asked)
    rows = base[first : len(base) - behind], new[first : len(new) - behind]
    limits = tuple(
        side[len(side) - behind][0] if behind else size
        for side, size in zip((base, new), unit_bytes, strict=True)
    )
    atom_of = _atoms_of(*rows)
    atoms = [Atom(names=[]) for _ in range(max(atom_of.values(), default=-1) + 1)]
    for name, index in atom_of.items():
        atoms[index].names.append(name)
    for index, seat in _seats(atom_of, rows[0], limits[0]):
        atoms[index].base = seat
    for index, seat in _seats(atom_of, rows[1], limits[1]):
        atoms[index].new = seat
    for atom in atoms:
        _estimate(atom, spans)
    return atoms, atom_of


def _equal_ends(
    base: Sequence[_Row], new: Sequence[_Row], asked: AbstractSet[str]
) -> tuple[int, int]:
    # Number of equal, unrequested rows at the start and at the end, minus one each.
    def count(pairs: Iterable[tuple[_Row, _Row]]) -> int:
        equal = takewhile(lambda rows: rows[0] == rows[1] and rows[0][2] not in asked, pairs)
        return sum(1 for _ in equal)

    first = count(zip(base, new, strict=False))
    left = min(len(base), len(new)) - first
    behind = count(islice(zip(reversed(base), reversed(new), strict=False), left))
    return max(0, first - 1), max(0, behind - 1)


def _atoms_of(base: Sequence[_Row], new: Sequence[_Row]) -> dict[str, int]:
    # Entries that overlap on either side are one atom.
    parent = {name: name for rows in (base, new) for _, _, name, _ in rows}

    def find(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for rows in (base, new):
        reach, owner = -1, ""
        for start, end, name, _ in rows:
            if start < reach:
                parent[find(name)] = find(owner)
            if end > reach:
                reach, owner = end, name
    numbers: dict[str, int] = {}
    return {name: numbers.setdefault(find(name), len(numbers)) for name in parent}


def _seats(
    atom_of: Mapping[str, int],
    rows: Sequence[_Row],
    unit_bytes: int | None,
) -> Iterator[tuple[int, Seat]]:
    # Set offset, size and predecessor of every atom of one side.
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    unsized: set[int] = set()
    for start, end, name, is_sized in rows:
        index = atom_of[name]
        starts.setdefault(index, start)
        ends[index] = max(end, ends.get(index, end))
        if not is_sized:
            unsized.add(index)
    limits = [*list(starts.values())[1:], max([*ends.values(), unit_bytes or 0])] if starts else []
    before = NOBODY
    for (index, offset), limit in zip(starts.items(), limits, strict=True):
        yield (
            index,
            Seat(
                offset=offset,
                room=limit - offset,
                used=None if index in unsized else ends[index] - offset,
                before=before,
            ),
        )
        before = index


def _estimate(atom: Atom, spans: tuple[Mapping[str, Span], Mapping[str, Span]]) -> None:
    # An unknown size is replaced by the smallest room on either side.
    seats = [seat for seat in (atom.base, atom.new) if seat is not None]
    sizes = [seat.used for seat in seats if seat.used is not None]
    room = max(0, min(seat.room for seat in seats))
    guess = min([*sizes, room])
    atom.is_at_most = len(sizes) < len(seats)
    used = [
        guess if seat is None or atom.is_at_most else seat.used or 0
        for seat in (atom.base, atom.new)
    ]
    atom.used = (used[0], used[1])
    if len(atom.names) == 1:
        atom.shifts[atom.names[0]] = (0, 0)
        return
    for name in atom.names:
        distances = [
            spans[side][name].start - seat.offset
            if seat is not None and name in spans[side]
            else None
            for side, seat in enumerate((atom.base, atom.new))
        ]
        first = next((distance for distance in distances if distance is not None), 0)
        ahead = [first if distance is None else distance for distance in distances]
        atom.shifts[name] = (ahead[0], ahead[1])
