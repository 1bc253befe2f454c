# SPDX-License-Identifier: GPL-2.0-or-later
"""The result of reading a file does not depend on the number of workers."""

import numpy as np
import pytest

from schedperf.inputs.perf_data import Keep, _reader, read_perf_data
from schedperf_generators.events import PLAIN, Event, SampleType
from schedperf_generators.perf_data import PerfData, write_perf_data
from schedperf_generators.samples import Sample


@pytest.mark.parametrize("processes", [1, 2, 16])
def test_the_result_does_not_depend_on_the_number_of_workers(
    monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    # Small windows, so that a small file has many.
    monkeypatch.setattr(_reader, "_LEAST_PARALLEL_BYTES", 0)
    monkeypatch.setattr("schedperf.inputs.perf_data._walk.WINDOW_BYTES", 16 << 10)
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
