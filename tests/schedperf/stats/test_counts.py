# SPDX-License-Identifier: GPL-2.0-or-later
"""Rates of rare events: level, coverage and power by simulation, and the cases worked by hand."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from schedperf.stats import ComparedCounts, compare_counts

Floats = npt.NDArray[np.float64]

SIX_ON_ONE_SIDE = 2.0 * 0.5 * 0.5**6
TRIALS = 150


def rates_of(
    base: Any, new: Any, *, base_exposure: Any = None, new_exposure: Any = None
) -> ComparedCounts:
    sides = [np.array(side, dtype=float) for side in (base, new)]
    exposures = [
        np.ones(len(side)) if given is None else np.array(given, dtype=float)
        for side, given in zip(sides, (base_exposure, new_exposure), strict=True)
    ]
    return compare_counts(*sides, base_exposure=exposures[0], new_exposure=exposures[1])


class Trials:
    """What simulated comparisons of three runs a side said, all lines together."""

    def __init__(
        self, mean: Floats, *, phi: float, ratio: float = 1.0, is_common: bool = False
    ) -> None:
        random = np.random.default_rng(20261121)
        self.hits = self.covered = self.covered_difference = self.tested = self.lines = 0
        self.families = 0

        def draw(means: Floats, exposure: Floats) -> Floats:
            expected = exposure[:, None] * means
            if phi:
                shape = (len(exposure), 1 if is_common else len(means))
                expected = expected * random.gamma(1.0 / phi, phi, shape)
            return random.poisson(expected).astype(float)

        for _ in range(TRIALS):
            exposures = random.uniform(0.8, 1.2, (2, 3))
            found = compare_counts(
                draw(mean, exposures[0]),
                draw(mean * ratio, exposures[1]),
                base_exposure=exposures[0],
                new_exposure=exposures[1],
            )
            self.add(found, mean, ratio)

    def add(self, found: ComparedCounts, mean: Floats, ratio: float) -> None:
        known = ~np.isnan(found.ratio_low)
        change = mean * (ratio - 1.0)
        inside = (found.ratio_low <= ratio) & (ratio <= found.ratio_high)
        inside_difference = (found.difference_low <= change) & (change <= found.difference_high)
        self.covered += int(inside[known].sum())
        self.covered_difference += int(inside_difference[known].sum())
        self.lines += int(known.sum())
        self.tested += int((~np.isnan(found.p)).sum())
        self.hits += int((found.p < 0.05).sum())
        self.families += bool((found.q < 0.05).any())


RARE = np.full(20, 1.5)
FREQUENT = np.full(20, 50.0)
MIXED = np.geomspace(0.3, 300.0, 20)


@pytest.mark.parametrize("mean", [RARE, FREQUENT, MIXED], ids=["rare", "frequent", "mixed"])
@pytest.mark.parametrize("phi", [0.0, 0.1, 0.5])
def test_three_runs_a_side_err_as_often_as_they_say(mean: Floats, phi: float) -> None:
    trials = Trials(mean, phi=phi)
    assert 0.93 <= trials.covered / trials.lines <= 0.99
    assert 0.93 <= trials.covered_difference / trials.lines <= 0.995
    assert trials.hits / trials.tested <= 0.07
    assert trials.families / TRIALS <= 0.09


def test_runs_that_are_slow_as_a_whole_do_not_count_once_a_line() -> None:
    trials = Trials(MIXED, phi=0.1, is_common=True)
    assert trials.covered / trials.lines >= 0.93


@pytest.mark.parametrize("phi", [0.0, 0.1])
def test_intervals_hold_a_true_change_and_see_a_large_one(phi: float) -> None:
    trials = Trials(MIXED, phi=phi, ratio=3.0)
    assert 0.93 <= trials.covered / trials.lines <= 0.99
    assert 0.93 <= trials.covered_difference / trials.lines <= 0.995
    assert trials.hits / trials.tested >= 0.7


@pytest.mark.parametrize("mean", [5.0, 100.0])
def test_the_least_ratio_is_found_four_times_in_five(mean: float) -> None:
    base, new = np.random.default_rng(3).poisson(mean, (2, 3, 400))
    planned = float(np.median(rates_of(base, new).least_ratio))
    trials = Trials(np.full(20, mean), phi=0.0, ratio=planned)
    assert trials.hits / trials.tested == pytest.approx(0.8, abs=0.1)


def test_poisson_counts_have_the_mid_p_of_the_binomial_distribution() -> None:
    found = rates_of([[0], [0]], [[3], [3]])
    assert (found.phi, found.method) == (0.0, "Poisson")
    assert found.p[0] == pytest.approx(SIX_ON_ONE_SIDE)
    twelve = rates_of([[1]] * 4, [[2]] * 4)
    binomial = stats.binom(12, 0.5)
    assert twelve.p[0] == pytest.approx(2.0 * (binomial.sf(8) + binomial.pmf(8) / 2.0))


def test_the_interval_ends_where_p_is_five_percent() -> None:
    base, new = [[20], [22], [21]], [[41], [40], [39]]
    found = rates_of(base, new)
    for end in (found.ratio_low[0], found.ratio_high[0]):
        shifted = rates_of(base, new, new_exposure=[end] * 3)
        assert shifted.p[0] == pytest.approx(0.05, abs=1e-6)


def test_a_side_without_a_sample_leaves_the_ratio_open() -> None:
    found = rates_of([[0], [0]], [[5], [5]])
    assert np.isnan(found.ratio[0])
    assert found.ratio_low[0] > 1.0
    assert np.isinf(found.ratio_high[0])
    assert (found.base[0], found.base_low[0]) == (0.0, 0.0)
    assert found.base_high[0] == pytest.approx(-np.log(0.025) / 2.0)
    gone = rates_of([[5], [5]], [[0], [0]])
    assert (gone.ratio[0], gone.ratio_low[0]) == (0.0, 0.0)
    assert gone.ratio_high[0] < 1.0
    assert gone.ratio_high[0] == pytest.approx(1.0 / found.ratio_low[0])


def test_nothing_seen_is_a_rate_of_zero_with_an_upper_end() -> None:
    found = rates_of([[0], [0]], [[0], [0]])
    assert found.base_high[0] > 0.0
    for name in ("ratio", "ratio_low", "ratio_high", "p", "q", "least_ratio"):
        assert np.isnan(getattr(found, name)[0]), name


def test_too_few_samples_are_not_tested_and_cost_the_others_nothing() -> None:
    found = rates_of([[50, 1, 0], [50, 0, 1]], [[90, 0, 2], [90, 1, 0]])
    assert np.isnan(found.p[1:]).all()
    assert found.q[0] == found.p[0]


def test_one_run_a_side_has_rates_and_nothing_else() -> None:
    found = rates_of([[10]], [[40]], base_exposure=[2.0], new_exposure=[4.0])
    assert (found.base[0], found.new[0], found.ratio[0]) == (5.0, 10.0, 2.0)
    assert np.isnan(found.phi)
    for name in ("base_low", "base_high", "ratio_low", "ratio_high", "p", "q", "least_ratio"):
        assert np.isnan(getattr(found, name)[0]), name


def test_runs_that_differ_more_than_counts_must_widen_the_interval() -> None:
    steady = rates_of([[100], [101], [99]], [[150], [149], [151]])
    noisy = rates_of([[40], [160], [100]], [[90], [210], [150]])
    assert steady.method == "Poisson"
    assert noisy.method == "negative binomial"
    assert noisy.phi == pytest.approx(0.2, rel=0.6)
    assert noisy.ratio_low[0] < 1.0 < steady.ratio_low[0]


def test_the_scatter_of_other_lines_tells_what_a_line_cannot() -> None:
    random = np.random.default_rng(5)
    shape = (3, 40)
    base, new = (random.poisson(40.0 * random.gamma(4.0, 0.25, shape)) for _ in range(2))
    # By chance one line's own runs agree.
    base[:, 0], new[:, 0] = 30, 50
    alone = rates_of(base[:, :1], new[:, :1])
    together = rates_of(base, new)
    assert alone.p[0] < 0.01 < together.p[0]


def test_swapping_the_sides_mirrors_the_result() -> None:
    base, new = [[3, 40], [5, 44]], [[9, 41], [12, 39]]
    one, other = rates_of(base, new), rates_of(new, base)
    assert one.p == pytest.approx(other.p)
    assert one.ratio_low == pytest.approx(1.0 / other.ratio_high)
    assert one.difference_low == pytest.approx(-other.difference_high)


def test_exposures_make_rates_of_counts() -> None:
    found = rates_of([[10], [30]], [[20], [60]], base_exposure=[1, 3], new_exposure=[2, 6])
    assert (found.base[0], found.new[0], found.ratio[0]) == (10.0, 10.0, 1.0)
    assert found.p[0] == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize(
    ("base", "exposure", "words"),
    [
        ([[1.0], [2.0]], [1.0, 0.0], "invalid exposure"),
        ([[1.0], [2.0]], [1.0, np.nan], "invalid exposure"),
        ([[-1.0], [2.0]], [1.0, 1.0], "invalid count "),
        ([[1.0], [2.0]], [1.0], "shape"),
        (np.zeros((0, 1)), [], "at least 1 run"),
        ([[1.0, 2.0], [2.0, 2.0]], [1.0, 1.0], "base has . lines and new has"),
    ],
)
def test_what_is_no_count_is_refused(base: Any, exposure: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        rates_of(base, [[1.0], [1.0]], base_exposure=exposure)
