# SPDX-License-Identifier: GPL-2.0-or-later
"""Rank layout changes by the evidence that they matter.

::

    ranking = rank_change(compare_units(base, new, 64), base, new)
    [(alarm.rule, alarm.grade, alarm.pairs) for alarm in ranking.alarms]

A rule raises an alarm if, by the table of hot variables, by memory samples or by the kernel's
cacheline groups, a change may affect performance. Alarms do not predict the cost: the same
separation cost 27% on one CPU and nothing on two others. Entries that moved and are in none of
these have an unknown access frequency and raise no alarm. Neither do separated entries that no code
writes at run time.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import get_args

from msgspec import Struct
from msgspec.structs import replace

from schedperf.evidence.layout.alarms import Facts, Found, find_all, find_only_read
from schedperf.evidence.layout.cotenancy import UnitChange
from schedperf.evidence.layout.heat import HeatTable, heat_table
from schedperf.evidence.layout.model import Unit, describe_unsized
from schedperf.evidence.layout.record import (
    Grade,
    LayoutAlarm,
    LayoutAlarmEntry,
    LayoutCause,
    LayoutRegained,
    Pair,
    Rule,
)

# Best evidence first.
GRADES: tuple[Grade, ...] = get_args(Grade)
RULES: tuple[Rule, ...] = get_args(Rule)
# Rules about separated or joined entries: their evidence is the row of the pair.
PAIR_RULES: tuple[Rule, ...] = ("separated", "joined")
# Largest number of entries in the name of an alarm's row.
MOST_IN_ROW = 2

NO_CLAIM = (
    "the effect of the layout on this CPU is unknown: caches and prefetchers differ between "
    "CPU models, and a layout change can affect some models but not others"
)


class Ranking(Struct, frozen=True, kw_only=True):
    """The ranked changes of one unit.

    :param alarms: best evidence first
    :param regained: sets that share a line again or occupy fewer lines in new
    :param only_read: separated pairs that are used together, but not written at run time
    :param unknown_heat: entries that moved or were added and are not in the table
    :param quiet: entries that moved or were added, are in the table, and are in no alarm
    """

    unit: str
    alarms: tuple[LayoutAlarm, ...]
    regained: tuple[LayoutRegained, ...]
    only_read: tuple[Pair, ...]
    unknown_heat: tuple[str, ...]
    quiet: tuple[str, ...]


def rank_change(
    change: UnitChange,
    base: Unit,
    new: Unit,
    *,
    table: HeatTable | None = None,
    hitm: Mapping[str, int] | None = None,
    prefix: str = "",
) -> Ranking:
    """Rank the changes of a unit.

    :param table: table of hot variables; None for the one of this package
    :param prefix: prefix of the ids of alarms: "" or "new2/"
    :param hitm: number of contended memory samples of new, by entry name in new; they take
        precedence over the table. None if not sampled
    """
    facts = Facts(change, base, new, table or heat_table(), hitm)
    raised = find_all(facts)
    alarms = sorted((_alarm(facts, each) for each in raised), key=_rank)
    touched = _touched(change)
    alarmed = {name for alarm in alarms for name in alarm.names}
    return Ranking(
        unit=change.name,
        alarms=tuple(with_rows(alarms, prefix)),
        regained=tuple(
            LayoutRegained(
                unit=change.name, names=names, effect=group.effect, reference=group.reference
            )
            for group, names in facts.regained()
        ),
        only_read=find_only_read(facts, raised),
        unknown_heat=tuple(name for name in touched if facts.use(name) is None),
        quiet=tuple(name for name in touched if facts.use(name) and name not in alarmed),
    )


def _touched(change: UnitChange) -> tuple[str, ...]:
    names = [entry.name for entry in change.lines.moved]
    return tuple(dict.fromkeys([*names, *(entry.name for entry in change.added)]))


def row_of_pair(prefix: str, unit: str, pair: Pair) -> str:
    """Return the id of a pair: ``percpu/root_cpuacct_cpuusage+sd_llc_id``."""
    return f"{prefix}{unit}/{pair[0]}+{pair[1]}"


def with_rows(alarms: Iterable[LayoutAlarm], prefix: str) -> Iterator[LayoutAlarm]:
    """Yield the alarms of a unit with their ids.

    An alarm about separated or joined pairs has the id of its first pair. Further alarms with an
    equal id get a number: "#2".
    """
    taken = set[str]()
    for alarm in alarms:
        if alarm.rule in PAIR_RULES and alarm.pairs:
            row = row_of_pair(prefix, alarm.unit, alarm.pairs[0])
        else:
            row = f"{prefix}{alarm.unit}/{alarm.rule}/{'+'.join(alarm.names[:MOST_IN_ROW])}"
        name, number = row, 1
        while name in taken:
            number += 1
            name = f"{row}#{number}"
        taken.add(name)
        yield replace(alarm, row=name)


def rank_of(alarm: LayoutAlarm) -> tuple[int, int, int]:
    """Return the sort key for alarms of several units: by grade, rule and number of samples.

    The best evidence comes first.
    """
    return GRADES.index(alarm.grade), RULES.index(alarm.rule), -(alarm.hitm or 0)


def _rank(alarm: LayoutAlarm) -> tuple[int, int, int, int]:
    # At equal grade, a measurement of a single pair is better evidence than one of a set.
    return *rank_of(alarm), -len(alarm.pairs)


def _alarm(facts: Facts, raised: Found) -> LayoutAlarm:
    uses = [use for name in raised.entries if (use := facts.use(name))]
    common = set.intersection(*(set(use.paths) for use in uses)) if uses else set()
    paths = sorted(common or {path for use in uses for path in use.paths})
    functions = {name for use in uses for name in facts.table.function_names(use)}
    causes = _causes(facts.change, raised.pairs, raised.entries)
    samples = facts.samples(raised.entries)
    return LayoutAlarm(
        row="",
        rule=raised.rule,
        grade="sampled" if facts.are_sampled(raised.entries) else raised.grade,
        unit=facts.change.name,
        line_bytes=facts.line_bytes,
        pairs=raised.pairs,
        entries=tuple(_entry(facts, name) for name in raised.entries),
        boundary=facts.boundary(raised.pairs[0]) if raised.is_apart and raised.pairs else None,
        adjacent=_are_adjacent(facts.change, raised),
        functions=tuple(sorted(raised.functions or functions)),
        paths=tuple(paths),
        claim=raised.claim,
        cause=causes[0] if causes else None,
        causes=len(causes),
        effect=raised.effect,
        reference=raised.reference,
        hitm=samples,
        limits=tuple(_limits(facts, raised, samples, has_cause=bool(causes))),
    )


def _entry(facts: Facts, name: str) -> LayoutAlarmEntry:
    base, new = (spans.get(name) for spans in facts.spans)
    return LayoutAlarmEntry(
        name=name,
        base_offset=None if base is None else base.start,
        new_offset=None if new is None else new.start,
    )


def _are_adjacent(change: UnitChange, raised: Found) -> bool | None:
    # Whether an adjacent-line prefetcher still fetches both.
    if raised.rule != "separated" or not raised.pairs:
        return None
    parted = {frozenset(pair) for pair in change.line_pairs.separated}
    return frozenset(raised.pairs[0]) not in parted


def _causes(
    change: UnitChange, pairs: tuple[Pair, ...], entries: tuple[str, ...]
) -> tuple[LayoutCause, ...]:
    alarm_pairs = {frozenset(pair) for pair in pairs}
    causes = []
    for cause in change.causes:
        explained = {frozenset(pair) for pair in (*cause.separated, *cause.joined)}
        edited = {name for edit in cause.edits for name in edit.entries}
        # A pair with an inserted entry does not exist in base, so its cause is found by name.
        if explained & alarm_pairs or (pairs and edited & set(entries)):
            causes.append((cause, bool(pairs) and frozenset(pairs[0]) in explained))
    return tuple(cause for cause, _ in sorted(causes, key=lambda ranked: not ranked[1]))


def _limits(facts: Facts, raised: Found, samples: int | None, *, has_cause: bool) -> Iterable[str]:
    yield NO_CLAIM
    if raised.grade == "inferred":
        yield (
            "the alarm is based on memory samples or on accesses in the kernel's source; no "
            "published measurement confirms this alarm"
        )
    if raised.grade == "measured":
        yield "the published effect was measured on the machines it names"
    if samples == 0:
        yield "memory samples of new show no contention on the entries of this alarm"
    if not has_cause:
        yield "no single edit explains the changes of this alarm"
    unsized = [name for name in facts.change.unsized if name in raised.entries]
    if unsized:
        yield (
            f"{describe_unsized(unsized)} in base or new, so only the line of the first byte is "
            "compared"
        )
    if facts.change.are_lines_certain is False:
        yield (
            f"the start of {facts.change.name} might not be aligned to {facts.line_bytes} bytes, "
            "so line boundaries may differ"
        )
    if facts.change.are_lines_certain is None:
        yield f"the alignment of {facts.change.name} is unknown, so line boundaries may differ"
    yield from raised.limits
