# SPDX-License-Identifier: GPL-2.0-or-later
"""The results of three or more sides beside each other: a row per result, a cell per side.

Each cell has the change from base, which the rows of the record test, and the change from the side
before it, which is estimated without a test: a series of patches is read step by step.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec.structs import replace

from schedperf.model.comparison import BASE, Better, Row, SideBySide, SideCell, Step
from schedperf.model.frame import Frame
from schedperf.stats import compare_runs

FEWEST_SIDES = 3

Question = tuple[str, str, str, str, str]


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


def _steps(digests: Mapping[str, str], runs: Frame) -> Steps:
    steps: dict[Question, dict[str, Step]] = {}
    for before, side in pairwise(digests):
        same = digests[before] == digests[side]
        for row in compare_runs(runs, base=before, new=[side]).rows:
            ends = (row.ratio, row.ci_low, row.ci_high)
            ratio, low, high = (1.0 if same and row.ratio else end for end in ends)
            step = Step(ratio=ratio, ci_low=low, ci_high=high)
            steps.setdefault(row.question, {})[side] = step
    return steps


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
