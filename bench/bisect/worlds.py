# SPDX-License-Identifier: GPL-2.0-or-later
"""Simulated ranges of commits, and machines whose boots vary in different ways.

The boots of one kernel have a standard deviation of 2% in all worlds.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

Noise = Literal["normal", "outliers", "bimodal", "wandering"]

BOOT_SD = 0.02
COMMITS = (16, 128, 512)
CHANGES = (0.03, 0.05, 0.10)

# The first boot of a build is lower by this.
_LOW_FIRST = 0.05
# This share of boots has five times the deviation.
_OUTLIERS = 0.05
_OUTLIER_FACTOR = 5.0
# Two equally frequent levels, each with this share of the variance around it.
_WITHIN_MODES = 0.25
# Half of the variance of a wandering machine stays from one boot to the next with this weight, so
# that the lag-1 autocorrelation is 0.45. Histories of real machines have 0.22 to 0.53.
_MEMORY = 0.9


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """One way in which results depend on commits and boots.

    :param steps: sizes of the changes, as multiples of the change of the cell
    :param given_sd: standard deviation that the search is given; None to estimate it from the ends
    :param low_first: whether the first boot of each build is low
    """

    name: str
    steps: tuple[float, ...] = (1.0,)
    given_sd: float | None = BOOT_SD
    noise: Noise = "normal"
    low_first: bool = False


ONE_STEP = World(name="one step")
TWO_STEPS = World(name="two equal steps", steps=(1.0, 1.0))
NO_STEP = World(name="no step", steps=())
WANDERING = World(name="wandering machine", noise="wandering")
WORLDS = (
    ONE_STEP,
    World(name="one step, sd from the ends", given_sd=None),
    World(name="one step, half of the sd given", given_sd=BOOT_SD / 2.0),
    World(name="one step, twice the sd given", given_sd=BOOT_SD * 2.0),
    TWO_STEPS,
    World(name="two opposite steps", steps=(1.0, -0.5)),
    World(name="low first boots", low_first=True),
    World(name="5% outliers", noise="outliers"),
    World(name="bimodal boots", noise="bimodal"),
    WANDERING,
    NO_STEP,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """A world with a number of commits, the good one not counted, and a size of the change."""

    world: World
    commits: int
    change: float


def all_cells() -> list[Cell]:
    """Return the cells of all worlds."""
    return [
        Cell(world=world, commits=commits, change=change)
        for world in WORLDS
        for commits in COMMITS
        for change in CHANGES
    ]


class Lab:
    """A range of commits, and the machine that boots them.

    :ivar causes: indices of the commits that change the result, from 1 on
    """

    def __init__(self, cell: Cell, generator: np.random.Generator) -> None:
        self._world = cell.world
        self._generator = generator
        self._made: Counter[int] = Counter()
        self._level = BOOT_SD * generator.standard_normal()
        steps = cell.world.steps
        places = generator.choice(np.arange(1, cell.commits + 1), len(steps), replace=False)
        self.causes = tuple(sorted(map(int, places)))
        levels = np.zeros(cell.commits + 1)
        for place, size in zip(self.causes, steps, strict=True):
            levels[place:] += math.copysign(math.log1p(cell.change * abs(size)), size)
        self._levels = levels

    def boot(self, commit: int) -> float:
        """Boot a commit, by its index, and return the result of the benchmark."""
        self._made[commit] += 1
        is_low = self._world.low_first and self._made[commit] == 1
        log = self._levels[commit] + self._noise() - (_LOW_FIRST if is_low else 0.0)
        return math.exp(log)

    def _noise(self) -> float:
        draw = self._generator
        normal = BOOT_SD * draw.standard_normal()
        if self._world.noise == "outliers":
            return normal * (_OUTLIER_FACTOR if draw.random() < _OUTLIERS else 1.0)
        if self._world.noise == "bimodal":
            side = math.copysign(math.sqrt(1.0 - _WITHIN_MODES), draw.random() - 0.5)
            return BOOT_SD * side + normal * math.sqrt(_WITHIN_MODES)
        if self._world.noise == "wandering":
            innovation = BOOT_SD * draw.standard_normal() * math.sqrt(1.0 - _MEMORY**2)
            self._level = _MEMORY * self._level + innovation
            return (self._level + normal) / math.sqrt(2.0)
        return normal


def labs(cell: Cell, trials: int, seed: int) -> Iterator[Lab]:
    """Yield a lab per trial; the same seed makes the same ones.

    :param trials: number of labs
    """
    for trial in range(trials):
        yield Lab(cell, np.random.default_rng((seed, trial)))
