# SPDX-License-Identifier: GPL-2.0-or-later
"""Report significant changes of energy per operation and of mean power.

Both are effects of a change, not causes of a slower result: if a benchmark takes longer, the
machine is active for longer.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from schedperf.evidence import finding
from schedperf.evidence.energy.record import Energy, EnergyRow, leading_rows
from schedperf.model.counted import Basis
from schedperf.model.sections import Finding
from schedperf.model.units import format_measure
from schedperf.stats.counted.findings import describe_interval, rate_finding, write_change
from schedperf.stats.counted.rates import distance_of

# Largest number of findings per side: energy and power of two packages. The section's tables have
# every row.
MOST_FINDINGS = 4
# If a run does a fixed amount of work, the run is the operation.
_BASES: tuple[tuple[Basis, ...], ...] = (("operation", "share"), ("time",))


@finding("energy_changes", Energy)
def energy_changes(data: Energy) -> Iterator[Finding]:
    """Yield the largest significant change of each counter of :func:`leading_rows`, per side.

    Changes of energy come first, then those of mean power.
    """
    for side in dict.fromkeys(row.side for row in data.rows):
        rows = leading_rows(row for row in data.rows if row.side == side)
        yield from list(_largest_changes(rows))[:MOST_FINDINGS]


def _largest_changes(rows: Sequence[EnergyRow]) -> Iterator[Finding]:
    for bases in _BASES:
        used = next((basis for basis in bases if any(row.basis == basis for row in rows)), None)
        changed = [row for row in rows if row.basis == used and row.changed]
        for domain in dict.fromkeys(row.domain for row in changed):
            of_domain = [row for row in changed if row.domain == domain]
            yield _describe(max(of_domain, key=lambda row: distance_of(row.ratio)), rows)


def _describe(row: EnergyRow, rows: Sequence[EnergyRow]) -> Finding:
    base, new = (
        format_measure(value, row.unit, row.base, row.new) for value in (row.base, row.new)
    )
    is_power = row.basis == "time"
    what = "mean power" if is_power else f"energy per {row.unit.partition('/')[2]}"
    where = f"{row.point}: " if row.point else ""
    change = "" if row.ratio is None else f", {write_change(row.ratio)}"
    remark = "" if is_power else _describe_power(row, rows)
    found = rate_finding(
        row,
        rule="energy_changes",
        section="energy",
        clause=f"{where}{what} of {row.domain} {base} -> {new}",
        change=f"{change}{describe_interval(row, remark)}",
        details="",
        metric=f"{what} of {row.domain}",
        # A faster kernel may use more power for a shorter time.
        better=None if is_power else "lower",
        attribution="an effect of the change, not a reason for it",
    )
    return replace(found, bearing="effect")


def _describe_power(row: EnergyRow, rows: Sequence[EnergyRow]) -> str:
    # Whether the machine used more power, or only ran longer.
    powers = [
        power
        for power in rows
        if power.basis == "time"
        and (power.workload, power.point, power.domain) == (row.workload, row.point, row.domain)
    ]
    ratio = powers[0].ratio if powers else None
    return "" if ratio is None else f"mean power {write_change(ratio)}"
