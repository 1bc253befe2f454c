# SPDX-License-Identifier: GPL-2.0-or-later
"""Find the reason to which most of a change of waiting or blocked time is due."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from schedperf.evidence.account.record import (
    SUB_PARTS,
    AccountPoint,
    PartChange,
    SubPart,
    SubPartChange,
)
from schedperf.evidence.account.waits import Divided

# Smallest share of a part's change that the main reason has.
LEAST_SHARE = 0.5


def with_main_reasons(points: Sequence[AccountPoint], divided: Divided) -> Iterator[AccountPoint]:
    """Yield the points with the main reason of each change of waiting and blocked time."""
    for point in points:
        parts = [replace(each, mostly=_main_reason(point, each, divided)) for each in point.parts]
        yield replace(point, parts=tuple(parts))


def _main_reason(point: AccountPoint, change: PartChange, divided: Divided) -> SubPart | None:
    """Return the sub-part to which most of a change is due; None if it is unknown.

    It changed significantly, in the direction of the part and by at least half of its change, in
    the instrumented runs of the same workload and point. Blocked time has one only if it is known
    how much of it is I/O.
    """
    reasons = SUB_PARTS.get(change.part, ()) if change.part is not None else ()
    at = (point.side, point.workload, point.point)
    changed = {
        row.kind
        for row in divided.rows
        if row.changed and (row.side, row.workload, row.point) == at
    }
    changes = [
        sub
        for each in divided.points
        if (each.side, each.workload, each.point) == at
        for sub in each.parts
        if sub.part in reasons and not (sub.part == "other" and "io" in each.missing)
    ]
    whole = sum(sub.contribution for sub in changes)
    largest = max(changes, key=lambda sub: sub.contribution * whole, default=None)
    if largest is None or largest.part not in changed or whole * change.contribution <= 0.0:
        return None
    return largest.part if _is_most(largest, whole) else None


def _is_most(sub: SubPartChange, whole: float) -> bool:
    # Both have one sign.
    return sub.contribution * whole > 0.0 and abs(sub.contribution) >= LEAST_SHARE * abs(whole)
