"""What comes with time comes more often in a longer run: a consequence of it, and no reason for it.

A count an operation is the count a second times the seconds that an operation takes. So where an
operation takes a fifth longer, what the clock drives, such as ticks and the softirqs that they
raise, comes a fifth more often per operation, and explains nothing. The rates themselves tell it,
no list of names is needed: a reason came more (or less) often per second too.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from schedperf.stats.verdicts import SMALLEST_EFFECT

Entry = Mapping[str, Any]


class Paces:
    """The rates a second of what has a rate an operation, too.

    :param rates: rows by time
    :param names: fields that say what a row counts, and where
    """

    def __init__(self, rates: Iterable[Entry], names: Sequence[str]) -> None:
        self._names = names
        self._rates = {self._place(row): row for row in rates}

    def is_reason(self, row: Entry) -> bool:
        """Did a changed row change by itself, and not because the run takes longer or shorter?

        So it is where the rate a second changed beyond noise in the same direction, where an
        operation takes as long as before, and where no rate a second is known.
        """
        rate = self._rate_of(row)
        return rate is None or _moves_alike(row, rate) or _takes_as_long(row, rate)

    def describe(self, row: Entry) -> str:
        """Say the change of the rate a second: ``per second +10 % within +2..+18 %``, or ""."""
        rate = self._rate_of(row)
        if rate is None:
            return ""
        unit = str(rate["unit"]).partition("/")[2]
        per = f"per {unit}" if unit not in ("", "s") else "per second"
        if rate["ratio"] is None:
            return f"{per} {rate['base']:.3g} -> {rate['new']:.3g}"
        change, low, high = (
            None if rate[name] is None else f"{100.0 * (rate[name] - 1.0):+.0f}"
            for name in ("ratio", "ci_low", "ci_high")
        )
        within = "" if None in (low, high) else f" within {low}..{high} %"
        return f"{per} {change} %{within}"

    def _rate_of(self, row: Entry) -> Entry | None:
        return self._rates.get(self._place(row)) if row["basis"] == "operation" else None

    def _place(self, row: Entry) -> tuple[object, ...]:
        return tuple(row[name] for name in self._names)


def _moves_alike(row: Entry, rate: Entry) -> bool:
    rises = [one["new"] > one["base"] for one in (row, rate)]
    return bool(rate["changed"]) and rises[0] == rises[1]


def _takes_as_long(row: Entry, rate: Entry) -> bool:
    # The quotient of both ratios is that of the seconds an operation.
    if not row["ratio"] or not rate["ratio"]:
        return False
    longer = math.log(row["ratio"] / rate["ratio"])
    return abs(longer) < math.log1p(SMALLEST_EFFECT)
