"""Where the CPUs' time went: which kinds of it an operation costs more of, or less."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from schedperf.evidence.system.cpus import COUNTED_TWICE, NOT_BUSY
from schedperf.evidence.system.record import SystemRow

# A kind has most of a change from here on; below that nothing is said of its part.
LEAST_PART = 0.5


def is_cost(row: SystemRow) -> bool:
    """Is it the time that CPUs worked for an operation?"""
    what = (row.group, row.field, row.basis)
    return what == ("cpu", "time", "operation") and row.subject not in NOT_BUSY


def describe_part(row: SystemRow, costs: Iterable[SystemRow]) -> str:
    """Say which part of the change of all busy time a kind has at least, or "" of a small part.

    The part is the least that the 95 % intervals leave: the end of the kind's own that is nearest
    to no change, beside those ends of all others that are farthest in the same direction.

    :param costs: of the same place, the row among them
    """
    rises = (row.new or 0.0) > (row.base or 0.0)
    own = _change(row, _ends(row)[0 if rises else 1], rises=rises)
    others = sum(
        _largest_change(one, rises=rises)
        for one in costs
        if one.subject not in (row.subject, *COUNTED_TWICE)
    )
    part = own / (own + others) if own > 0.0 else 0.0
    if part < LEAST_PART:
        return ""
    per = row.unit.partition("/")[2]
    verb = "growth" if rises else "fall"
    # Rounded down, since it is the least.
    return f"at least {math.floor(100.0 * part)} % of the {verb} of busy time per {per}"


def _largest_change(row: SystemRow, *, rises: bool) -> float:
    if None in _ends(row):
        # A run has none of it, so it has no ratio; it changed by no more than all that there was.
        return max(*row.values_base, *row.values_new)
    return _change(row, _ends(row)[1 if rises else 0], rises=rises)


def _ends(row: SystemRow) -> tuple[float | None, float | None]:
    return row.ci_low, row.ci_high


def _change(row: SystemRow, ratio: float | None, *, rises: bool) -> float:
    # In the row's unit, 0 where it goes the other way. The logarithmic mean makes it the same size
    # from either side.
    if not ratio or not row.base or not row.new:
        return 0.0
    change = math.log(ratio) * _logarithmic_mean(row.base, row.new)
    return max(change if rises else -change, 0.0)


def _logarithmic_mean(one: float, other: float) -> float:
    # Stolarsky, "Generalizations of the logarithmic mean", Math. Mag. 48 (1975).
    return one if one == other else (other - one) / math.log(other / one)


def rates(rows: Iterable[SystemRow]) -> Iterator[SystemRow]:
    """Yield what is known by time, for :class:`schedperf.stats.counted.pace.Paces`.

    The share of the time that CPUs did nothing is the rate of that time: they do so for longer
    while a run takes longer. Of the time that they work no rate is asked: where the whole of it was
    the kernel's before, there can be no larger share.
    """
    for row in rows:
        is_time = row.field in ("time", "share") and row.group in ("cpu", "idle")
        if is_time and row.group == "cpu" and row.subject not in NOT_BUSY:
            continue
        if row.basis == "time":
            yield row
        elif is_time and row.basis == "share":
            yield replace(row, field="time")
