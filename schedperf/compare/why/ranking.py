# SPDX-License-Identifier: GPL-2.0-or-later
"""Rank findings: the reason with the best evidence comes first.

One rule, compared from the top; what is equal in one line is decided by the next:

1. what may explain the verdict, then what went the other way, then what was not measured
2. more kinds of evidence that moved together: contention, symbol, layout and benchmark
3. what got worse where the side is worse (better where it is better), then what has no direction
4. what was seen where the results changed, then what was seen at other points of a sweep
5. an interval that is farther from no change, in units of its own width, and on logarithms where
   it is of a ratio, so that the order stays where the sides change places; a fact without a number
   has none and comes last
6. the order of the rules

No rank turns a correlation into a cause: each finding keeps its attribution.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from schedperf.model.comparison import Bearing, Finding, Row
from schedperf.stats.verdicts import CHANGED

_BEARINGS: tuple[Bearing, ...] = ("reason", "against", "unseen")

# Of a number without an interval: behind all whose interval is as far from no change as it is wide.
_NO_INTERVAL = 0.5


def rank_findings(findings: Iterable[Finding], rows: Sequence[Row]) -> tuple[Finding, ...]:
    """Return the findings in the order in which they are told, with their bearing on the verdict.

    :param rows: results of the benchmarks, which say what there is to explain
    """
    outcomes = {row.side: _Outcome([one for one in rows if one.side == row.side]) for row in rows}
    nothing = _Outcome([])
    found = [(one, outcomes.get(one.side, nothing)) for one in findings]
    told = [(replace(one, bearing=outcome.bearing(one)), outcome) for one, outcome in found]
    return tuple(one for one, _ in sorted(told, key=lambda pair: _key(*pair)))


class _Outcome:
    # Which way results changed and where: what there is to explain.

    def __init__(self, rows: Sequence[Row]) -> None:
        primary = [row for row in rows if row.family == "primary"]
        changed = [row for row in primary if row.verdict in CHANGED]
        verdicts = {row.verdict for row in changed}
        # Where some results got worse and others better, neither direction is the verdict's.
        self.is_worse = verdicts == {"regression"}
        self.is_better = verdicts == {"improvement"}
        self.points = {row.point for row in changed}

    def bearing(self, found: Finding) -> Bearing:
        """Say whether a finding may explain the verdict."""
        went_back = found.bearing == "reason" and self._agrees(found) is False
        return "against" if went_back else found.bearing

    def direction(self, found: Finding) -> int:
        return 0 if self._agrees(found) else 1

    def is_elsewhere(self, found: Finding) -> bool:
        """Was it seen at another point than those that changed?"""
        if "" in self.points or not self.points:
            return False
        return not any(point in row for point in self.points for row in found.evidence)

    def _agrees(self, found: Finding) -> bool | None:
        # None where one of the two has no direction.
        if found.better is None or not found.value or self.is_worse == self.is_better:
            return None
        got_worse = (found.value > 0.0) == (found.better == "lower")
        return got_worse == self.is_worse


def _key(found: Finding, outcome: _Outcome) -> tuple[int, int, int, bool, float]:
    return (
        _BEARINGS.index(found.bearing),
        -found.edges,
        outcome.direction(found),
        outcome.is_elsewhere(found),
        -_clearance(found),
    )


def _clearance(found: Finding) -> float:
    # How far the interval stays from no change, in its own widths; 0 where it reaches it.
    if found.ci is None:
        return 0.0 if found.value is None else _NO_INTERVAL
    # -20 and +25% are one change, seen from either side.
    low, high = map(_log_of_percent, found.ci) if found.unit == "%" else found.ci
    if low <= 0.0 <= high:
        return 0.0
    width = high - low
    return min(abs(low), abs(high)) / width if width > 0.0 else float("inf")


def _log_of_percent(percent: float) -> float:
    ratio = 1.0 + percent / 100.0
    return math.log(ratio) if ratio > 0.0 else -math.inf
