# SPDX-License-Identifier: GPL-2.0-or-later
"""Throttled cgroups, CPU time, watts, stalls, idle states and interrupts with a significant change.

What is a mere consequence of a longer or a shorter run is left out: counts an operation of what
comes with time (:mod:`schedperf.stats.counted.findings`), and shares of the CPUs' time. All shares
add up to 1, so one of them falls where another grows, and the time per operation tells which did.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from schedperf.evidence import finding
from schedperf.evidence.system.compare import COUNTED_TWICE, NOT_BUSY
from schedperf.evidence.system.record import Group, SystemCounters, SystemRow
from schedperf.evidence.system.sums import TOTAL
from schedperf.model.comparison import Finding
from schedperf.model.counted import Basis
from schedperf.model.units import format_measure
from schedperf.stats.counted.findings import Paces, describe_interval, rate_finding
from schedperf.stats.counted.rates import distance_of

# Of one side; the section's tables have every row.
MOST_FINDINGS = 4
# Of one group of counters: hundreds of interrupts must leave room for the others.
MOST_OF_GROUP = 2
# A kind has most of a change from here on; below that nothing is said of its part.
_LEAST_PART = 0.5


class _Rule(NamedTuple):
    """What is said of the rows of one field.

    :param field: None: whatever the group counts
    :param bases: only the first of them that has a row is looked at
    """

    group: Group
    field: str | None
    bases: tuple[Basis, ...]
    text: str


# The most telling ones first. A rate an operation has precedence over a rate a second, which a
# slower kernel lowers for everything; watts are what a second costs, whoever works in it.
_WORK: tuple[Basis, ...] = ("operation", "time")
_RULES = (
    _Rule(
        "cgroup",
        "throttled_share",
        ("share",),
        "cgroup {subject}: throttled in {base} -> {new} of its periods",
    ),
    _Rule(
        "cgroup",
        "throttled",
        _WORK,
        "cgroup {subject}: throttled for {base} -> {new} per {per}, summed over CPUs",
    ),
    _Rule(
        "cpu",
        "time",
        ("operation",),
        "{subject} time per {per} {base} -> {new}{change}",
    ),
    _Rule("power", "energy", ("time",), "{subject} draws {base} -> {new}"),
    _Rule("power", "energy", ("operation",), "{subject} draws {base} -> {new} per {per}"),
    _Rule("frequency", "mean", ("share",), "CPU frequency {base} -> {new}"),
    _Rule(
        "pressure",
        None,
        ("share",),
        "pressure {subject}: {base} -> {new} of the time",
    ),
    _Rule("idle", "usage", _WORK, "{subject} is entered {often} per {per}"),
    _Rule(
        "idle",
        "time",
        ("operation",),
        "CPUs are in {subject} for {base} -> {new} per {per}",
    ),
    _Rule(
        "idle",
        "share",
        ("share",),
        "CPUs are in {subject} for {base} -> {new} of the time",
    ),
    _Rule(
        "cpu",
        "share",
        ("share",),
        "CPUs spend {base} -> {new} of the time in {subject}",
    ),
    _Rule("softirqs", None, _WORK, "softirqs {subject} come {often} per {per}"),
    _Rule("interrupts", None, _WORK, "interrupts {subject} come {often} per {per}"),
)


@finding("system_changes", SystemCounters)
def system_changes(data: SystemCounters) -> Iterator[Finding]:
    """Yield a few changes of each side, in the order of the rules, the largest of each first.

    A cgroup, a state or an interrupt is told once, at the point where it changed most.
    """
    paces = Paces(_rates(data.rows))
    described: set[tuple[str, str, str]] = set()
    of_side: Counter[str] = Counter()
    of_group: Counter[tuple[str, str]] = Counter()
    for rule, row in _changed(data.rows, paces):
        side, group = row.side, row.group
        subject = (side, group, row.subject)
        is_full = of_side[side] >= MOST_FINDINGS or of_group[side, group] >= MOST_OF_GROUP
        if not is_full and subject not in described:
            described.add(subject)
            of_side[side] += 1
            of_group[side, group] += 1
            yield _describe(rule, row, (paces.describe(row), _part(row, data.rows)))


def _changed(rows: Sequence[SystemRow], paces: Paces) -> Iterator[tuple[_Rule, SystemRow]]:
    costly = {row.identity for row in rows if (row.field, row.basis) == ("time", "operation")}
    for rule in _RULES:
        found: dict[tuple[Hashable, ...], SystemRow] = {}
        mine = [
            row
            for row in rows
            if row.group == rule.group
            and rule.field in (None, row.field)
            and row.node is None
            and row.basis in rule.bases
        ]
        for row in sorted(mine, key=lambda row: rule.bases.index(row.basis)):
            found.setdefault(row.identity, row)
        telling = [
            row
            for row in found.values()
            if row.changed
            and paces.is_reason(row)
            and not (row.field == "share" and replace(row, field="time").identity in costly)
        ]
        for row in sorted(_without_sums(telling), key=lambda row: -distance_of(row.ratio)):
            yield rule, row


def _part(row: SystemRow, rows: Sequence[SystemRow]) -> str:
    if not _is_cost(row):
        return ""
    place = _place(row)
    return _describe_part(row, [one for one in rows if _is_cost(one) and _place(one) == place])


def _place(row: SystemRow) -> tuple[Hashable, ...]:
    return row.side, row.workload, row.point, row.node


def _without_sums(rows: Sequence[SystemRow]) -> list[SystemRow]:
    # The sum over cgroups is told where the sides have cgroups of other names.
    named = {row.side for row in rows if row.subject != TOTAL}
    return [row for row in rows if row.subject != TOTAL or row.side not in named]


def _describe(rule: _Rule, row: SystemRow, remarks: Sequence[str]) -> Finding:
    where = f"{row.point}: " if row.point else ""
    # What reads the CPUs' times is not what spends them.
    function = "" if row.group == "cpu" else row.function
    look_at = f"; look at {function}" if function else ""
    claim = (
        f"{where}{_sentence(rule, row)}{describe_interval(row, *remarks)}: {row.meaning}{look_at}"
    )
    return rate_finding(
        row,
        rule="system_changes",
        section="system_counters",
        claim=claim,
        metric=f"{row.group} {row.subject} {row.field}",
        # A kind of time that CPUs work for the same operation is a cost; all else is neither.
        better="lower" if _is_cost(row) else None,
    )


def _sentence(rule: _Rule, row: SystemRow) -> str:
    base, new = (
        format_measure(value, row.unit, row.base, row.new) for value in (row.base, row.new)
    )
    per = row.unit.partition("/")[2]
    often = f"{base} -> {new} times"
    if row.ratio is not None:
        often = f"{row.ratio:.3g} times as often"
    return rule.text.format(
        subject=row.subject,
        base=base,
        new=new,
        often=often,
        change="" if row.ratio is None else f", {100.0 * (row.ratio - 1.0):+.1f}%",
        per="second" if per == "s" else per,
    )


def _is_cost(row: SystemRow) -> bool:
    """Is it the time that CPUs worked for an operation?"""
    what = (row.group, row.field, row.basis)
    return what == ("cpu", "time", "operation") and row.subject not in NOT_BUSY


def _describe_part(row: SystemRow, costs: Iterable[SystemRow]) -> str:
    """Say which part of the change of all busy time a kind has at least, or "" of a small part.

    The part is the least that the 95% CIs leave: the end of the kind's own that is nearest
    to no change, beside those ends of all others that are farthest in the same direction.

    :param costs: of the same place, the row among them
    """
    rises = (row.new or 0.0) > (row.base or 0.0)
    own = _change(row, _ends(row)[0 if rises else 1], rises=rises)
    others = sum(
        _largest_change(one, rises=rises)
        for one in costs
        if one.subject not in (row.subject, *COUNTED_TWICE)
    )
    part = own / (own + others) if own > 0.0 else 0.0
    if part < _LEAST_PART:
        return ""
    per = row.unit.partition("/")[2]
    verb = "growth" if rises else "fall"
    # Rounded down, since it is the least.
    return f"at least {math.floor(100.0 * part)}% of the {verb} of busy time per {per}"


def _largest_change(row: SystemRow, *, rises: bool) -> float:
    if None in _ends(row):
        # A run has none of it, so it has no ratio; it changed by no more than all that there was.
        return max(*row.values_base, *row.values_new)
    return _change(row, _ends(row)[1 if rises else 0], rises=rises)


def _ends(row: SystemRow) -> tuple[float | None, float | None]:
    return row.ci_low, row.ci_high


def _change(row: SystemRow, ratio: float | None, *, rises: bool) -> float:
    # In the row's unit, 0 where it goes the other way. The logarithmic mean makes it the same size
    # from either side.
    if not ratio or not row.base or not row.new:
        return 0.0
    change = math.log(ratio) * _logarithmic_mean(row.base, row.new)
    return max(change if rises else -change, 0.0)


def _logarithmic_mean(one: float, other: float) -> float:
    # Stolarsky, "Generalizations of the logarithmic mean", Math. Mag. 48 (1975).
    return one if one == other else (other - one) / math.log(other / one)


def _rates(rows: Iterable[SystemRow]) -> Iterator[SystemRow]:
    """Yield what is known by time, for :class:`schedperf.stats.counted.findings.Paces`.

    The share of the time that CPUs did nothing is the rate of that time: they do so for longer
    while a run takes longer. Of the time that they work no rate is asked: where the whole of it was
    the kernel's before, there can be no larger share.
    """
    for row in rows:
        is_time = row.field in ("time", "share") and row.group in ("cpu", "idle")
        if is_time and row.group == "cpu" and row.subject not in NOT_BUSY:
            continue
        if row.basis == "time":
            yield row
        elif is_time and row.basis == "share":
            yield replace(row, field="time")
