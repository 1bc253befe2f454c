"""Changes, causes and alarms as plain data: what JSON holds and reports read."""

from collections.abc import Iterable, Mapping, Sequence

from schedperf.evidence.layout.changes import Cause, Edit, EntryChange, Pair, UnitChange
from schedperf.evidence.layout.cotenancy import Span, Spans
from schedperf.evidence.layout.heat import Use, heat_table
from schedperf.evidence.layout.matching import sees_all
from schedperf.evidence.layout.model import Entry, Unit, say_unsized
from schedperf.evidence.layout.ranking import GRADES, RULES, Alarm, Ranking

Plain = dict[str, object]

# How many of each list the data holds; two unrelated kernels differ in thousands of pairs, and
# "counts" has the totals.
MOST_LISTED = 100
# Line mates that one entry lists on each side: a full 64-byte line of pointers, twice.
MOST_MATES = 16
# Rules about entries that part or meet: their evidence is the row of the pair itself.
PAIR_RULES = ("separated", "joined")
# Entries that the name of an alarm's row spells out.
MOST_IN_ROW = 2


def row_of_pair(prefix: str, unit: str, pair: Pair) -> str:
    """Return the id of a pair: ``percpu/root_cpuacct_cpuusage+sd_llc_id``."""
    return f"{prefix}{unit}/{pair[0]}+{pair[1]}"


def rank_of(alarm: Alarm) -> tuple[int, int, int]:
    """Return by what alarms of several units are ordered: best evidence first."""
    return GRADES.index(alarm.grade), RULES.index(alarm.rule), -(alarm.hitm or 0)


def rows_of_alarms(prefix: str, alarms: Iterable[Alarm]) -> list[str]:
    """Return the id of each alarm; of a separated or joined pair it is that of the pair."""
    rows: dict[str, None] = {}
    for alarm in alarms:
        if alarm.rule in PAIR_RULES and alarm.pairs:
            row = row_of_pair(prefix, alarm.unit, alarm.pairs[0])
        else:
            names = "+".join(alarm.entries[:MOST_IN_ROW])
            row = f"{prefix}{alarm.unit}/{alarm.rule}/{names}"
        name, number = row, 1
        while name in rows:
            number += 1
            name = f"{row}#{number}"
        rows[name] = None
    return list(rows)


def pairs_plain(pairs: Iterable[Pair]) -> list[list[str]]:
    """Return pairs as lists, the first ones only."""
    return [list(pair) for pair in tuple(pairs)[:MOST_LISTED]]


def cause_plain(cause: Cause) -> Plain:
    """Return one cause."""
    shift = cause.shift
    return {
        "text": describe_cause(cause),
        "kind": cause.kind,
        "entry": cause.entry,
        "edits": [_edit_plain(edit) for edit in cause.edits[:MOST_LISTED]],
        "shift": None
        if shift is None
        else {
            "entries": shift.entries,
            "first": shift.first,
            "last": shift.last,
            "smallest": shift.smallest,
            "largest": shift.largest,
            "slide": shift.slide,
        },
        "is_sufficient": cause.is_sufficient,
        "together_with": list(cause.together_with[:MOST_LISTED]),
        "alternatives": list(cause.alternatives[:MOST_LISTED]),
        "counts": {"separated": len(cause.separated), "joined": len(cause.joined)},
        "separated": pairs_plain(cause.separated),
        "joined": pairs_plain(cause.joined),
        "by_entry_alone": pairs_plain(cause.by_entry_alone),
    }


def describe_cause(cause: Cause) -> str:
    """Return a cause in words: ``sd_cluster (inserted, 8 bytes)``."""
    if not cause.edits:
        return "not known: the differences are too many to be told apart"
    edit = cause.edits[0]
    words = f"{edit.entry} ({_describe_edit(edit)})"
    more = len(cause.edits) - 1
    return f"{words} and {more} more {'edit' if more == 1 else 'edits'}" if more else words


def _describe_edit(edit: Edit) -> str:
    company = _with_others(edit)
    if edit.kind in {"inserted", "removed"}:
        size = edit.new_bytes if edit.kind == "inserted" else edit.base_bytes
        if size is None:
            return edit.kind + company
        total = " in all" if company else ""
        return f"{edit.kind}{company}, {'at most ' if edit.is_at_most else ''}{size} bytes{total}"
    change = f"from {edit.base_bytes} to {edit.new_bytes} bytes"
    if edit.kind == "resized":
        return f"resized {change}"
    if edit.kind == "realigned":
        return f"alignment changed {change}"
    if edit.kind == "reordered":
        return f"declared elsewhere{company}"
    return f"nothing that the sources show; the gap in front of it went {change}"


def _with_others(edit: Edit) -> str:
    others = [name for name in edit.entries if name != edit.entry]
    if not others:
        return ""
    return f" with {others[0]}" if len(others) == 1 else f" with {len(others)} more"


def _edit_plain(edit: Edit) -> Plain:
    return {
        "kind": edit.kind,
        "entry": edit.entry,
        "entries": list(edit.entries[:MOST_LISTED]),
        "base_bytes": edit.base_bytes,
        "new_bytes": edit.new_bytes,
        "is_at_most": edit.is_at_most,
    }


def use_plain(name: str, use: Use | None) -> Plain:
    """Return who touches an entry; with None for ``use`` its heat is unknown."""
    return {
        "name": name,
        "paths": [] if use is None else list(use.paths),
        "written": None if use is None else use.written,
        "read": None if use is None else use.read,
        "functions": [] if use is None else list(use.functions),
    }


def uses_plain(unit: str, names: Iterable[str]) -> list[Plain]:
    """Return who touches these entries of a unit, those of known heat only."""
    table = heat_table()
    found = ((name, table.find(unit, name)) for name in names)
    return [use_plain(name, use) for name, use in found if use is not None]


def alarm_plain(alarm: Alarm, row: str, spans: Spans, change: UnitChange) -> Plain:
    """Return one alarm.

    :param row: its id
    :param spans: the bytes of every entry of its unit, as base calls them
    """
    return {
        "row": row,
        "rule": alarm.rule,
        "grade": alarm.grade,
        "unit": alarm.unit,
        "line_bytes": alarm.line_bytes,
        "pairs": pairs_plain(alarm.pairs),
        "entries": [
            {
                "name": name,
                "base_offset": _start(spans.base, name),
                "new_offset": _start(spans.new, name),
            }
            for name in alarm.entries[:MOST_LISTED]
        ],
        "boundary": alarm.boundary,
        "adjacent": _are_adjacent(alarm, change),
        "functions": list(alarm.functions),
        "paths": list(alarm.paths),
        "claim": alarm.claim,
        "cause": None if alarm.cause is None else cause_plain(alarm.cause),
        "causes": len(alarm.causes),
        "effect": alarm.effect,
        "reference": alarm.reference,
        "hitm": alarm.hitm,
        "limits": list(alarm.limits),
    }


def _start(spans: Mapping[str, Span], name: str) -> int | None:
    span = spans.get(name)
    return None if span is None else span.start


def _are_adjacent(alarm: Alarm, change: UnitChange) -> bool | None:
    # Whether a prefetcher that fetches lines in pairs still brings both.
    if alarm.rule != "separated" or not alarm.pairs:
        return None
    parted = {frozenset(pair) for pair in change.line_pairs.separated}
    return frozenset(alarm.pairs[0]) not in parted


def unit_plain(
    change: UnitChange, units: tuple[Unit, Unit], ranking: Ranking, spans: Spans, prefix: str
) -> Plain:
    """Return how one unit changed.

    :param units: base and new
    :param prefix: of the ids of its pairs
    """
    base, new = units
    hot = {frozenset(pair) for alarm in ranking.alarms for pair in alarm.pairs}
    return {
        "unit": change.name,
        "kind": change.kind,
        "is_unchanged": change.is_unchanged,
        "sources": {"base": list(base.sources), "new": list(new.sources)},
        "bytes": {"base": base.size, "new": new.size},
        "alignment": {"base": base.alignment, "new": new.alignment},
        "is_alignment_inferred": base.is_alignment_inferred or new.is_alignment_inferred,
        "are_lines_certain": change.are_lines_certain,
        "counts": _counts(change, ranking),
        "separated": _pair_rows(change.name, change.lines.separated, spans, prefix, hot),
        "joined": _pair_rows(change.name, change.lines.joined, spans, prefix, hot),
        "entries": _entries_plain(change.lines.entries),
        "added": _tenants(change.added),
        "removed": _tenants(change.removed),
        **_identities(change),
        "causes": [cause_plain(cause) for cause in change.causes[:MOST_LISTED]],
        "unknown_heat": list(ranking.unknown_heat[:MOST_LISTED]),
        "quiet": list(ranking.quiet[:MOST_LISTED]),
        "adjacent": _adjacent(change),
        "coverage_equal": change.is_coverage_equal,
        "noise": [
            {"what": what, "base": counts[0], "new": counts[1]}
            for what, counts in change.noise.items()
        ],
        "notes": [*change.notes, *_coverage_notes(change, base, new)],
    }


def _counts(change: UnitChange, ranking: Ranking) -> Plain:
    lines = change.lines
    return {
        "entries_base": change.entries_base,
        "entries_new": change.entries_new,
        "common": change.common,
        "unsized": len(change.unsized),
        "added": len(change.added),
        "removed": len(change.removed),
        "renamed": len(change.renamed),
        "resized": len(change.resized),
        "moved": len(lines.moved),
        "mates_changed": lines.mates_changed,
        "separated": len(lines.separated),
        "joined": len(lines.joined),
        "slid_lines": lines.slid_lines,
        "straddles_begun": _straddlers(lines.entries, is_new=True),
        "straddles_ended": _straddlers(lines.entries, is_new=False),
        "alarms": len(ranking.alarms),
        "unknown_heat": len(ranking.unknown_heat),
        "quiet": len(ranking.quiet),
    }


def _straddlers(entries: Iterable[EntryChange], *, is_new: bool) -> int:
    return sum(
        (entry.base.straddles, entry.new.straddles) == (not is_new, is_new) for entry in entries
    )


def _pair_rows(
    unit: str,
    pairs: Sequence[Pair],
    spans: Spans,
    prefix: str,
    hot: set[frozenset[str]],
) -> list[Plain]:
    ranked = sorted(pairs, key=lambda pair: frozenset(pair) not in hot)
    return [
        {
            "row": row_of_pair(prefix, unit, pair),
            "a": pair[0],
            "b": pair[1],
            "a_base_offset": spans.base[pair[0]].start,
            "b_base_offset": spans.base[pair[1]].start,
            "a_new_offset": spans.new[pair[0]].start,
            "b_new_offset": spans.new[pair[1]].start,
            "is_alarm": frozenset(pair) in hot,
        }
        for pair in ranked[:MOST_LISTED]
    ]


def _entries_plain(entries: Sequence[EntryChange]) -> list[Plain]:
    ranked = sorted(entries, key=lambda entry: not entry.has_left)
    return [
        {
            "name": entry.name,
            "base_offset": entry.base.offset,
            "new_offset": entry.new.offset,
            "keeps_offset": entry.keeps_offset,
            "has_left": entry.has_left,
            "lost": list(entry.lost[:MOST_MATES]),
            "gained": list(entry.gained[:MOST_MATES]),
            "straddles": {"base": entry.base.straddles, "new": entry.new.straddles},
        }
        for entry in ranked[:MOST_LISTED]
    ]


def _tenants(entries: Sequence[Entry]) -> list[Plain]:
    return [
        {"name": entry.name, "offset": entry.offset, "size": entry.size}
        for entry in entries[:MOST_LISTED]
    ]


def _identities(change: UnitChange) -> Plain:
    return {
        "renamed": [
            {"base_name": one.base_name, "new_name": one.new_name, "commit": one.commit}
            for one in change.renamed[:MOST_LISTED]
        ],
        "resized": [
            {"name": one.name, "base_bytes": one.base_size, "new_bytes": one.new_size}
            for one in change.resized[:MOST_LISTED]
        ],
    }


def _adjacent(change: UnitChange) -> Plain | None:
    # What prefetchers of adjacent lines see, where that is something else.
    lines, wide = change.lines, change.line_pairs
    parted = {frozenset(pair) for pair in wide.separated}
    joined = {frozenset(pair) for pair in wide.joined}
    is_same = parted == {frozenset(pair) for pair in lines.separated}
    if is_same and joined == {frozenset(pair) for pair in lines.joined}:
        return None
    together = [pair for pair in lines.separated if frozenset(pair) not in parted]
    return {
        "line_bytes": wide.line_bytes,
        "separated": len(wide.separated),
        "joined": len(wide.joined),
        "still_together": pairs_plain(together),
        "parted": pairs_plain(wide.separated),
    }


def _coverage_notes(change: UnitChange, base: Unit, new: Unit) -> Iterable[str]:
    if not change.is_coverage_equal:
        names = [", ".join(unit.sources[:1]) for unit in (base, new)]
        seen = "new" if sees_all(base) else "base"
        yield (
            f"base's names come from {names[0]} and new's from {names[1]}, so only the "
            f"{change.common} names that both have are compared, and none is added or removed; "
            f"what {seen} lacks is unknown there"
        )
    if change.unsized:
        they = "they straddle" if change.unsized[1:] else "it straddles"
        yield (
            f"{say_unsized(change.unsized)} on a side, and so is whether {they} a line or changed "
            "in size"
        )
