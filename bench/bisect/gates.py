# SPDX-License-Identifier: GPL-2.0-or-later
"""Check the error rates, the power and the boots of the search against limits."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from bench.bisect.measure import OURS, Outcome, Score
from bench.bisect.worlds import NO_STEP, ONE_STEP, TWO_STEPS, WANDERING, Cell
from bench.limits import Check
from schedperf.lab.bisect.rule import SURE

MOST_WRONG = 0.005
MOST_WRONG_WANDERING = 0.01
# Share of trials in which a commit is named although none changes anything.
MOST_NAMED = 0.001
# Share of trials of one step without a name, by the size of the change.
MOST_SILENT: Mapping[float, float] = {0.03: 0.25, 0.05: 0.05}
# Share of trials of two steps of this size in which both are named.
LARGE_CHANGE = 0.10
LEAST_COMPLETE = 0.95
# Mean of this range.
MOST_BOOTS = 85.0
COUNTED_COMMITS = 512
COUNTED_CHANGE = 0.05

Outcomes = Mapping[Cell, Outcome]


def own_score(outcome: Outcome) -> Score:
    """Return the score of this project's rule."""
    return next(score for score in outcome.scores if score.tool == OURS)


def check_outcomes(outcomes: Outcomes) -> Iterator[Check]:
    """Yield the checks of the cells that were measured."""
    scores = {cell: own_score(outcome) for cell, outcome in outcomes.items()}
    for world in dict.fromkeys(cell.world for cell in scores):
        of_world = [score for cell, score in scores.items() if cell.world == world]
        if world == NO_STEP:
            named = 1.0 - fmean(score.silent for score in of_world)
            yield Check(name="a commit named, no step", value=named, limit=MOST_NAMED)
            continue
        limit = MOST_WRONG_WANDERING if world == WANDERING else MOST_WRONG
        yield Check(name=f"wrong among named, {world.name}", value=_wrong(of_world), limit=limit)
    right = 1.0 - _wrong(list(scores.values()))
    yield Check(name="right among named, all worlds", value=right, limit=SURE, is_upper=False)
    for cell, score in scores.items():
        where = f"{cell.commits} commits, {cell.change:+.0%}"
        if cell.world == ONE_STEP and cell.change in MOST_SILENT:
            limit = MOST_SILENT[cell.change]
            yield Check(name=f"nothing named, {where}", value=score.silent, limit=limit)
        if cell.world == TWO_STEPS and cell.change == LARGE_CHANGE:
            yield Check(
                name=f"both steps named, {where}",
                value=score.complete,
                limit=LEAST_COMPLETE,
                is_upper=False,
            )
        if cell == Cell(world=ONE_STEP, commits=COUNTED_COMMITS, change=COUNTED_CHANGE):
            yield Check(name=f"boots, {where}", value=score.boots, limit=MOST_BOOTS)


def _wrong(scores: Sequence[Score]) -> float:
    return sum(score.wrong for score in scores) / max(1, sum(score.named for score in scores))
