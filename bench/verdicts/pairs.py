# SPDX-License-Identifier: GPL-2.0-or-later
"""Simulate the interim tests of ``schedperf ab --until-decided``: error rates and stops.

Both sides get one run per round. From the third round on, the pairs are compared after each round
with a paired t test on logarithms (a "look"). The program prints the rates of false positives with
and without the correction of ``schedperf.stats.sequential``, those of ``compare_runs`` itself, and
how often and after how many pairs each verdict is reached. The exit status is 1 if the share of A/A
recordings with a change, or the share of recordings whose change is as large as the margin and
reported as "no-change", exceeds 5% by more than three standard errors.

``--levels`` prints the levels from which the table in ``schedperf.stats.sequential`` was rounded
down.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from schedperf.model.verdict import CHANGED, MARGIN, SMALLEST_EFFECT
from schedperf.stats import compare_runs
from schedperf.stats.sequential import LEVELS_OF_PAIRS, equality_level, nominal_level

Floats = NDArray[np.float64]

SEED = 20_261_129
LEVEL = 0.05
FIRST_LOOK = 3
BUDGETS = (3, 5, 10, 20, 30, 100)
BUDGET = 30
# Standard deviations of the difference of the logarithms of a pair.
PAIR_SDS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.10, 0.20)
USUAL_SD = 0.03
CHUNK = 20_000
# Standard errors by which the largest of a few rates may exceed the limit.
ERRORS_ALLOWED = 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Looks:
    """Statistics of each interim test; shape (trials, looks) unless stated.

    :param pairs: number of pairs at each look, shape (looks,)
    :param effect: mean difference of logarithms, new - base
    :param se: standard error of ``effect``
    """

    pairs: NDArray[np.intp]
    effect: Floats
    se: Floats

    @property
    def df(self) -> Floats:
        """Return the degrees of freedom of each look, shape (looks,)."""
        return np.asarray(self.pairs - 1, dtype=np.float64)

    @property
    def p(self) -> Floats:
        """Return the two-sided p values of the tests for a difference, shape (trials, looks)."""
        p: Floats = 2.0 * special.stdtr(self.df, -np.abs(self.effect) / self.se)
        return p

    @property
    def p_equivalence(self) -> Floats:
        """Return the larger p of the two one-sided tests against MARGIN, shape (trials, looks)."""
        room = np.log1p(MARGIN) - np.abs(self.effect)
        p: Floats = special.stdtr(self.df, -room / self.se)
        return p


def simulate(
    generator: np.random.Generator, trials: int, *, budget: int, sd: float, change: float = 0.0
) -> Iterator[Looks]:
    """Yield the interim tests of simulated recordings, at most CHUNK trials at a time.

    :param budget: pairs at the last look
    :param sd: standard deviation of the difference of the logarithms of a pair
    :param change: true new / base - 1
    """
    pairs = np.arange(1, budget + 1)
    kept = slice(FIRST_LOOK - 1, None)
    n = pairs[kept]
    for start in range(0, trials, CHUNK):
        size = min(CHUNK, trials - start)
        differences = np.log1p(change) + sd * generator.standard_normal((size, budget))
        mean = differences.cumsum(axis=1) / pairs
        squares = (differences**2).cumsum(axis=1) - pairs * mean**2
        yield Looks(pairs=n, effect=mean[:, kept], se=np.sqrt(squares[:, kept] / (n - 1) / n))


def smallest_p(generator: np.random.Generator, trials: int, *, budgets: Sequence[int]) -> Floats:
    """Return the smallest p of the looks up to each budget, without a true change.

    :return: shape (trials, budgets)
    """
    ends = [budget - FIRST_LOOK for budget in budgets]
    pieces = simulate(generator, trials, budget=max(budgets), sd=1.0)
    return np.concatenate([np.minimum.accumulate(looks.p, axis=1)[:, ends] for looks in pieces])


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """Shares of recordings by verdict, and the mean number of pairs in all recordings.

    :param undecided: share that reaches the budget without a verdict
    """

    changed: float
    no_change: float
    undecided: float
    mean_pairs: float


def record(
    generator: np.random.Generator,
    trials: int,
    *,
    sd: float,
    change: float,
    budget: int = BUDGET,
    equality: float | None = None,
) -> Outcome:
    """Simulate recordings that stop at the first verdict, or at ``budget`` pairs.

    :param sd: standard deviation of the difference of the logarithms of a pair
    :param change: true new / base - 1
    :param equality: level of each of the two one-sided tests against the margin; None: the one
        that ``schedperf.stats.sequential`` has for the budget
    """
    level = nominal_level(budget, is_paired=True)
    equality = equality_level(budget, is_paired=True) if equality is None else equality
    ends, pairs = [], []
    for looks in simulate(generator, trials, budget=budget, sd=sd, change=change):
        is_large = np.abs(looks.effect) >= np.log1p(SMALLEST_EFFECT)
        changed = (looks.p < level) & is_large
        equal = (looks.p_equivalence < equality) & ~changed
        over = changed | equal
        last = np.where(over.any(axis=1), over.argmax(axis=1), over.shape[1] - 1)
        at = np.arange(len(last)), last
        ends.append(np.where(changed[at], 1, np.where(equal[at], 0, 9)))
        pairs.append(looks.pairs[last])
    end = np.concatenate(ends)
    return Outcome(
        changed=float((end == 1).mean()),
        no_change=float((end == 0).mean()),
        undecided=float((end == 9).mean()),  # noqa: PLR2004 # neither of the two
        mean_pairs=float(np.concatenate(pairs).mean()),
    )


def share_of_changes(
    generator: np.random.Generator, trials: int, *, budget: int, rows: int, is_corrected: bool
) -> float:
    """Return the share of A/A recordings in which ``compare_runs`` reports a change at any look.

    :param budget: pairs at the last look
    :param rows: points of each recording
    :param is_corrected: whether ``compare_runs`` corrects for the looks
    """
    has_change = np.zeros(trials, dtype=np.bool_)
    table = _df_recordings(generator, trials, budget=budget, rows=rows)
    for pairs in range(FIRST_LOOK, budget + 1):
        seen = table[(table["round"] < pairs) & ~has_change[table["comparison"]]]
        looks = {"new": budget} if is_corrected else None
        for row in compare_runs(seen, base="base", looks=looks).rows:
            has_change[int(str(row.comparison))] |= row.verdict in CHANGED
    return float(has_change.mean())


def _df_recordings(
    generator: np.random.Generator, trials: int, *, budget: int, rows: int
) -> pd.DataFrame:
    shape = (trials, rows, budget, 2)
    # The rounds drift, which cancels in pairs.
    rounds = 0.01 * generator.standard_normal((trials, 1, budget, 1))
    logs = rounds + USUAL_SD / np.sqrt(2.0) * generator.standard_normal(shape)
    trial, row, number, side = (grid.ravel() for grid in np.indices(shape))
    return pd.DataFrame(
        {
            "comparison": trial,
            "side": np.array(["base", "new"])[side],
            "workload": "w",
            "point": [f"x={value}" for value in row],
            "metric": "time",
            "unit": "s",
            "better": "lower",
            "value": np.exp(logs).ravel(),
            "boot": 0,
            "round": number,
            # ABBA.
            "order": (number * rows + row) * 2 + np.where(number % 2, 1 - side, side),
        }
    )


def print_levels(generator: np.random.Generator, trials: int) -> None:
    """Print the level per look at which 5% of A/A recordings have a false positive, by budget."""
    budgets = [budget for budget, _ in LEVELS_OF_PAIRS]
    levels = np.quantile(smallest_p(generator, trials, budgets=budgets), LEVEL, axis=0)
    print("budget  level for 5% in all  in use")
    for (budget, used), level in zip(LEVELS_OF_PAIRS, levels, strict=True):
        print(f"{budget:6}  {level:19.5f}  {used:.5f}")


def print_false_positives(generator: np.random.Generator, trials: int) -> float:
    """Print the share of A/A recordings with a significant look, by budget.

    :return: by how many standard errors the largest corrected share exceeds 5%
    """
    levels = [nominal_level(budget, is_paired=True) for budget in BUDGETS]
    found = smallest_p(generator, trials, budgets=BUDGETS)
    plain, corrected = (found < LEVEL).mean(axis=0), (found < levels).mean(axis=0)
    print(f"false positives of a whole A/A recording, {trials} trials, looks at 3, 4, … pairs")
    print("budget     ", *(f"{budget:6}" for budget in BUDGETS), sep="  ")
    print("level      ", *(f"{level:6.4f}" for level in levels), sep="  ")
    print("all at .05 ", *(f"{rate:6.3f}" for rate in plain), sep="  ")
    print("corrected  ", *(f"{rate:6.3f}" for rate in corrected), sep="  ")
    return _excess(float(corrected.max()), trials)


def print_compared(generator: np.random.Generator, trials: int) -> float:
    """Print the share of A/A recordings in which ``compare_runs`` reports a change at any look.

    :return: by how many standard errors the largest corrected share exceeds 5%; at least -1
    """
    print(f"A/A recordings with a change at any look of compare_runs, {trials} trials")
    print("rows  budget  uncorrected  corrected")
    excess = -1.0
    for rows, budget in ((1, 10), (1, 30), (4, 10)):
        plain, corrected = (
            share_of_changes(generator, trials, budget=budget, rows=rows, is_corrected=is_corrected)
            for is_corrected in (False, True)
        )
        print(f"{rows:4}  {budget:6}  {plain:11.3f}  {corrected:9.3f}", flush=True)
        excess = max(excess, _excess(corrected, trials))
    return excess


def print_outcomes(generator: np.random.Generator, trials: int) -> None:
    """Print the share of each verdict and the mean number of pairs.

    One line per standard deviation of a pair and true change.
    """
    print(f"budget {BUDGET}, margin {MARGIN:.0%}: how recordings end")
    print("sd of a pair  change  changed  no-change  undecided  mean pairs")
    for sd in (0.01, USUAL_SD, 0.05):
        for change in (0.0, MARGIN, 0.05, 0.10):
            end = record(generator, trials, sd=sd, change=change)
            shares = f"{end.changed:7.1%}  {end.no_change:9.1%}  {end.undecided:9.1%}"
            print(f"{sd:12.1%}  {change:+6.0%}  {shares}  {end.mean_pairs:10.1f}")


def print_wrong_equality(generator: np.random.Generator, trials: int) -> float:
    """Print how often a change as large as the margin is reported as "no-change".

    :return: by how many standard errors the largest share exceeds 5%
    """
    print(f"wrong no-change at a change of {MARGIN:.0%}, the margin, by the sd of a pair")
    print("budget     ", *(f"{sd:6.1%}" for sd in PAIR_SDS), sep="  ")
    worst = 0.0
    for budget in BUDGETS:
        rates = [
            record(generator, trials, sd=sd, change=MARGIN, budget=budget).no_change
            for sd in PAIR_SDS
        ]
        worst = max(worst, *rates)
        print(f"{budget:11}", *(f"{rate:6.3f}" for rate in rates), sep="  ")
    return _excess(worst, trials)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print all tables, or with ``--levels`` only the levels; return the exit status.

    It is 1 if a share exceeds its limit, else 0.
    """
    parser = argparse.ArgumentParser(prog="python -m bench.verdicts.pairs", description=__doc__)
    parser.add_argument("--trials", type=int, default=40_000, help="[40000]")
    parser.add_argument(
        "--compared", type=int, default=1000, help="trials with compare_runs [1000]"
    )
    parser.add_argument("--levels", action="store_true", help="find the levels anew")
    options = parser.parse_args(arguments)
    generator = np.random.default_rng(SEED)
    if options.levels:
        print_levels(generator, options.trials)
        return 0
    excesses = [print_false_positives(generator, options.trials)]
    print()
    excesses.append(print_wrong_equality(generator, options.trials))
    print()
    print_outcomes(generator, options.trials)
    print()
    excesses.append(print_compared(generator, options.compared))
    print(f"largest excess over {LEVEL:.2f}: {max(excesses):+.1f} standard errors (at most 3)")
    return 0 if max(excesses) <= ERRORS_ALLOWED else 1


def _excess(rate: float, trials: int) -> float:
    return float((rate - LEVEL) / np.sqrt(LEVEL * (1.0 - LEVEL) / trials))


if __name__ == "__main__":
    sys.exit(main())
