# SPDX-License-Identifier: GPL-2.0-or-later
"""Describe a changed rate as a finding: its change in percent, the interval, and its cause.

A count per operation is the count per second times the seconds per operation. If an operation takes
20% longer, counts driven by the clock, such as ticks and their softirqs, are 20% higher per
operation without being a cause. The count of a cause also changes per second, so causes are
recognized without a list of names.
"""

import math
from collections.abc import Iterable

from schedperf.model.counted import RateRow
from schedperf.model.rows import Better
from schedperf.model.sections import Finding
from schedperf.model.verdict import SMALLEST_EFFECT, count_units

CO_OCCURS = "correlated; causation not shown"
WHOLE_MACHINE = "whole machine"
# Changes of at least this many percent are printed without decimals.
LARGE_PERCENT = 100.0


def rate_finding(
    row: RateRow,
    *,
    rule: str,
    section: str,
    clause: str,
    change: str,
    details: str,
    metric: str,
    better: Better | None = None,
    attribution: str = CO_OCCURS,
    of_machine: bool = False,
) -> Finding:
    """Return the finding of a significant row; its value is the change in percent.

    If it counts all tasks of the machine, the clause begins with that.

    The value is None for a row without a ratio.

    :param rule: the finding rule's name
    :param section: name of the section that the row belongs to
    :param clause: a field of :class:`~schedperf.model.sections.Finding`, as are the parameters
        below
    """
    return Finding(
        id=f"{rule}#{row.row}",
        side=row.side,
        clause=f"{WHOLE_MACHINE}: {clause}" if of_machine else clause,
        change=change,
        details=details,
        metric=metric,
        value=None if row.ratio is None else _percent(row.ratio),
        ci=_interval(row),
        unit="%",
        better=better,
        n=(row.n_base, row.n_new),
        evidence=(f"{section}#{row.row}",),
        replication=count_units(row.n_base, row.n_new, row.replication),
        attribution=attribution,
        of_machine=of_machine,
    )


def describe_interval(row: RateRow, *remarks: str) -> str:
    """Return `` (95% CI [+1%, +2%], remark)``; "" without an interval and remarks."""
    interval = _interval(row)
    interval_text = "" if interval is None else f"95% CI [{interval[0]:+.0f}%, {interval[1]:+.0f}%]"
    details = ", ".join(filter(None, (interval_text, *remarks)))
    return f" ({details})" if details else ""


def write_change(ratio: float) -> str:
    """Write new / base as a change.

    >>> write_change(1.372), write_change(0.25), write_change(2.5)
    ('+37.2%', '-75.0%', '+150%')
    """
    percent = _percent(ratio)
    return f"{percent:+.{0 if abs(percent) >= LARGE_PERCENT else 1}f}%"


def _interval(row: RateRow) -> tuple[float, float] | None:
    if row.ci_low is None or row.ci_high is None:
        return None
    return _percent(row.ci_low), _percent(row.ci_high)


def _percent(ratio: float) -> float:
    return 100.0 * (ratio - 1.0)


class Paces:
    """The rates per second of counts, to judge their rates per operation.

    :param rates: rows whose basis is "time"
    """

    def __init__(self, rates: Iterable[RateRow]) -> None:
        self._rates = {row.identity: row for row in rates}

    def is_reason(self, row: RateRow) -> bool:
        """Return whether a row changed for a reason other than the duration of an operation.

        True if the rate per second changed significantly in the same direction, if the duration of
        an operation changed by less than 1%, if the rate per second is unknown, and for rows that
        are not per operation.
        """
        rate = self._rate_of(row)
        return rate is None or _moves_alike(row, rate) or _takes_as_long(row, rate)

    def describe(self, row: RateRow) -> str:
        """Describe the change of the rate per second: ``per second +10% [+2%, +18%]``.

        Without a ratio, return both rates: ``per second 0 -> 27``. Return "" if the rate is
        unknown, and for rows that are not per operation.
        """
        rate = self._rate_of(row)
        if rate is None:
            return ""
        unit = rate.unit.partition("/")[2]
        per = f"per {unit}" if unit not in ("", "s") else "per second"
        if rate.ratio is None:
            return f"{per} {rate.base:.3g} -> {rate.new:.3g}"
        change, low, high = (
            None if ratio is None else f"{100.0 * (ratio - 1.0):+.0f}%"
            for ratio in (rate.ratio, rate.ci_low, rate.ci_high)
        )
        interval = "" if None in (low, high) else f" [{low}, {high}]"
        return f"{per} {change}{interval}"

    def _rate_of(self, row: RateRow) -> RateRow | None:
        return self._rates.get(row.identity) if row.basis == "operation" else None


def _moves_alike(row: RateRow, rate: RateRow) -> bool:
    return bool(rate.changed) and _rises(row) == _rises(rate)


def _rises(row: RateRow) -> bool:
    assert row.base is not None
    assert row.new is not None
    return row.new > row.base


def _takes_as_long(row: RateRow, rate: RateRow) -> bool:
    # The quotient of both ratios is the ratio of the seconds per operation.
    if not row.ratio or not rate.ratio:
        return False
    longer = math.log(row.ratio / rate.ratio)
    return abs(longer) < math.log1p(SMALLEST_EFFECT)
