"""Throttled cgroups, watts, stalls, idle states and interrupts that changed beyond noise."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from schedperf.captures._system_changes import TOTAL
from schedperf.findings import finding
from schedperf.model import Finding, Section
from schedperf.quantities import format_measure

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


@finding("system_changes", needs=("system_counters",))
def system_changes(sections: Mapping[str, Section]) -> Iterator[Finding]:
    """Yield a few changes of each side, in the order of the rules, the largest of each first.

    A cgroup, a state or an interrupt is told once, at the point where it changed most.
    """
    # The section's own JSON Schema vouches for the shape.
    data: Any = sections["system_counters"].data
    told: set[tuple[str, str, str]] = set()
    of_side: Counter[str] = Counter()
    of_group: Counter[tuple[str, str]] = Counter()
    for rule, row in _changed(data["rows"]):
        side, group = row["side"], row["group"]
        subject = (side, group, row["subject"])
        is_full = of_side[side] >= MOST_FINDINGS or of_group[side, group] >= MOST_OF_GROUP
        if not is_full and subject not in told:
            told.add(subject)
            of_side[side] += 1
            of_group[side, group] += 1
            yield _describe(rule, row)


def _changed(rows: Sequence[Entry]) -> Iterator[tuple[_Rule, Entry]]:
    for rule in _RULES:
        found: dict[tuple[str, ...], Entry] = {}
        mine = [
            row
            for row in rows
            if row["group"] == rule.group
            and rule.field in (None, row["field"])
            and row["node"] is None
            and row["basis"] in rule.bases
        ]
        for row in sorted(mine, key=lambda row: rule.bases.index(row["basis"])):
            names = ("side", "workload", "point", "subject", "field")
            found.setdefault(tuple(row[name] for name in names), row)
        telling = [row for row in found.values() if row["changed"]]
        for row in sorted(_without_sums(telling), key=_distance, reverse=True):
            yield rule, row


def _without_sums(rows: Sequence[Entry]) -> list[Entry]:
    # The sum over cgroups is told where the sides have cgroups of other names.
    named = {row["side"] for row in rows if row["subject"] != TOTAL}
    return [row for row in rows if row["subject"] != TOTAL or row["side"] not in named]


def _distance(row: Entry) -> float:
    return abs(math.log(row["ratio"])) if row["ratio"] else math.inf


def _describe(rule: _Rule, row: Entry) -> Finding:
    change, low, high = (
        None if row[name] is None else 100.0 * (row[name] - 1.0)
        for name in ("ratio", "ci_low", "ci_high")
    )
    interval = None if low is None or high is None else (low, high)
    known = "" if interval is None else f" (95 % interval {low:+.0f}..{high:+.0f} %)"
    where = f"{row['point']}: " if row["point"] else ""
    look_at = f"; look at {row['function']}" if row["function"] else ""
    return Finding(
        id=f"system_changes#{row['row']}",
        side=row["side"],
        claim=f"{where}{_sentence(rule, row)}{known}: {row['meaning']}{look_at}",
        metric=f"{row['group']} {row['subject']} {row['field']}",
        value=change,
        ci=interval,
        unit="%",
        better=None,
        n=(row["n_base"], row["n_new"]),
        evidence=(f"system_counters#{row['row']}",),
        replication=f"{row['n_base']}+{row['n_new']} {row['replication']}",
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
        per="second" if per == "s" else per,
    )
