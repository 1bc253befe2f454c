"""The rules by which changes of a layout become alarms."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

from schedperf.evidence.layout._facts import Facts
from schedperf.evidence.layout.heat import Apart, Use
from schedperf.evidence.layout.record import Grade, Pair, Rule

# Members of a measured pair; of larger sets the lines are counted.
PAIR = 2
# How many names a claim spells out; the alarm holds the others.
MOST_NAMED = 3
SOURCE = "the kernel's source, as the table of hot variables has it"


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What a rule found; the parameters are those of an alarm."""

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
    """Apply every rule."""
    sets = list(_spread(facts))
    known = {frozenset(pair) for found in sets for pair in found.pairs}
    separated = list(_measured_pairs(facts))
    known |= {frozenset(pair) for found in separated for pair in found.pairs}
    joined = list(_joined(facts))
    shared = {frozenset(pair) for found in joined for pair in found.pairs}
    return [
        *_contended(facts, shared),
        *separated,
        *_inferred_pairs(facts, known),
        *joined,
        *sets,
        *_broken_groups(facts),
    ]


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
        f"{pair[0]} and {pair[1]} shared a {facts.line_bytes}-byte line and are separated by the "
        f"boundary at {facts.boundary(pair):#x}"
    )


def _inferred_pairs(facts: Facts, known: set[frozenset[str]]) -> Iterator[Found]:
    # Pairs that one function touches. Parting from what other CPUs write is no loss.
    pairs: list[Pair] = []
    functions: set[str] = set()
    seen: set[frozenset[Use]] = set()
    for pair in facts.change.lines.separated:
        one, other = (facts.use(name) for name in pair)
        if not one or not other or one == other or frozenset(pair) in known:
            continue
        common = facts.table.common_functions(one, other)
        is_disturbed = one.written == "remote" or other.written == "remote"
        if not common or is_disturbed or not (one.is_hot and other.is_hot):
            continue
        # Both halves of a list head are one row of the table.
        if frozenset((one, other)) not in seen:
            seen.add(frozenset((one, other)))
            pairs.append(pair)
            functions.update(common)
    if pairs:
        more = f", and {len(pairs) - 1} more such pairs" if len(pairs) > 1 else ""
        yield Found(
            rule="separated",
            grade="inferred",
            pairs=tuple(pairs),
            entries=_names(pairs),
            claim=f"{_apart_claim(facts, pairs[0])}, though one function touches both{more}",
            is_apart=True,
            functions=tuple(sorted(functions)),
        )


def _joined(facts: Facts) -> Iterator[Found]:
    # By the row of the table, since the names of a union are one place in memory.
    victims: dict[str, list[Pair]] = defaultdict(list)
    measured: dict[Apart, list[Pair]] = defaultdict(list)
    for pair in facts.joined():
        one, other = (facts.use(name) for name in pair)
        if not one or not other or one == other:
            continue
        rule = facts.table.apart_of(one, other)
        if rule:
            measured[rule].append(pair)
        elif not facts.table.is_together(one, other):
            for (name, use), (writer, written) in permutations(
                zip(pair, (one, other), strict=True)
            ):
                if use.is_read_mostly and use.is_hot and written.is_disturbing:
                    victims[written.name].append((name, writer))
    for rule, pairs in measured.items():
        yield _joined_as_measured(facts, rule, pairs)
    for writer, pairs in victims.items():
        yield _joined_by(facts, writer, pairs)


def _joined_as_measured(facts: Facts, rule: Apart, pairs: list[Pair]) -> Found:
    names = _names(pairs)
    # An offset that stayed hides that its line mates did not.
    kept = [name for name in names if facts.keeps_offset(name)]
    unmoved = f"; {_listed(kept)} did not move" if kept else ""
    return Found(
        rule="joined",
        grade="measured",
        pairs=tuple(pairs),
        entries=names,
        claim=f"{_listed(names)} share a {facts.line_bytes}-byte line now{unmoved}",
        effect=rule.effect,
        reference=rule.reference,
    )


def _joined_by(facts: Facts, writer: str, pairs: list[Pair]) -> Found:
    names = list(dict.fromkeys(name for name, _ in pairs))
    writers = tuple(dict.fromkeys(one for _, one in pairs))
    shown = writers[0] if len(writers) == 1 else writer
    old = sorted(
        name
        for name, lines in facts.lines[0].items()
        if (use := facts.use(name))
        and use.is_disturbing
        and any(not lines.isdisjoint(facts.lines[0].get(victim, frozenset())) for victim in names)
    )
    limits = (f"in base the line had {_listed(old)} already, which other CPUs write too",)
    return Found(
        rule="joined",
        grade="inferred",
        pairs=tuple(pairs),
        entries=(*names, *writers),
        claim=(
            f"{shown}, which other CPUs write, came to the {facts.line_bytes}-byte line of "
            f"{_listed(names)}, read-mostly"
        ),
        limits=limits if old else (),
    )


def _spread(facts: Facts) -> Iterator[Found]:
    for group in facts.table.together:
        names = facts.members(group, 1)
        before = facts.members(group, 0)
        # What is new was on no line of base.
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
                    f"{_listed(kept)} are on {lines} lines of {facts.line_bytes} bytes, "
                    f"in base on {facts.lines_of(kept, 0)}; {fewest} would do"
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
            reasons.append(f"its fields are on {lines} lines, in base on {before}")
        if left:
            reasons.append(f"{_listed(left)} left it")
        if guests:
            reasons.append(f"{_listed(guests)} came to its lines")
        if reasons:
            yield Found(
                rule="group broken",
                grade="stated",
                pairs=(),
                entries=tuple(dict.fromkeys([*left, *guests, *staying])),
                claim=f"the kernel's own group {name} is broken: {'; '.join(reasons)}",
                reference=f"__cacheline_group_begin__{name.rpartition('.')[2]} in {new.name}",
            )


def _inside(facts: Facts, span: tuple[int, int], side: int) -> tuple[str, ...]:
    first, last = span
    return tuple(name for name, where in facts.spans[side].items() if first <= where.start <= last)


def _guests(facts: Facts, group: tuple[str, ...], own: set[str]) -> list[str]:
    # Who is on the group's lines in new and was not in base.
    lines = [frozenset[int]().union(*(side[name] for name in group)) for side in facts.lines]
    return [
        name
        for name, where in facts.lines[1].items()
        if name not in own
        and not where.isdisjoint(lines[1])
        and facts.lines[0].get(name, frozenset()).isdisjoint(lines[0])
    ]


def _contended(facts: Facts, known: set[frozenset[str]]) -> Iterator[Found]:
    # What samples say is contended and has new mates, whatever the table knows of it.
    gained: dict[str, list[str]] = defaultdict(list)
    for one, other in facts.joined():
        if frozenset((one, other)) not in known:
            gained[one].append(other)
            gained[other].append(one)
    for name in facts.contended():
        if gained[name]:
            yield Found(
                rule="contended",
                grade="inferred",
                pairs=tuple((name, mate) for mate in gained[name]),
                entries=(name,),
                claim=(
                    f"{name} is contended in new and has new mates on its "
                    f"{facts.line_bytes}-byte line: {_listed(gained[name])}"
                ),
                reference="memory samples of new",
            )


def _names(pairs: list[Pair]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for pair in pairs for name in pair))


def _listed(names: list[str] | tuple[str, ...]) -> str:
    shown = ", ".join(names[:MOST_NAMED])
    more = len(names) - MOST_NAMED
    return f"{shown} and {more} more" if more > 0 else shown
