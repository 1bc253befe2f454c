# SPDX-License-Identifier: GPL-2.0-or-later
"""Estimate how many boots and builds a search still needs, by simulating how it may continue.

Each simulated search draws the first bad commit from the present probabilities, and further boots
from a normal distribution around the level of their commit, with the standard deviation of the
boots so far.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean, median

import numpy as np
from msgspec import Struct

from schedperf.lab.bisect.checks import LEAST_SD
from schedperf.lab.bisect.rule import Bisection

# Simulated searches; the estimate is a rough one.
SEARCHES = 20
_SEED = 1

Made = Sequence[tuple[int, float]]


class Estimate(Struct, frozen=True, kw_only=True):
    """What a search still needs.

    :param boots: median number of further boots, first boots included
    :param most_boots: number of further boots that nine of ten searches do not exceed
    :param builds: median number of commits that have no boots yet
    :param named: part of the searches that name a commit in the part that is searched now, or have
        already named one there
    """

    boots: float
    most_boots: float
    builds: float
    named: float


def estimate_left(
    make: Callable[[], Bisection], made: Made, searches: int = SEARCHES
) -> Estimate | None:
    """Simulate how a search continues; return None while its ends have too few boots.

    :param make: function that returns the search before its first boot
    :param made: commit (its index) and value of each boot so far
    """
    now = _replay(make, made)
    probabilities = now.probabilities()
    if now.visit is None or probabilities is None:
        return None
    random = np.random.default_rng(_SEED)
    drawn = random.choice(len(probabilities), size=searches, p=probabilities)
    boots, builds, named = [], [], 0
    for commit in drawn:
        splits = [*(step.commit for step in now.steps), now.first + 1 + int(commit)]
        levels, sd = _levels(made, sorted(splits))
        search = _replay(make, made)
        tested = {each for each, _ in made}
        new = set[int]()
        number = 0
        while search.visit is not None:
            target = search.visit.commit
            level = levels[sum(split <= target for split in sorted(splits))]
            search.add(target, math.exp(random.normal(level, sd)))
            number += 1
            new |= {target} - tested
        boots.append(number)
        builds.append(len(new))
        named += len(search.steps) > len(now.steps)
    return Estimate(
        boots=median(boots),
        most_boots=float(np.quantile(boots, 0.9)),
        builds=median(builds),
        named=named / searches,
    )


def _replay(make: Callable[[], Bisection], made: Made) -> Bisection:
    search = make()
    for commit, value in made:
        search.add(commit, value)
    return search


def _levels(made: Made, splits: Sequence[int]) -> tuple[Sequence[float], float]:
    """Return the mean of the logarithms between two splits each, and their standard deviation.

    The first boot of each commit is left out.

    :param splits: first commits of all parts but the first, in ascending order
    """
    seen = set[int]()
    parts: list[list[float]] = [[] for _ in range(len(splits) + 1)]
    for commit, value in made:
        if commit in seen:
            parts[sum(split <= commit for split in splits)].append(math.log(value))
        seen.add(commit)
    levels = [fmean(part) for part in parts]
    squares = sum((value - level) ** 2 for part, level in zip(parts, levels, strict=True) for value in part)
    degrees = max(1, sum(map(len, parts)) - len(parts))
    return levels, max(LEAST_SD, math.sqrt(squares / degrees))
