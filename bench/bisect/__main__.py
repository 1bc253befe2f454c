# SPDX-License-Identifier: GPL-2.0-or-later
"""Count right and wrong first bad commits of simulated regressions: ``python -m bench.bisect``.

The exit status is 1 if a limit of ``gates.py`` is not met.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import count, repeat

from bench.bisect.gates import Outcomes, check_outcomes
from bench.bisect.measure import BINS, Outcome, measure_cell
from bench.bisect.worlds import Cell, all_cells
from bench.limits import check_lines

SEED = 20_261_130
TRIALS = 200
# Each tool of a cell uses another one.
SEEDS_PER_CELL = 100


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.bisect", description=__doc__)
    parser.add_argument(
        "--trials", type=int, default=TRIALS, metavar="N", help=f"per cell [default: {TRIALS}]"
    )
    parser.add_argument(
        "--only", metavar="NAME", default="", help="worlds whose name contains this"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), metavar="N", help="processes [default: CPUs]"
    )
    return parser.parse_args(arguments)


def measure(cells: Sequence[Cell], trials: int, jobs: int) -> Mapping[Cell, Outcome]:
    """Return the outcome of each cell."""
    with ProcessPoolExecutor(jobs) as pool:
        seeds = count(SEED, SEEDS_PER_CELL)
        outcomes = pool.map(measure_cell, cells, repeat(trials), seeds)
        return dict(zip(cells, outcomes, strict=True))


def cell_lines(outcomes: Outcomes) -> Iterator[str]:
    """Yield a line per cell: shares of trials, wrong names / names, and mean boots of each tool."""
    tools = [score.tool for score in next(iter(outcomes.values())).scores]
    yield f"{'':<47}" + "".join(f"  {tool:<29}" for tool in tools)
    columns = "  right nothing      wrong boots"
    yield f"{'world':<32}{'commits':>7}{'change':>8}" + columns * len(tools)
    for cell, outcome in outcomes.items():
        yield f"{cell.world.name:<32}{cell.commits:>7}{cell.change:>+8.0%}" + "".join(
            f"  {score.complete:5.3f} {score.silent:7.3f} {score.wrong:5}/{score.named:<5}"
            f"{score.boots:5.0f}"
            for score in outcome.scores
        )


def bin_lines(outcomes: Outcomes) -> Iterator[str]:
    """Yield how often the leading commit of each visit is a cause, by its probability."""
    yield f"{'probability':<14} {'visits':>7} {'a cause':>7}"
    stated = map(sum, zip(*(outcome.stated for outcome in outcomes.values()), strict=True))
    true = map(sum, zip(*(outcome.true for outcome in outcomes.values()), strict=True))
    for low, high, visits, causes in zip((0.0, *BINS), (*BINS, 1.0), stated, true, strict=True):
        share = f"{causes / visits:.3f}" if visits else "-"
        yield f"{low:.2f} to {high:.2f}   {visits:>7} {share:>7}"


def main(arguments: Sequence[str]) -> int:
    """Print all tables; return 0 if all limits are kept, 1 if not, 2 if no world has the name."""
    chosen = parse_arguments(arguments)
    cells = [cell for cell in all_cells() if chosen.only in cell.world.name]
    if not cells:
        print(f"--only: no world's name contains {chosen.only!r}", file=sys.stderr)
        return 2
    outcomes = measure(cells, chosen.trials, chosen.jobs)
    checks = list(check_outcomes(outcomes))
    for lines in (cell_lines(outcomes), bin_lines(outcomes), check_lines(checks)):
        print(*lines, sep="\n", end="\n\n")
    return 0 if all(check.is_kept for check in checks) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
