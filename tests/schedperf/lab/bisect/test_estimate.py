# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.lab.bisect.estimate: what simulated searches need is what real ones need."""

import math
from statistics import fmean

import numpy as np
import pytest

from schedperf.lab.bisect.estimate import Estimate, estimate_left
from schedperf.lab.bisect.rule import Bisection

COMMITS = 128
SD = 0.02


def search(seed: int, change: float) -> tuple[Estimate | None, int, int]:
    """Return the estimate after the ends, and the further boots and commits that were needed."""
    random = np.random.default_rng(seed)
    cause = int(random.integers(1, COMMITS))
    bisection = Bisection(np.ones(COMMITS))
    estimate: Estimate | None = None
    at_ends = 0
    while bisection.visit is not None:
        if bisection.visit.phase == "search" and not at_ends:
            estimate, at_ends = estimate_left(bisection), len(bisection.history)
        commit = bisection.visit.commit
        level = math.log1p(change) if commit >= cause else 0.0
        bisection.add(commit, math.exp(random.normal(level, SD)))
    further = bisection.history[at_ends:]
    return estimate, len(further), len({commit for commit, _ in further} - {0, COMMITS - 1})


@pytest.mark.parametrize("change", [0.05, 0.1])
def test_the_estimate_after_the_ends_is_near_what_searches_need(change: float) -> None:
    found = [search(seed, change) for seed in range(10)]
    estimates = [estimate for estimate, _, _ in found if estimate is not None]
    assert len(estimates) == len(found)
    boots = fmean(estimate.boots for estimate in estimates)
    assert boots == pytest.approx(fmean(number for _, number, _ in found), rel=0.25)
    builds = fmean(estimate.builds for estimate in estimates)
    assert builds == pytest.approx(fmean(number for *_, number in found), rel=0.25)
    assert all(estimate.boots <= estimate.most_boots for estimate in estimates)
    assert fmean(estimate.named for estimate in estimates) > 0.9


def test_a_limit_that_is_too_low_is_seen() -> None:
    bisection = Bisection(np.ones(COMMITS), most_boots=22)
    random = np.random.default_rng(1)
    while bisection.visit is not None and bisection.visit.phase == "ends":
        commit = bisection.visit.commit
        bisection.add(commit, math.exp(random.normal(0.05 if commit else 0.0, SD)))
    estimate = estimate_left(bisection)
    assert estimate is not None
    assert estimate.named < 0.1


def test_before_the_ends_have_boots_nothing_is_estimated() -> None:
    bisection = Bisection(np.ones(COMMITS))
    assert estimate_left(bisection) is None
    bisection.add(0, 1.0)
    bisection.add(COMMITS - 1, 1.0)
    assert estimate_left(bisection) is None


def test_the_estimate_leaves_the_search_as_it_is() -> None:
    bisection = Bisection(np.ones(COMMITS))
    for _ in range(4):
        bisection.add(0, 1.0)
        bisection.add(COMMITS - 1, 1.1)
    visit, history = bisection.visit, list(bisection.history)
    first = estimate_left(bisection)
    assert (bisection.visit, bisection.history) == (visit, history)
    assert estimate_left(bisection) == first
