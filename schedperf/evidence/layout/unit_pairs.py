# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare one unit of two kernels, rank the changes and build the record."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property

from schedperf.evidence.layout.causes import explain
from schedperf.evidence.layout.cotenancy import (
    CoTenancy,
    PairBudget,
    Spans,
    UnitChange,
    check_line_bytes,
    comparable_spans,
    compare_tenants,
    sized_on_both,
)
from schedperf.evidence.layout.matching import Matching, match_entries, sees_all
from schedperf.evidence.layout.model import Entry, Unit, describe_unsized
from schedperf.evidence.layout.ranking import Ranking, rank_change, row_of_pair
from schedperf.evidence.layout.record import (
    LayoutAdjacent,
    LayoutEntryChange,
    LayoutNoise,
    LayoutPairRow,
    LayoutTenant,
    LayoutUnit,
    LayoutUnitCounts,
    Pair,
)
from schedperf.evidence.layout.sheets import Sheet
from schedperf.model.base_new import BaseNew


def compare_units(
    base: Unit, new: Unit, line_bytes: int, budget: PairBudget | None = None
) -> UnitChange:
    """Compare two layouts for a cache line size of ``line_bytes``.

    :param budget: budget of pairs that several units share; None for a separate one
    :raises InputError: the line size is invalid, or a unit exceeds the limits
    """
    check_line_bytes(line_bytes)
    matching = match_entries(base, new)
    spans = comparable_spans(matching, base, new)
    lines, separated, joined = compare_tenants(matching, spans, line_bytes, base.name, budget)
    line_pairs, _, _ = compare_tenants(matching, spans, 2 * line_bytes, base.name, budget)
    return UnitChange(
        name=base.name,
        kind=base.kind,
        entries_base=len(base.entries),
        entries_new=len(new.entries),
        common=len(matching.common),
        unsized=tuple(sorted(matching.common - sized_on_both(matching))),
        added=matching.added,
        removed=matching.removed,
        renamed=matching.renamed,
        resized=matching.resized,
        is_coverage_equal=matching.is_coverage_equal,
        lines=lines,
        line_pairs=line_pairs,
        causes=explain(matching, base, new, (separated, joined), line_bytes),
        are_lines_certain=_are_lines_certain(base, new, line_bytes),
        noise={
            what: (base.noise.get(what, 0), new.noise.get(what, 0))
            for what in sorted(base.noise.keys() | new.noise.keys())
        },
        notes=tuple(dict.fromkeys((*base.notes, *new.notes))),
    )


def _are_lines_certain(base: Unit, new: Unit, line_bytes: int) -> bool | None:
    # The lines of a struct are unknown if it may start anywhere in a line.
    if base.alignment is None or new.alignment is None:
        return None
    return base.alignment % line_bytes == 0 and new.alignment % line_bytes == 0


@dataclass(frozen=True, kw_only=True)
class UnitPair:
    """One unit of base and of new.

    :param units: the unit of base, and the unit of new
    :param change: the differences
    :param ranking: the alarms
    :param prefix: prefix of the ids of its pairs: "" or "new2/"
    """

    units: tuple[Unit, Unit]
    change: UnitChange
    ranking: Ranking
    prefix: str

    @property
    def name(self) -> str:
        """Name of the unit."""
        return self.change.name

    @cached_property
    def matching(self) -> Matching:
        """The matching of the entries of both sides."""
        return match_entries(*self.units)

    @cached_property
    def spans(self) -> Spans:
        """The bytes of every entry, by name in base."""
        return comparable_spans(self.matching, *self.units)

    @cached_property
    def sheets(self) -> tuple[Sheet, Sheet]:
        """The unit of base and of new with their lines; entries have the names of their side."""
        line_bytes = self.change.lines.line_bytes
        return Sheet(self.units[0], line_bytes), Sheet(self.units[1], line_bytes)

    @cached_property
    def new_names(self) -> Mapping[str, str]:
        """Names in new, by name in base, of the entries whose names differ."""
        own = self.sheets[1].entries
        return {
            called.name: entry.name
            for entry, called in zip(own, self.matching.new, strict=True)
            if entry.name != called.name
        }


def compare_pair(
    base: Unit,
    new: Unit,
    line_bytes: int,
    hitm: Mapping[str, int] | None,
    prefix: str,
    *,
    budget: PairBudget | None = None,
) -> UnitPair:
    """Compare and rank one unit.

    :param hitm: number of contended memory samples of new, by entry; None if not sampled
    :param prefix: prefix of the ids of alarms and pairs: "" or "new2/"
    :param budget: budget of pairs that several units share; None for a separate one
    :raises InputError: the line size is invalid, or a unit exceeds the limits
    """
    if _is_equal(base, new):
        # Shortcut for equal units: two builds of one source share most units, and comparing the
        # globals takes a second.
        change = _unchanged(base, new, line_bytes)
        ranking = Ranking(
            unit=base.name, alarms=(), regained=(), only_read=(), unknown_heat=(), quiet=()
        )
    else:
        change = compare_units(base, new, line_bytes, budget)
        ranking = rank_change(change, base, new, hitm=hitm, prefix=prefix)
    return UnitPair(units=(base, new), change=change, ranking=ranking, prefix=prefix)


def _is_equal(base: Unit, new: Unit) -> bool:
    # True if neither entries nor sources differ.
    base_facts, new_facts = (
        (unit.kind, unit.size, unit.alignment, unit.groups, unit.sources, unit.entries)
        for unit in (base, new)
    )
    return base_facts == new_facts


def _unchanged(base: Unit, new: Unit, line_bytes: int) -> UnitChange:
    alignment = base.alignment
    return UnitChange(
        name=base.name,
        kind=base.kind,
        entries_base=len(base.entries),
        entries_new=len(new.entries),
        common=len(base.entries),
        unsized=tuple(sorted(entry.name for entry in base.entries if entry.size is None)),
        added=(),
        removed=(),
        renamed=(),
        resized=(),
        is_coverage_equal=True,
        lines=_nothing(line_bytes),
        line_pairs=_nothing(2 * line_bytes),
        causes=(),
        are_lines_certain=None if alignment is None else alignment % line_bytes == 0,
        noise={
            what: (base.noise.get(what, 0), new.noise.get(what, 0))
            for what in sorted(base.noise.keys() | new.noise.keys())
        },
        notes=tuple(dict.fromkeys((*base.notes, *new.notes))),
    )


def _nothing(line_bytes: int) -> CoTenancy:
    return CoTenancy(line_bytes=line_bytes, entries=(), separated=(), joined=(), slid_lines=0)


def unit_record(pair: UnitPair) -> LayoutUnit:
    """Return the record of one unit's changes."""
    change, ranking, (base, new) = pair.change, pair.ranking, pair.units
    hot = {frozenset(two) for alarm in ranking.alarms for two in alarm.pairs}
    return LayoutUnit(
        unit=change.name,
        kind=change.kind,
        is_unchanged=change.is_unchanged,
        sources=BaseNew(base=base.sources, new=new.sources),
        bytes=BaseNew(base=base.size, new=new.size),
        alignment=BaseNew(base=base.alignment, new=new.alignment),
        is_alignment_inferred=base.is_alignment_inferred or new.is_alignment_inferred,
        are_lines_certain=change.are_lines_certain,
        counts=_counts(change, ranking),
        separated=tuple(_pair_rows(pair, change.lines.separated, hot)),
        joined=tuple(_pair_rows(pair, change.lines.joined, hot)),
        entries=tuple(sorted(change.lines.entries, key=lambda entry: not entry.has_left)),
        added=_tenants(change.added),
        removed=_tenants(change.removed),
        renamed=change.renamed,
        resized=change.resized,
        only_read=ranking.only_read,
        causes=change.causes,
        unknown_heat=ranking.unknown_heat,
        quiet=ranking.quiet,
        adjacent=_adjacent(change),
        coverage_equal=change.is_coverage_equal,
        noise=tuple(
            LayoutNoise(what=what, base=counts[0], new=counts[1])
            for what, counts in change.noise.items()
        ),
        notes=(*change.notes, *_coverage_notes(change, base, new)),
    )


def _counts(change: UnitChange, ranking: Ranking) -> LayoutUnitCounts:
    lines = change.lines
    return LayoutUnitCounts(
        entries_base=change.entries_base,
        entries_new=change.entries_new,
        common=change.common,
        unsized=len(change.unsized),
        added=len(change.added),
        removed=len(change.removed),
        renamed=len(change.renamed),
        resized=len(change.resized),
        moved=len(lines.moved),
        mates_changed=lines.mates_changed,
        separated=len(lines.separated),
        joined=len(lines.joined),
        slid_lines=lines.slid_lines,
        straddles_begun=_straddlers(lines.entries, is_new=True),
        straddles_ended=_straddlers(lines.entries, is_new=False),
        alarms=len(ranking.alarms),
        unknown_heat=len(ranking.unknown_heat),
        quiet=len(ranking.quiet),
    )


def _straddlers(entries: Iterable[LayoutEntryChange], *, is_new: bool) -> int:
    return sum(tuple(entry.straddles) == (not is_new, is_new) for entry in entries)


def _pair_rows(
    pair: UnitPair, changed: Sequence[Pair], hot: AbstractSet[frozenset[str]]
) -> Iterator[LayoutPairRow]:
    base, new = pair.spans
    for a, b in sorted(changed, key=lambda two: frozenset(two) not in hot):
        yield LayoutPairRow(
            row=row_of_pair(pair.prefix, pair.name, (a, b)),
            a=a,
            b=b,
            a_base_offset=base[a].start,
            b_base_offset=base[b].start,
            a_new_offset=new[a].start,
            b_new_offset=new[b].start,
            is_alarm=frozenset((a, b)) in hot,
        )


def _tenants(entries: Sequence[Entry]) -> tuple[LayoutTenant, ...]:
    return tuple(
        LayoutTenant(name=entry.name, offset=entry.offset, size=entry.size) for entry in entries
    )


def _adjacent(change: UnitChange) -> LayoutAdjacent | None:
    # Changes for pairs of adjacent lines (prefetchers), if they differ.
    lines, wide = change.lines, change.line_pairs
    parted = {frozenset(pair) for pair in wide.separated}
    joined = {frozenset(pair) for pair in wide.joined}
    is_same = parted == {frozenset(pair) for pair in lines.separated}
    if is_same and joined == {frozenset(pair) for pair in lines.joined}:
        return None
    together = tuple(pair for pair in lines.separated if frozenset(pair) not in parted)
    return LayoutAdjacent(
        line_bytes=wide.line_bytes,
        separated=len(wide.separated),
        joined=len(wide.joined),
        still_together=together,
        parted=wide.separated,
    )


def _coverage_notes(change: UnitChange, base: Unit, new: Unit) -> Iterator[str]:
    if not change.is_coverage_equal:
        names = [", ".join(unit.sources[:1]) for unit in (base, new)]
        partial = "new" if sees_all(base) else "base"
        yield (
            f"names come from {names[0]} in base and from {names[1]} in new, so only the "
            f"{change.common} common names are compared; the list of names of {partial} is "
            "incomplete, so additions and removals are unknown"
        )
    if change.unsized:
        yield (
            f"{describe_unsized(change.unsized)} in base or new, so size changes and straddled "
            "lines are not detected"
        )
