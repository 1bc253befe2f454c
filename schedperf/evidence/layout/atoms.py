"""What a linker places as a whole: a variable, a field, the fields of a union."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import islice, takewhile

from schedperf.evidence.layout.cotenancy import Span

# In front of the first atom.
NOBODY = -1
# First byte, byte behind the last, name, whether the size is known.
_Row = tuple[int, int, str, bool]


@dataclass(slots=True)
class Seat:
    """How one side places an atom behind its predecessor.

    :param offset: bytes from the unit's start
    :param room: bytes up to the next atom
    :param used: bytes from its first to behind its last; None where a size is unknown
    :param before: the atom in front of it; -1 for the first
    :param alignment: inferred, in bytes
    :param gap: bytes beyond what the alignment explains; negative where atoms overlap
    """

    offset: int
    room: int
    used: int | None
    before: int
    alignment: int = 1
    gap: int = 0


@dataclass(slots=True)
class Atom:
    """Entries that keep their distance: a variable, a field, a union's fields.

    :param base: None where new alone has it
    :param shifts: by entry, the distance from the atom's start in base and in new
    :param used: bytes on each side, base's first; estimated where no size is known
    :param is_at_most: the bytes are an estimate
    :param resized: index of the edit that gives it other bytes or distances; -1: none
    :param realigned: index of the edit that gives it another alignment or gap; -1: none
    """

    names: list[str]
    base: Seat | None = None
    new: Seat | None = None
    shifts: dict[str, tuple[int, int]] = field(default_factory=dict)
    used: tuple[int, int] = (0, 0)
    is_at_most: bool = False
    resized: int = -1
    realigned: int = -1


def make_atoms(
    spans: tuple[Mapping[str, Span], Mapping[str, Span]],
    shown: AbstractSet[str] | None,
    asked: AbstractSet[str],
    unit_bytes: tuple[int | None, int | None],
    *,
    is_struct: bool,
) -> tuple[list[Atom], dict[str, int]]:
    """Return the atoms of both sides, and the index of each entry's.

    What lies in front of the first difference and behind the last is left out, but for what is
    asked for, and for one atom at each end, from which the rest is placed.

    :param shown: names to be looked at; None: all
    :param asked: names that must not be left out
    :param unit_bytes: size of the unit on both sides
    :param is_struct: entries may overlap
    """
    base, new = (
        sorted(
            (span.start, span.end, name, span.is_sized)
            for name, span in side.items()
            if shown is None or name in shown
        )
        for side in spans
    )
    # A union may reach from in front of a difference to behind it.
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
    # How many rows in front and behind are equal and not asked for, less one each.
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
    # Give every atom of one side its offset, its bytes and its predecessor.
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
    # Where a side knows no size, the smallest room on either side stands in for it.
    seats = [seat for seat in (atom.base, atom.new) if seat is not None]
    known = [seat.used for seat in seats if seat.used is not None]
    room = max(0, min(seat.room for seat in seats))
    guess = min([*known, room])
    atom.is_at_most = len(known) < len(seats)
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
        first = next((found for found in distances if found is not None), 0)
        ahead = [first if found is None else found for found in distances]
        atom.shifts[name] = (ahead[0], ahead[1])
