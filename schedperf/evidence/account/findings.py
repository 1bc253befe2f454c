# SPDX-License-Identifier: GPL-2.0-or-later
"""Report significant changes of the time of the workload's own tasks.

Tasks that share CPUs wait longer if each one needs more CPU time; blocked tasks wait for others.
So a change of waiting time is an effect if CPU time changed, too, unless waiting time changed much
more; and so is a change of blocked time, if CPU time or waiting time changed. The change of a part
is also an effect if it is small beside that of another part that is a reason.
"""

from collections.abc import Hashable, Iterator, Mapping

from msgspec.structs import replace

from schedperf.evidence import caveat_rule, finding
from schedperf.evidence.account.other_load import other_load_caveats, other_load_findings
from schedperf.evidence.account.record import (
    ALL_PARTS,
    ON_CPU,
    Account,
    AccountPoint,
    AccountRow,
    Kind,
    Part,
    PartChange,
    SampledWaiting,
    describe_coverage,
    describe_others,
    write_points,
)
from schedperf.model.counted import RateRow
from schedperf.model.sections import Finding
from schedperf.model.units import format_measure
from schedperf.model.verdict import SMALLEST_EFFECT
from schedperf.stats.counted.findings import describe_interval, rate_finding, write_change

# For each kind of time, those of which it may be an effect.
CAUSES: Mapping[Kind, tuple[Kind, ...]] = {"waiting": ("cpu",), "blocked": ("cpu", "waiting")}
# An effect may be larger than its cause, by this factor on a logarithmic scale.
MOST_LARGER = 2
# A part that contributes less than this fraction of the largest reason does not explain the change.
LEAST_PART = 0.1
# Largest number of findings per side; the section has every row.
MOST_FINDINGS = 3
WORDS: Mapping[Part, str] = {
    "cpu": "CPU time of the workload's tasks",
    "user": "user time of the workload's tasks",
    "system": "system time of the workload's tasks",
    "exiting": "CPU time of the workload's exiting tasks",
    "waiting": "time that the workload's tasks waited for a CPU",
    "blocked": "time that the workload's tasks were blocked",
}
MEANINGS: Mapping[Part, str] = {
    "cpu": "in user or kernel mode",
    "user": "CPU time in user mode",
    "system": "CPU time in kernel mode",
    "exiting": "CPU time in kernel mode after a task's record, e.g. to free its memory",
    "waiting": "runnable, but not running",
    "blocked": "waiting for I/O, a lock or other tasks",
}


caveat_rule("other_load", Account)(other_load_caveats)
finding("other_load", Account)(other_load_findings)


@finding("account_changes", Account)
def account_changes(data: Account) -> Iterator[Finding]:
    """Yield the changed parts of the thread-time of each side, the largest contribution first."""
    rows = {row.identity: row for row in data.rows}
    for side in dict.fromkeys(point.side for point in data.points):
        pairs = [
            (point, change, rows.get(_identity(point, change)))
            for point in data.points
            if point.side == side
            for change in point.parts
        ]
        changed = [
            (point, change, row)
            for point, change, row in pairs
            if row and row.changed and not _is_negligible(point, change)
        ]
        changed.sort(key=lambda each: -abs(each[1].contribution))
        largest: dict[Hashable, float] = {}
        for point, change, row in changed[:MOST_FINDINGS]:
            found = _describe(point, change, row, data)
            size = abs(change.contribution)
            is_effect = size < LEAST_PART * largest.get(point, 0.0) or any(
                _can_cause(cause, row) for cause in _possible_causes(row, rows)
            )
            if not is_effect:
                largest.setdefault(point, size)
            yield replace(found, bearing="effect") if is_effect else found


def _is_negligible(point: AccountPoint, change: PartChange) -> bool:
    """Return whether a part of the CPU time changed by less than 1% of all CPU time of base."""
    cpu_s = sum(part.base for part in point.parts if part.part in ON_CPU)
    return change.part in ON_CPU and abs(change.new - change.base) < SMALLEST_EFFECT * cpu_s


def _possible_causes(
    row: AccountRow, rows: Mapping[tuple[Hashable, ...], AccountRow]
) -> Iterator[AccountRow]:
    """Yield the rows of the same point whose change may be the cause of a change of this row."""
    for kind in CAUSES.get(row.kind, ()):
        found = rows.get(replace(row, kind=kind).identity)
        if found is not None:
            yield found


def _can_cause(cause: RateRow, effect: RateRow) -> bool:
    """Return whether the change of the cause may explain most of that of the effect.

    Both are in one direction, and the logarithm of the cause's ratio is at least half of that of
    the effect, by the end of its 95% CI that is nearer to no change. The waiting time of tasks that
    share CPUs can grow by a larger factor than their CPU time, as in any queue.
    """
    if not cause.changed or cause.ratio is None or effect.ci_low is None or effect.ci_high is None:
        return False
    if cause.ratio > 1.0:
        return 1.0 < effect.ci_low <= cause.ratio**MOST_LARGER
    return cause.ratio**MOST_LARGER <= effect.ci_high < 1.0


@finding("sampled_waiting", Account)
def sampled_waiting(data: Account) -> Iterator[Finding]:
    """Yield the changes of the sampled waiting time that tasks not sampled cannot explain."""
    rows = {row.identity: row for row in data.rows}
    for row in (row for row in data.sampled if row.changed):
        found = _describe_sampled(row)
        cause = rows.get((row.side, row.workload, row.point, "cpu", row.basis))
        is_effect = cause is not None and _can_cause(cause, row)
        yield replace(found, bearing="effect") if is_effect else found


def _identity(point: AccountPoint, change: PartChange) -> tuple[Hashable, ...]:
    return point.side, point.workload, point.point, change.part, point.basis


def _describe(point: AccountPoint, change: PartChange, row: AccountRow, data: Account) -> Finding:
    part = next(part for part in ALL_PARTS if part == change.part)
    return _finding(
        row,
        part,
        rule="account_changes",
        remark=""
        if point.missing
        else f"{write_points(change.contribution)} pp of all thread-time",
        mostly=f" ({change.remark})" if change.remark else "",
        others=describe_others(point, data) if part == "waiting" else "",
    )


def _describe_sampled(row: SampledWaiting) -> Finding:
    return _finding(
        row,
        "waiting",
        rule="sampled_waiting",
        remark=f"sampled in instrumented runs, {describe_coverage(row)}",
        bound="at least ",
    )


def _finding(
    row: RateRow,
    part: Part,
    *,
    rule: str,
    remark: str,
    mostly: str = "",
    others: str = "",
    bound: str = "",
) -> Finding:
    base, new = (
        format_measure(value, row.unit, row.base, row.new) for value in (row.base, row.new)
    )
    where = f"{row.point}: " if row.point else ""
    per = row.unit.partition("/")[2]
    size = "" if row.ratio is None else f", {write_change(row.ratio)}"
    return rate_finding(
        row,
        rule=rule,
        section="account",
        clause=f"{where}{WORDS[part]}{mostly} per {per} {bound}{base} -> {new}",
        change=f"{size}{describe_interval(row, remark)}",
        details=f": {'; '.join(filter(None, (MEANINGS[part], others)))}",
        metric=f"{part} time per {per}",
        better="lower",
    )
