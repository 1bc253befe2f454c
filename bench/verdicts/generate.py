# SPDX-License-Identifier: GPL-2.0-or-later
"""Simulate recordings with known true changes.

Noise is added to natural logarithms, so that the true ratio of a changed row is exactly 1 + shift
for any distribution of the noise. The noise of all runs is made in the order of time and then
assigned to the sides in the order in which a recorder runs them. So drift and autocorrelation
affect the two sides as they would in a real recording.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import signal

from bench.verdicts.rivals import Samples

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Noise = Literal["normal", "skew", "t3", "bimodal", "outliers"]
Order = Literal["iid", "abba", "abab", "random", "blocked"]

# The rows of a sweep span two decades, as hackbench's times do from 1 to 256 groups.
LEVELS = (10.0, 1000.0)
# exp(0.8 z) has a skewness of 3.7: a benchmark that is often slightly and seldom much slower.
SKEW_SIGMA = 0.8
# 30 % of the runs in a second mode that is 8 % slower.
SLOW_SHARE, SLOW_FACTOR = 0.30, 1.08
# 10 % of the runs are slower by 5 to 15 times the usual spread.
OUTLIER_SHARE, OUTLIER_SPREADS = 0.10, (5.0, 15.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """How a recording of two sides is simulated.

    :param noise: distribution of the noise; README.md explains it
    :param cv: standard deviation of the noise on logarithms, of one mode and without outliers:
        geometric mean over the rows
    :param spread: standard deviation of the noisiest row / that of the quietest row
    :param order: order in time of the runs (or boots) of the two sides; "iid" are recorded as
        "abab", but compared without their order
    :param n: independent runs per side; if ``iterations`` is above 1, boots per side
    :param rows: points of the sweep
    :param iterations: runs per boot; 1: boots are not recorded
    :param icc: share of the variance that is between boots, if ``iterations`` is above 1
    :param drift: increase of all rows from the first run to the last, as a fraction
    :param phi: lag-1 autocorrelation of the runs in the order of time
    :param shift: true new / base - 1 of the rows that change
    :param moved: number of rows that change; the others are the same on both sides
    """

    noise: Noise = "normal"
    cv: float = 0.02
    spread: float = 1.0
    order: Order = "iid"
    n: int
    rows: int = 9
    iterations: int = 1
    icc: float = 0.0
    drift: float = 0.0
    phi: float = 0.0
    shift: float = 0.0
    moved: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Trials:
    """Many independent recordings of one recipe.

    :param times: in s, first base, then new: shape (2, trials, rows, runs)
    :param places: number of each run in the order of time, from 0: shape (2, trials, runs)
    :param truth: natural logarithm of the true new / base, shape (rows,)
    """

    recipe: Recipe
    times: Floats
    places: Ints
    truth: Floats

    def samples(self) -> Samples:
        """Return the values without order and boots: shape (trials * rows, runs) for each side."""
        count = self.times.shape[1] * self.recipe.rows
        base, new = (side.reshape(count, -1) for side in self.times)
        return Samples(base=base, new=new, is_higher_better=np.zeros(count, dtype=np.bool_))


def generate(recipe: Recipe, trials: int, rng: np.random.Generator) -> Trials:
    """Simulate ``trials`` recordings of a recipe."""
    runs = recipe.n * recipe.iterations
    noise = _noise(recipe, (trials, recipe.rows, 2 * runs), rng)
    noise *= _row_spreads(recipe)[:, None]
    noise += np.log1p(recipe.drift) * np.linspace(0.0, 1.0, 2 * runs)
    places = _places(recipe, trials, rng)
    levels = np.geomspace(*LEVELS, recipe.rows) if recipe.rows > 1 else np.array([LEVELS[1]])
    truth = np.zeros(recipe.rows)
    # Spread over the sweep, so that quiet and noisy rows move alike.
    truth[np.linspace(0, recipe.rows - 1, recipe.moved).round().astype(int)] = np.log1p(
        recipe.shift
    )
    sides = [np.take_along_axis(noise, place[:, None, :], axis=2) for place in places]
    times = np.exp(np.stack([sides[0], sides[1] + truth[:, None]])) * levels[:, None]
    return Trials(recipe=recipe, times=times, places=places, truth=truth)


Shape = tuple[int, int, int]


def _normal(shape: Shape, _cv: float, rng: np.random.Generator) -> Floats:
    return rng.standard_normal(shape)


def _skew(shape: Shape, _cv: float, rng: np.random.Generator) -> Floats:
    variance = np.expm1(SKEW_SIGMA**2)
    mean = np.exp(SKEW_SIGMA**2 / 2)
    raw = np.exp(SKEW_SIGMA * rng.standard_normal(shape))
    return np.asarray((raw - mean) / (mean * np.sqrt(variance)))


def _t3(shape: Shape, _cv: float, rng: np.random.Generator) -> Floats:
    return np.asarray(rng.standard_t(3, shape) / np.sqrt(3))


def _bimodal(shape: Shape, cv: float, rng: np.random.Generator) -> Floats:
    is_slow = rng.random(shape) < SLOW_SHARE
    return np.asarray(rng.standard_normal(shape) + is_slow * (np.log(SLOW_FACTOR) / cv))


def _outliers(shape: Shape, _cv: float, rng: np.random.Generator) -> Floats:
    is_outlier = rng.random(shape) < OUTLIER_SHARE
    return rng.standard_normal(shape) + is_outlier * rng.uniform(*OUTLIER_SPREADS, shape)


# Noise in units of its row's spread.
SHAPES: Mapping[Noise, Callable[[Shape, float, np.random.Generator], Floats]] = {
    "normal": _normal,
    "skew": _skew,
    "t3": _t3,
    "bimodal": _bimodal,
    "outliers": _outliers,
}


def _noise(recipe: Recipe, shape: Shape, rng: np.random.Generator) -> Floats:
    noise = SHAPES[recipe.noise](shape, recipe.cv, rng)
    if recipe.phi:
        # The first value has the variance of all others, so the series is stationary.
        noise[..., 1:] *= np.sqrt(1 - recipe.phi**2)
        noise = np.asarray(signal.lfilter([1.0], [1.0, -recipe.phi], noise, axis=2))
    if recipe.iterations > 1:
        boots = rng.standard_normal((*shape[:2], 2 * recipe.n))
        between = np.repeat(boots, recipe.iterations, axis=2)
        noise = np.sqrt(recipe.icc) * between + np.sqrt(1 - recipe.icc) * noise
    return noise


def _row_spreads(recipe: Recipe) -> Floats:
    half = np.sqrt(recipe.spread)
    return recipe.cv * np.geomspace(1 / half, half, recipe.rows)


def _places(recipe: Recipe, trials: int, rng: np.random.Generator) -> Ints:
    # Which places in time the runs of base and of new have, shape (2, trials, runs).
    turns = np.arange(2 * recipe.n)
    if recipe.order == "random":
        dealt = rng.permuted(np.tile(turns, (trials, 1)), axis=1)
        sides = np.sort(np.stack([dealt[:, : recipe.n], dealt[:, recipe.n :]]), axis=2)
    else:
        base = {
            "iid": turns % 2 == 0,
            "abab": turns % 2 == 0,
            "abba": turns % 4 % 3 == 0,
            "blocked": turns < recipe.n,
        }[recipe.order]
        sides = np.stack([np.tile(turns[mask], (trials, 1)) for mask in (base, ~base)])
    runs = sides[..., None] * recipe.iterations + np.arange(recipe.iterations)
    return runs.reshape(2, trials, -1).astype(np.int64)


def df_trials(trials: Trials) -> pd.DataFrame:
    """Return the trials as the table that ``compare_runs`` reads: one row per point and run.

    ``comparison`` is the number of the trial. There is an ``order`` unless the recipe's is "iid", a
    ``boot`` if ``iterations`` is above 1, and otherwise a ``round`` for "abba" and "abab".
    """
    recipe = trials.recipe
    _, count, rows, runs = trials.times.shape
    side, trial, row, run = (grid.ravel() for grid in np.indices(trials.times.shape))
    table = {
        "comparison": trial,
        "side": np.array(["base", "new"], dtype=object)[side],
        "workload": np.full(side.size, "sweep", dtype=object),
        "point": np.array([f"row={number}" for number in range(rows)], dtype=object)[row],
        "metric": np.full(side.size, "time", dtype=object),
        "unit": np.full(side.size, "s", dtype=object),
        "better": np.full(side.size, "lower", dtype=object),
        "value": trials.times.ravel(),
    }
    if recipe.order != "iid":
        places = np.broadcast_to(trials.places[:, :, None, :], (2, count, rows, runs))
        # The rows of a sweep are run in turn at every place.
        table["order"] = (places * rows).ravel() + row
    if recipe.iterations > 1:
        table["boot"] = run // recipe.iterations
    elif recipe.order in {"abba", "abab"}:
        table["round"] = run
    return pd.DataFrame(table)
