# SPDX-License-Identifier: GPL-2.0-or-later
"""Estimate how many boots and builds a search still needs, by simulating how it may continue.

Each simulated search draws the first bad commit from the present probabilities, and further boots
from a normal distribution around the level of their commit, with the standard deviation of the
boots so far.
"""

import math
from collections.abc import Sequence
from statistics import fmean, median
from typing import Annotated

import numpy as np
from msgspec import Struct

from schedperf.lab.bisect.rule import Bisection
from schedperf.stats.looks import LEAST_SD

# Simulated searches; the estimate is a rough one.
_SEARCHES = 20
_SEED = 1
# Part of the searches that need at most ``most_boots``.
_MOST = 0.9
# Absurd values are cut here, before they overflow a float.
_LARGEST_LOG = 700.0

Made = Sequence[tuple[int, float]]


class Estimate(Struct, frozen=True, kw_only=True):
    """What the search of a range still needs, from 20 simulated searches."""

    boots: Annotated[float, "median number of further boots, first boots included"]
    most_boots: Annotated[float, "number of further boots that is enough for nine of ten searches"]
    builds: Annotated[float, "median number of commits to boot that have no boots yet"]
    named: Annotated[float, "part of the searches that name one more commit, from 0 to 1"]


def estimate_left(now: Bisection) -> Estimate | None:
    """Simulate how a search may continue.

    :return: None if it is over, or while its ends have too few boots
    """
    probabilities = now.probabilities()
    if now.visit is None or probabilities is None:
        return None
    random = np.random.default_rng(_SEED)
    booted = {commit for commit, _ in now.history}
    boots, builds, named = [], [], 0
    for drawn in random.choice(len(probabilities), size=_SEARCHES, p=probabilities):
        splits = sorted((*(step.commit for step in now.steps), now.first + 1 + int(drawn)))
        levels, sd = _levels(now.history, splits)
        search = now.copy()
        while search.visit is not None:
            commit = search.visit.commit
            level = levels[_part_of(commit, splits)]
            log = float(np.clip(random.normal(level, sd), -_LARGEST_LOG, _LARGEST_LOG))
            search.add(commit, math.exp(log))
        further = search.history[len(now.history) :]
        boots.append(len(further))
        builds.append(len({commit for commit, _ in further} - booted))
        named += len(search.steps) > len(now.steps)
    return Estimate(
        boots=median(boots),
        most_boots=float(np.quantile(boots, _MOST, method="higher")),
        builds=median(builds),
        named=named / _SEARCHES,
    )


def _levels(made: Made, splits: Sequence[int]) -> tuple[Sequence[float], float]:
    """Return the mean of the logarithms between two splits each, and the standard deviation there.

    The first boot of each commit is left out.

    :param splits: first commits of all parts but the first, in ascending order
    """
    seen = set[int]()
    parts: list[list[float]] = [[] for _ in range(len(splits) + 1)]
    for commit, value in made:
        if commit in seen:
            parts[_part_of(commit, splits)].append(math.log(value))
        seen.add(commit)
    levels = [fmean(part) for part in parts]
    squares = sum(
        (value - level) ** 2 for part, level in zip(parts, levels, strict=True) for value in part
    )
    degrees = max(1, sum(map(len, parts)) - len(parts))
    return levels, max(LEAST_SD, math.sqrt(squares / degrees))


def _part_of(commit: int, splits: Sequence[int]) -> int:
    return sum(split <= commit for split in splits)
