# SPDX-License-Identifier: GPL-2.0-or-later
"""The results of three or more sides beside each other: a row per result, a cell per side.

Each cell has the change from base, which the rows of the record test, and the change from the side
before it: a series of patches is read step by step. Steps are tested as rows are, and their p
values are corrected over the steps of all results of a family (Holm, "A simple sequentially
rejective multiple test procedure", Scand. J. Stat. 6 (1979)): naming a patch by mistake costs more
than missing one.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec.structs import replace

from schedperf.model.comparison import (
    BASE,
    Better,
    Family,
    Mover,
    Row,
    SideBySide,
    SideCell,
    Step,
)
from schedperf.model.frame import Frame
from schedperf.model.verdict import CHANGED, CONFIDENCE
from schedperf.stats import JudgedRow, compare_runs

FEWEST_SIDES = 3

Question = tuple[str, str, str, str, str]
# Side, workload, point, metric.
_Tested = tuple[str, str, str, str]
# In the order in which results count.
_FAMILIES: Sequence[Family] = ("primary", "secondary", "informational")

Steps = Mapping[Question, Mapping[str, Step]]


def compare_side_by_side(
    rows: Sequence[Row], digests: Mapping[str, str], runs: Frame
) -> Iterator[SideBySide]:
    """Yield each result with a cell for each side; nothing for fewer than three sides.

    :param rows: of all new sides
    :param digests: of the data of each side, base first
    :param runs: as for :func:`schedperf.stats.compare_runs`
    """
    if len(digests) >= FEWEST_SIDES:
        yield from put_side_by_side(rows, list(digests), _steps(digests, runs))


def put_side_by_side(
    rows: Sequence[Row], sides: Sequence[str], steps: Steps
) -> Iterator[SideBySide]:
    """Yield each result with a cell for each side.

    :param steps: by result and side
    """
    questions: dict[Question, dict[str, Row]] = {}
    for row in rows:
        questions.setdefault(row.question, {})[row.side] = row
    for question, of_side in questions.items():
        yield _put(sides, of_side, steps.get(question, {}))


def find_movers(results: Sequence[SideBySide]) -> tuple[Mover, ...]:
    """Return the significant steps: of primary results first, then the largest."""
    movers = [mover for result in results for mover in _movers_of(result)]
    return tuple(
        sorted(movers, key=lambda each: (_FAMILIES.index(each.family), -abs(math.log(each.ratio))))
    )


def _movers_of(result: SideBySide) -> Iterator[Mover]:
    for before, cell in pairwise(result.cells):
        step = cell.step
        if step is None or not step.significant or not step.ratio:
            continue
        yield Mover(
            side=cell.side,
            before=before.side,
            workload=result.workload,
            point=result.point,
            metric=result.metric,
            unit=result.unit,
            better=result.better,
            family=result.family,
            ratio=step.ratio,
            ci_low=step.ci_low,
            ci_high=step.ci_high,
            p_corrected=step.p_corrected,
        )


def _steps(digests: Mapping[str, str], runs: Frame) -> Steps:
    rows = [
        _same_data(row) if digests[before] == digests[side] else row
        for before, side in pairwise(digests)
        for row in compare_runs(runs, base=before, new=[side]).rows
    ]
    steps: dict[Question, dict[str, Step]] = {}
    for row, corrected in zip(rows, _correct(rows), strict=True):
        steps.setdefault(row.question, {})[row.side] = Step(
            ratio=row.ratio,
            ci_low=row.ci_low,
            ci_high=row.ci_high,
            p=row.p,
            p_corrected=corrected,
            significant=corrected is not None
            and corrected < 1.0 - CONFIDENCE
            and row.verdict in CHANGED,
        )
    return steps


def _same_data(row: JudgedRow) -> JudgedRow:
    ratio = row.ratio and 1.0
    return replace(row, ratio=ratio, ci_low=ratio, ci_high=ratio, p=None, verdict="no-change")


def _correct(rows: Sequence[JudgedRow]) -> list[float | None]:
    """Return p of each row by Holm, corrected for the rows of its family."""
    families: dict[Family, dict[_Tested, float]] = {}
    for row in rows:
        if row.p is not None:
            families.setdefault(row.family, {})[_tested(row)] = row.p
    corrected = {family: holm(tested) for family, tested in families.items()}
    return [None if row.p is None else corrected[row.family][_tested(row)] for row in rows]


def _tested(row: JudgedRow) -> _Tested:
    # Two rows of one measurement are one test.
    return row.side, row.workload, row.point, row.same_as or row.metric


def holm(tested: Mapping[_Tested, float]) -> dict[_Tested, float]:
    """Return the p values by Holm's method.

    >>> tests = {("new", "w", "", name): p for name, p in (("a", 0.01), ("b", 0.04), ("c", 0.03))}
    >>> [round(p, 2) for p in holm(tests).values()]
    [0.03, 0.06, 0.06]
    """
    largest = 0.0
    corrected: dict[_Tested, float] = {}
    for index, (name, p) in enumerate(sorted(tested.items(), key=lambda each: each[1])):
        largest = max(largest, min(1.0, p * (len(tested) - index)))
        corrected[name] = largest
    return corrected


def _put(sides: Sequence[str], of_side: Mapping[str, Row], steps: Mapping[str, Step]) -> SideBySide:
    first = next(iter(of_side.values()))
    new = [_cell(side, of_side.get(side)) for side in sides[1:]]
    cells = _with_steps([_base_cell(list(of_side.values())), *new], steps)
    best, worst = _extremes(cells, first.better)
    return SideBySide(
        workload=first.workload,
        point=first.point,
        metric=first.metric,
        unit=first.unit,
        better=first.better,
        family=first.family,
        cells=cells,
        best=best,
        worst=worst,
    )


def _base_cell(rows: Sequence[Row]) -> SideCell:
    # Pairs with another side can be of fewer rounds; the first row with a value speaks for base.
    row = next((row for row in rows if row.base is not None), rows[0])
    return SideCell(
        side=BASE,
        n=row.n_base,
        value=row.base,
        ratio=None,
        ci_low=None,
        ci_high=None,
        verdict=None,
        step=None,
    )


def _cell(side: str, row: Row | None) -> SideCell:
    return SideCell(
        side=side,
        n=0 if row is None else row.n_new,
        value=None if row is None else row.new,
        ratio=None if row is None else row.ratio,
        ci_low=None if row is None else row.ci_low,
        ci_high=None if row is None else row.ci_high,
        verdict="invalid" if row is None else row.verdict,
        step=None,
    )


def _with_steps(cells: Sequence[SideCell], steps: Mapping[str, Step]) -> tuple[SideCell, ...]:
    return (
        cells[0],
        *(
            cell if "invalid" in (before.verdict, cell.verdict) else _with_step(cell, steps)
            for before, cell in pairwise(cells)
        ),
    )


def _with_step(cell: SideCell, steps: Mapping[str, Step]) -> SideCell:
    return replace(cell, step=steps.get(cell.side))


def _extremes(cells: Sequence[SideCell], better: Better) -> tuple[str | None, str | None]:
    if better == "unknown":
        return None, None
    base = cells[0]
    new = [cell for cell in cells[1:] if cell.value is not None and cell.verdict != "invalid"]
    if base.value is None or not new:
        return None, None
    improved = [cell for cell in new if cell.verdict == "improvement"] or [base]
    regressed = [cell for cell in new if cell.verdict == "regression"] or [base]
    if all(cell.n is None and cell.ci_low is None for cell in new):
        # Of published means without a number of runs, noise is unknown.
        improved = regressed = [base, *new]
    best, worst = _best(improved, better), _best(regressed, _opposite(better))
    return (best, worst) if best != worst else (None, None)


def _opposite(better: Better) -> Better:
    return "lower" if better == "higher" else "higher"


def _best(cells: Sequence[SideCell], better: Better) -> str:
    sign = 1.0 if better == "higher" else -1.0
    return max(cells, key=lambda cell: sign * (cell.value or 0.0)).side
