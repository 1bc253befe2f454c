# SPDX-License-Identifier: GPL-2.0-or-later
"""Arrange the results of three or more sides in a table: a row per result, a cell per side.

Each cell has the change from base, which the rows of the record test, and the change from the
previous side (a step, e.g. one patch of a series). Steps are tested as rows are, and their p values
are corrected over the steps of all results of a family (Holm, "A simple sequentially rejective
multiple test procedure", Scand. J. Stat. 6 (1979)): naming a patch by mistake costs more than
missing one.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec.structs import replace

from schedperf.model.base_new import BASE
from schedperf.model.frame import Frame
from schedperf.model.row_groups import Mover, SideBySide, SideCell, Step
from schedperf.model.rows import Better, Family, Row
from schedperf.model.verdict import CHANGED, CONFIDENCE
from schedperf.stats import JudgedRow, Result, compare_runs

if TYPE_CHECKING:
    import pandas as pd

FEWEST_SIDES = 3

Question = tuple[str, str, str, str, str]
# Side, workload, point, metric.
_Tested = tuple[str, str, str, str]
# In order of priority.
_FAMILIES: Sequence[Family] = ("primary", "secondary", "informational")

Steps = Mapping[Question, Mapping[str, Step]]


def compare_side_by_side(
    rows: Sequence[Row],
    digests: Mapping[str, str],
    runs: Frame,
    *,
    history: "Sequence[Frame | pd.DataFrame]" = (),
    boot_sd: float | None = None,
) -> Iterator[SideBySide]:
    """Yield each result with a cell for each side; yield nothing for fewer than three sides.

    :param rows: rows of all new sides
    :param digests: digests of the data of each side, base first
    :param runs: as for :func:`schedperf.stats.compare_runs`; so are ``history`` and ``boot_sd``
    """
    if len(digests) >= FEWEST_SIDES:
        compare = partial(compare_runs, runs, history=history, boot_sd=boot_sd)
        yield from put_side_by_side(rows, list(digests), _steps(digests, compare))


def put_side_by_side(
    rows: Sequence[Row], sides: Sequence[str], steps: Steps
) -> Iterator[SideBySide]:
    """Yield each result with a cell for each side; the steps were computed by the caller.

    :param rows: rows of all new sides
    :param sides: names of all sides, base first
    :param steps: change of each side from the side before it, by result and side
    """
    questions: dict[Question, dict[str, Row]] = {}
    for row in rows:
        questions.setdefault(row.question, {})[row.side] = row
    for question, of_side in questions.items():
        yield _put(sides, of_side, steps.get(question, {}))


def find_movers(results: Sequence[SideBySide]) -> tuple[Mover, ...]:
    """Return the significant steps that have a ratio.

    Primary results come first, then secondary and informational ones; within a family, the largest
    step comes first.
    """
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


def _steps(digests: Mapping[str, str], compare: Callable[..., Result]) -> Steps:
    rows = [
        _same_data(row) if digests[before] == digests[side] else row
        for before, side in pairwise(digests)
        for row in compare(base=before, new=[side]).rows
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
    """Return p of each row, corrected by Holm's method within the row's family; None stays None."""
    families: dict[Family, dict[_Tested, float]] = {}
    for row in rows:
        if row.p is not None:
            families.setdefault(row.family, {})[_tested(row)] = row.p
    corrected = {family: holm(tested) for family, tested in families.items()}
    return [None if row.p is None else corrected[row.family][_tested(row)] for row in rows]


def _tested(row: JudgedRow) -> _Tested:
    # Two rows that are computed from one measurement count as one test.
    return row.side, row.workload, row.point, row.same_as or row.metric


def holm(tested: Mapping[_Tested, float]) -> dict[_Tested, float]:
    """Return the p values corrected by Holm's method, from the smallest to the largest.

    :param tested: p by side, workload, point and metric

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
    # Pairs with another side can have fewer rounds, so the value of base comes from the first row
    # that has one.
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
        # Published means without a number of runs have unknown noise.
        improved = regressed = [base, *new]
    best, worst = _best(improved, better), _best(regressed, _opposite(better))
    return (best, worst) if best != worst else (None, None)


def _opposite(better: Better) -> Better:
    return "lower" if better == "higher" else "higher"


def _best(cells: Sequence[SideCell], better: Better) -> str:
    sign = 1.0 if better == "higher" else -1.0
    return max(cells, key=lambda cell: sign * (cell.value or 0.0)).side
