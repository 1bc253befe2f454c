# SPDX-License-Identifier: GPL-2.0-or-later
"""Find an order of declarations in which a hot set occupies fewer cache lines, and its layout.

::

    advice = advise(unit, ["sd_llc_id", "root_cpuacct_cpuusage"], 64)
    advice.lines_before, advice.lines_after      # (2, 1)
    advice.order                                 # names in the order of declaration

The new layout is predicted like the linker and the compiler place entries: each entry begins at the
first multiple of its alignment after the preceding entry. The advice never puts a field that other
CPUs write on a line with a read-mostly field, even if the struct would be smaller.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

from msgspec import Struct
from msgspec.structs import replace

from schedperf.evidence.layout.cotenancy import check_line_bytes
from schedperf.evidence.layout.heat import HeatTable, Use, heat_table, known_uses
from schedperf.evidence.layout.model import Entry, Unit, describe_unsized
from schedperf.evidence.layout.packing import (
    Arrangement,
    Atom,
    as_it_is,
    atoms_of,
    entries_of,
    fewest_lines,
    laid_out,
    span_lines,
)
from schedperf.evidence.layout.record import (
    LayoutAdvice,
    LayoutAlarm,
    LayoutHotSet,
    LayoutLeftOut,
    LayoutRow,
    Mark,
    Pair,
    Rule,
)
from schedperf.evidence.layout.sheets import Sheet
from schedperf.evidence.layout.unit_pairs import UnitPair
from schedperf.model.base_new import BaseNew
from schedperf.model.errors import InputError

# Number of neighbouring entries that are tried as a new position of a member. Positions farther
# away would move more variables and have no more space.
NEARBY = 8
# Largest number of entries between members: with more, any move shifts thousands of entries.
MOST_BETWEEN = 4096
# Largest number of members of a set: one-byte entries on 8 lines, the reach of a prefetcher.
MOST_MEMBERS = 512
# Largest number of predicted lines that are drawn.
MOST_PREDICTED_LINES = 6
# Subject of advice that is not for an alarm: the set that the user named.
OWN_SET = "hot"
# Rules about entries that should share lines; alarms of other rules cannot be fixed by reordering.
PACKABLE: tuple[Rule, ...] = ("separated", "spread")


class Plan(Struct, frozen=True, kw_only=True):
    """The current arrangement of a unit, and the one with its hot set on the fewest lines.

    :param rules: constraints on an arrangement
    :param now: the current arrangement
    :param best: equal to ``now`` if no better one was found
    :param members: members of the set that may be moved
    :param left_out: members that may not be moved, with the reason
    """

    rules: "_Rules"
    now: Arrangement
    best: Arrangement
    members: frozenset[str]
    left_out: Mapping[str, str]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries of the unit in the planned arrangement, by offset."""
        return tuple(entries_of(self.best))


def plan_order(
    unit: Unit, names: Sequence[str], line_bytes: int, table: HeatTable | None = None
) -> Plan:
    """Find the arrangement with the set on the fewest lines that moves the fewest other entries.

    Positions near the current ones are tried. Of arrangements with equally many lines, those
    without an added alignment are preferred.

    :param names: entries of the set, as named in the unit
    :param table: table of hot variables; None for the one of this package
    :raises InputError: the unit lacks a named entry or has too many entries on a line, the set is
        empty or too large, or the line size is invalid
    """
    check_line_bytes(line_bytes)
    entries = _checked(unit, names, line_bytes)
    rules = _Rules(unit.name, table or heat_table(), line_bytes)
    atoms = atoms_of(unit, line_bytes)
    members, left_out = _members(atoms, entries, rules)
    hot = frozenset(members)
    now = as_it_is(atoms, hot)
    return Plan(rules=rules, now=now, best=_best(now, hot, rules), members=hot, left_out=left_out)


def advise(
    unit: Unit, names: Sequence[str], line_bytes: int, *, about: str = OWN_SET
) -> LayoutAdvice:
    """Return where to declare the members of a hot set, by :func:`plan_order`.

    If no better order is found, it is the current one, and ``is_change`` is False.

    :param about: row of the alarm that the set belongs to, or ``OWN_SET``
    :raises InputError: as in :func:`plan_order`
    """
    plan = plan_order(unit, names, line_bytes)
    best, hot, rules = plan.best, plan.members, plan.rules
    blocks = (atom.block for atom in plan.now.atoms if atom.block.name in hot)
    lines_before, lines_after = rules.lines_of(plan.now, hot), rules.lines_of(best, hot)
    predicted = _draw(plan, unit, names, is_change=lines_after < lines_before)
    left_out = tuple(
        LayoutLeftOut(name=name, reason=reason) for name, reason in plan.left_out.items()
    )
    return LayoutAdvice(
        about=about,
        unit=unit.name,
        line_bytes=line_bytes,
        order=best.order,
        after=best.after,
        is_aligned=best.is_aligned,
        lines_before=lines_before,
        lines_after=lines_after,
        fewest=min(fewest_lines(blocks, line_bytes).at_least, lines_after),
        moved=_moved(best, hot, line_bytes),
        joins=tuple(rules.joins(best, hot)),
        left_out=left_out,
        notes=_notes(unit, line_bytes),
        predicted=predicted,
        uses=known_uses(unit.name, sorted(row.name for row in predicted if row.name)),
    )


def _draw(
    plan: Plan, unit: Unit, names: Sequence[str], *, is_change: bool
) -> tuple[LayoutRow, ...]:
    # The lines of the set. The new order may extend beyond the unit's current end.
    sheet = Sheet(replace(unit, entries=plan.entries, size=None), plan.rules.line_bytes)
    lines = sorted(sheet.starts(names))[:MOST_PREDICTED_LINES]
    now = {entry.name: entry.offset for entry in unit.entries}
    marks: dict[str, Mark] = {}
    if is_change:
        marks = {
            entry.name: "moved" for entry in sheet.entries if entry.offset != now.get(entry.name)
        }
    return sheet.rows(frozenset(lines), marks=marks, hot=frozenset(names))


def hot_set_of(unit: Unit, names: Sequence[str], table: HeatTable | None = None) -> tuple[str, ...]:
    """Return names together with all entries that were measured to be faster on their line.

    :param names: e.g. the entries of an alarm
    :param table: table of hot variables; None for the one of this package
    :return: by offset; only the names if no measured set contains all of them
    """
    table = table or heat_table()
    uses = [table.find(unit.name, name) for name in names]
    groups = [
        group
        for group in table.together
        if all(use and use.unit == group.unit and use.name in group.names for use in uses)
    ]
    members = set(names)
    for entry in unit.entries:
        use = table.find(unit.name, entry.name)
        if use and any(use.unit == g.unit and use.name in g.names for g in groups):
            members.add(entry.name)
    return tuple(entry.name for entry in unit.entries if entry.name in members)


def _checked(unit: Unit, names: Sequence[str], line_bytes: int) -> tuple[str, ...]:
    existing = {entry.name for entry in unit.entries}
    for name in names:
        if name not in existing:
            raise InputError(
                f"{unit.name}: unknown name {name[:60]!r} "
                f"(expected a variable or field of {unit.name}); correct the name"
            )
    if not names or len(names) > MOST_MEMBERS:
        raise InputError(
            f"{unit.name}: the hot set contains {len(names)} names (expected 1 to {MOST_MEMBERS}); "
            "shorten --hot"
        )
    lines = Counter(entry.offset // line_bytes for entry in unit.entries)
    if max(lines.values()) > 8 * line_bytes:
        raise InputError(
            f"{unit.name}: {max(lines.values())} entries begin on one {line_bytes}-byte line; "
            "check that the kernel files are undamaged"
        )
    return tuple(dict.fromkeys(names))


def _members(
    atoms: Sequence[Atom], entries: Sequence[str], rules: "_Rules"
) -> tuple[tuple[str, ...], dict[str, str]]:
    # Return the atoms to move, by name, and the requested entries that cannot move, with the
    # reason.
    at = {entry.name: atom for atom in atoms for entry in atom.entries}
    left_out: dict[str, str] = {}
    members: dict[str, None] = {}
    has_read_mostly = any(rules.is_read_mostly(name) for name in entries)
    for name in entries:
        atom = at[name]
        others = [entry.name for entry in atom.entries if entry.name not in entries]
        if has_read_mostly and rules.is_written_remotely(name):
            left_out[name] = (
                "other CPUs write this member, but the set contains read-mostly members"
            )
        elif others and atom.block.size > rules.line_bytes:
            left_out[name] = (
                f"the member is part of {atom.block.name}, which can only move as a whole"
            )
        else:
            members[atom.block.name] = None
    return tuple(members), left_out


class _Rules:
    # Constraints on a layout, and the number of lines that the set occupies in it.

    def __init__(self, unit: str, table: HeatTable, line_bytes: int) -> None:
        self._unit, self._table, self.line_bytes = unit, table, line_bytes
        self._uses: dict[str, Use | None] = {}

    def _use(self, name: str) -> Use | None:
        if name not in self._uses:
            self._uses[name] = self._table.find(self._unit, name)
        return self._uses[name]

    def is_read_mostly(self, name: str) -> bool:
        use = self._use(name)
        return use is not None and use.is_read_mostly

    def is_written_remotely(self, name: str) -> bool:
        use = self._use(name)
        return use is not None and use.written == "remote"

    def lines_of(self, layout: Arrangement, hot: frozenset[str]) -> int:
        lines = set[int]()
        for atom, start in _of(layout, hot):
            lines.update(span_lines(start, atom.block.size, self.line_bytes))
        return len(lines)

    def allow(self, now: Arrangement, new: Arrangement) -> bool:
        """Return whether a new layout keeps pairs that must share a line, and adds no conflict.

        Such pairs were measured: they are faster on one line. A conflict is a field that other CPUs
        write, on a line with a read-mostly field.
        """
        # Atoms that share a line with the first or last moved atom are at most this many positions
        # away.
        part = slice(max(new.first - self.line_bytes, 0), new.last + self.line_bytes)
        tenants, before = self._tenants(new, part), self._tenants(now, part)
        is_clean = self._clashes(tenants) <= self._clashes(before)
        return is_clean and self._measured(tenants) >= self._measured(before)

    def _tenants(self, layout: Arrangement, part: slice) -> list[list[tuple[str, Use]]]:
        # For each line, the entries in the table of hot variables.
        tenants: dict[int, list[tuple[str, Use]]] = {}
        for entry in entries_of(layout, part):
            use = self._use(entry.name)
            if use is not None:
                for line in span_lines(entry.offset, entry.size or 1, self.line_bytes):
                    tenants.setdefault(line, []).append((entry.name, use))
        return list(tenants.values())

    def _clashes(self, tenants: list[list[tuple[str, Use]]]) -> frozenset[tuple[str, str]]:
        return frozenset(
            (name, writer)
            for line in tenants
            for name, use in line
            if use.is_read_mostly
            for writer, written in line
            if written.written == "remote"
        )

    def _measured(self, tenants: list[list[tuple[str, Use]]]) -> frozenset[tuple[str, str]]:
        # Pairs on common lines that were measured to be faster together.
        return frozenset(
            (name, neighbour)
            for line in tenants
            for (name, use), (neighbour, neighbour_use) in product(line, line)
            if name < neighbour and self._table.is_together(use, neighbour_use)
        )

    def joins(self, layout: Arrangement, hot: frozenset[str]) -> Iterator[tuple[str, str]]:
        """Yield pairs on one line: a member written by its own CPU, and a read-mostly member."""
        tenants: dict[int, list[str]] = {}
        for atom, start in _of(layout, hot):
            for line in span_lines(start, atom.block.size, self.line_bytes):
                tenants.setdefault(line, []).append(atom.entries[0].name)
        for names in tenants.values():
            for name in names:
                use = self._use(name)
                if use is not None and use.written == "own":
                    yield from (
                        (name, neighbour) for neighbour in names if self.is_read_mostly(neighbour)
                    )


def _best(now: Arrangement, hot: frozenset[str], rules: "_Rules") -> Arrangement:
    # Prefer the fewest lines, then no added alignment, then the fewest other entries that move.
    before = rules.lines_of(now, hot)
    best, best_key = now, (before, False, 0)
    for layout in _candidates(now, hot, rules.line_bytes):
        lines = rules.lines_of(layout, hot)
        key = (lines, layout.is_aligned, _moved(layout, hot, rules.line_bytes))
        if lines < before and key < best_key and rules.allow(now, layout):
            best, best_key = layout, key
    return best


def _candidates(now: Arrangement, hot: frozenset[str], line_bytes: int) -> Iterator[Arrangement]:
    rest = [atom for atom in now.atoms if atom.block.name not in hot]
    moving = {atom.block.name: atom for atom in now.atoms if atom.block.name in hot}
    where = [index for index, atom in enumerate(now.atoms) if atom.block.name in hot]
    if not where or where[-1] - where[0] > MOST_BETWEEN:
        return
    packing = fewest_lines((atom.block for atom in moving.values()), line_bytes)
    orders = {tuple(block.name for block in packing.order), tuple(moving)}
    for index in sorted(_places(now.atoms, hot)):
        after = rest[index - 1].block.name if index else None
        bounds = min(index, where[0]), max(index + len(moving), where[-1] + 1)
        for order, is_aligned in product(sorted(orders), (False, True)):
            group = [replace(moving[name], lead=0) for name in order]
            if is_aligned:
                wide = max(line_bytes, group[0].block.alignment)
                group[0] = replace(group[0], block=replace(group[0].block, alignment=wide))
            atoms = (*rest[:index], *group, *rest[index:])
            yield laid_out(now, atoms, bounds, order, after, is_aligned=is_aligned)


def _of(layout: Arrangement, hot: frozenset[str]) -> Iterator[tuple[Atom, int]]:
    # The members and their positions.
    for atom, start in zip(layout.atoms, layout.starts, strict=True):
        if atom.block.name in hot:
            yield atom, start


def _places(atoms: Sequence[Atom], hot: frozenset[str]) -> set[int]:
    # Candidate positions among the other atoms, near the current positions of the members.
    places, staying = set[int](), 0
    count = sum(atom.block.name not in hot for atom in atoms)
    for atom in atoms:
        if atom.block.name in hot:
            places.update(range(max(staying - NEARBY, 0), min(staying + NEARBY, count) + 1))
        else:
            staying += 1
    return places


def _moved(layout: Arrangement, hot: frozenset[str], line_bytes: int) -> int:
    part = slice(layout.first, layout.last)
    return sum(
        atom.block.name not in hot and atom.start // line_bytes != start // line_bytes
        for atom, start in zip(layout.atoms[part], layout.starts[part], strict=True)
    )


def _notes(unit: Unit, line_bytes: int) -> tuple[str, ...]:
    notes = [
        "alignments are inferred from the layout; actual offsets may be smaller than predicted"
    ]
    if unit.kind != "struct":
        notes.append(
            "the linker groups variables by object file, so this order needs all members to be "
            "defined in one file"
        )
    unsized = [entry.name for entry in unit.entries if entry.size is None]
    if unsized:
        notes.append(
            f"{describe_unsized(unsized)}, so entries are assumed to extend to the next one"
        )
    if unit.alignment is None or unit.alignment % line_bytes:
        notes.append(
            f"the start of {unit.name} might not be aligned to {line_bytes} bytes, so line "
            "boundaries may differ"
        )
    return tuple(notes)


def advise_alarm(
    alarms: Iterable[tuple[LayoutAlarm, UnitPair]], line_bytes: int
) -> tuple[list[LayoutAdvice], list[str]]:
    """Return advice for the first alarm of one of the :data:`PACKABLE` rules.

    :param alarms: best evidence first
    :return: the advice, and notes on why there is none; both empty without such an alarm
    """
    for alarm, pair in alarms:
        if alarm.rule in PACKABLE:
            names = _own_names(pair, alarm.names)
            members = hot_set_of(pair.units[1], names) if names else ()
            return _advised(alarm.row, pair, members, line_bytes)
    return [], []


def advise_hot(
    hot: Iterable[tuple[UnitPair, Sequence[str]]], line_bytes: int
) -> tuple[list[LayoutAdvice], list[str]]:
    """Return advice for a set that the user named, for each unit that contains members.

    :param hot: units, each with its members by name in base
    :return: the advice, and notes on why a unit has none
    """
    advice, notes = list[LayoutAdvice](), list[str]()
    for pair, names in hot:
        unit_advice, said = _advised(OWN_SET, pair, _own_names(pair, names), line_bytes)
        advice += unit_advice
        notes += said
    return advice, notes


def find_hot(hot: Sequence[str], pairs: Sequence[UnitPair]) -> dict[str, list[str]]:
    """Return the entries that the user named, by unit.

    :param hot: variables, and fields like "rq.nr_running"
    :return: by name of the unit ("percpu", "struct rq"), its entries ("nr_running")
    :raises InputError: no unit has one of the names
    """
    by_unit: dict[str, list[str]] = {}
    for name in dict.fromkeys(hot):
        unit, entry = _find(name, pairs)
        by_unit.setdefault(unit, []).append(entry)
    return by_unit


def _find(name: str, pairs: Sequence[UnitPair]) -> tuple[str, str]:
    for pair in pairs:
        entry = name
        if pair.change.kind == "struct":
            # "rq.nr_running", also with a path inside a member.
            tag, _, entry = name.partition(".")
            if not entry or pair.name != f"struct {tag}":
                continue
        if any(entry in sheet.spans for sheet in pair.sheets):
            return pair.name, entry
    raise InputError(
        f"hot set: unknown variable or field {name[:60]!r} "
        "(expected a variable or STRUCT.FIELD, e.g. runqueues or rq.nr_running); correct --hot"
    )


def count_hot(pair: UnitPair, names: Sequence[str], line_bytes: int) -> LayoutHotSet:
    """Return the number of lines of a set on both sides, and its changed pairs.

    :param names: members of the set, by name in base; a side may lack some
    """
    base, new = pair.sheets
    lines = pair.change.lines
    return LayoutHotSet(
        unit=pair.name,
        names=tuple(names),
        line_bytes=line_bytes,
        lines=BaseNew(
            base=_count_lines(base, names), new=_count_lines(new, _own_names(pair, names))
        ),
        separated=_pairs_within(names, lines.separated),
        joined=_pairs_within(names, lines.joined),
    )


def _count_lines(sheet: Sheet, names: Iterable[str]) -> int:
    ends = (sheet.ends(name) for name in names if name in sheet.spans)
    return len({line for first, last in ends for line in range(first, last + 1)})


def _pairs_within(names: Iterable[str], pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    members = frozenset(names)
    return tuple(pair for pair in pairs if members.issuperset(pair))


def _own_names(pair: UnitPair, names: Iterable[str]) -> list[str]:
    # Names in new; only entries that exist in new.
    called = [pair.new_names.get(name, name) for name in names]
    return [name for name in called if name in pair.sheets[1].spans]


def _advised(
    about: str, pair: UnitPair, names: Sequence[str], line_bytes: int
) -> tuple[list[LayoutAdvice], list[str]]:
    if not names:
        return [], []
    try:
        return [advise(pair.units[1], names, line_bytes, about=about)], []
    except InputError as error:
        return [], [f"no advice: {error}"]
