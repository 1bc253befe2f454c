# SPDX-License-Identifier: GPL-2.0-or-later
"""Name the reason to which most of a change of waiting or blocked time is due."""

from collections.abc import Mapping

from schedperf.evidence.account.record import (
    SUB_PARTS,
    Account,
    AccountPoint,
    PartChange,
    SubPart,
    SubPartChange,
    write_points,
)

WORDS: Mapping[SubPart, str] = {
    "preempted": "preempted",
    "woken": "after a wakeup",
    "yielded": "after sched_yield",
    "throttled": "throttled by the CPU bandwidth of a cgroup",
    "io": "by I/O",
    "other": "not by I/O",
}
# A smaller share of the change of its part is not most of it.
LEAST_SHARE = 0.5


def describe_main_reason(point: AccountPoint, change: PartChange, data: Account) -> str:
    """Return ``mostly preempted (+80 pp in instrumented runs)``, or "".

    It is the sub-part that changed significantly, in the direction of the part and by at least half
    of its change, in the instrumented runs of the same workload and point.
    """
    reasons = SUB_PARTS.get(change.part, ()) if change.part is not None else ()
    at = (point.side, point.workload, point.point)
    changed = {
        row.kind
        for row in data.divided_rows
        if row.changed and (row.side, row.workload, row.point) == at
    }
    changes = [
        sub
        for divided in data.divided
        if (divided.side, divided.workload, divided.point) == at
        for sub in divided.parts
        if sub.part in reasons
    ]
    whole = sum(sub.contribution for sub in changes)
    for sub in changes:
        if sub.part in changed and _is_most(sub, whole) and whole * change.contribution > 0.0:
            points = write_points(sub.contribution)
            return f"mostly {WORDS[sub.part]} ({points} pp in instrumented runs)"
    return ""


def _is_most(sub: SubPartChange, whole: float) -> bool:
    # Both have one sign.
    return sub.contribution * whole > 0.0 and abs(sub.contribution) >= LEAST_SHARE * abs(whole)
