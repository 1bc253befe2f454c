# SPDX-License-Identifier: GPL-2.0-or-later
"""Report the locks whose wait time changed most, with the functions that wait for them."""

from collections.abc import Iterator, Sequence

from schedperf.evidence import caveat_rule, finding
from schedperf.evidence.locks.record import LockRow, Locks
from schedperf.model.caveats import Caveat
from schedperf.model.probes import lost_caveats
from schedperf.model.sections import Finding
from schedperf.stats.counted.findings import rate_finding
from schedperf.stats.counted.largest import (
    describe_change,
    describe_times,
    difference,
    largest_changes,
    of_points,
)

# A lock with a smaller part of the change of all wait time is not reported.
LEAST_PART = 0.05
# Functions of a stack that a finding names.
MOST_FUNCTIONS = 4


@caveat_rule("lost_locks", Locks)
def lost(record: Locks) -> Iterator[Caveat]:
    """Yield a caveat for each side that lost many events."""
    return lost_caveats(record.sides, Locks.collector)


@finding("locks", Locks)
def locks(record: Locks) -> Iterator[Finding]:
    """Yield one finding per lock whose wait time changed, the largest differences first."""
    waits = [row for row in record.rows if row.field == "wait time" and row.node is None]
    for rows in of_points(waits):
        of_locks = [row for row in rows if row.lock and row.is_whole]
        for row in largest_changes(of_locks, LEAST_PART):
            yield _describe(row, rows)


def _describe(row: LockRow, rows: Sequence[LockRow]) -> Finding:
    return rate_finding(
        row,
        rule="locks",
        section="locks",
        clause=f"waits for {name_of(row)}: {describe_times(row)}",
        change=describe_change(row),
        details=f"{_describe_stack(row, rows)}{_describe_owner(row, rows)}",
        metric=f"wait time for {name_of(row)}",
        better="lower",
    )


def name_of(row: LockRow) -> str:
    """Return the name of a lock: ``mmap_lock (rwsem write)``, ``a mutex of do_exit()``."""
    if row.named_by == "caller":
        return f"a {row.type} in {row.lock}()"
    return f"{row.lock} ({row.type})"


def _describe_stack(row: LockRow, rows: Sequence[LockRow]) -> str:
    stacks = [each for each in rows if each.functions and each.of_lock == row.of_lock]
    if not stacks:
        return ""
    most = max(stacks, key=difference)
    functions = most.functions[1:] if row.named_by == "caller" else most.functions
    shown = [name for name in functions if name][:MOST_FUNCTIONS]
    return f"; most of it below {' < '.join(shown)}" if shown else ""


def _describe_owner(row: LockRow, rows: Sequence[LockRow]) -> str:
    owners = [each for each in rows if each.released_in and each.of_lock == row.of_lock]
    if not owners:
        return ""
    most = max(owners, key=difference)
    return f"; the largest part until {most.owner} released it in {most.released_in}()"
