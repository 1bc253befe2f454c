# SPDX-License-Identifier: GPL-2.0-or-later
"""Apply the rules that turn layout changes into alarms."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import permutations

from msgspec import Struct

from schedperf.evidence.layout.cotenancy import Span, UnitChange, spans_of
from schedperf.evidence.layout.heat import Apart, HeatTable, Together, Use
from schedperf.evidence.layout.model import Unit
from schedperf.evidence.layout.packing import Block, fewest_lines
from schedperf.evidence.layout.record import Grade, Pair, Rule
from schedperf.model.text import list_some

# Fewest memory samples of one entry from which contention is inferred: the relative error of a
# count of 10 is a third (Poisson, 1/sqrt(10)).
FEWEST_HITM = 10
# Assumed size in bytes of a variable of unknown size, for the fewest lines of a set: that of a
# pointer.
USUAL_BYTES = 8
# Size of a measured pair; for larger sets, lines are counted.
PAIR = 2
# Largest number of names in a claim; the alarm lists all of them.
MOST_NAMED = 3
SOURCE = "accesses in the kernel's source (table of hot variables)"


class Facts:
    """One change with both units and the table of hot variables.

    Entries have their names in base; entries that only new has, those in new. A parameter ``side``
    is 0 for base and 1 for new.

    :param hitm: number of contended memory samples of new, by entry; None if not sampled
    :ivar spans: the bytes of every entry by name, of base and of new
    :ivar lines: the first and the last line of every entry by name, of base and of new; empty for
        an entry without bytes
    """

    def __init__(
        self,
        change: UnitChange,
        base: Unit,
        new: Unit,
        table: HeatTable,
        hitm: Mapping[str, int] | None,
    ) -> None:
        self.change, self.table = change, table
        self.units = (base, new)
        self.line_bytes = change.lines.line_bytes
        self._called = {rename.new_name: rename.base_name for rename in change.renamed}
        self.spans = (self._spans(base, {}), self._spans(new, self._called))
        self.lines = tuple(
            {name: self._lines(span) for name, span in spans.items()} for spans in self.spans
        )
        self._hitm = None
        if hitm is not None:
            self._hitm = {self._called.get(name, name): count for name, count in hitm.items()}
        self._uses: dict[str, Use | None] = {}

    def _spans(self, unit: Unit, called: Mapping[str, str]) -> dict[str, Span]:
        entries = sorted(unit.entries, key=lambda entry: entry.offset)
        spans = spans_of(entries, unit.kind, unit.size)
        return {called.get(name, name): span for name, span in spans.items()}

    def _lines(self, span: Span) -> frozenset[int]:
        if span.is_empty:
            return frozenset()
        first, last = span.lines(self.line_bytes)
        # Lines between the first and the last contain no other entry, so only these two can be
        # shared.
        return frozenset((first, last))

    def use(self, name: str) -> Use | None:
        """Return the row of an entry in the table of hot variables; None if it has none."""
        if name not in self._uses:
            self._uses[name] = self.table.find(self.change.name, name)
        return self._uses[name]

    def samples(self, names: tuple[str, ...]) -> int | None:
        """Return the number of contended samples of these entries; None if not sampled."""
        if self._hitm is None:
            return None
        return sum(self._hitm.get(name, 0) for name in names)

    def are_sampled(self, names: tuple[str, ...]) -> bool:
        """Return whether enough samples hit these entries to take precedence over the table."""
        return (self.samples(names) or 0) >= FEWEST_HITM

    def contended(self) -> tuple[str, ...]:
        """Return the entries with at least :data:`FEWEST_HITM` contended samples, most first."""
        counts = self._hitm or {}
        enough = [name for name, count in counts.items() if count >= FEWEST_HITM]
        return tuple(sorted(enough, key=lambda name: (-counts[name], name)))

    def has_writer(self, names: tuple[str, ...]) -> bool:
        """Return whether any of these entries is written at run time.

        Lines that are only read stay in the caches of all readers. Memory samples also show writers
        that are missing in the table.
        """
        uses = (self.use(name) for name in names)
        return any(use and not use.is_read_mostly for use in uses) or self.are_sampled(names)

    def may_have_writer(self, names: tuple[str, ...]) -> bool:
        """Return whether any of these entries is written, or its use is unknown."""
        return self.has_writer(names) or any(self.use(name) is None for name in names)

    def boundary(self, pair: Pair) -> int:
        """Return the offset in bytes of new's line on which the later entry of a pair begins."""
        return max(min(self.lines[1][name]) for name in pair) * self.line_bytes

    def joined(self) -> Iterator[Pair]:
        """Yield pairs on one line in new but not in base, including pairs with an added entry.

        Pairs of two added entries are left out, since neither had a line in base.
        """
        yield from self.change.lines.joined
        tenants: dict[int, list[str]] = defaultdict(list)
        for name, lines in self.lines[1].items():
            for line in lines:
                tenants[line].append(name)
        added, seen = {entry.name for entry in self.change.added}, set[frozenset[str]]()
        for name in sorted(added & self.lines[1].keys()):
            for line in sorted(self.lines[1][name]):
                for neighbour in tenants[line]:
                    pair = frozenset((name, neighbour))
                    if neighbour not in added and pair not in seen:
                        seen.add(pair)
                        yield neighbour, name

    def members(self, group: Together, side: int) -> tuple[str, ...]:
        """Return the entries of a side that belong to a measured set, by offset.

        Empty if the set is of another unit.
        """
        if group.unit != self.change.name:
            return ()
        names = []
        for name in self.spans[side]:
            use = self.use(name)
            if use and use.unit == group.unit and use.name in group.names:
                names.append(name)
        return tuple(sorted(names, key=lambda name: (self.spans[side][name].start, name)))

    def keeps_offset(self, name: str) -> bool:
        """Return whether both sides have an entry at the same offset."""
        base, new = (spans.get(name) for spans in self.spans)
        return base is not None and new is not None and base.start == new.start

    def lines_of(self, names: tuple[str, ...], side: int) -> int:
        """Return the number of lines that these entries occupy on a side."""
        lines = set[int]()
        for name in names:
            span = self.spans[side][name]
            if not span.is_empty:
                first, last = span.lines(self.line_bytes)
                lines.update(range(first, last + 1))
        return len(lines)

    def fewest(self, names: tuple[str, ...], side: int) -> int:
        """Return the fewest lines found for these entries, by :func:`fewest_lines`.

        An unknown size counts as that of a pointer.
        """
        blocks, taken = [], set[int]()
        for name in names:
            span = self.spans[side][name]
            # Fields of a union share their bytes.
            if span.start not in taken and not span.is_empty:
                taken.add(span.start)
                size = span.end - span.start if span.is_sized else USUAL_BYTES
                alignment = min(size & -size, span.start & -span.start or size & -size, 8)
                blocks.append(Block(name=name, size=size, alignment=alignment))
        return fewest_lines(blocks, self.line_bytes).lines

    def regained(self) -> Iterator[tuple[Together, tuple[str, ...]]]:
        """Yield the measured sets whose members are on fewer lines in new than in base.

        Each has the members that both sides have, at least two.
        """
        for group in self.table.together:
            both = tuple(name for name in self.members(group, 1) if name in self.spans[0])
            if len(both) > 1 and self.lines_of(both, 1) < self.lines_of(both, 0):
                yield group, both


class Found(Struct, frozen=True, kw_only=True):
    """The result of a rule; the parameters are those of a :class:`LayoutAlarm`.

    :param is_apart: True if the first pair is separated, so that a line boundary is between it
    :param functions: empty for all functions that access the entries
    """

    rule: Rule
    grade: Grade
    pairs: tuple[Pair, ...]
    entries: tuple[str, ...]
    claim: str
    is_apart: bool = False
    functions: tuple[str, ...] = ()
    effect: str | None = None
    reference: str = SOURCE
    limits: tuple[str, ...] = ()


def find_all(facts: Facts) -> list[Found]:
    """Apply every rule and return the alarms that they raise.

    Separated entries raise an alarm only if one of them is written at run time. A broken cacheline
    group also raises one if the use of an entry is unknown.
    """
    sets = [spread for spread in _spread(facts) if facts.has_writer(spread.entries)]
    reported = {frozenset(pair) for alarm in sets for pair in alarm.pairs}
    separated = [pair for pair in _measured_pairs(facts) if facts.has_writer(pair.entries)]
    reported |= {frozenset(pair) for alarm in separated for pair in alarm.pairs}
    joined = list(_joined(facts))
    shared = {frozenset(pair) for alarm in joined for pair in alarm.pairs}
    return [
        *_contended(facts, shared),
        *separated,
        *_inferred_pairs(facts, reported),
        *joined,
        *sets,
        *(broken for broken in _broken_groups(facts) if facts.may_have_writer(broken.entries)),
    ]


def find_only_read(facts: Facts, raised: Iterable[Found]) -> tuple[Pair, ...]:
    """Return the separated pairs that are used together but not written.

    :param raised: the alarms; their pairs are left out
    """
    alarmed = {pair for alarm in raised for pair in alarm.pairs}
    parted = [pair for alarm in (*_measured_pairs(facts), *_spread(facts)) for pair in alarm.pairs]
    pairs = dict.fromkeys((*parted, *_pairs_of_a_function(facts)))
    return tuple(pair for pair in pairs if pair not in alarmed and not facts.has_writer(pair))


def _measured_pairs(facts: Facts) -> Iterator[Found]:
    for group in facts.table.together:
        for pair in facts.change.lines.separated if len(group.names) == PAIR else ():
            if set(pair) <= set(facts.members(group, 0)):
                yield Found(
                    rule="separated",
                    grade="measured",
                    pairs=(pair,),
                    entries=pair,
                    claim=_apart_claim(facts, pair),
                    is_apart=True,
                    effect=group.effect,
                    reference=group.reference,
                )


def _apart_claim(facts: Facts, pair: Pair) -> str:
    return (
        f"{pair[0]} and {pair[1]} shared a {facts.line_bytes}-byte line and are now separated by "
        f"the line boundary at {facts.boundary(pair):#x}"
    )


def _inferred_pairs(facts: Facts, reported: set[frozenset[str]]) -> Iterator[Found]:
    pairs = [
        pair
        for pair in _pairs_of_a_function(facts)
        if frozenset(pair) not in reported and facts.has_writer(pair)
    ]
    if pairs:
        functions = {name for pair in pairs for name in _common_functions(facts, pair)}
        more = f" (number of such pairs: {len(pairs)})" if len(pairs) > 1 else ""
        yield Found(
            rule="separated",
            grade="inferred",
            pairs=tuple(pairs),
            entries=_names(pairs),
            claim=f"{_apart_claim(facts, pairs[0])}, but one function accesses both{more}",
            is_apart=True,
            functions=tuple(sorted(functions)),
        )


def _pairs_of_a_function(facts: Facts) -> list[Pair]:
    # Separated pairs that one function accesses. Separation from an entry that other CPUs write is
    # an improvement. Both halves of a list head are one row of the table.
    pairs: dict[frozenset[Use], Pair] = {}
    for pair in facts.change.lines.separated:
        uses = {use for name in pair if (use := facts.use(name))}
        is_disturbed = any(use.written == "remote" for use in uses)
        is_hot = len(uses) == PAIR and all(use.is_hot for use in uses)
        if is_hot and not is_disturbed and _common_functions(facts, pair):
            pairs.setdefault(frozenset(uses), pair)
    return list(pairs.values())


def _common_functions(facts: Facts, pair: Pair) -> tuple[str, ...]:
    first, second = (facts.use(name) for name in pair)
    return facts.table.common_functions(first, second) if first and second else ()


def _joined(facts: Facts) -> Iterator[Found]:
    # Compared by row of the table, since the fields of a union are the same memory.
    victims: dict[str, list[Pair]] = defaultdict(list)
    measured: dict[Apart, list[Pair]] = defaultdict(list)
    for pair in facts.joined():
        first_use, second_use = (facts.use(name) for name in pair)
        if not first_use or not second_use or first_use == second_use:
            continue
        rule = facts.table.apart_of(first_use, second_use)
        if rule:
            measured[rule].append(pair)
        elif not facts.table.is_together(first_use, second_use):
            for (name, use), (writer, written) in permutations(
                zip(pair, (first_use, second_use), strict=True)
            ):
                if use.is_read_mostly and use.is_hot and written.is_disturbing:
                    victims[written.name].append((name, writer))
    for rule, pairs in measured.items():
        yield _joined_as_measured(facts, rule, pairs)
    for writer, pairs in victims.items():
        yield _joined_by(facts, writer, pairs)


def _joined_as_measured(facts: Facts, rule: Apart, pairs: list[Pair]) -> Found:
    names = _names(pairs)
    # An entry with an unchanged offset can still have new neighbours.
    kept = [name for name in names if facts.keeps_offset(name)]
    unmoved = f", although {list_some(kept, MOST_NAMED)} did not move" if kept else ""
    return Found(
        rule="joined",
        grade="measured",
        pairs=tuple(pairs),
        entries=names,
        claim=f"{list_some(names, MOST_NAMED)} now share a {facts.line_bytes}-byte line{unmoved}",
        effect=rule.effect,
        reference=rule.reference,
    )


def _joined_by(facts: Facts, writer: str, pairs: list[Pair]) -> Found:
    names = list(dict.fromkeys(name for name, _ in pairs))
    writers = tuple(dict.fromkeys(name for _, name in pairs))
    shown = writers[0] if len(writers) == 1 else writer
    old = sorted(
        name
        for name, lines in facts.lines[0].items()
        if (use := facts.use(name))
        and use.is_disturbing
        and any(not lines.isdisjoint(facts.lines[0].get(victim, frozenset())) for victim in names)
    )
    limit = (
        f"in base the line already contained {list_some(old, MOST_NAMED)}, which other CPUs "
        "also write"
    )
    return Found(
        rule="joined",
        grade="inferred",
        pairs=tuple(pairs),
        entries=(*names, *writers),
        claim=(
            f"{shown}, which other CPUs write, now shares a {facts.line_bytes}-byte line with "
            f"read-mostly {list_some(names, MOST_NAMED)}"
        ),
        limits=(limit,) if old else (),
    )


def _spread(facts: Facts) -> Iterator[Found]:
    for group in facts.table.together:
        names = facts.members(group, 1)
        before = facts.members(group, 0)
        # Added members have no line in base.
        kept = tuple(name for name in names if name in before)
        if len(names) <= PAIR or len(kept) < PAIR:
            continue
        lines, fewest = facts.lines_of(kept, 1), facts.fewest(kept, 1)
        if lines > facts.lines_of(kept, 0) and lines > fewest:
            members = set(names) | set(before)
            pairs = [pair for pair in facts.change.lines.separated if set(pair) <= members]
            yield Found(
                rule="spread",
                grade="measured",
                pairs=tuple(pairs),
                entries=names,
                claim=(
                    f"{list_some(kept, MOST_NAMED)} span {lines} cache lines of "
                    f"{facts.line_bytes} bytes ({facts.lines_of(kept, 0)} in base, "
                    f"minimum {fewest})"
                ),
                is_apart=bool(pairs),
                effect=group.effect,
                reference=group.reference,
            )


def _broken_groups(facts: Facts) -> Iterator[Found]:
    base, new = facts.units
    for name, span in base.groups.items():
        members = _inside(facts, span, 0)
        staying = tuple(member for member in members if member in facts.spans[1])
        if not staying:
            continue
        lines, before = facts.lines_of(staying, 1), facts.lines_of(staying, 0)
        now = set(_inside(facts, new.groups[name], 1)) if name in new.groups else set()
        left = [member for member in staying if member not in now] if now else []
        guests = _guests(facts, staying, now | set(members))
        reasons = []
        if lines > before and lines > facts.fewest(staying, 1):
            reasons.append(f"the fields are on {lines} lines ({before} in base)")
        if left:
            reasons.append(f"{list_some(left, MOST_NAMED)} moved out of the group")
        if guests:
            reasons.append(f"{list_some(guests, MOST_NAMED)} moved onto the group's lines")
        if reasons:
            yield Found(
                rule="group broken",
                grade="stated",
                pairs=(),
                entries=tuple(dict.fromkeys([*left, *guests, *staying])),
                claim=f"the kernel's cacheline group {name} is broken: {'; '.join(reasons)}",
                reference=f"__cacheline_group_begin__{name.rpartition('.')[2]} in {new.name}",
            )


def _inside(facts: Facts, span: tuple[int, int], side: int) -> tuple[str, ...]:
    first, last = span
    return tuple(name for name, where in facts.spans[side].items() if first <= where.start <= last)


def _guests(facts: Facts, group: tuple[str, ...], own: set[str]) -> list[str]:
    # Entries on the group's lines in new but not in base.
    lines = [frozenset[int]().union(*(side[name] for name in group)) for side in facts.lines]
    return [
        name
        for name, where in facts.lines[1].items()
        if name not in own
        and not where.isdisjoint(lines[1])
        and facts.lines[0].get(name, frozenset()).isdisjoint(lines[0])
    ]


def _contended(facts: Facts, reported: set[frozenset[str]]) -> Iterator[Found]:
    # Entries that are contended according to memory samples and have new neighbours, whether or not
    # they are in the table.
    gained: dict[str, list[str]] = defaultdict(list)
    for name, mate in facts.joined():
        if frozenset((name, mate)) not in reported:
            gained[name].append(mate)
            gained[mate].append(name)
    for name in facts.contended():
        if gained[name]:
            yield Found(
                rule="contended",
                grade="inferred",
                pairs=tuple((name, mate) for mate in gained[name]),
                entries=(name,),
                claim=(
                    f"{name} is contended in new and now shares its {facts.line_bytes}-byte line "
                    f"with {list_some(gained[name], MOST_NAMED)}"
                ),
                reference="memory samples of new",
            )


def _names(pairs: list[Pair]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for pair in pairs for name in pair))
