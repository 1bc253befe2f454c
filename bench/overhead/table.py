# SPDX-License-Identifier: GPL-2.0-or-later
"""Format the times of the rounds as a table: ratio and 95% CI of each collector, and the goal."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student

CONFIDENCE = 0.95
# A collector with a larger ratio should not run during measured runs.
GOAL = 1.02
HELD_TO_GOAL = ("perf_stat", "schedstat", "bpf_placement")
# Largest number of rounds that the text suggests.
MOST_ROUNDS = 100_000
WALL, CPU = 0, 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Ratio:
    """Time of a run with a collector / time of a run without one.

    :param n: number of rounds
    :param mean: geometric mean over the rounds
    :param low: lower bound of its 95% CI
    :param high: upper bound of its 95% CI
    :param sd: standard deviation of the logarithms of the rounds' ratios
    """

    n: int
    mean: float
    low: float
    high: float
    sd: float

    def __str__(self) -> str:
        return f"{self.mean:5.3f} [{self.low:5.3f}, {self.high:5.3f}]"


def ratio_of(record: Mapping[str, Any], name: str, which: int) -> Ratio:
    """Return the geometric mean of the rounds' ratios with its CI (Student's t on logarithms).

    :param record: JSON object of ``bench.overhead.rounds``
    :param name: name of the collector
    :param which: ``WALL`` or ``CPU``
    """
    alone = record["alone"]
    logs = np.log([run[which] / alone[run[2]][which] for run in record["with"][name]])
    half = student.ppf((1 + CONFIDENCE) / 2, len(logs) - 1) * logs.std(ddof=1) / len(logs) ** 0.5
    mean = logs.mean()
    low, middle, high = np.exp([mean - half, mean, mean + half])
    return Ratio(n=len(logs), mean=middle, low=low, high=high, sd=logs.std(ddof=1))


def judge(ratio: Ratio) -> str:
    """State whether the ratio is at most ``GOAL``, or how many rounds would decide it.

    The goal is met or missed if the whole CI is on one side of it.
    """
    if ratio.high <= GOAL:
        return "met"
    if ratio.low > GOAL:
        return "missed"
    # The half width that just leaves the goal outside of the interval.
    room = abs(math.log(GOAL / ratio.mean))
    reach = student.ppf((1 + CONFIDENCE) / 2, ratio.n - 1) * ratio.sd
    if reach > room * MOST_ROUNDS**0.5:
        return f"undecided, more than {MOST_ROUNDS} rounds would tell"
    return f"undecided, {math.ceil((reach / room) ** 2)} rounds would tell"


def lines(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the table of one machine.

    :param record: JSON object of ``bench.overhead.rounds``
    """
    alone_s = np.median([run[WALL] for run in record["alone"]])
    yield (
        f"{record['command']} on {record['kernel']}, {record['cpus']} CPUs: "
        f"{alone_s:.2f} s alone, {len(record['alone'])} rounds"
    )
    yield f"  {'':<15} {'wall time, ratio':<21}  {'CPU time, ratio':<21}  around    captured"
    for name in record["around_s"]:
        yield f"  {name:<15} {_ratios(record, name)}  {_besides(record, name)}"
    for name, reason in record["refused"].items():
        if name not in record["with"]:
            yield f"  {name:<15} cannot run here: {reason}"
    for name in record["clocked"]:
        yield f"  {name:<15} above: with cpu-clock in place of the memory event"
    yield from _goals(record)
    yield from _programs(record["programs"])


def _ratios(record: Mapping[str, Any], name: str) -> str:
    if name not in record["with"]:
        return f"{'after the run':<44}"
    return f"{ratio_of(record, name, WALL)!s:<21}  {ratio_of(record, name, CPU)!s:<21}"


def _besides(record: Mapping[str, Any], name: str) -> str:
    return f"{record['around_s'][name]:5.2f} s  {record['bytes'][name] / 1e6:6.3f} MB"


def _goals(record: Mapping[str, Any]) -> Iterator[str]:
    for name in HELD_TO_GOAL:
        if name in record["with"]:
            wall, cpu = (judge(ratio_of(record, name, which)) for which in (WALL, CPU))
            yield f"  {name:<15} at most {GOAL} x: wall time {wall}; CPU time {cpu}"


def _programs(programs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for one in sorted(programs, key=lambda one: -one["ns"]):
        each = one["ns"] / one["calls"]
        name = f"{one['collector']} {one['program']}"
        yield f"  {name:<32} {each:7.0f} ns a call, {one['calls']} calls"
