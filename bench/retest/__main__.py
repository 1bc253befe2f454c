# SPDX-License-Identifier: GPL-2.0-or-later
"""Simulate retests: how often each outcome is right, and how many boots it takes.

Boots of both kernels are interleaved, normal on logarithms, and independent. The rates of the
retest (`ab --retest`) are printed beside those of 8 boots per side with a two-sided p < 0.01. The
exit status is 1 if a limit is exceeded.
"""

import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from msgspec import Struct

from bench.limits import Check, check_lines
from schedperf.stats.looks import RETEST, Design, Judged, Look, judge_boots

TRIALS = 10_000
SEED = 20_261_130
FIXED = Design(looks=(Look(8, 0.005),), smallest=RETEST.smallest)
# Standard deviation between boots of a usual machine.
SD = 0.02
NULL_SDS = (0.005, 0.01, 0.02, 0.03, 0.04, 0.06)
SIZES = (0.03, 0.05, 0.10)
# Allowed: reproduced without a change; reproduced at SD, by the size of the change, and the mean
# number of boots per side; half of the change that was seen, stopped as futile.
MOST_FALSE = 0.0055
LEAST_POWER = {0.03: 0.85, 0.05: 0.995, 0.10: 0.999}
MOST_BOOTS = {0.03: 12.5, 0.05: 8.7, 0.10: 6.2}
MOST_HALVES_STOPPED = 0.08


class Cell(Struct, frozen=True, kw_only=True):
    """A machine, a change, and what was seen of it before.

    :param sd: standard deviation between boots, on logarithms
    :param change: true new / base - 1
    :param seen: new / base - 1 as it was seen
    """

    sd: float
    change: float
    seen: float


class Rates(Struct, frozen=True, kw_only=True):
    """Parts of the trials with each result.

    :param absent: those stopped as futile whose 95% CI includes 0, of all trials
    :param boots: mean number of boots per side
    :param fixed: reproduced by the fixed design
    """

    reproduced: float
    futile: float
    absent: float
    undecided: float
    boots: float
    fixed: float


def simulate(cell: Cell, trials: int = TRIALS) -> Rates:
    """Retest a change many times."""
    generator = np.random.default_rng(SEED)
    most, seen = RETEST.looks[-1].boots, math.log1p(cell.seen)
    results: Counter[str] = Counter()
    boots = absent = fixed = 0
    for _ in range(trials):
        base, new = cell.sd * generator.standard_normal((2, most))
        sides = base.tolist(), (new + math.log1p(cell.change)).tolist()
        judged = judge_boots(RETEST, *sides, seen=seen)
        results[judged.result] += 1
        boots += _boots(judged)
        absent += judged.result == "futile" and judged.last is not None and judged.last.ci_low <= 0
        fixed += judge_boots(FIXED, *sides, seen=seen).result == "reproduced"
    return Rates(
        reproduced=results["reproduced"] / trials,
        futile=results["futile"] / trials,
        absent=absent / trials,
        undecided=results["undecided"] / trials,
        boots=boots / trials,
        fixed=fixed / trials,
    )


def _boots(judged: Judged) -> int:
    assert judged.last is not None
    return judged.last.boots


def make_cells() -> Sequence[Cell]:
    """Return the cells: no change, the change that was seen, and half of it."""
    return (
        *(Cell(sd=sd, change=0.0, seen=0.05) for sd in NULL_SDS),
        *(Cell(sd=SD, change=size, seen=size) for size in SIZES),
        *(Cell(sd=SD, change=size / 2.0, seen=size) for size in SIZES),
    )


def check(cell: Cell, rates: Rates) -> Iterator[Check]:
    """Yield the checks of a cell."""
    name = f"{cell.change:+.1%} of {cell.seen:+.0%} seen, sd {cell.sd:.1%}"
    if cell.change == 0.0:
        yield Check(name=f"{name}: reproduced", value=rates.reproduced, limit=MOST_FALSE)
    elif cell.change == cell.seen:
        least, most = LEAST_POWER[cell.seen], MOST_BOOTS[cell.seen]
        yield Check(name=f"{name}: reproduced", value=rates.reproduced, limit=least, is_upper=False)
        yield Check(name=f"{name}: boots per side", value=rates.boots, limit=most)
    else:
        yield Check(name=f"{name}: futile", value=rates.futile, limit=MOST_HALVES_STOPPED)


def main() -> int:
    """Print a line per cell, then the limits; return the exit status."""
    cells = make_cells()
    with ProcessPoolExecutor() as pool:
        rates = list(pool.map(simulate, cells))
    print(f"retests of a change, {TRIALS} trials each (fixed: 8 boots per side, p < 0.01)")
    print("  true   seen    sd  reproduced  futile  CI has 0  undecided  boots  fixed")
    for cell, found in zip(cells, rates, strict=True):
        print(
            f"{cell.change:+6.1%} {cell.seen:+6.1%} {cell.sd:5.1%}  {found.reproduced:10.4f}"
            f"  {found.futile:6.3f}  {found.absent:8.3f}  {found.undecided:9.3f}"
            f"  {found.boots:5.1f}  {found.fixed:.4f}"
        )
    checks = [each for pair in zip(cells, rates, strict=True) for each in check(*pair)]
    for line in check_lines(checks):
        print(line)
    return 0 if all(each.is_kept for each in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
