# SPDX-License-Identifier: GPL-2.0-or-later
"""Measure how long `compare_runs` takes for 1000 rows of one comparison.

Usage: ``python -m bench.verdicts.speed``. SciPy's Welch test on the same values is measured too, as
a lower bound.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median

import numpy as np

from bench.verdicts.generate import Recipe, df_trials, generate
from bench.verdicts.measure import SEED
from bench.verdicts.rivals import welch
from schedperf.stats import compare_runs

ROWS = 1000
RUNS = (5, 10)
ROUNDS = 9


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """Time of one call, in ms: median of all rounds.

    :param cpu: CPU time of the process
    :param wall: wall time, which also depends on other load of the machine
    :param is_ours: whether the call is ``compare_runs``, to which the limit applies
    """

    name: str
    cpu: float
    wall: float
    is_ours: bool


def _time(name: str, call: Callable[[], object], *, is_ours: bool) -> Timing:
    cpu: list[float] = []
    wall: list[float] = []
    for _ in range(ROUNDS):
        start, start_cpu = time.perf_counter(), time.process_time()
        call()
        cpu.append((time.process_time() - start_cpu) * 1e3)
        wall.append((time.perf_counter() - start) * 1e3)
    return Timing(name=name, cpu=median(cpu), wall=median(wall), is_ours=is_ours)


def time_thousand_rows() -> Iterator[Timing]:
    """Yield the times of a sweep of 1000 points: independent runs, rounds, and the lower bound."""
    for n in RUNS:
        recipe = Recipe(n=n, rows=ROWS, order="abba", shift=0.05, moved=ROWS // 2)
        trials = generate(recipe, 1, np.random.default_rng(SEED))
        rounds = df_trials(trials).drop(columns="comparison")
        plain = rounds.drop(columns=["order", "round"])
        for name, table in ((f"n={n}", plain), (f"n={n}, rounds", rounds)):
            compare = partial(compare_runs, table, base="base")
            yield _time(f"compare_runs {name}", compare, is_ours=True)
        yield _time(f"SciPy's Welch n={n}", partial(welch, trials.samples()), is_ours=False)


def lines(timings: list[Timing]) -> Iterator[str]:
    """Yield one line per call."""
    for item in timings:
        yield f"{item.name:<28} CPU {item.cpu:7.1f} ms   wall {item.wall:7.1f} ms"


if __name__ == "__main__":
    print(f"{ROWS} rows, median of {ROUNDS} rounds")
    print(*lines(list(time_thousand_rows())), sep="\n")
