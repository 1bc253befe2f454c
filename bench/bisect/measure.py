# SPDX-License-Identifier: GPL-2.0-or-later
"""Search the causes of simulated regressions, by this project's rule and by other tools.

`git bisect run` is simulated. git-bayesect (https://github.com/hauntsaninja/git_bayesect) searches
with its own code. Both need good or bad: a boot is bad if it is on the bad side of the midpoint
between the ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np
from git_bayesect import Bisector

from bench.bisect.worlds import Cell, Lab, labs
from schedperf.lab.bisect.rule import END_BOOTS, MOST_BOOTS, SURE, Bisection

OURS = "schedperf"
# Boots per step of `git bisect run`, whose median decides whether the commit is good or bad.
REPEATS = (3, 5, 10)
BAYESECT = "git-bayesect"
_BAYESECT_SEED = 1
# Upper bounds of the bins of probabilities.
BINS = (0.5, 0.8, 0.9, 0.95, 0.99)


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """What a tool answered in the trials of a cell.

    :param named: number of commits that it named in all trials
    :param wrong: number of those that change nothing
    :param complete: share of trials in which it named all causes and nothing else
    :param silent: share of trials in which it named nothing
    :param boots: mean number of boots, first boots included
    """

    tool: str
    named: int
    wrong: int
    complete: float
    silent: float
    boots: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The scores of all tools in one cell.

    :param stated: number of probabilities of the leading commit, one per visit of the search, in
        each bin of ``BINS`` and above the last; shape (bins + 1,)
    :param true: how many of them were of a cause; shape (bins + 1,)
    """

    scores: tuple[Score, ...]
    stated: tuple[int, ...]
    true: tuple[int, ...]


def measure_cell(cell: Cell, trials: int, seed: int) -> Outcome:
    """Return the scores of all tools in a cell."""
    bins = np.zeros((2, len(BINS) + 1), dtype=int)
    own = [_search(lab, cell, bins) for lab in labs(cell, trials, seed)]
    scores = [_score(OURS, own)]
    for repeats in REPEATS:
        # Another seed per tool: each boots its own machine.
        rival = [_bisect_run(lab, cell, repeats) for lab in labs(cell, trials, seed + repeats)]
        scores.append(_score(f"git bisect run, k = {repeats}", rival))
    rival = [_bayesect(lab, cell) for lab in labs(cell, trials, seed + _BAYESECT_SEED)]
    scores.append(_score(BAYESECT, rival))
    stated, true = (tuple(map(int, row)) for row in bins)
    return Outcome(scores=tuple(scores), stated=stated, true=true)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Answer:
    named: frozenset[int]
    causes: frozenset[int]
    boots: int


def _score(tool: str, answers: Sequence[_Answer]) -> Score:
    return Score(
        tool=tool,
        named=sum(len(each.named) for each in answers),
        wrong=sum(len(each.named - each.causes) for each in answers),
        complete=fmean(each.named == each.causes for each in answers),
        silent=fmean(not each.named for each in answers),
        boots=fmean(each.boots for each in answers),
    )


def _search(
    lab: Lab, cell: Cell, bins: "np.ndarray[tuple[int, int], np.dtype[np.int_]]"
) -> _Answer:
    """Search by the rule; count the probability of the leading commit at each visit."""
    bisection = Bisection(np.ones(cell.commits + 1), cell.world.given_sd)
    while (visit := bisection.visit) is not None:
        if visit.phase == "search":
            probabilities = bisection.probabilities()
            assert probabilities is not None
            leading = bisection.first + 1 + int(probabilities.argmax())
            index = int(np.searchsorted(BINS, probabilities.max(), side="right"))
            bins[:, index] += 1, leading in lab.causes
        for _ in range(visit.boots):
            bisection.add(visit.commit, lab.boot(visit.commit))
    named = frozenset(step.commit for step in bisection.steps)
    boots = bisection.spent(0, cell.commits)
    return _Answer(named=named, causes=frozenset(lab.causes), boots=boots)


def _bisect_run(lab: Lab, cell: Cell, repeats: int) -> _Answer:
    """Halve the range by the median of some boots, good or bad by the midpoint of the ends."""
    good, bad = 0, cell.commits
    ends = [_boot(lab, end, END_BOOTS) for end in (good, bad)]
    boots = 2 * END_BOOTS
    while bad - good > 1:
        middle = (good + bad) // 2
        boots += repeats
        if _is_bad(median(_boot(lab, middle, repeats)), ends):
            bad = middle
        else:
            good = middle
    return _Answer(named=frozenset({bad}), causes=frozenset(lab.causes), boots=boots)


def _bayesect(lab: Lab, cell: Cell) -> _Answer:
    """Search as `git bayesect run --confidence 0.99`, after `fail` and `pass` of the ends' boots.

    After as many boots as this project's rule, it is stopped without an answer. So it is if it
    names the good end, i.e. finds no change.
    """
    # Its index 0 is the newest commit.
    bisector = Bisector(np.ones(cell.commits + 1))
    ends = [_boot(lab, end, END_BOOTS) for end in (0, cell.commits)]
    for commit, values in zip((0, cell.commits), ends, strict=True):
        for value in values:
            bisector.record(cell.commits - commit, _is_bad(value, ends))
    while bisector.distribution.max() < SURE and bisector.num_total_observations < MOST_BOOTS:
        index = bisector.select()
        bisector.record(index, _is_bad(lab.boot(cell.commits - index), ends))
    commit = cell.commits - int(bisector.distribution.argmax())
    is_named = commit > 0 and bisector.distribution.max() >= SURE
    return _Answer(
        named=frozenset({commit} if is_named else ()),
        causes=frozenset(lab.causes),
        boots=bisector.num_total_observations,
    )


def _is_bad(value: float, ends: Sequence[Sequence[float]]) -> bool:
    """Return whether a value is on the bad side of the midpoint between the medians of the ends."""
    good, bad = map(median, ends)
    return (value > (good + bad) / 2.0) == (bad > good)


def _boot(lab: Lab, commit: int, times: int) -> list[float]:
    return [lab.boot(commit) for _ in range(times)]
