"""Where to declare what belongs together: for the first alarm, and for a set of one's own."""

from collections.abc import Iterable, Sequence

from schedperf.evidence.layout.advice import OWN_SET, advise, hot_set_of
from schedperf.evidence.layout.record import (
    MOST_LISTED,
    LayoutAdvice,
    LayoutAlarm,
    LayoutHotSet,
    Pair,
    Rule,
)
from schedperf.evidence.layout.sheets import Sheet
from schedperf.evidence.layout.units import UnitPair
from schedperf.model.comparison import BaseNew
from schedperf.model.errors import InputError

# Rules about entries that should share lines; of the others no order of declarations is the cure.
PACKABLE: tuple[Rule, ...] = ("separated", "spread")


def advise_alarm(
    alarms: Iterable[tuple[LayoutAlarm, UnitPair]], line_bytes: int
) -> tuple[list[LayoutAdvice], list[str]]:
    """Return advice for the first alarm that an order of declarations can cure, else why not."""
    for alarm, pair in alarms:
        if alarm.rule in PACKABLE:
            names = _own_names(pair, alarm.names)
            wanted = hot_set_of(pair.units[1], names) if names else ()
            return _advised(alarm.row, pair, wanted, line_bytes)
    return [], []


def advise_hot(
    hot: Iterable[tuple[UnitPair, Sequence[str]]], line_bytes: int
) -> tuple[list[LayoutAdvice], list[str]]:
    """Return advice for a set that the user named, for each unit that has some of it."""
    advice, notes = list[LayoutAdvice](), list[str]()
    for pair, names in hot:
        found, said = _advised(OWN_SET, pair, _own_names(pair, names), line_bytes)
        advice += found
        notes += said
    return advice, notes


def find_hot(hot: Sequence[str], pairs: Sequence[UnitPair]) -> dict[str, list[str]]:
    """Return the unit of each name: a variable's, or for "rq.nr_running" the struct's.

    :raises InputError: no unit has it
    """
    found: dict[str, list[str]] = {}
    for name in dict.fromkeys(hot):
        unit, entry = _find(name, pairs)
        found.setdefault(unit, []).append(entry)
    return found


def _find(name: str, pairs: Sequence[UnitPair]) -> tuple[str, str]:
    for pair in pairs:
        wanted = name
        if pair.change.kind == "struct":
            # "rq.nr_running", and with the path inside a member too.
            tag, _, wanted = name.partition(".")
            if not wanted or pair.name != f"struct {tag}":
                continue
        if any(wanted in sheet.spans for sheet in pair.sheets):
            return pair.name, wanted
    raise InputError(
        f"hot set: no {name[:60]!r} in what is compared; name variables, or fields as struct.field"
    )


def count_hot(pair: UnitPair, names: Sequence[str], line_bytes: int) -> LayoutHotSet:
    """Return on how many lines a set is on both sides, and which of its pairs changed."""
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
    wanted = frozenset(names)
    return tuple(pair for pair in pairs if wanted.issuperset(pair))[:MOST_LISTED]


def _own_names(pair: UnitPair, names: Iterable[str]) -> list[str]:
    # As new calls them, and of new only what it has.
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
