# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the simulated recordings (cells), and which limits apply to each of them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Flag, auto
from itertools import product

from bench.verdicts.generate import Noise, Order, Recipe

# Enough for a standard error of 0.35 % at a rate of 5 %.
TRIALS = 4000
QUICK_SHARE = 20
# Long recordings cost as much as several short ones.
TRIALS_OF_LONG = 2000
LONG_RUNS = 20

RUNS = (3, 4, 5, 8, 10, 20)
NORMAL: tuple[Noise, ...] = ("normal",)
UNEVEN: tuple[Noise, ...] = ("skew", "t3")
STRAY: tuple[Noise, ...] = ("bimodal", "outliers")
FAMILY = 9


class Promise(Flag):
    """The limits of ``gates`` that apply to a cell; the limit on power is ``Cell.least_power``."""

    NONE = 0
    FALSE_ALARMS = auto()
    DRIFT_ALARMS = auto()
    COVERAGE = auto()
    SIGN = auto()


HONEST = Promise.COVERAGE | Promise.SIGN
NULL = HONEST | Promise.FALSE_ALARMS


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One kind of recording, simulated ``trials`` times, and the limits for its results.

    :param trials: how many recordings of the recipe are simulated
    :param least_power: smallest allowed share of the rows with a true change that are reported in
        the correct direction, 0 to 1; None: no limit
    """

    name: str
    recipe: Recipe
    promise: Promise
    trials: int
    least_power: float | None = None


def _cell(
    recipe: Recipe, promise: Promise, least_power: float | None = None, name: str = ""
) -> Cell:
    trials = TRIALS_OF_LONG if recipe.n * recipe.iterations >= LONG_RUNS else TRIALS
    return Cell(
        name=name or describe(recipe),
        recipe=recipe,
        promise=promise,
        trials=trials,
        least_power=least_power,
    )


def describe(recipe: Recipe) -> str:
    """Return the name of a recipe, for example ``abba skew n=3 +5% 4/9``.

    It has the order, the number of runs or boots, the rows and their change. Other settings are
    in it only if they differ from the defaults of :class:`Recipe`.
    """
    parts: list[str] = [recipe.order]
    parts += [recipe.noise] * (recipe.noise != "normal")
    parts += [f"cv={recipe.cv:.1%}"] * (recipe.cv != Recipe(n=1).cv)
    parts += [f"sd x{recipe.spread:g}"] * (recipe.spread != 1)
    parts += [f"drift={recipe.drift:.0%}"] * (recipe.drift != 0)
    parts += [f"phi={recipe.phi:g}"] * (recipe.phi != 0)
    if recipe.iterations > 1:
        parts.append(f"boots={recipe.n}x{recipe.iterations} icc={recipe.icc:g}")
    else:
        parts.append(f"n={recipe.n}")
    parts.append(f"rows={recipe.rows}" if not recipe.moved else f"{recipe.shift:+.0%}")
    parts += [f"{recipe.moved}/{recipe.rows}"] * (recipe.moved != 0)
    return " ".join(parts)


def _nulls() -> Iterator[Cell]:
    # Every shape of noise at every n, then what else may differ between recordings.
    for noise, n in product((*NORMAL, *UNEVEN, *STRAY), RUNS):
        yield _cell(Recipe(noise=noise, n=n), NULL)
    # A factor of 4 between the variances, and between the standard deviations, of the rows.
    orders: tuple[Order, ...] = ("iid", "abba")
    for order, n, spread in product(orders, RUNS, (2.0, 4.0)):
        yield _cell(Recipe(order=order, spread=spread, n=n), NULL)
    for noise, n in product(UNEVEN, (3, 5, 10)):
        yield _cell(Recipe(noise=noise, spread=4.0, n=n), NULL)
    for cv, n in product((0.005, 0.01, 0.05), (3, 5)):
        yield _cell(Recipe(cv=cv, n=n), NULL)
    for rows, n in product((1, 14), (3, 5, 10, 20)):
        yield _cell(Recipe(rows=rows, n=n), NULL)


def _ordered_nulls() -> Iterator[Cell]:
    for n in RUNS:
        yield _cell(Recipe(order="abba", n=n), NULL)
        yield _cell(Recipe(order="abba", drift=0.05, n=n), Promise.FALSE_ALARMS)
    for noise, n in product(UNEVEN, (3, 5, 10)):
        yield _cell(Recipe(order="abba", noise=noise, n=n), NULL)
    for phi, n in product((0.3, 0.6), (5, 10, 20)):
        yield _cell(Recipe(order="abba", phi=phi, n=n), NULL)
        # In a recording of two blocks, autocorrelated noise acts as drift, so no limit applies.
        yield _cell(Recipe(order="blocked", phi=phi, n=n), Promise.NONE)
    others: tuple[Order, ...] = ("abab", "random")
    for order, n in product(others, (3, 5, 10)):
        yield _cell(Recipe(order=order, drift=0.05, n=n), Promise.NONE)
    for drift, n, rows in product((0.0, 0.01, 0.02, 0.05), (3, 5, 10, 20), (1, 9)):
        yield _cell(Recipe(order="blocked", drift=drift, n=n, rows=rows), Promise.DRIFT_ALARMS)


def _boots() -> Iterator[Cell]:
    for icc, boots in product((0.0, 0.2, 0.5, 0.8), (3, 5, 10)):
        yield _cell(Recipe(order="abba", n=boots, iterations=5, icc=icc), NULL)
    for boots in (4, 8, 20):
        yield _cell(Recipe(order="abba", n=boots, iterations=3, icc=0.5), NULL)
    for icc in (0.2, 0.8):
        moved = Recipe(order="abba", n=5, iterations=5, icc=icc, shift=0.05, moved=9)
        yield _cell(moved, HONEST)


# Runs per side, true shift, rows with that shift, and their least share to be reported at CV 2%.
POWER = ((3, 0.05, 9, 0.78), (3, 0.05, 4, 0.60), (5, 0.05, 9, 0.93), (10, 0.03, 9, 0.88))


def _shifts() -> Iterator[Cell]:
    orders: tuple[Order, ...] = ("iid", "abba")
    for order, (n, shift, moved, power) in product(orders, POWER):
        yield _cell(Recipe(order=order, n=n, shift=shift, moved=moved), HONEST, power)
    for n, shift in ((20, 0.01), (10, 0.02), (5, 0.03), (20, 0.03), (3, 0.10), (5, -0.05)):
        yield _cell(Recipe(n=n, shift=shift, moved=9), HONEST)
    for cv, n in ((0.005, 3), (0.005, 5), (0.01, 5), (0.01, 10), (0.05, 10)):
        yield _cell(Recipe(cv=cv, n=n, shift=0.03, moved=9), HONEST)
    for spread, n in product((2.0, 4.0), (3, 5)):
        yield _cell(Recipe(spread=spread, n=n, shift=0.05, moved=4), HONEST)
    for noise, n in product((*UNEVEN, *STRAY), (5, 10)):
        yield _cell(Recipe(noise=noise, n=n, shift=0.05, moved=9), HONEST)
    for rows, moved in ((1, 1), (14, 14), (14, 4)):
        yield _cell(Recipe(rows=rows, n=5, shift=0.05, moved=moved), HONEST)
    yield _cell(Recipe(order="abba", drift=0.05, n=5, shift=0.05, moved=9), Promise.SIGN)
    for n in (5, 10, 20):
        yield _cell(Recipe(order="blocked", n=n, shift=0.05, moved=9), HONEST)


def all_cells() -> list[Cell]:
    """Return every cell; names are unique."""
    return [*_nulls(), *_ordered_nulls(), *_boots(), *_shifts()]


def quick(cells: list[Cell]) -> list[Cell]:
    """Return the same cells with 1/QUICK_SHARE of the trials each."""
    return [replace(cell, trials=cell.trials // QUICK_SHARE) for cell in cells]
