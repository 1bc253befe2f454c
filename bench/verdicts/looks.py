# SPDX-License-Identifier: GPL-2.0-or-later
"""Simulate the interim tests of ``schedperf record --until-decided``: error rates and stops.

Base has a fixed number of runs; new gets one run at a time. From the third run of new on, base and
new are compared after each run with Welch's t test on logarithms (a "look"). The program prints the
rates of false positives with and without the correction of ``schedperf.stats.sequential``, and how
often and after how many runs each verdict is reached.

``--levels`` prints the levels from which the table in ``schedperf.stats.sequential`` was rounded
down.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from schedperf.model.verdict import MARGIN, SMALLEST_EFFECT
from schedperf.stats.sequential import NOMINAL_LEVELS, equality_level, nominal_level

Floats = NDArray[np.float64]

SEED = 20_261_121
LEVEL = 0.05
FIRST_LOOK = 3
# Runs of base. The inflation of the error rate is lowest for the smallest of these numbers, and for
# larger numbers than these no higher.
BASES = (3, 5, 10, 20, 30, 40, 50, 70, 100, 150, 200)
BUDGETS = (3, 5, 10, 20, 30, 100)
# Coefficient of variation of a quiet benchmark, as a fraction.
CV = 0.02
BUDGET = 30
# Trials at once: 100 looks of so many take 16 MB an array.
CHUNK = 20_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Looks:
    """Statistics of each interim test; shape (trials, looks) unless stated.

    :param runs: number of runs of new at each look, shape (looks,)
    :param effect: difference of the means of logarithms, new - base
    :param se: standard error of ``effect``
    :param df: degrees of freedom by Welch and Satterthwaite
    """

    runs: NDArray[np.intp]
    effect: Floats
    se: Floats
    df: Floats

    @property
    def p(self) -> Floats:
        """Return the two-sided p values of the tests for a difference, shape (trials, looks)."""
        return 2.0 * special.stdtr(self.df, -np.abs(self.effect) / self.se)

    @property
    def p_equivalence(self) -> Floats:
        """Return the larger p of the two one-sided tests against MARGIN, shape (trials, looks)."""
        room = np.log1p(MARGIN) - np.abs(self.effect)
        return special.stdtr(self.df, -room / self.se)


def simulate(
    generator: np.random.Generator, trials: int, *, base: int, budget: int, change: float = 0.0
) -> Iterator[Looks]:
    """Yield the interim tests of simulated recordings, at most CHUNK trials at a time.

    :param base: runs of base
    :param budget: runs of new at the last look
    :param change: true new / base - 1
    """
    runs = np.arange(1, budget + 1)
    for start in range(0, trials, CHUNK):
        size = min(CHUNK, trials - start)
        new = np.log1p(change) + CV * generator.standard_normal((size, budget))
        old = CV * generator.standard_normal((size, base))
        mean = new.cumsum(axis=1) / runs
        squares = (new**2).cumsum(axis=1) - runs * mean**2
        kept = slice(FIRST_LOOK - 1, None)
        n = runs[kept]
        of_new = squares[:, kept] / (n - 1) / n
        of_base = (old.var(axis=1, ddof=1) / base)[:, None]
        variance = of_new + of_base
        yield Looks(
            runs=n,
            effect=mean[:, kept] - old.mean(axis=1)[:, None],
            se=np.sqrt(variance),
            df=variance**2 / (of_new**2 / (n - 1) + of_base**2 / (base - 1)),
        )


def smallest_p(
    generator: np.random.Generator, trials: int, *, base: int, budgets: Sequence[int]
) -> Floats:
    """Return the smallest p of the looks up to each budget, without a true change.

    :param base: runs of base
    :return: shape (trials, budgets)
    """
    ends = [budget - FIRST_LOOK for budget in budgets]
    pieces = simulate(generator, trials, base=base, budget=max(budgets))
    return np.concatenate([np.minimum.accumulate(looks.p, axis=1)[:, ends] for looks in pieces])


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """Shares of recordings by verdict, and the mean number of runs of new in all recordings.

    :param higher: share in which new is reported as higher
    :param lower: share in which new is reported as lower
    :param undecided: share that reaches the budget without a verdict
    """

    higher: float
    lower: float
    no_change: float
    undecided: float
    mean_runs: float


def record(
    generator: np.random.Generator,
    trials: int,
    *,
    base: int,
    change: float,
    first: int = FIRST_LOOK,
    equality: float = equality_level(BUDGET),
) -> Outcome:
    """Simulate recordings that stop at the first verdict, or at BUDGET runs of new.

    :param base: runs of base
    :param change: true new / base - 1
    :param first: runs of new at the first look
    :param equality: level of each of the two one-sided tests against the margin
    """
    ends, runs = [], []
    for looks in simulate(generator, trials, base=base, budget=BUDGET, change=change):
        due = looks.runs >= first
        is_large = np.abs(looks.effect) >= np.log1p(SMALLEST_EFFECT)
        changed = (looks.p < nominal_level(BUDGET)) & is_large & due
        equal = (looks.p_equivalence < equality) & due & ~changed
        over = changed | equal
        last = np.where(over.any(axis=1), over.argmax(axis=1), over.shape[1] - 1)
        at = np.arange(len(last)), last
        ends.append(np.where(changed[at], np.sign(looks.effect[at]), np.where(equal[at], 0, 9)))
        runs.append(looks.runs[last])
    end = np.concatenate(ends)
    return Outcome(
        higher=float((end == 1).mean()),
        lower=float((end == -1).mean()),
        no_change=float((end == 0).mean()),
        undecided=float((end == 9).mean()),  # noqa: PLR2004 # neither of the three
        mean_runs=float(np.concatenate(runs).mean()),
    )


def print_levels(generator: np.random.Generator, trials: int) -> None:
    """Print the level per look at which 5% of A/A recordings have a false positive.

    One line per number of runs of base, one column per budget.
    """
    budgets = [budget for budget, _ in NOMINAL_LEVELS]
    print("level of each look for 5 % in all; columns: the budget", *_cells(budgets), sep="  ")
    levels = []
    for base in BASES:
        found = smallest_p(generator, trials, base=base, budgets=budgets)
        levels.append(np.quantile(found, LEVEL, axis=0))
        print(f"base of {base:3}", *(f"{level:.5f}" for level in levels[-1]), sep="  ")
    print("smallest   ", *(f"{level:.5f}" for level in np.min(levels, axis=0)), sep="  ")
    print("in use     ", *(f"{level:.5f}" for _, level in NOMINAL_LEVELS), sep="  ")


def print_false_alarms(generator: np.random.Generator, trials: int) -> None:
    """Print the share of A/A recordings with a significant look, by runs of base and budget.

    For each number of runs of base: with the level 0.05, and with the corrected level.
    """
    print(f"false alarms of a whole recording, {trials} trials, looks at 3, 4, … runs")
    print("budget       ", *_cells(BUDGETS), sep="  ")
    print("level        ", *(f"{nominal_level(budget):6.4f}" for budget in BUDGETS), sep="  ")
    worst = 0.0
    for base in BASES:
        found = smallest_p(generator, trials, base=base, budgets=BUDGETS)
        plain = (found < LEVEL).mean(axis=0)
        corrected = (found < [nominal_level(budget) for budget in BUDGETS]).mean(axis=0)
        worst = max(worst, float(corrected.max()))
        print(f"base of {base:3}: .05", *(f"{rate:6.3f}" for rate in plain), sep="  ")
        print("        corrected", *(f"{rate:6.3f}" for rate in corrected), sep="  ")
    error = np.sqrt(LEVEL * (1.0 - LEVEL) / trials)
    print(f"worst corrected rate {worst:.4f}; allowed {LEVEL:.3f} + 2 x {error:.4f}")


def print_outcomes(generator: np.random.Generator, trials: int) -> None:
    """Print the share of each verdict and the mean number of runs of new.

    One line per number of runs of base, first look and true change.
    """
    print(f"CV {CV:.0%}, budget {BUDGET}, margin {MARGIN:.0%}: how recordings end, in % of them")
    print("base  first  change   lower  higher  no-change  undecided  mean runs")
    for base in (10, 30):
        for first in (FIRST_LOOK, 10):
            for change in (0.0, MARGIN, 0.05, 0.10):
                end = record(generator, trials, base=base, change=change, first=first)
                shares = f"{end.lower:6.2%}  {end.higher:6.2%}  {end.no_change:9.2%}"
                print(
                    f"{base:4}  {first:5}  {change:+6.1%}  {shares}  {end.undecided:9.2%}"
                    f"  {end.mean_runs:9.1f}"
                )


def print_wrong_equality(generator: np.random.Generator, trials: int) -> None:
    """Print how often a change as large as the margin is reported as "no-change"."""
    print(f"wrong no-change at a change of {MARGIN:.0%}, the margin, in % of recordings")
    print(f"base  one look after {BUDGET} at .05  all looks at .05  all looks at the level in use")
    for base in (5, 10, 30, 70):
        one = record(generator, trials, base=base, change=MARGIN, first=BUDGET, equality=LEVEL)
        plain = record(generator, trials, base=base, change=MARGIN, equality=LEVEL)
        corrected = record(generator, trials, base=base, change=MARGIN)
        print(
            f"{base:4}  {one.no_change:24.2%}  {plain.no_change:16.2%}  {corrected.no_change:28.2%}"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the error rates and outcomes, or with ``--levels`` only the levels."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=40_000, help="[40000]")
    parser.add_argument("--levels", action="store_true", help="find the levels anew")
    options = parser.parse_args(arguments)
    generator = np.random.default_rng(SEED)
    if options.levels:
        print_levels(generator, options.trials)
        return
    for show in (print_false_alarms, print_outcomes, print_wrong_equality):
        show(generator, options.trials)
        print()


def _cells(numbers: Sequence[int]) -> list[str]:
    return [f"{number:6}" for number in numbers]


if __name__ == "__main__":
    main()
