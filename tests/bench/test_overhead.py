# SPDX-License-Identifier: GPL-2.0-or-later
"""What the overhead benchmark makes of the costs of its rounds."""

import math
from typing import Any

import numpy as np
import pytest

from bench.overhead.table import CPU, WALL, Ratio, judge, lines, ratio_of


@pytest.fixture
def record() -> dict[str, Any]:
    """Return rounds in which a collector costs 10 % of wall time and nothing of CPU time."""
    noise = np.random.default_rng(1).normal(1.0, 0.01, 20)
    alone = [[0.5 * one, 0.9] for one in noise]
    return {
        "command": "hackbench -l 700 -g 1",
        "kernel": "6.1.0",
        "cpus": 4,
        "alone": alone,
        # The first round of it failed, so that rounds are told by their number.
        "with": {"perf_stat": [[1.1 * alone[n][0], 0.9, n] for n in range(1, 20)]},
        "around_s": {"perf_stat": 0.5, "symbols": 0.1},
        "bytes": {"perf_stat": 2000.0, "symbols": 155_000.0},
        "refused": {"schedstat": "no /proc/schedstat in this kernel"},
        "clocked": [],
        "programs": [{"collector": "bpf_pelt", "program": "enter", "calls": 100, "ns": 25_000}],
    }


def test_a_ratio_is_of_runs_of_one_round(record: dict[str, Any]) -> None:
    wall = ratio_of(record, "perf_stat", WALL)
    assert wall.n == 19
    assert wall.mean == pytest.approx(1.1)
    assert wall.low == pytest.approx(wall.high)
    assert str(ratio_of(record, "perf_stat", CPU)) == "1.000 [1.000, 1.000]"


def ratio(mean: float, half: float, n: int = 16) -> Ratio:
    sd = half / 2.131 * n**0.5
    return Ratio(n=n, mean=mean, low=mean * math.exp(-half), high=mean * math.exp(half), sd=sd)


def test_a_goal_is_met_missed_or_needs_so_many_rounds() -> None:
    assert judge(ratio(1.00, 0.01)) == "met"
    assert judge(ratio(1.10, 0.01)) == "missed"
    # The interval must shrink to a quarter, which takes sixteen times as many.
    room = math.log(1.02)
    assert judge(ratio(1.00, 4 * room)) == "undecided, 257 rounds would tell"
    assert judge(ratio(1.02, 0.1)) == "undecided, more than 100000 rounds would tell"


def test_every_collector_has_a_line(record: dict[str, Any]) -> None:
    text = "\n".join(lines(record))
    assert "perf_stat       1.100 [1.100, 1.100]   1.000 [1.000, 1.000]" in text
    assert "after the run" in text
    assert "schedstat       cannot run here: no /proc/schedstat in this kernel" in text
    assert "at most 1.02 x: wall time missed; CPU time met" in text
    assert "250 ns a call, 100 calls" in text
