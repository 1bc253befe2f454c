# SPDX-License-Identifier: GPL-2.0-or-later
"""As many workers as CPUs that the process may use; the result does not depend on it."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schedperf.perf_data import Keep, _reader, read_perf_data
from schedperf.perf_data._workers import count_workers
from schedperf_generators.events import PLAIN, Event, SampleType
from schedperf_generators.perf_data import PerfData, write_perf_data
from schedperf_generators.samples import Sample

CPUS = len(os.sched_getaffinity(0))


@pytest.fixture
def cgroup(tmp_path: Path) -> Any:
    """Write the files of a cgroup: ``cgroup("0::/a/b", {"a/cpu.max": …}) -> count_workers``."""

    def make(own: str, files: dict[str, str]) -> int:
        (tmp_path / "own").write_text(f"{own}\n", encoding="ascii")
        for name, text in files.items():
            path = tmp_path / "mounted" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n", encoding="ascii")
        return count_workers(tmp_path / "own", tmp_path / "mounted")

    return make


@pytest.mark.parametrize(
    ("own", "files", "limit"),
    [
        ("0::/", {}, None),
        ("0::/a/b", {"a/b/cpu.max": "max 100000"}, None),
        ("0::/a/b", {"a/b/cpu.max": "50000 100000"}, 1),
        ("0::/a/b", {"a/cpu.max": "100000 100000", "a/b/cpu.max": "max 100000"}, 1),
        ("0::/a", {"a/cpu.max": "damaged"}, None),
        (
            "4:cpu,cpuacct:/a",
            {"cpu/a/cpu.cfs_quota_us": "100000", "cpu/a/cpu.cfs_period_us": "100000"},
            1,
        ),
        (
            "4:cpu,cpuacct:/a",
            {"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000"},
            None,
        ),
    ],
)
def test_the_limits_of_cgroups_count(
    cgroup: Any, own: str, files: dict[str, str], limit: int | None
) -> None:
    assert cgroup(own, files) == min(CPUS, limit or CPUS)


def test_the_affinity_counts() -> None:
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(own)})
    try:
        assert count_workers(Path("/none"), Path("/none")) == 1
    finally:
        os.sched_setaffinity(0, own)


@pytest.mark.parametrize("processes", [1, 2, 16])
def test_the_result_does_not_depend_on_the_number_of_workers(
    monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    # Small windows, so that a small file has many.
    monkeypatch.setattr(_reader, "_LEAST_PARALLEL_BYTES", 0)
    monkeypatch.setattr("schedperf.perf_data._walk.WINDOW_BYTES", 16 << 10)
    chained = Event(sample_type=PLAIN | SampleType.CALLCHAIN)
    records = [
        Sample(ip=4096 + i % 7, cpu=i % 3, period=i, chain=(4096 + i % 7, *range(i % 5)))
        for i in range(9000)
    ]
    data = write_perf_data(PerfData(events=(chained,), records=records))
    found = read_perf_data(data, "perf.data", keep=frozenset(Keep), processes=processes)
    alone = read_perf_data(data, "perf.data", keep=frozenset(Keep), processes=1)
    assert int(found.samples.count.sum()) == len(records)
    for column in ("event", "cpu", "task", "space", "ip", "chain", "count", "period"):
        assert np.array_equal(getattr(found.samples, column), getattr(alone.samples, column))
    assert np.array_equal(found.chains.words, alone.chains.words)
