# SPDX-License-Identifier: GPL-2.0-or-later
"""Yield findings for changed throttling, CPU time, power, stalls, idle states and interrupts.

Changes that only follow from a longer or shorter run are left out: counts per operation of
clock-driven events (:mod:`schedperf.stats.counted.findings`), and shares of CPU time if the time
per operation is known. All shares add up to 1, so one decreases if another increases; the time per
operation shows which one changed.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from msgspec.structs import replace

from schedperf.evidence import joined_finding
from schedperf.evidence.system.compare import COUNTED_TWICE, NOT_BUSY
from schedperf.evidence.system.record import Group, SystemCounters, SystemRow
from schedperf.evidence.system.sums import TOTAL
from schedperf.model.counted import Basis
from schedperf.model.rows import Row
from schedperf.model.sections import Finding, Section, data_of
from schedperf.model.units import format_measure
from schedperf.stats.counted.findings import Paces, describe_interval, rate_finding, write_change
from schedperf.stats.counted.rates import distance_of

# Largest number of findings per side; the section's tables have every row.
MOST_FINDINGS = 4
# Largest number of findings per group of counters, since there are hundreds of interrupts.
MOST_OF_GROUP = 2
# The section with the time of the workload's own tasks, and the times of all tasks that it
# replaces.
ACCOUNT = "account"
_IN_ACCOUNT: AbstractSet[tuple[Group, str]] = {
    ("cpu", "user"),
    ("cpu", "nice"),
    ("cpu", "system"),
}
# Groups that count what all tasks do; power and frequency have no tasks, and a cgroup has its own.
_OF_MACHINE: AbstractSet[Group] = {"cpu", "idle", "pressure", "softirqs", "interrupts"}
# A smaller part of the change of busy time is not reported.
_LEAST_PART = 0.5


class _Rule(NamedTuple):
    """Text of the finding for the rows of one field.

    :param field: None for all fields of the group
    :param bases: in order of preference; only the first with a row is used
    """

    group: Group
    field: str | None
    bases: tuple[Basis, ...]
    text: str


# In order of importance. Rates per operation have precedence over rates per second, because a
# slower kernel lowers all rates per second; power is always per second.
_WORK: tuple[Basis, ...] = ("operation", "time")
_RULES = (
    _Rule(
        "cgroup",
        "throttled_share",
        ("share",),
        "cgroup {subject} was throttled in {base} -> {new} of its quota periods",
    ),
    _Rule(
        "cgroup",
        "throttled",
        _WORK,
        "cgroup {subject} was throttled for {base} -> {new} per {per}, summed over CPUs",
    ),
    _Rule(
        "cpu",
        "time",
        ("operation",),
        "{subject} time per {per} {base} -> {new}",
    ),
    _Rule("power", "energy", ("time",), "{subject} power {base} -> {new}"),
    _Rule("power", "energy", ("operation",), "{subject} energy {base} -> {new} per {per}"),
    _Rule("frequency", "mean", ("share",), "CPU frequency {base} -> {new}"),
    _Rule(
        "pressure",
        None,
        ("share",),
        "pressure {subject}: {base} -> {new} of the time",
    ),
    _Rule("idle", "usage", _WORK, "entries into {subject} per {per} {base} -> {new}"),
    _Rule(
        "idle",
        "time",
        ("operation",),
        "CPU time in {subject}: {base} -> {new} per {per}",
    ),
    _Rule(
        "idle",
        "share",
        ("share",),
        "share of CPU time in {subject}: {base} -> {new}",
    ),
    _Rule(
        "cpu",
        "share",
        ("share",),
        "share of CPU time in {subject}: {base} -> {new}",
    ),
    _Rule("softirqs", None, _WORK, "softirqs {subject} per {per} {base} -> {new}"),
    _Rule("interrupts", None, _WORK, "interrupts {subject} per {per} {base} -> {new}"),
)


@joined_finding("system_changes")
def system_changes(sections: Mapping[str, Section], _: Sequence[Row]) -> Iterator[Finding]:
    """Yield a few changes per side, in the order of the rules, the largest of each rule first.

    User, nice and system time of all tasks are left out if the time of the workload's own tasks is
    known.

    A side has at most ``MOST_FINDINGS``, and ``MOST_OF_GROUP`` per group of counters. A cgroup,
    idle state or interrupt has one finding: of its first rule, at the point with the largest
    change.
    """
    data = data_of(sections, SystemCounters)
    if data is None:
        return
    own = sections.get(ACCOUNT)
    left_out = _IN_ACCOUNT if own is not None and own.data is not None else set()
    paces = Paces(_rates(data.rows))
    described: set[tuple[str, str, str]] = set()
    of_side: Counter[str] = Counter()
    of_group: Counter[tuple[str, str]] = Counter()
    for rule, row in _changed(data.rows, paces):
        side, group = row.side, row.group
        subject = (side, group, row.subject)
        is_full = of_side[side] >= MOST_FINDINGS or of_group[side, group] >= MOST_OF_GROUP
        if not is_full and subject not in described and (group, row.subject) not in left_out:
            described.add(subject)
            of_side[side] += 1
            of_group[side, group] += 1
            yield _describe(rule, row, (paces.describe(row), _part(row, data.rows)))


def _changed(rows: Sequence[SystemRow], paces: Paces) -> Iterator[tuple[_Rule, SystemRow]]:
    costly = {row.identity for row in rows if (row.field, row.basis) == ("time", "operation")}
    for rule in _RULES:
        by_identity: dict[tuple[Hashable, ...], SystemRow] = {}
        mine = [
            row
            for row in rows
            if row.group == rule.group
            and rule.field in (None, row.field)
            and row.node is None
            and row.basis in rule.bases
        ]
        for row in sorted(mine, key=lambda row: rule.bases.index(row.basis)):
            by_identity.setdefault(row.identity, row)
        telling = [
            row
            for row in by_identity.values()
            if row.changed
            and paces.is_reason(row)
            and not (row.field == "share" and replace(row, field="time").identity in costly)
        ]
        for row in sorted(_without_sums(telling), key=lambda row: -distance_of(row.ratio)):
            yield rule, row


def _part(row: SystemRow, rows: Sequence[SystemRow]) -> str:
    if not _is_cost(row):
        return ""
    point_and_node = _point_and_node(row)
    return _describe_part(
        row, [cost for cost in rows if _is_cost(cost) and _point_and_node(cost) == point_and_node]
    )


def _point_and_node(row: SystemRow) -> tuple[Hashable, ...]:
    return row.side, row.workload, row.point, row.node


def _without_sums(rows: Sequence[SystemRow]) -> list[SystemRow]:
    # The sum over cgroups is reported only if no single cgroup has a finding, e.g. if paths differ.
    named = {row.side for row in rows if row.subject != TOTAL}
    return [row for row in rows if row.subject != TOTAL or row.side not in named]


def _describe(rule: _Rule, row: SystemRow, remarks: Sequence[str]) -> Finding:
    where = f"{row.point}: " if row.point else ""
    # The function that accounts CPU time is not the cause of its change.
    function = "" if row.group == "cpu" else row.function
    look_at = f"; look at {function}" if function else ""
    change = "" if row.ratio is None else f", {write_change(row.ratio)}"
    return rate_finding(
        row,
        rule="system_changes",
        section="system_counters",
        clause=f"{where}{_clause(rule, row)}",
        change=f"{change}{describe_interval(row, *remarks)}",
        details=f": {row.meaning}{look_at}",
        metric=f"{row.group} {row.subject} {row.field}",
        # Busy time per operation is a cost; for other rows neither direction is better.
        better="lower" if _is_cost(row) else None,
        of_machine=row.group in _OF_MACHINE,
    )


def _clause(rule: _Rule, row: SystemRow) -> str:
    base, new = (
        format_measure(value, row.unit, row.base, row.new) for value in (row.base, row.new)
    )
    per = row.unit.partition("/")[2]
    return rule.text.format(
        subject=row.subject,
        base=base,
        new=new,
        per="second" if per == "s" else per,
    )


def _is_cost(row: SystemRow) -> bool:
    """Return whether the row is busy CPU time per operation."""
    what = (row.group, row.field, row.basis)
    return what == ("cpu", "time", "operation") and row.subject not in NOT_BUSY


def _describe_part(row: SystemRow, costs: Iterable[SystemRow]) -> str:
    """Return the minimum part of the change of busy time due to a kind of time; "" if small.

    The part is the minimum that the 95% CIs allow: the end of the kind's CI that is closest to no
    change, and the ends of all other CIs that are farthest in the same direction.

    :param costs: rows of the same workload, point and node, including the row itself
    """
    rises = (row.new or 0.0) > (row.base or 0.0)
    own = _change(row, _ends(row)[0 if rises else 1], rises=rises)
    others = sum(
        _largest_change(cost, rises=rises)
        for cost in costs
        if cost.subject not in (row.subject, *COUNTED_TWICE)
    )
    part = own / (own + others) if own > 0.0 else 0.0
    if part < _LEAST_PART:
        return ""
    per = row.unit.partition("/")[2]
    change = "increase" if rises else "decrease"
    # Rounded down, because it is a minimum.
    return f"at least {math.floor(100.0 * part)}% of the {change} in busy time per {per}"


def _largest_change(row: SystemRow, *, rises: bool) -> float:
    if None in _ends(row):
        # Without a ratio (if a run has 0), the largest value limits the change.
        return max(*row.values_base, *row.values_new)
    return _change(row, _ends(row)[1 if rises else 0], rises=rises)


def _ends(row: SystemRow) -> tuple[float | None, float | None]:
    return row.ci_low, row.ci_high


def _change(row: SystemRow, ratio: float | None, *, rises: bool) -> float:
    # In the row's unit; 0 in the other direction. The logarithmic mean makes it symmetric in both
    # sides.
    if not ratio or not row.base or not row.new:
        return 0.0
    change = math.log(ratio) * _logarithmic_mean(row.base, row.new)
    return max(change if rises else -change, 0.0)


def _logarithmic_mean(first: float, second: float) -> float:
    # Stolarsky, "Generalizations of the logarithmic mean", Math. Mag. 48 (1975).
    return first if first == second else (second - first) / math.log(second / first)


def _rates(rows: Iterable[SystemRow]) -> Iterator[SystemRow]:
    """Yield the rates per time, for :class:`schedperf.stats.counted.findings.Paces`.

    The share of idle time is the rate of idle time per second: its amount grows with the length of
    the run. Busy time needs no rate, because a share of 100% cannot grow.
    """
    for row in rows:
        is_time = row.field in ("time", "share") and row.group in ("cpu", "idle")
        if is_time and row.group == "cpu" and row.subject not in NOT_BUSY:
            continue
        if row.basis == "time":
            yield row
        elif is_time and row.basis == "share":
            yield replace(row, field="time")
