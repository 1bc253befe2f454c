# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare which entries share a cache line in base and in new.

Offsets are not sufficient: other variables can leave the line of a variable that keeps its offset,
and variables that move can stay on one line. So two layouts are compared by the pairs that share a
line.

Entries have their names in base; :attr:`UnitChange.renamed` lists those with another name in new.
Entries of new alone have their names in new.
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
from schedperf.model.base_new import BaseNew
from schedperf.model.errors import InputError

# Limit on pairs on common lines in one unit: the per-CPU section of a real kernel has less than
# 1,000, its globals 40,000, and task_struct 2,000.
MOST_PAIRS = 500_000
# The same for all compared structs, both sides and both line lengths; fields of unions overlap, so
# a file of 15 kB could have millions of pairs. Structs of the scheduler have 40,000.
MOST_STRUCT_PAIRS = 200_000


@dataclass(slots=True)
class PairBudget:
    """Remaining number of pairs on common lines that may be built.

    :param most: initial number, for the message
    """

    most: int
    left: int = field(init=False)

    def __post_init__(self) -> None:
        """Set the remaining number."""
        self.left = self.most

    def spend(self, pairs: int, label: str) -> None:
        """Subtract pairs.

        :param label: names the unit in messages
        :raises InputError: the budget is exhausted
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
    """Changed pairs for one line size.

    :param line_bytes: length of a line
    :param entries: entries with other neighbours on their lines, or other straddling, by base
        offset
    :param separated: pairs that share a line in base and none in new, by base offset
    :param joined: pairs that share a line in new and none in base, by new offset
    :param slid_lines: number of lines of base that kept their entries but moved within the unit
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
        """Number of common entries that share a line with other common entries than before."""
        return len({name for pair in (*self.separated, *self.joined) for name in pair})


class Span(NamedTuple):
    """The bytes of one entry, as offsets in its unit.

    :param start: first byte
    :param end: byte after the last one; equal to ``start`` if the size is unknown or 0
    :param is_sized: whether the size is known
    """

    start: int
    end: int
    is_sized: bool

    @property
    def is_empty(self) -> bool:
        """Whether the entry is known to have no bytes, e.g. a flexible array, so it has no line."""
        return self.is_sized and self.start == self.end

    def lines(self, line_bytes: int) -> Lines:
        """Return the first and the last line; without bytes, the line of the offset."""
        last = self.end - 1 if self.end > self.start else self.start
        return self.start // line_bytes, last // line_bytes


def check_line_bytes(line_bytes: int) -> None:
    """Refuse invalid line sizes.

    :raises InputError: the size is not a power of two from 16 to 4096
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

    Variables never overlap, so each ends at the start of the next one at the latest; fields of a
    struct may overlap in a union.

    :param entries: by offset
    :param unit_bytes: size of the unit, beyond which no entry extends; None if unknown
    :param sized: entries whose size is used; None for all
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

    An entry that is known to have no bytes shares no line.

    :param names: None for all entries
    :param label: names the unit in messages
    :param budget: None for a separate budget of this call
    :raises InputError: more pairs than the budget has left
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
    """The bytes of every entry of both sides; sizes are used only if both sides have them."""

    base: Mapping[str, Span]
    new: Mapping[str, Span]


def comparable_spans(matching: Matching, base: Unit, new: Unit) -> Spans:
    """Return the bytes that can be compared.

    A size that is unknown on one side would look like a change, so it is ignored on both.
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
    :param budget: budget that several units share; None for a separate one per side
    :return: the comparison, its separated pairs, and its joined pairs, both unordered
    :raises InputError: more pairs on common lines than the budget has left
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
    # An entry that still shares a line with all of its mates was not separated.
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
    # Entries that share lines with other entries than before, or straddle on one side only; in the
    # order of base.
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
    """Return the entries whose size is known on every side that has them."""
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
    """Return names by start offset."""
    return tuple(sorted(names, key=lambda name: (spans[name].start, name)))


def _ordered_pairs(pairs: PairSet, spans: Mapping[str, Span]) -> tuple[Pair, ...]:
    ordered = [(first, second) for first, second in (in_order(pair, spans) for pair in pairs)]
    return tuple(sorted(ordered, key=lambda pair: [(spans[name].start, name) for name in pair]))


def _leavers(base: Mapping[str, int], new: Mapping[str, int]) -> tuple[set[str], int]:
    # Return the entries that left their line, and the number of lines that moved; both maps are
    # from name to line. A line of base corresponds to the line of new where most of its entries
    # start, and vice versa. Entries that are not on the corresponding line have left. So if two
    # lines merge, the entries of the smaller one left; a line whose entries all arrived was moved
    # or stayed.
    ahead = _majority((base[name], new[name]) for name in base)
    back = _majority((new[name], base[name]) for name in base)
    left = {
        name for name in base if ahead[base[name]] != new[name] or back[new[name]] != base[name]
    }
    kept = set(base.values()) - {base[name] for name in left}
    return left, sum(ahead[line] != line for line in kept)


def _majority(steps: Iterable[tuple[int, int]]) -> dict[int, int]:
    # The line to which most entries of each line moved; for ties the nearest line, then the lower
    # one.
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
    """The differences of one unit between two kernels.

    :param entries_base: number of entries in base
    :param common: number of entries that both have, under the same name or renamed
    :param unsized: names of common entries whose size is unknown on a side, so that straddling and
        resizing are unknown
    :param added: entries that only new has, by offset; empty unless ``is_coverage_equal``
    :param removed: entries that only base has, by offset; empty unless ``is_coverage_equal``
    :param is_coverage_equal: True if the sources of both sides contain the same kinds of entries;
        BTF alone lacks some variables, so entries of one side alone would be meaningless
    :param lines: changes for single cache lines
    :param line_pairs: changes for pairs of lines, as fetched by adjacent-line prefetchers
    :param causes: causes of the changes in ``lines``, the one that explains most pairs first
    :param are_lines_certain: True if the unit starts at a multiple of the line size on both sides;
        False if it may not, so that line boundaries may differ; None if unknown
    :param noise: number of entries that were left out in base and in new, by kind
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
        """Whether all entries share lines with the same others and straddle lines as before.

        False if an entry was added, removed, renamed or resized. Entries may have moved.
        """
        gone = self.added or self.removed or self.renamed or self.resized
        return not (self.lines.entries or gone)
