"""What differs between two layouts of one unit, as the comparison hands it on.

Entries are called by the name that base has; :attr:`UnitChange.renamed` says which of them have
another one in new, and what only new has is called as new does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from schedperf.evidence.layout.model import Entry, UnitKind

Pair = tuple[str, str]
Lines = tuple[int, int]
CauseKind = Literal["inserted", "removed", "resized", "reordered", "realigned", "unexplained"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where one entry is on one side.

    :param offset: bytes from the unit's start
    :param size: bytes; None where unknown
    :param lines: first and last cache line, counted from the unit's start; the line of the first
        byte alone where the size is unknown on either side
    :param mates: every other entry on these lines, by offset
    :param straddles: it lies on more lines than its size needs; None where the size is unknown
    """

    offset: int
    size: int | None
    lines: Lines
    mates: tuple[str, ...]
    straddles: bool | None


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryChange:
    """One entry of both sides that has other line mates, or straddles on one side alone.

    :param lost: entries, removed ones too, that were on its lines in base only, by base offset
    :param gained: entries, added ones too, that are on its lines in new only, by new offset
    :param has_left: it is not where its line went: its mates lost it, not it them
    """

    name: str
    base: Place
    new: Place
    lost: tuple[str, ...]
    gained: tuple[str, ...]
    has_left: bool

    @property
    def keeps_offset(self) -> bool:
        """Whether the others came and went around it: what a comparison of offsets overlooks."""
        return self.base.offset == self.new.offset


@dataclass(frozen=True, kw_only=True, slots=True)
class Rename:
    """One entry under two names.

    :param commit: of the kernel, which renamed it; None where the rename is inferred from equal
        neighbours, equal type or size and similar names
    """

    base_name: str
    new_name: str
    commit: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Resize:
    """One entry of two known sizes, in bytes."""

    name: str
    base_size: int
    new_size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CoTenancy:
    """Who shares lines of one length, before and after.

    :param line_bytes: length of a line
    :param entries: those with other mates, other straddling, or both, by base offset
    :param separated: pairs that share a line in base and none in new, by base offset
    :param joined: pairs that share a line in new and none in base, by new offset
    :param slid_lines: base's lines that kept their tenants and have another place in the unit
    """

    line_bytes: int
    entries: tuple[EntryChange, ...]
    separated: tuple[Pair, ...]
    joined: tuple[Pair, ...]
    slid_lines: int

    @property
    def moved(self) -> tuple[EntryChange, ...]:
        """Entries that left their line mates or found new ones by going to another line."""
        return tuple(entry for entry in self.entries if entry.has_left)

    @property
    def mates_changed(self) -> int:
        """How many entries of both sides lost or gained a line mate of both sides."""
        return len({name for pair in (*self.separated, *self.joined) for name in pair})


@dataclass(frozen=True, kw_only=True, slots=True)
class Edit:
    """One difference that places other entries elsewhere.

    :param entry: what was inserted, removed, resized, reordered or realigned; where nothing that
        the sources show explains it, the first entry after the bytes that came or went
    :param entries: all that the edit is about, ``entry`` first: neighbours reordered as one
    :param base_bytes: bytes that the entry has in base: its size, its alignment where that
        changed, the gap in front of it where nothing explains it; None: it is not there, or unknown
    :param new_bytes: the same in new
    :param is_at_most: the sizes are unknown, and the bytes up to the next entry stand in for them
    """

    kind: CauseKind
    entry: str
    entries: tuple[str, ...]
    base_bytes: int | None
    new_bytes: int | None
    is_at_most: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Shift:
    """How far a cause moves entries that both sides have.

    :param entries: how many
    :param first: the first of them in new's order
    :param last: the last of them, after which padding absorbs the rest
    :param smallest: bytes, negative towards the start; alignment makes the bytes differ
    :param largest: bytes
    :param slide: whole lines, in bytes, that everything behind ``last`` slides by; 0: it stays
    """

    entries: int
    first: str
    last: str
    smallest: int
    largest: int
    slide: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """One edit, and every changed pair that comes back when it alone is undone.

    :param edits: usually one; several where only undoing all of them brings the pairs back; none
        where the differences are too many to be told apart
    :param separated: pairs that it separates, by base offset
    :param joined: pairs that it joins, by new offset
    :param shift: None where it moves no entry that both sides have
    :param is_sufficient: undoing these edits and no other brings all these pairs back, as the
        model of the linker's arithmetic predicts
    :param together_with: entries of the causes that have to be undone as well, where it is not
    :param alternatives: entries of other edits of which each, undone alone, brings all these pairs
        back too: the kernel has room for one of them
    :param by_entry_alone: those of the pairs that undoing the first entry alone brings back, where
        the first edit is about several
    """

    edits: tuple[Edit, ...]
    separated: tuple[Pair, ...]
    joined: tuple[Pair, ...]
    shift: Shift | None
    is_sufficient: bool
    together_with: tuple[str, ...]
    alternatives: tuple[str, ...]
    by_entry_alone: tuple[Pair, ...]

    @property
    def kind(self) -> CauseKind:
        """What the first edit is."""
        return self.edits[0].kind if self.edits else "unexplained"

    @property
    def entry(self) -> str | None:
        """What the first edit is about; None where the differences are too many."""
        return self.edits[0].entry if self.edits else None


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitChange:
    """How one unit differs between two kernels.

    :param entries_base: how many entries base has
    :param common: how many of them new has too, under the same name or renamed
    :param unsized: those of these, by name, that have no known size on a side, so that straddling
        and resizing are unknown
    :param added: entries that only new has, by offset; empty where the sources do not compare
    :param is_coverage_equal: both sides' sources see the same kinds of entries; BTF alone lacks
        variables that a symbol table has, so what only one side has would mean nothing
    :param lines: at the length of a cache line
    :param line_pairs: at twice that, as prefetchers of adjacent lines see it
    :param causes: of ``lines``, the one that explains most pairs first
    :param are_lines_certain: the unit starts at a multiple of the line length on both sides; False
        where it may not, so lines counted from its start may be others; None where unknown
    :param noise: how many entries were left out, base's and new's, by what they are
    """

    name: str
    kind: UnitKind
    entries_base: int
    entries_new: int
    common: int
    unsized: tuple[str, ...]
    added: tuple[Entry, ...]
    removed: tuple[Entry, ...]
    renamed: tuple[Rename, ...]
    resized: tuple[Resize, ...]
    is_coverage_equal: bool
    lines: CoTenancy
    line_pairs: CoTenancy
    causes: tuple[Cause, ...]
    are_lines_certain: bool | None
    noise: Mapping[str, tuple[int, int]]
    notes: tuple[str, ...]

    @property
    def is_unchanged(self) -> bool:
        """Whether nobody of either side has other line mates, and nobody came, went or grew."""
        gone = self.added or self.removed or self.renamed or self.resized
        return not (self.lines.entries or gone)
