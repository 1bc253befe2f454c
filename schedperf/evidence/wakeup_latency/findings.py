# SPDX-License-Identifier: GPL-2.0-or-later
"""Report significant changes of how long tasks wait, per command and type of CPU core."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from schedperf.evidence import finding
from schedperf.evidence.wakeup_latency.record import (
    WAITS,
    Statistic,
    WakeupLatency,
    WakeupRow,
    WakeupTypeRow,
)
from schedperf.model.counted import RateRow
from schedperf.model.sections import Finding
from schedperf.model.text import join_names
from schedperf.model.units import scale_for
from schedperf.model.verdict import count_units
from schedperf.stats.counted.findings import rate_finding, write_change
from schedperf.stats.counted.rates import LEAST_EVENTS_OF_FINDING, distance_of

# Largest number of findings per side and point; the section's table has all rows.
MOST_FINDINGS = 4
# The percentile that is reported for a command if it changed; else the one that changed most. The
# maximum is a single wait per run and hardly reproducible.
PREFERRED: Statistic = "p99"
MEDIAN: Statistic = "p50"


@finding("wakeup_latency", WakeupLatency)
def wakeup_latency(record: WakeupLatency) -> Iterator[Finding]:
    """Yield one finding per command whose percentiles changed, the largest changes first.

    If the workload's own commands are known, they come first, and a change of another command is
    reported as an effect, because the result is the workload's. Each side and point has at most
    ``MOST_FINDINGS``. All commands together have a finding only if no single command has one.
    """
    points: dict[tuple[str, str, str], dict[str, list[WakeupRow]]] = {}
    for row in record.rows:
        if row.node is None and row.quantile != "max":
            commands = points.setdefault((row.side, row.workload, row.point), {})
            commands.setdefault(f"{row.event} {row.command}", []).append(row)
    for commands in points.values():
        changed = [(_chosen(rows), rows) for rows in commands.values() if any(map(_counts, rows))]
        named = [(row, rows) for row, rows in changed if row.command]
        # A change of the sum over all commands follows from that of a single command.
        ordered = sorted(
            named or changed,
            key=lambda item: (not item[0].of_workload, -distance_of(item[0].ratio)),
        )
        knows_own = any(row.of_workload for rows in commands.values() for row in rows)
        for row, rows in ordered[:MOST_FINDINGS]:
            found = _describe("wakeup_latency", row, name_of(row), _median(row, rows))
            is_other = knows_own and row.command and not row.of_workload
            yield replace(found, bearing="effect") if is_other else found


@finding("wakeup_core_types", WakeupLatency)
def core_types(record: WakeupLatency) -> Iterator[Finding]:
    """Yield, per side and point, the type of CPU core whose waits changed most.

    There is no finding if the waits of all types changed.
    """
    points: dict[tuple[str, str, str], dict[str, list[WakeupTypeRow]]] = {}
    for row in record.core_types:
        if row.quantile != "max":
            types = points.setdefault((row.side, row.workload, row.point), {})
            types.setdefault(row.core_type, []).append(row)
    for types in points.values():
        changed = [row for rows in types.values() for row in rows if row.changed]
        others = types.keys() - {row.core_type for row in changed}
        if changed and others:
            row = max(changed, key=lambda row: (row.quantile == PREFERRED, distance_of(row.ratio)))
            name = f"{WAITS[row.event][0]} {row.quantile} on CPUs of type {row.core_type}"
            unchanged = join_names([each for each in types if each in others])
            details = f": no significant change on {unchanged}"
            yield _describe("wakeup_core_types", row, name, details)


def _counts(row: WakeupRow) -> bool:
    return bool(row.changed) and min(row.waits_base, row.waits_new) >= LEAST_EVENTS_OF_FINDING


def _chosen(rows: Sequence[WakeupRow]) -> WakeupRow:
    changed = [row for row in rows if _counts(row)]
    return max(changed, key=lambda row: (row.quantile == PREFERRED, distance_of(row.ratio)))


def _describe(rule: str, row: WakeupRow | WakeupTypeRow, name: str, details: str) -> Finding:
    scale = scale_for("s", row.base, row.new)
    base, new = scale.format(row.base), scale.format(row.new)
    at = f" at {row.point}" if row.point else ""
    return rate_finding(
        row,
        rule=rule,
        section="wakeup_latency",
        clause=f"{name}: {base} -> {new} {scale.unit}{at}",
        change=f" ({_interval(row)})",
        details=details,
        metric=name,
        better="lower",
    )


def name_of(row: WakeupRow) -> str:
    """Return the name of a row: ``wakeup latency p99 of hackbench``."""
    return f"{WAITS[row.event][0]} {row.quantile} of {row.command or 'all commands'}"


def _interval(row: RateRow) -> str:
    runs = count_units(row.n_base, row.n_new, row.replication)
    if row.ratio is None or row.ci_low is None or row.ci_high is None:
        return f"q = {row.q:.2g}, {runs}" if row.q is not None else runs
    change, low, high = map(write_change, (row.ratio, row.ci_low, row.ci_high))
    return f"{change} [{low}, {high}], {runs}"


def _median(row: WakeupRow, rows: Sequence[WakeupRow]) -> str:
    medians = [each for each in rows if each.quantile == MEDIAN]
    if row.quantile == MEDIAN or not medians or medians[0].ratio is None:
        return ""
    [median] = medians
    assert median.ratio is not None
    significance = "" if median.changed else ", not significant"
    return f": the median {write_change(median.ratio)}{significance}"
