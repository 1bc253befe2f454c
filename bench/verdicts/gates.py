# SPDX-License-Identifier: GPL-2.0-or-later
"""Check the error rates of the verdicts, and their CPU time, against limits.

A rate may exceed its limit by at most two Monte-Carlo standard errors. Limits on power and on time
have no such allowance.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.verdicts.cells import FAMILY, Cell, Promise
from bench.verdicts.measure import OURS, Rate, Score
from bench.verdicts.speed import Timing

ERRORS_ALLOWED = 2.0

MOST_ROW_ALARMS = 0.01
MOST_FAMILY_ALARMS = 0.05
MOST_DRIFT_ALARMS = 0.10
LEAST_COVERAGE = 0.93
MOST_SIGN_ERRORS = 0.001
MOST_FALSE_NO_CHANGE = 0.05
MOST_MS_PER_1000_ROWS = 200.0

Scores = Mapping[str, Sequence[Score]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One limit in one cell.

    :param gate: name of the limit
    :param cell: name of the cell, or of the timed call
    :param value: a rate from 0 to 1, or CPU ms for 1000 rows
    :param error: one standard error of ``value``, same unit; None: no allowance is made
    :param is_upper: whether ``limit`` is the largest allowed value; otherwise the smallest
    """

    gate: str
    cell: str
    value: float
    error: float | None
    limit: float
    is_upper: bool

    @property
    def excess(self) -> float:
        """Return by how much the value is beyond the limit and its allowance; above 0 it fails."""
        beyond = self.value - self.limit if self.is_upper else self.limit - self.value
        return beyond - ERRORS_ALLOWED * (self.error or 0.0)

    @property
    def is_kept(self) -> bool:
        """Return whether the value is within the limit and its allowance."""
        return self.excess <= 0.0


def _at_most(gate: str, cell: Cell, found: Rate | None, limit: float) -> Iterator[Check]:
    if found is not None:
        yield Check(
            gate=gate,
            cell=cell.name,
            value=found.value,
            error=found.error,
            limit=limit,
            is_upper=True,
        )


def _at_least(
    gate: str, cell: Cell, found: Rate | None, limit: float, *, is_exact: bool
) -> Iterator[Check]:
    if found is not None:
        error = None if is_exact else found.error
        yield Check(
            gate=gate, cell=cell.name, value=found.value, error=error, limit=limit, is_upper=False
        )


def _checks_of(cell: Cell, score: Score) -> Iterator[Check]:
    if Promise.FALSE_ALARMS in cell.promise:
        if cell.recipe.rows >= FAMILY:
            yield from _at_most("A/A, rows", cell, score.row_alarms, MOST_ROW_ALARMS)
        yield from _at_most("A/A, families", cell, score.family_alarms, MOST_FAMILY_ALARMS)
    if Promise.DRIFT_ALARMS in cell.promise:
        yield from _at_most("blocked and drift, rows", cell, score.row_alarms, MOST_DRIFT_ALARMS)
    if Promise.COVERAGE in cell.promise:
        yield from _at_least("coverage", cell, score.coverage, LEAST_COVERAGE, is_exact=False)
    if Promise.SIGN in cell.promise:
        yield from _at_most("sign errors", cell, score.sign_errors, MOST_SIGN_ERRORS)
        yield from _at_most(
            "no-change of a real shift", cell, score.false_no_change, MOST_FALSE_NO_CHANGE
        )
    if cell.least_power is not None:
        yield from _at_least(
            f"power, {cell.name}", cell, score.power, cell.least_power, is_exact=True
        )


def check_cells(cells: Iterable[Cell], scores: Scores) -> list[Check]:
    """Return all checks of our verdicts, cell by cell.

    :param scores: scores of all tools by name of the cell
    """
    ours = {name: score for name, found in scores.items() for score in found if score.tool == OURS}
    return [check for cell in cells for check in _checks_of(cell, ours[cell.name])]


def check_speed(timings: Iterable[Timing]) -> list[Check]:
    """Return the checks of our CPU time for 1000 rows; other tools have no limit."""
    return [
        Check(
            gate="CPU ms for 1000 rows",
            cell=timing.name,
            value=timing.cpu,
            error=None,
            limit=MOST_MS_PER_1000_ROWS,
            is_upper=True,
        )
        for timing in timings
        if timing.is_ours
    ]


def by_gate(checks: Iterable[Check]) -> dict[str, list[Check]]:
    """Return the checks by gate, each group with the largest excess first."""
    groups: dict[str, list[Check]] = {}
    for check in checks:
        groups.setdefault(check.gate, []).append(check)
    return {gate: sorted(group, key=lambda item: -item.excess) for gate, group in groups.items()}
