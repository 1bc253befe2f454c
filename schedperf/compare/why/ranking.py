# SPDX-License-Identifier: GPL-2.0-or-later
"""Rank findings: the one with the most evidence for the verdict comes first.

Findings are sorted by these criteria, in this order:

1. findings that may explain the verdict, then findings in the opposite direction, then further
   effects of the change, then missing evidence
2. more kinds of evidence that moved together: contention, symbol, layout and benchmark
3. changes of the workload's tasks, then of all tasks of the machine
4. changes in the direction of the verdict, then changes without a direction
5. evidence at points whose results changed, then evidence at other points of a sweep
6. distance of the CI from no change, in units of its width (of logarithms for percentages, so that
   swapping the sides keeps the order): 0.5 for a number without a CI; 0 without a number, or if the
   CI includes no change
7. order of the finding rules

The rank does not imply causation: each finding keeps its attribution.
"""

import math
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from schedperf.model.rows import Row
from schedperf.model.sections import Bearing, Finding
from schedperf.model.verdict import CHANGED

_BEARINGS: tuple[Bearing, ...] = ("reason", "against", "effect", "unseen")

# Rank of a number without an interval: after all numbers whose interval is as far from no change as
# it is wide.
_NO_INTERVAL = 0.5


def rank_findings(findings: Iterable[Finding], rows: Sequence[Row]) -> tuple[Finding, ...]:
    """Return the findings sorted by rank, with their bearing on the verdict.

    :param rows: results of the benchmarks, with the changes to explain
    """
    outcomes = {
        row.side: _Outcome([result for result in rows if result.side == row.side]) for row in rows
    }
    nothing = _Outcome([])
    pairs = [(finding, outcomes.get(finding.side, nothing)) for finding in findings]
    rated = [
        (replace(finding, bearing=outcome.bearing(finding)), outcome) for finding, outcome in pairs
    ]
    return tuple(finding for finding, _ in sorted(rated, key=lambda pair: _key(*pair)))


class _Outcome:
    # The direction of the changed results, and their points.

    def __init__(self, rows: Sequence[Row]) -> None:
        primary = [row for row in rows if row.family == "primary"]
        changed = [row for row in primary if row.verdict in CHANGED]
        verdicts = {row.verdict for row in changed}
        # If some results got worse and others better, the verdict has no single direction.
        self.is_worse = verdicts == {"regression"}
        self.is_better = verdicts == {"improvement"}
        self.points = {row.point for row in changed}

    def bearing(self, finding: Finding) -> Bearing:
        """Return the bearing of a finding: "against" for a reason opposite to the verdict."""
        went_back = finding.bearing == "reason" and self._agrees(finding) is False
        return "against" if went_back else finding.bearing

    def direction(self, finding: Finding) -> int:
        return 0 if self._agrees(finding) else 1

    def is_elsewhere(self, finding: Finding) -> bool:
        """Return whether all evidence is at points without a changed result."""
        if "" in self.points or not self.points:
            return False
        return not any(point in row for point in self.points for row in finding.evidence)

    def _agrees(self, finding: Finding) -> bool | None:
        # None if one of the two has no direction.
        if finding.better is None or not finding.value or self.is_worse == self.is_better:
            return None
        got_worse = (finding.value > 0.0) == (finding.better == "lower")
        return got_worse == self.is_worse


def _key(finding: Finding, outcome: _Outcome) -> tuple[int, int, bool, int, bool, float]:
    return (
        _BEARINGS.index(finding.bearing),
        -finding.edges,
        finding.of_machine,
        outcome.direction(finding),
        outcome.is_elsewhere(finding),
        -_clearance(finding),
    )


def _clearance(finding: Finding) -> float:
    # Distance of the interval from no change, in units of its width; 0 if it includes no change.
    if finding.ci is None:
        return 0.0 if finding.value is None else _NO_INTERVAL
    # -20% and +25% are the same change with the sides swapped.
    low, high = map(_log_of_percent, finding.ci) if finding.unit == "%" else finding.ci
    if low <= 0.0 <= high:
        return 0.0
    width = high - low
    return min(abs(low), abs(high)) / width if width > 0.0 else float("inf")


def _log_of_percent(percent: float) -> float:
    ratio = 1.0 + percent / 100.0
    return math.log(ratio) if ratio > 0.0 else -math.inf
