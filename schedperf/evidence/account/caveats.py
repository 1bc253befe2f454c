# SPDX-License-Identifier: GPL-2.0-or-later
"""Warn of other load that differs between the sides."""

from collections.abc import Iterator

from schedperf.evidence.account.record import ALL, MOST_COMMANDS, Account, OtherLoad
from schedperf.model.caveats import Caveat, caveat
from schedperf.model.units import format_measure

# A smaller difference, as a fraction of the CPU time of the workload's tasks, is not a caveat.
LEAST_DIFFERENCE = 0.1


def other_load_caveats(data: Account) -> Iterator[Caveat]:
    """Yield a caveat for each side with significantly more or less other load than base."""
    worst: dict[str, OtherLoad] = {}
    for each in data.others:
        if each.command != ALL or not each.changed or each.relative is None:
            continue
        known = worst.get(each.side)
        if abs(each.relative) >= LEAST_DIFFERENCE and (
            known is None or abs(each.relative) > abs(known.relative or 0.0)
        ):
            worst[each.side] = each
    for side, load in worst.items():
        base, new = (
            format_measure(value, "s", load.base, load.new) for value in (load.base, load.new)
        )
        names = _names(load, data)
        listed = f" ({', '.join(names)})" if names else ""
        yield caveat("other-load", side=side, base=base, new=new, names=listed)


def _names(load: OtherLoad, data: Account) -> list[str]:
    at = (load.side, load.workload, load.point)
    changed = [
        each.command
        for each in data.others
        if (each.side, each.workload, each.point) == at
        and each.command != ALL
        and (each.new - each.base) * (load.new - load.base) > 0.0
    ]
    return changed[:MOST_COMMANDS]
