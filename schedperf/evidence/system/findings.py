"""Throttled cgroups, CPU time, watts, stalls, idle states and interrupts that changed beyond noise.

What is a mere consequence of a longer or a shorter run is left out: counts an operation of what
comes with time (:mod:`schedperf.stats.counted.pace`), and shares of the CPUs' time. All shares add
up
to 1, so one of them falls where another grows, and the time per operation tells which did.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from schedperf.evidence import dict_finding
from schedperf.evidence.system._cpu_time import describe_part, is_cost, rates
from schedperf.evidence.system.changes import TOTAL
from schedperf.model.comparison import Finding, Section
from schedperf.model.units import format_measure
from schedperf.stats.counted.pace import Paces
from schedperf.stats.counted.rates import distance_of
from schedperf.stats.verdicts import count_units

# Of one side; the section's tables have every row.
MOST_FINDINGS = 4
# Of one group of counters: hundreds of interrupts must leave room for the others.
MOST_OF_GROUP = 2

Entry = Mapping[str, Any]


class _Rule(NamedTuple):
    """What is said of the rows of one field.

    :param field: None: whatever the group counts
    :param bases: only the first of them that has a row is looked at
    """

    group: str
    field: str | None
    bases: tuple[str, ...]
    text: str


# The most telling ones first. A rate an operation has precedence over a rate a second, which a
# slower kernel lowers for everything; watts are what a second costs, whoever works in it.
_WORK = ("operation", "time")
# Where a row was measured, and what it counts there.
_POINT = ("side", "workload", "point")
_PLACE = (*_POINT, "group", "subject", "field", "node")
_RULES = (
    _Rule(
        "cgroup",
        "throttled_share",
        ("share",),
        "cgroup {subject}: throttled in {new} of its periods instead of {base}",
    ),
    _Rule(
        "cgroup",
        "throttled",
        _WORK,
        "cgroup {subject}: throttled for {new} per {per} instead of {base}, summed over CPUs",
    ),
    _Rule(
        "cpu",
        "time",
        ("operation",),
        "{subject} time per {per} is {new} instead of {base}{change}",
    ),
    _Rule("power", "energy", ("time",), "{subject} takes {new} instead of {base}"),
    _Rule("power", "energy", ("operation",), "{subject} takes {new} per {per} instead of {base}"),
    _Rule("frequency", "mean", ("share",), "CPUs run at {new} instead of {base}"),
    _Rule(
        "pressure",
        None,
        ("share",),
        "pressure {subject}: {new} of the time instead of {base}",
    ),
    _Rule("idle", "usage", _WORK, "{subject} is entered {often} per {per}"),
    _Rule(
        "idle",
        "time",
        ("operation",),
        "CPUs are in {subject} for {new} per {per} instead of {base}",
    ),
    _Rule(
        "idle",
        "share",
        ("share",),
        "CPUs are in {subject} for {new} of the time instead of {base}",
    ),
    _Rule(
        "cpu",
        "share",
        ("share",),
        "CPUs spend {new} of the time in {subject} instead of {base}",
    ),
    _Rule("softirqs", None, _WORK, "softirqs {subject} come {often} per {per}"),
    _Rule("interrupts", None, _WORK, "interrupts {subject} come {often} per {per}"),
)


@dict_finding("system_changes", needs=("system_counters",))
def system_changes(sections: Mapping[str, Section]) -> Iterator[Finding]:
    """Yield a few changes of each side, in the order of the rules, the largest of each first.

    A cgroup, a state or an interrupt is told once, at the point where it changed most.
    """
    # The section's own JSON Schema vouches for the shape.
    data: Any = sections["system_counters"].data
    rows: Sequence[Entry] = data["rows"]
    paces = Paces(rates(rows), _PLACE)
    told: set[tuple[str, str, str]] = set()
    of_side: Counter[str] = Counter()
    of_group: Counter[tuple[str, str]] = Counter()
    for rule, row in _changed(rows, paces):
        side, group = row["side"], row["group"]
        subject = (side, group, row["subject"])
        is_full = of_side[side] >= MOST_FINDINGS or of_group[side, group] >= MOST_OF_GROUP
        if not is_full and subject not in told:
            told.add(subject)
            of_side[side] += 1
            of_group[side, group] += 1
            yield _describe(rule, row, (paces.describe(row), _part(row, rows)))


def _changed(rows: Sequence[Entry], paces: Paces) -> Iterator[tuple[_Rule, Entry]]:
    costly = {_place(row) for row in rows if (row["field"], row["basis"]) == ("time", "operation")}
    for rule in _RULES:
        found: dict[tuple[object, ...], Entry] = {}
        mine = [
            row
            for row in rows
            if row["group"] == rule.group
            and rule.field in (None, row["field"])
            and row["node"] is None
            and row["basis"] in rule.bases
        ]
        for row in sorted(mine, key=lambda row: rule.bases.index(row["basis"])):
            found.setdefault(_place(row), row)
        telling = [
            row
            for row in found.values()
            if row["changed"]
            and paces.is_reason(row)
            and not (row["field"] == "share" and _place({**row, "field": "time"}) in costly)
        ]
        for row in sorted(_without_sums(telling), key=lambda row: -distance_of(row["ratio"])):
            yield rule, row


def _place(row: Entry) -> tuple[object, ...]:
    return tuple(row[name] for name in _PLACE)


def _part(row: Entry, rows: Sequence[Entry]) -> str:
    if not is_cost(row):
        return ""
    place = [row[name] for name in (*_POINT, "node")]
    costs = [one for one in rows if is_cost(one)]
    here = [one for one in costs if [one[name] for name in (*_POINT, "node")] == place]
    return describe_part(row, here)


def _without_sums(rows: Sequence[Entry]) -> list[Entry]:
    # The sum over cgroups is told where the sides have cgroups of other names.
    named = {row["side"] for row in rows if row["subject"] != TOTAL}
    return [row for row in rows if row["subject"] != TOTAL or row["side"] not in named]


def _describe(rule: _Rule, row: Entry, remarks: Sequence[str]) -> Finding:
    change, low, high = (
        None if row[name] is None else 100.0 * (row[name] - 1.0)
        for name in ("ratio", "ci_low", "ci_high")
    )
    interval = None if low is None or high is None else (low, high)
    known = "" if interval is None else f"95 % interval {low:+.0f}..{high:+.0f} %"
    told = ", ".join(filter(None, (known, *remarks)))
    sizes = f" ({told})" if told else ""
    where = f"{row['point']}: " if row["point"] else ""
    # What reads the CPUs' times is not what spends them.
    function = "" if row["group"] == "cpu" else row["function"]
    look_at = f"; look at {function}" if function else ""
    return Finding(
        id=f"system_changes#{row['row']}",
        side=row["side"],
        claim=f"{where}{_sentence(rule, row)}{sizes}: {row['meaning']}{look_at}",
        metric=f"{row['group']} {row['subject']} {row['field']}",
        value=change,
        ci=interval,
        unit="%",
        # A kind of time that CPUs work for the same operation is a cost; all else is neither.
        better="lower" if is_cost(row) else None,
        n=(row["n_base"], row["n_new"]),
        evidence=(f"system_counters#{row['row']}",),
        replication=count_units(row["n_base"], row["n_new"], row["replication"]),
        attribution="co-occurs; not shown to cause the change",
    )


def _sentence(rule: _Rule, row: Entry) -> str:
    base, new = (
        format_measure(row[name], row["unit"], row["base"], row["new"]) for name in ("base", "new")
    )
    per = str(row["unit"]).partition("/")[2]
    often = f"{new} times instead of {base}"
    if row["ratio"] is not None:
        often = f"{row['ratio']:.3g} times as often"
    return rule.text.format(
        subject=row["subject"],
        base=base,
        new=new,
        often=often,
        change="" if row["ratio"] is None else f", {100.0 * (row['ratio'] - 1.0):+.1f} %",
        per="second" if per == "s" else per,
    )
