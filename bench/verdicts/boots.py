# SPDX-License-Identifier: GPL-2.0-or-later
"""Simulate A/A comparisons of boots: how often two sides of one kernel are reported as different.

Each trial boots one kernel several times; boots differ by a standard deviation of 1 to 10%, the
runs of a boot by 2%. The program prints the share of trials with a change, by the number of boots
per side and by what is known of the deviation between boots, and the share of trials in which a
change of 5%, 40% and 100% is found. The exit status is 1 if the share of A/A trials with a change
exceeds 5% by more than three standard errors. Runs whose boots are unknown are shown for
comparison; the limit does not apply to them.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from schedperf.model.verdict import CHANGED
from schedperf.stats import compare_runs

Floats = NDArray[np.float64]

SEED = 20_261_128
TRIALS = 4000
MOST_FALSE = 0.05
# Standard errors by which the largest of 32 rates may exceed the limit.
ERRORS_ALLOWED = 3.0
RUN_SD = 0.02
RUNS = 10
BOOT_SDS = (0.01, 0.03, 0.07, 0.10)
CHANGES = (0.05, 0.40, 1.00)
# Degrees of freedom of a history, which has one more boot, all of one kernel.
HISTORIES = (6, 12)


@dataclass(frozen=True, kw_only=True, slots=True)
class Design:
    """How the two sides are recorded.

    :param base: boots of base
    :param new: boots of new
    :param history: degrees of freedom of the deviation between earlier boots; 0 without a history
    :param is_given: whether the comparison gets the deviation between boots (``--boot-sd``)
    :param is_one_boot: whether the runs are compared as if the boots were unknown
    """

    base: int
    new: int
    history: int = 0
    is_given: bool = False
    is_one_boot: bool = False

    @property
    def name(self) -> str:
        """Return its name in the table."""
        boots = f"{self.base}+{self.new} boots"
        if self.is_one_boot:
            return f"{boots}, runs as units"
        if self.is_given:
            return f"{boots}, --boot-sd"
        return f"{boots}, history of {self.history} df" if self.history else boots


DESIGNS = (
    Design(base=1, new=1),
    Design(base=1, new=1, is_given=True),
    *(Design(base=1, new=1, history=df) for df in HISTORIES),
    Design(base=1, new=2),
    Design(base=1, new=4),
    Design(base=2, new=2),
    Design(base=4, new=4),
)
# For comparison, not checked: boots are unknown, so that ten runs count as ten independent values.
UNAWARE = Design(base=1, new=1, is_one_boot=True)


def share_of_changes(design: Design, *, boot_sd: float, trials: int, change: float = 0.0) -> float:
    """Return the share of trials in which a change is reported.

    :param boot_sd: true standard deviation between boots, of logarithms
    :param change: true new / base - 1
    """
    generator = np.random.default_rng([SEED, round(1e4 * boot_sd), round(1e4 * change)])
    table = _df_trials(design, generator, boot_sd=boot_sd, trials=trials, change=change)
    past = []
    if design.history:
        boots = design.history + 1
        earlier = _df_boots(generator, "earlier", boots, boot_sd=boot_sd, trials=trials)
        past = [earlier.assign(kernel="one")]
    given = boot_sd if design.is_given else None
    rows = compare_runs(table, base="base", boot_sd=given, history=past).rows
    return sum(row.verdict in CHANGED for row in rows) / trials


def _df_trials(
    design: Design, generator: np.random.Generator, *, boot_sd: float, trials: int, change: float
) -> pd.DataFrame:
    base = _df_boots(generator, "base", design.base, boot_sd=boot_sd, trials=trials)
    new = _df_boots(generator, "new", design.new, boot_sd=boot_sd, trials=trials)
    new["value"] *= 1.0 + change
    table = pd.concat([base, new], ignore_index=True)
    return table.drop(columns="boot_id") if design.is_one_boot else table


def _df_boots(
    generator: np.random.Generator, side: str, boots: int, *, boot_sd: float, trials: int
) -> pd.DataFrame:
    shape = (trials, boots, RUNS)
    of_boots = boot_sd * generator.standard_normal((trials, boots, 1))
    logs = of_boots + RUN_SD * generator.standard_normal(shape)
    trial, boot, _ = (grid.ravel() for grid in np.indices(shape))
    return pd.DataFrame(
        {
            "comparison": trial,
            "side": side,
            # Each trial has its own history.
            "workload": [f"trial {number}" for number in trial],
            "point": "",
            "metric": "time",
            "unit": "s",
            "better": "lower",
            "value": np.exp(logs).ravel(),
            "boot": boot,
            "boot_id": [f"{side}-{number}" for number in boot],
        }
    )


def false_changes(design: Design, trials: int) -> Iterator[float]:
    """Yield the share of A/A trials with a change, for each deviation of BOOT_SDS."""
    for boot_sd in BOOT_SDS:
        yield share_of_changes(design, boot_sd=boot_sd, trials=trials)


def main(arguments: Sequence[str]) -> int:
    """Print the tables; return 1 if too many A/A trials report a change, else 0."""
    parser = argparse.ArgumentParser(prog="python -m bench.verdicts.boots", description=__doc__)
    parser.add_argument("--trials", type=int, default=TRIALS)
    trials = parser.parse_args(arguments).trials
    error = float(np.sqrt(MOST_FALSE * (1.0 - MOST_FALSE) / trials))
    heads = [f"{sd:6.0%}" for sd in BOOT_SDS]
    print(f"A/A: share of {trials} trials with a change, by the deviation between boots")
    print(f"{'':28}", *heads, sep="  ")
    worst = 0.0
    for design in (UNAWARE, *DESIGNS):
        rates = list(false_changes(design, trials))
        worst = worst if design is UNAWARE else max(worst, *rates)
        print(f"{design.name:28}", *(f"{rate:6.3f}" for rate in rates), sep="  ", flush=True)
    print(f"worst {worst:.4f}; allowed {MOST_FALSE:.3f} + {ERRORS_ALLOWED:.0f} x {error:.4f}")
    for change in CHANGES:
        print(f"\nshare of trials that find {change:+.0%}")
        for design in DESIGNS:
            rates = [
                share_of_changes(design, boot_sd=sd, trials=max(trials // 4, 1), change=change)
                for sd in BOOT_SDS
            ]
            print(f"{design.name:28}", *(f"{rate:6.3f}" for rate in rates), sep="  ", flush=True)
    return 0 if worst <= MOST_FALSE + ERRORS_ALLOWED * error else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
