# SPDX-License-Identifier: GPL-2.0-or-later
"""Measure how bundles are read by processes of this machine, and by one and two Dask workers."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import psutil
from msgspec import Struct

from bench.history.cluster import Cluster, cluster
from schedperf.history.store.apply import Content
from schedperf.history.store.contents import read_content
from schedperf.inputs.many.lost import Lost
from schedperf.inputs.many.workers import start_workers

ROUNDS = 5


class Spread(Struct, frozen=True, kw_only=True):
    """Medians of the rounds, each of which measures all three beside each other.

    :param bundles: bundles per second
    :param speedup: of two workers over one, median of the rounds
    :param cpu_ratio: CPU time of two workers with scheduler and client / that of the processes
    """

    bundles_by_processes: float
    bundles_by_one: float
    bundles_by_two: float
    speedup: float
    cpu_ratio: float


def measure_spread(folder: Path, bundles: Sequence[Path]) -> Spread:
    """Read all bundles in turns by processes, by one worker and by two.

    :param folder: for the files of two clusters
    """
    for name in ("one", "two"):
        (folder / name).mkdir(parents=True)
    with cluster(folder / "one", 1) as one, cluster(folder / "two", 2) as two:
        for started in (one, two):
            _read_all(bundles[:100], started)
        rounds = [
            (_read_all(bundles, None), _read_all(bundles, one), _read_all(bundles, two))
            for _ in range(ROUNDS)
        ]
    number = len(bundles)
    here, by_one, by_two = (median(number / each[way][0] for each in rounds) for way in range(3))
    return Spread(
        bundles_by_processes=here,
        bundles_by_one=by_one,
        bundles_by_two=by_two,
        speedup=median(alone[0] / both[0] for _, alone, both in rounds),
        cpu_ratio=median(both[1] / processes[1] for processes, _, both in rounds),
    )


def _read_all(bundles: Sequence[Path], started: Cluster | None) -> tuple[float, float]:
    """Return wall and CPU time in s, with that of scheduler and workers; None for processes."""
    start, before = time.perf_counter(), _cpu_s(started)
    with start_workers(len(bundles), started and started.address) as workers:
        lost = [
            bundle for bundle, content in workers.map(read, bundles) if isinstance(content, Lost)
        ]
    assert not lost
    return time.perf_counter() - start, _cpu_s(started) - before


def read(bundle: Path) -> Content:
    """Read a bundle as ``history add`` does."""
    return read_content(bundle, "bundle")


def _cpu_s(started: Cluster | None) -> float:
    """Return the CPU time of this process, its ended children and a cluster, in s."""
    total = sum(os.times()[:4])
    for pid in started.pids if started else ():
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            total += sum(each.cpu_times()[:2])
    return total
