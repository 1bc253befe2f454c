# SPDX-License-Identifier: GPL-2.0-or-later
"""Report the locks whose wait time changed most, with the functions that wait for them."""

from collections.abc import Iterator, Sequence

from schedperf.evidence import finding
from schedperf.evidence.locks.record import LockRow, Locks
from schedperf.model.sections import Finding
from schedperf.model.units import format_measure
from schedperf.stats.counted.findings import describe_interval, rate_finding, write_change

# Largest number of findings per side and point; the section's table has all rows.
MOST_FINDINGS = 3
# A lock with a smaller part of the change of all wait time is not reported.
LEAST_PART = 0.05
# Functions of a stack that a finding names.
MOST_FUNCTIONS = 4


@finding("locks", Locks)
def locks(record: Locks) -> Iterator[Finding]:
    """Yield one finding per lock whose wait time changed, the largest differences first."""
    points: dict[tuple[str, str, str], list[LockRow]] = {}
    for row in record.rows:
        if row.field == "wait time" and row.node is None:
            points.setdefault((row.side, row.workload, row.point), []).append(row)
    for rows in points.values():
        basis = "operation" if any(row.basis == "operation" for row in rows) else "time"
        used = [row for row in rows if row.basis == basis]
        whole = sum(difference(row) for row in used if row.lock and not row.functions)
        changed = sorted(
            (row for row in used if row.lock and not row.functions and row.changed),
            key=difference,
            reverse=True,
        )
        for row in changed[:MOST_FINDINGS]:
            if difference(row) >= LEAST_PART * whole:
                yield _describe(row, used)


def difference(row: LockRow) -> float:
    """Return the absolute difference of the sides, in the unit of the row."""
    return abs((row.new or 0.0) - (row.base or 0.0))


def _describe(row: LockRow, rows: Sequence[LockRow]) -> Finding:
    seconds, _, per = row.unit.partition("/")
    per = "second" if per == "s" else per
    base, new = (format_measure(value, seconds, row.base, row.new) for value in (row.base, row.new))
    at = f" at {row.point}" if row.point else ""
    change = "" if row.ratio is None else f", {write_change(row.ratio)}"
    return rate_finding(
        row,
        rule="locks",
        section="locks",
        clause=f"waits for {name_of(row)}: {base} -> {new} per {per}{at}",
        change=f"{change}{describe_interval(row)}",
        details=_describe_stack(row, rows),
        metric=f"wait time for {name_of(row)}",
        better="lower",
    )


def name_of(row: LockRow) -> str:
    """Return the name of a lock: ``mmap_lock (rwsem write)``, ``a mutex of do_exit()``."""
    if row.named_by == "caller":
        return f"a {row.type} in {row.lock}()"
    return f"{row.lock} ({row.type})"


def _describe_stack(row: LockRow, rows: Sequence[LockRow]) -> str:
    stacks = [
        each
        for each in rows
        if each.functions
        and (each.lock, each.named_by, each.type) == (row.lock, row.named_by, row.type)
    ]
    if not stacks:
        return ""
    most = max(stacks, key=difference)
    functions = most.functions[1:] if row.named_by == "caller" else most.functions
    shown = [name for name in functions if name][:MOST_FUNCTIONS]
    return f"; most of it below {' < '.join(shown)}" if shown else ""
