# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare which entries share a cache line, before and after.

Offsets are not sufficient: a variable can keep its offset while other variables leave its line, or
move together with them. So two layouts are compared by the pairs that share a line.

Entries are called by the name that base has; :attr:`UnitChange.renamed` says which of them have
another one in new, and what only new has is called as new does.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec import Struct

from schedperf.evidence.layout.matching import Matching
from schedperf.evidence.layout.model import (
    LARGEST_LINE_BYTES,
    SMALLEST_LINE_BYTES,
    Entry,
    Unit,
)
from schedperf.evidence.layout.record import (
    LayoutCause,
    LayoutEntryChange,
    LayoutRename,
    LayoutResize,
    Pair,
    UnitKind,
)
from schedperf.model.comparison import BaseNew
from schedperf.model.errors import InputError

# Pairs on common lines in one unit: the per-CPU section of a real kernel has less than 1,000, its
# globals 40,000, and task_struct 2,000.
MOST_PAIRS = 500_000
# The same of all structs that are compared, of both sides and for both lengths of a line; fields of
# unions overlap, so that a file of 15 kB could have millions. Those of the scheduler have 40,000.
MOST_STRUCT_PAIRS = 200_000


@dataclass(slots=True)
class PairBudget:
    """Pairs of entries on one line that may still be built.

    :param most: how many, for the message
    """

    most: int
    left: int = field(init=False)

    def __post_init__(self) -> None:
        """Start with all of them."""
        self.left = self.most

    def spend(self, pairs: int, label: str) -> None:
        """Take pairs.

        :param label: names the unit in messages
        :raises InputError: none are left
        """
        self.left -= pairs
        if self.left < 0:
            raise InputError(
                f"{label}: more than {self.most} pairs of entries on one line; "
                "check that the kernel files are undamaged"
            )


PairSet = AbstractSet[frozenset[str]]
Lines = tuple[int, int]


class CoTenancy(Struct, frozen=True, kw_only=True):
    """Pairs that share lines of one size, before and after.

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
        """Entries that moved to another line, away from or towards other entries."""
        return tuple(entry for entry in self.entries if entry.has_left)

    @property
    def mates_changed(self) -> int:
        """How many entries of both sides share their line with other such entries than before."""
        return len({name for pair in (*self.separated, *self.joined) for name in pair})


class Span(NamedTuple):
    """The bytes of one entry: the first, and behind the last; equal where nothing is known."""

    start: int
    end: int
    is_sized: bool

    @property
    def is_empty(self) -> bool:
        """Whether it is known to have no bytes, as a flexible array, so that it is on no line."""
        return self.is_sized and self.start == self.end

    def lines(self, line_bytes: int) -> Lines:
        """Return the first and the last line; of one without bytes where it would start."""
        last = self.end - 1 if self.end > self.start else self.start
        return self.start // line_bytes, last // line_bytes


def check_line_bytes(line_bytes: int) -> None:
    """Refuse invalid line sizes.

    :raises InputError: not a power of two from 16 to 4096
    """
    in_range = SMALLEST_LINE_BYTES <= line_bytes <= LARGEST_LINE_BYTES
    if not in_range or line_bytes.bit_count() != 1:
        raise InputError(
            f"invalid cache line size {line_bytes} "
            f"(expected a power of two from {SMALLEST_LINE_BYTES} to {LARGEST_LINE_BYTES})"
        )


def spans_of(
    entries: Sequence[Entry],
    kind: UnitKind,
    unit_bytes: int | None,
    sized: AbstractSet[str] | None = None,
) -> dict[str, Span]:
    """Return the bytes of every entry, by name.

    Variables never overlap, so one ends at the latest where the next one starts; fields of a struct
    overlap in a union.

    :param entries: by offset
    :param sized: entries whose size counts; None: of all
    """
    spans: dict[str, Span] = {}
    limit = unit_bytes
    following: int | None = None
    for entry in reversed(entries):
        if kind != "struct":
            if following is not None and following > entry.offset:
                limit = following
            following = entry.offset
        spans[entry.name] = _span(entry, limit, sized)
    return spans


def _span(entry: Entry, limit: int | None, sized: AbstractSet[str] | None) -> Span:
    if entry.bits is not None:
        first, count = entry.bits
        return Span(first // 8, (first + max(count, 1) - 1) // 8 + 1, is_sized=True)
    start = entry.offset
    if entry.size is None or (sized is not None and entry.name not in sized):
        return Span(start, start, is_sized=False)
    end = start + entry.size
    if limit is not None:
        end = max(start, min(end, limit))
    return Span(start, end, is_sized=True)


def sharing_pairs(
    spans: Mapping[str, Span],
    names: AbstractSet[str] | None,
    line_bytes: int,
    label: str,
    budget: PairBudget | None = None,
) -> set[frozenset[str]]:
    """Return the unordered pairs of these names that share at least one line.

    An entry known to have no bytes shares nothing.

    :param names: None: all
    :param budget: None: that of this call alone
    :raises InputError: more pairs than a unit of a kernel can have
    """
    rows = [
        (*span.lines(line_bytes), name)
        for name, span in spans.items()
        if (names is None or name in names) and not span.is_empty
    ]
    rows.sort()
    pairs: set[frozenset[str]] = set()
    budget = budget or PairBudget(MOST_PAIRS)
    open_rows: list[tuple[int, str]] = []
    for first, last, name in rows:
        if open_rows:
            open_rows = [row for row in open_rows if row[0] >= first]
            budget.spend(len(open_rows), label)
            pairs.update([frozenset((name, open_name)) for _, open_name in open_rows])
        open_rows.append((last, name))
    return pairs


class Spans(NamedTuple):
    """The bytes of every entry of both sides, as far as both know its size."""

    base: Mapping[str, Span]
    new: Mapping[str, Span]


def comparable_spans(matching: Matching, base: Unit, new: Unit) -> Spans:
    """Return the bytes that can be compared.

    A size that one side does not know would look like a change of coverage, so it counts on
    neither.
    """
    sized = sized_on_both(matching)
    return Spans(
        spans_of(matching.base, base.kind, base.size, sized),
        spans_of(matching.new, new.kind, new.size, sized),
    )


def compare_tenants(
    matching: Matching,
    spans: Spans,
    line_bytes: int,
    label: str,
    budget: PairBudget | None = None,
) -> tuple[CoTenancy, PairSet, PairSet]:
    """Compare which entries share lines of ``line_bytes`` bytes.

    :param label: names the unit in messages
    :param budget: of all units that share it; None: of each side of this one
    :return: the comparison, and its separated and joined pairs unordered
    :raises InputError: more pairs on common lines than a unit of a kernel can have
    """
    shown = None if matching.is_coverage_equal else matching.common
    base_pairs = sharing_pairs(spans.base, shown, line_bytes, label, budget)
    new_pairs = sharing_pairs(spans.new, shown, line_bytes, label, budget)
    separated = {pair for pair in base_pairs - new_pairs if pair <= matching.common}
    joined = {pair for pair in new_pairs - base_pairs if pair <= matching.common}
    names = [entry.name for entry in matching.base if entry.name in matching.common]
    left, slid_lines = _leavers(
        {name: spans.base[name].start // line_bytes for name in names},
        {name: spans.new[name].start // line_bytes for name in names},
    )
    # One that left with its tail still among its mates has moved away from nobody.
    movers = left & {name for pair in (*separated, *joined) for name in pair}
    shown_names = _changed_names(names, spans, base_pairs ^ new_pairs, line_bytes)
    base = _tenants(matching.base, spans.base, base_pairs, shown_names, line_bytes)
    new = _tenants(matching.new, spans.new, new_pairs, shown_names, line_bytes)
    cotenancy = CoTenancy(
        line_bytes=line_bytes,
        entries=tuple(
            _entry_change(name, base[name], new[name], spans, movers) for name in shown_names
        ),
        separated=_ordered_pairs(separated, spans.base),
        joined=_ordered_pairs(joined, spans.new),
        slid_lines=slid_lines,
    )
    return cotenancy, separated, joined


def _changed_names(
    names: Sequence[str], spans: Spans, changed: PairSet, line_bytes: int
) -> dict[str, None]:
    # Who has other mates, or straddles on one side alone; in the order of base.
    touched = {name for pair in changed for name in pair}
    return dict.fromkeys(
        name
        for name in names
        if name in touched
        or _straddles(spans.base[name], line_bytes) != _straddles(spans.new[name], line_bytes)
    )


def _straddles(span: Span, line_bytes: int) -> bool | None:
    if not span.is_sized:
        return None
    first, last = span.lines(line_bytes)
    return last != first and last - first + 1 > -(-(span.end - span.start) // line_bytes)


def sized_on_both(matching: Matching) -> set[str]:
    """Return who has a known size wherever it exists."""
    unsized = {entry.name for entry in (*matching.base, *matching.new) if entry.size is None}
    return {entry.name for entry in (*matching.base, *matching.new)} - unsized


class _Tenant(NamedTuple):
    # An entry on the lines of one side.
    offset: int
    mates: AbstractSet[str]
    straddles: bool | None


def _tenants(
    entries: Sequence[Entry],
    spans: Mapping[str, Span],
    pairs: PairSet,
    shown: Mapping[str, None],
    line_bytes: int,
) -> dict[str, _Tenant]:
    mates = _mates(pair for pair in pairs if not shown.keys().isdisjoint(pair))
    return {
        entry.name: _Tenant(
            entry.offset, mates[entry.name], _straddles(spans[entry.name], line_bytes)
        )
        for entry in entries
        if entry.name in shown
    }


def _entry_change(
    name: str, base: _Tenant, new: _Tenant, spans: Spans, left: AbstractSet[str]
) -> LayoutEntryChange:
    return LayoutEntryChange(
        name=name,
        base_offset=base.offset,
        new_offset=new.offset,
        lost=in_order(base.mates - new.mates, spans.base),
        gained=in_order(new.mates - base.mates, spans.new),
        has_left=name in left,
        straddles=BaseNew(base=base.straddles, new=new.straddles),
    )


def _mates(pairs: Iterable[frozenset[str]]) -> dict[str, set[str]]:
    mates: dict[str, set[str]] = defaultdict(set)
    for name, mate in pairs:
        mates[name].add(mate)
        mates[mate].add(name)
    return mates


def in_order(names: Iterable[str], spans: Mapping[str, Span]) -> tuple[str, ...]:
    """Return names by where they start."""
    return tuple(sorted(names, key=lambda name: (spans[name].start, name)))


def _ordered_pairs(pairs: PairSet, spans: Mapping[str, Span]) -> tuple[Pair, ...]:
    ordered = [(first, second) for first, second in (in_order(pair, spans) for pair in pairs)]
    return tuple(sorted(ordered, key=lambda pair: [(spans[name].start, name) for name in pair]))


def _leavers(base: Mapping[str, int], new: Mapping[str, int]) -> tuple[set[str], int]:
    # Return who left its line, and how many lines slid; both maps are name to line.
    # A line of base continues as the line of new where most of its entries start, and vice versa.
    # Who is not where its line continues has left it; so of two lines that became one, the
    # smaller left, and a line of which everybody arrived has slid or stayed.
    ahead = _majority((base[name], new[name]) for name in base)
    back = _majority((new[name], base[name]) for name in base)
    left = {
        name for name in base if ahead[base[name]] != new[name] or back[new[name]] != base[name]
    }
    kept = set(base.values()) - {base[name] for name in left}
    return left, sum(ahead[line] != line for line in kept)


def _majority(steps: Iterable[tuple[int, int]]) -> dict[int, int]:
    # Where most of each line went; of equals, the place that is nearest to it, then the lower.
    votes: dict[int, Counter[int]] = defaultdict(Counter)
    for line, target in steps:
        votes[line][target] += 1
    return {
        line: next(iter(count))
        if len(count) == 1
        else max(count, key=lambda target: (count[target], -abs(target - line), -target))
        for line, count in votes.items()
    }


class UnitChange(Struct, frozen=True, kw_only=True):
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
        """Whether all entries share lines with the same others, and none came, went or grew."""
        gone = self.added or self.removed or self.renamed or self.resized
        return not (self.lines.entries or gone)
