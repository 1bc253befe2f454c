"""What differs between two layouts of one unit, as the comparison hands it on.

Entries are called by the name that base has; :attr:`UnitChange.renamed` says which of them have
another one in new, and what only new has is called as new does.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from schedperf.evidence.layout.model import Entry
from schedperf.evidence.layout.record import (
    LayoutCause,
    LayoutEntryChange,
    LayoutRename,
    LayoutResize,
    Pair,
    UnitKind,
)

Lines = tuple[int, int]


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
    entries: tuple[LayoutEntryChange, ...]
    separated: tuple[Pair, ...]
    joined: tuple[Pair, ...]
    slid_lines: int

    @property
    def moved(self) -> tuple[LayoutEntryChange, ...]:
        """Entries that left their line mates or found new ones by going to another line."""
        return tuple(entry for entry in self.entries if entry.has_left)

    @property
    def mates_changed(self) -> int:
        """How many entries of both sides lost or gained a line mate of both sides."""
        return len({name for pair in (*self.separated, *self.joined) for name in pair})


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
    renamed: tuple[LayoutRename, ...]
    resized: tuple[LayoutResize, ...]
    is_coverage_equal: bool
    lines: CoTenancy
    line_pairs: CoTenancy
    causes: tuple[LayoutCause, ...]
    are_lines_certain: bool | None
    noise: Mapping[str, tuple[int, int]]
    notes: tuple[str, ...]

    @property
    def is_unchanged(self) -> bool:
        """Whether nobody of either side has other line mates, and nobody came, went or grew."""
        gone = self.added or self.removed or self.renamed or self.resized
        return not (self.lines.entries or gone)
