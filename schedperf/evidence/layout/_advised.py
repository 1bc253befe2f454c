"""Where to declare what belongs together: for the first alarm, and for a set of one's own."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from schedperf.evidence.layout._plain import MOST_LISTED, Plain, pairs_plain, uses_plain
from schedperf.evidence.layout._unit_pairs import UnitPair
from schedperf.evidence.layout.advice import Advice, advise, hot_set_of
from schedperf.evidence.layout.model import Unit
from schedperf.evidence.layout.ranking import Alarm, Rule
from schedperf.evidence.layout.windows import MOST_WINDOW_LINES, Sheet
from schedperf.model.errors import InputError

# Rules about entries that should share lines; of the others no order of declarations is the cure.
PACKABLE: tuple[Rule, ...] = ("separated", "spread")
OWN_SET = "hot"


def advise_alarm(
    alarms: Iterable[tuple[Alarm, str, UnitPair]], line_bytes: int
) -> tuple[list[Plain], list[str]]:
    """Return advice for the first alarm that an order of declarations can cure, else why not."""
    for alarm, row, pair in alarms:
        if alarm.rule in PACKABLE:
            names = _own_names(pair, alarm.entries)
            wanted = hot_set_of(pair.units[1], names) if names else ()
            return _advised(row, pair, wanted, line_bytes)
    return [], []


def advise_hot(
    hot: Iterable[tuple[UnitPair, Sequence[str]]], line_bytes: int
) -> tuple[list[Plain], list[str]]:
    """Return advice for a set that the user named, for each unit that has some of it."""
    advice, notes = list[Plain](), list[str]()
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


def hot_plain(pair: UnitPair, names: Sequence[str], line_bytes: int) -> Plain:
    """Return on how many lines a set is on both sides, and which of its pairs changed."""
    wanted, lines = frozenset(names), pair.change.lines
    both = (names, _own_names(pair, names))
    counts = [
        len({line for name in own if name in sheet.spans for line in _all_lines(sheet, name)})
        for sheet, own in zip(pair.sheets, both, strict=True)
    ]
    return {
        "unit": pair.name,
        "names": list(names),
        "line_bytes": line_bytes,
        "lines": {"base": counts[0], "new": counts[1]},
        "separated": pairs_plain(one for one in lines.separated if wanted.issuperset(one)),
        "joined": pairs_plain(one for one in lines.joined if wanted.issuperset(one)),
    }


def _all_lines(sheet: Sheet, name: str) -> range:
    first, last = sheet.ends(name)
    return range(first, last + 1)


def _own_names(pair: UnitPair, names: Iterable[str]) -> list[str]:
    # As new calls them, and of new only what it has.
    called = [pair.new_names.get(name, name) for name in names]
    return [name for name in called if name in pair.sheets[1].spans]


def _advised(
    about: str, pair: UnitPair, names: Sequence[str], line_bytes: int
) -> tuple[list[Plain], list[str]]:
    if not names:
        return [], []
    try:
        advice = advise(pair.units[1], names, line_bytes)
    except InputError as error:
        return [], [f"no advice: {error}"]
    return [advice_plain(about, advice, pair.units[1], names)], []


def advice_plain(about: str, advice: Advice, unit: Unit, names: Sequence[str]) -> Plain:
    """Return advice for one unit.

    :param about: row of the alarm that it is for, or OWN_SET
    :param names: of the set
    """
    predicted = _predicted(advice, unit, names)
    return {
        "about": about,
        "unit": advice.unit,
        "line_bytes": advice.line_bytes,
        "is_change": advice.is_change,
        "order": list(advice.order),
        "after": advice.after,
        "is_aligned": advice.is_aligned,
        "lines_before": advice.lines_before,
        "lines_after": advice.lines_after,
        "fewest": advice.fewest,
        "moved": advice.moved,
        "joins": pairs_plain(advice.joins),
        "left_out": [
            {"name": name, "reason": reason}
            for name, reason in list(advice.left_out.items())[:MOST_LISTED]
        ],
        "notes": list(advice.notes),
        "predicted": predicted,
        "uses": uses_plain(unit.name, sorted(str(row["name"]) for row in predicted if row["name"])),
    }


def _predicted(advice: Advice, unit: Unit, names: Sequence[str]) -> list[Plain]:
    # Bytes behind the unit's end may be what the new order needs.
    sheet = Sheet(replace(unit, entries=advice.predicted, size=None), advice.line_bytes)
    lines = sorted(sheet.starts(names))[:MOST_WINDOW_LINES]
    marks: Mapping[str, str] = {}
    if advice.is_change:
        marks = dict.fromkeys(_moved(sheet, unit), "moved")
    return sheet.rows(frozenset(lines), marks, frozenset(names))


def _moved(sheet: Sheet, unit: Unit) -> Iterable[str]:
    now = {entry.name: entry.offset for entry in unit.entries}
    return (entry.name for entry in sheet.entries if entry.offset != now.get(entry.name))
