"""What each collector costs the workload: hackbench with it beside hackbench without any.

In every round each collector is run once and hackbench alone once, in random order, so that
a change of the machine's speed hits all of them. The figure is the geometric mean of the
rounds' ratios with a 95 % interval (Student's t on the logarithms), of wall time and of CPU
time, which other programs on the machine disturb less. What a collector does before and after
the run does not slow the workload; it is given in seconds.

Where the CPU cannot sample memory accesses, the collectors that do so are run with a clock in
place of the memory event: that measures perf, the file and the reading of the per-CPU areas at a
rate of samples that is usual for them, but not the hardware's own part, and the table says so.
"""

import os
import random
import sys
import time
from collections.abc import Mapping, Sequence
from math import exp, log
from statistics import fmean, median, stdev
from typing import NamedTuple

from scipy.stats import t as student

from schedperf_collectors._base import Capture, Collector, all_collectors
from schedperf_collectors._captures import (
    Captured,
    RunCaptures,
    Staging,
    capture_after,
    try_run_collectors,
)
from schedperf_collectors._isolate import OK
from schedperf_collectors._percpu_units import UnitBases
from schedperf_collectors._progress import say_outcome
from schedperf_collectors._signals import signals
from schedperf_collectors._system import System
from schedperf_collectors.workload import run_workload

COMMAND = "hackbench -l 1500 -g 1"
SEED = 20261121
# For all rounds together; the first round warms up and is left out.
BUDGET_S = 45.0
LEAST_ROUNDS = 4
CONFIDENCE = 0.95
CLEAN = "hackbench alone"
# Nanoseconds: 5000 samples a second and busy CPU, as AMD's IBS takes at the collectors' period.
CLOCK_PERIOD = 200_000
CLOCK_OPTIONS = {"event": "cpu-clock", "period": str(CLOCK_PERIOD)}
SAMPLING_MEMORY = ("perf_c2c", "perf_mem")
Options = Mapping[str, Mapping[str, str]]


class Cost(NamedTuple):
    """What one run of the workload took, in seconds."""

    wall_s: float
    cpu_s: float


def run_once(
    collectors: Sequence[Collector], staging: Staging, options: Options
) -> tuple[Cost, list[Captured]]:
    """Run the workload once, with collectors around it."""
    with RunCaptures(collectors, staging, options) as captures:
        run = run_workload(Capture(staging.folder(), os.getpid(), {"command": COMMAND}))
        captured = captures.stop()
    if not run.succeeded or run.wall_s is None or run.rusage is None:
        sys.exit(f"{COMMAND}: {say_outcome(run)}; install rt-tests")
    return Cost(run.wall_s, run.rusage["utime_s"] + run.rusage["stime_s"]), captured


def ratio_interval(ratios: Sequence[float]) -> str:
    """Return the geometric mean and its interval: ``1.021 [1.004, 1.038]``."""
    logs = [log(ratio) for ratio in ratios]
    half = student.ppf((1 + CONFIDENCE) / 2, len(logs) - 1) * stdev(logs) / len(logs) ** 0.5
    low, mean, high = (exp(fmean(logs) + step) for step in (-half, 0, half))
    return f"{mean:5.3f} [{low:5.3f}, {high:5.3f}]"


class Measured:
    """What the rounds brought, by collector and in the order of the rounds."""

    def __init__(self) -> None:
        self.costs: dict[str, list[Cost]] = {}
        self.captured: dict[str, list[Captured]] = {}

    def add(self, name: str, cost: Cost, captured: Sequence[Captured]) -> None:
        """Add one run and what was captured around it."""
        self.costs.setdefault(name, []).append(cost)
        for one in captured:
            self.add_captured(one)

    def add_captured(self, captured: Captured) -> None:
        """Add what was captured around or after one run."""
        self.captured.setdefault(captured.collector.name, []).append(captured)

    def line(self, name: str) -> str:
        """Return one line of the table; the first round is left out."""
        ratios = f"{'after the run':<44}"
        if name in self.costs:
            pairs = list(zip(self.costs[name][1:], self.costs[CLEAN][1:], strict=True))
            wall = ratio_interval([run.wall_s / alone.wall_s for run, alone in pairs])
            cpu = ratio_interval([run.cpu_s / alone.cpu_s for run, alone in pairs])
            ratios = f"{wall:<21}  {cpu:<21}"
        captured = self.captured[name][1:]
        outside_s = median(one.result.seconds or 0.0 for one in captured)
        size = median(sum(path.stat().st_size for _, path in one.files) for one in captured)
        return f"  {name:<13} {ratios}  {outside_s:5.2f} s  {size / 1e6:6.3f} MB"


def measure(
    usable: Sequence[Collector], after: Sequence[Collector], staging: Staging, options: Options
) -> Measured:
    """Run rounds until the budget is spent."""
    measured, order = Measured(), random.Random(SEED)  # noqa: S311 # no secret
    begun = time.monotonic()
    rounds = 0
    while rounds < LEAST_ROUNDS or (time.monotonic() - begun) * (1 + 1 / rounds) < BUDGET_S:
        brought: list[Captured] = []
        for choice in order.sample([None, *usable], len(usable) + 1):
            cost, captured = run_once([choice] if choice else [], staging, options)
            measured.add(choice.name if choice else CLEAN, cost, captured)
            brought += captured
        for one in after:
            measured.add_captured(capture_after(one, staging, {}, brought, frozenset()))
        rounds += 1
    return measured


def main() -> None:
    """Print one line a collector, and for those that cannot run here why."""
    in_run = [one for one in all_collectors().values() if one.scope == "run"]
    after = [one for one in all_collectors().values() if one.scope == "after"]
    with signals, Staging() as staging:
        tried = try_run_collectors(in_run, staging, {})
        clocked = {
            one.collector.name: CLOCK_OPTIONS
            for one in tried
            if one.result.status != OK and one.collector.name in SAMPLING_MEMORY
        }
        replaced = [one for one in in_run if one.name in clocked]
        tried_again = try_run_collectors(replaced, staging, clocked)
        usable = [one.collector for one in (*tried, *tried_again) if one.result.status == OK]
        measured = measure(usable, after, staging, clocked)
        began = time.perf_counter()
        reading = UnitBases(System(), {}).read()
        units_s = time.perf_counter() - began
        lines = [measured.line(one.name) for one in [*usable, *after]]
    alone = measured.costs[CLEAN][1:]
    print(f"{COMMAND}: {median(run.wall_s for run in alone):.2f} s alone; {len(alone)} rounds")
    print(f"  {'':<13} {'wall time, ratio':<21}  {'CPU time, ratio':<21}  around    captured")
    print("\n".join(lines))
    for failed in tried:
        if failed.result.status != OK:
            print(f"  {failed.collector.name:<13} cannot run here: {failed.result.reason}")
    for name in (one.name for one in usable if one.name in clocked):
        print(
            f"  {name:<13} above: with cpu-clock in place of the memory event, "
            f"{1_000_000_000 // CLOCK_PERIOD} samples a second and busy CPU"
        )
    print(f"  per-CPU units of perf_c2c: {units_s:.2f} s before the run, by {reading.method}")


if __name__ == "__main__":
    main()
