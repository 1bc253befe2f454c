"""Which of the changes of a layout may matter, and how well that is known.

::

    ranking = rank_change(compare_units(base, new, 64), base, new)
    [(alarm.rule, alarm.grade, alarm.pairs) for alarm in ranking.alarms]

A rule raises an alarm where the table of hot variables says that a change can be felt. None says
what it costs: the same separation cost 27 % on one CPU and nothing on two others. What moved and
is in no row of the table is said to be of unknown heat, and raises nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from schedperf.evidence.layout._alarms import Found, find_all
from schedperf.evidence.layout._facts import Facts
from schedperf.evidence.layout.changes import Cause, Pair, UnitChange
from schedperf.evidence.layout.heat import HeatTable, heat_table
from schedperf.evidence.layout.model import Unit, say_unsized

Rule = Literal["contended", "separated", "joined", "spread", "group broken"]
Grade = Literal["sampled", "measured", "stated", "inferred"]

# Best evidence first: memory samples of this very comparison, then what somebody measured on some
# machine, then what the kernel's source demands, then what follows from who touches what.
GRADES: tuple[Grade, ...] = ("sampled", "measured", "stated", "inferred")
RULES: tuple[Rule, ...] = ("contended", "separated", "joined", "spread", "group broken")

NO_CLAIM = (
    "a layout does not tell what it costs on this CPU: caches and prefetchers differ, and the same "
    "change was felt on one model and not on others"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Alarm:
    """One change that may be felt.

    :param pairs: the line mates that it is about, worst first; empty where it is about a whole set
    :param entries: all that it is about, as base has them
    :param boundary: where the line begins that now separates the first pair, in bytes from the
        unit's start; None where nothing is separated
    :param functions: who touches them, under the newest names
    :param paths: on which
    :param claim: one sentence without a full stop
    :param cause: the edit that explains the first pair; None where none does
    :param causes: all edits that explain a pair, most pairs first
    :param effect: what somebody measured of exactly this, and where; None where nobody did
    :param reference: who measured it, or where the rule comes from
    :param hitm: memory samples of new that hit a line modified by another CPU; None: not sampled
    :param limits: what the alarm does not say, one sentence each
    """

    rule: Rule
    grade: Grade
    unit: str
    line_bytes: int
    pairs: tuple[Pair, ...]
    entries: tuple[str, ...]
    boundary: int | None
    functions: tuple[str, ...]
    paths: tuple[str, ...]
    claim: str
    cause: Cause | None
    causes: tuple[Cause, ...]
    effect: str | None
    reference: str
    hitm: int | None
    limits: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Regained:
    """Names that were measured to belong together and share a line again, or fewer lines."""

    names: tuple[str, ...]
    effect: str
    reference: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranking:
    """What the changes of one unit mean.

    :param alarms: best evidence first
    :param regained: what new does better
    :param unknown_heat: entries that moved or were added and that no row of the table knows
    :param quiet: entries that moved or were added, are known, and are in no alarm
    """

    unit: str
    alarms: tuple[Alarm, ...]
    regained: tuple[Regained, ...]
    unknown_heat: tuple[str, ...]
    quiet: tuple[str, ...]


def rank_change(
    change: UnitChange,
    base: Unit,
    new: Unit,
    *,
    table: HeatTable | None = None,
    hitm: Mapping[str, int] | None = None,
) -> Ranking:
    """Say which changes of a unit may matter.

    :param hitm: memory samples of new that hit a modified line, by entry as new has it; they
        outrank the table. None: nobody sampled
    """
    facts = Facts(change, base, new, table or heat_table(), hitm)
    alarms = sorted((_alarm(facts, found) for found in find_all(facts)), key=_rank)
    touched = _touched(change)
    alarmed = {name for alarm in alarms for name in alarm.entries}
    return Ranking(
        unit=change.name,
        alarms=tuple(alarms),
        regained=tuple(
            Regained(names=names, effect=group.effect, reference=group.reference)
            for group, names in facts.regained()
        ),
        unknown_heat=tuple(name for name in touched if facts.use(name) is None),
        quiet=tuple(name for name in touched if facts.use(name) and name not in alarmed),
    )


def _touched(change: UnitChange) -> tuple[str, ...]:
    names = [entry.name for entry in change.lines.moved]
    return tuple(dict.fromkeys([*names, *(entry.name for entry in change.added)]))


def _rank(alarm: Alarm) -> tuple[int, int, int, int]:
    # Of one grade a pair that was measured alone says more than a set.
    grade, rule = GRADES.index(alarm.grade), RULES.index(alarm.rule)
    return grade, rule, -(alarm.hitm or 0), -len(alarm.pairs)


def _alarm(facts: Facts, found: Found) -> Alarm:
    uses = [use for name in found.entries if (use := facts.use(name))]
    common = set.intersection(*(set(use.paths) for use in uses)) if uses else set()
    paths = sorted(common or {path for use in uses for path in use.paths})
    functions = {name for use in uses for name in facts.table.function_names(use)}
    causes = _causes(facts.change, found.pairs, found.entries)
    samples = facts.samples(found.entries)
    return Alarm(
        rule=found.rule,
        grade="sampled" if facts.are_sampled(found.entries) else found.grade,
        unit=facts.change.name,
        line_bytes=facts.line_bytes,
        pairs=found.pairs,
        entries=found.entries,
        boundary=facts.boundary(found.pairs[0]) if found.is_apart and found.pairs else None,
        functions=tuple(sorted(found.functions or functions)),
        paths=tuple(paths),
        claim=found.claim,
        cause=causes[0] if causes else None,
        causes=causes,
        effect=found.effect,
        reference=found.reference,
        hitm=samples,
        limits=tuple(_limits(facts, found, samples, has_cause=bool(causes))),
    )


def _causes(
    change: UnitChange, pairs: tuple[Pair, ...], entries: tuple[str, ...]
) -> tuple[Cause, ...]:
    wanted = {frozenset(pair) for pair in pairs}
    found = []
    for cause in change.causes:
        explained = {frozenset(pair) for pair in (*cause.separated, *cause.joined)}
        edited = {name for edit in cause.edits for name in edit.entries}
        # A pair with what was inserted has no place in base, so undoing explains it by name.
        if explained & wanted or (pairs and edited & set(entries)):
            found.append((cause, bool(pairs) and frozenset(pairs[0]) in explained))
    return tuple(cause for cause, _ in sorted(found, key=lambda one: not one[1]))


def _limits(facts: Facts, found: Found, samples: int | None, *, has_cause: bool) -> Iterable[str]:
    yield NO_CLAIM
    if found.grade == "inferred":
        yield "concluded from which functions touch what; nobody is known to have measured it"
    if found.grade == "measured":
        yield "measured on the machines that are named, not on this one"
    if samples == 0:
        yield "memory samples of new show no contention of these entries"
    if not has_cause:
        yield "no single edit is known to explain it"
    unsized = [name for name in facts.change.unsized if name in found.entries]
    if unsized:
        yield f"{say_unsized(unsized)} on a side, so only the line of the first byte is counted"
    if facts.change.are_lines_certain is False:
        yield f"the unit may not begin at a multiple of {facts.line_bytes} bytes"
    if facts.change.are_lines_certain is None:
        yield "where the unit begins in a line is unknown"
    yield from found.limits
