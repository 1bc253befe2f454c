# SPDX-License-Identifier: GPL-2.0-or-later
"""Report other load that differs between the sides: as a caveat, and as a finding."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from schedperf.evidence.account.record import (
    MOST_COMMANDS,
    Account,
    Contributed,
    OtherLoad,
    OtherLoadRow,
    write_times,
)
from schedperf.model.caveats import Caveat, caveat
from schedperf.model.sections import Finding
from schedperf.model.units import format_measure
from schedperf.model.verdict import LEAST_OTHER_LOAD
from schedperf.stats.counted.findings import rate_finding

# A command is named for at least this part of the difference.
LEAST_PART = 0.1


def other_load_caveats(data: Account) -> Iterator[Caveat]:
    """Yield a caveat for each side with significantly more or less other load than base."""
    for row, change in _worst(data):
        base, new = (
            format_measure(value, "s", change.base, change.new)
            for value in (change.base, change.new)
        )
        names = _list_names(_responsible(row, change, data))
        yield caveat("other-load", side=row.side, base=base, new=new, names=names)


def other_load_findings(data: Account) -> Iterator[Finding]:
    """Yield a finding for each side with significantly more or less other load than base."""
    for row, change in _worst(data):
        responsible = _responsible(row, change, data)
        names = f"{row.point}: " if row.point else ""
        names += f"other load{_list_names(responsible)}"
        points, ci = 100.0 * change.contribution, _interval(change)
        interval = "" if ci is None else f" (95% CI [{ci[0]:+.0f}, {ci[1]:+.0f}] pp)"
        commands = ", ".join(f"{each.command} {write_times(each)}" for each in responsible)
        found = rate_finding(
            row,
            rule="other_load",
            section="account",
            clause=f"{names}: {write_times(change)} of CPU time per second",
            change=f", {points:+.0f} pp of the busy time of base{interval}",
            details=f": {commands}" if commands else "",
            metric="CPU time of other commands",
            better="lower",
        )
        yield replace(found, value=points, ci=ci, unit="pp")


def _worst(data: Account) -> Iterator[tuple[OtherLoadRow, Contributed]]:
    """Yield the row of each side whose other load differs most from that of base."""
    worst: dict[str, tuple[OtherLoadRow, Contributed]] = {}
    for row in data.other_load:
        change = row.of_busy
        if not row.changed or change is None or abs(change.contribution) < LEAST_OTHER_LOAD:
            continue
        known = worst.get(row.side)
        if known is None or abs(change.contribution) > abs(known[1].contribution):
            worst[row.side] = row, change
    yield from worst.values()


def _responsible(row: OtherLoadRow, change: Contributed, data: Account) -> list[OtherLoad]:
    """Return the commands with a part of the difference, the largest part first."""
    at = row.side, row.workload, row.point
    changed = [
        each
        for each in data.others
        if (each.side, each.workload, each.point) == at
        and (each.new - each.base) / (change.new - change.base) >= LEAST_PART
    ]
    return changed[:MOST_COMMANDS]


def _list_names(commands: Sequence[OtherLoad]) -> str:
    return f" ({', '.join(each.command for each in commands)})" if commands else ""


def _interval(change: Contributed) -> tuple[float, float] | None:
    if change.ci_low is None or change.ci_high is None:
        return None
    return 100.0 * change.ci_low, 100.0 * change.ci_high
