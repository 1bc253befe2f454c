# SPDX-License-Identifier: GPL-2.0-or-later
"""Report significant changes of counted events, of the workload wherever they are known.

Cycles and clocks only restate the CPU time, and accesses and branches the instructions, so they are
left out. Scheduler tracepoints are those of schedstat and placement, which interpret them.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from schedperf.evidence import finding
from schedperf.evidence.perf_stat.record import CounterRow, Counters
from schedperf.model.sections import Finding
from schedperf.model.units import format_measure
from schedperf.stats.counted.findings import Paces, describe_interval, rate_finding, write_change
from schedperf.stats.counted.rates import distance_of

# Largest number of findings per side; the section has every row.
MOST_FINDINGS = 3
# Meaning of each event that may be a finding, by its name without PMU and modifiers.
MEANINGS: Mapping[str, str] = {
    "context-switches": "a task blocked, yielded, or was preempted",
    "cpu-migrations": "a task ran on another CPU than before",
    "page-faults": "a page was not mapped when it was accessed",
    "instructions": "instructions executed in user and kernel mode",
    "cache-misses": "accesses that the last cache did not hold",
    "branch-misses": "mispredicted branches",
}


@finding("counter_changes", Counters)
def counter_changes(data: Counters) -> Iterator[Finding]:
    """Yield the changed events of each side, the largest change first.

    An event of the whole machine is a finding only if it was not counted for the workload. It is an
    effect, because it may be that of another process. Changes that only follow from a longer or
    shorter run are left out.
    """
    paces = Paces(row for row in data.rows if row.basis == "time")
    for side in dict.fromkeys(row.side for row in data.rows):
        rows = [row for row in data.rows if row.side == side]
        changed = [row for row in _best(rows) if row.changed and paces.is_reason(row)]
        changed.sort(key=lambda row: (not row.is_own, -distance_of(row.ratio)))
        # Points of a sweep change together, so the largest change represents the others.
        first = {row.perf_event.name: row for row in reversed(changed)}
        for row in [row for row in changed if first[row.perf_event.name] is row][:MOST_FINDINGS]:
            found = _describe(row, paces.describe(row))
            yield found if row.is_own else replace(found, bearing="effect")


def _best(rows: Sequence[CounterRow]) -> Iterator[CounterRow]:
    """Yield one row per workload, point and event: of the workload, and per operation, if known."""
    best: dict[tuple[str, str, str], CounterRow] = {}
    for row in rows:
        key = row.workload, row.point, row.event
        if row.node is not None or row.basis == "share" or row.perf_event.name not in MEANINGS:
            continue
        if key not in best or _preference(row) < _preference(best[key]):
            best[key] = row
    yield from best.values()


def _preference(row: CounterRow) -> tuple[bool, bool]:
    return not row.is_own, row.basis != "operation"


def _describe(row: CounterRow, pace: str) -> Finding:
    where = f"{row.point}: " if row.point else ""
    base, new = (
        format_measure(value, row.unit, row.base, row.new) for value in (row.base, row.new)
    )
    unit = row.unit.partition("/")[2]
    per = "second" if unit == "s" else unit
    size = "" if row.ratio is None else f", {write_change(row.ratio)}"
    whose = " of the workload's tasks" if row.is_own else ""
    name = f"{row.event}{whose} per {per}"
    return rate_finding(
        row,
        rule="counter_changes",
        section="counters",
        clause=f"{where}{name} {base} -> {new}",
        change=f"{size}{describe_interval(row, pace)}",
        details=f": {MEANINGS[row.perf_event.name]}",
        metric=name,
        of_machine=not row.is_own,
    )
