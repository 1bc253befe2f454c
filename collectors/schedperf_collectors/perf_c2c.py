# SPDX-License-Identifier: GPL-2.0-or-later
"""Sample memory accesses around an instrumented run, to find cache lines that CPUs contend for.

``perf.data`` is as written by ``perf c2c record`` and readable by ``perf c2c report``, but with a
fixed period: counts of runs with different periods cannot be compared. ``perf_c2c.json`` describes
the events::

    {"vendor": "Intel", "observable": "hitm", "requested": ["cpu/mem-loads,ldlat=30,…/P", …],
     "events": [{"name": "cpu/mem-loads,…", "period": 20011, "precise_ip": 3}, …],
     "period": 20011, "store_period": 1000003, "ldlat": 30, "samples": 123456, "lost": 0,
     "blind": ["loads faster than 30 cycles"], "cpu": "Intel(R) Xeon(R) …", …}

``percpu.json`` has the addresses of the per-CPU areas before the run, and whether they were the
same after it (:mod:`schedperf_collectors.bpf.percpu_units`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from schedperf_collectors.bpf.percpu_units import UnitBases, describe_units
from schedperf_collectors.machine.system import System
from schedperf_collectors.perf.memory import (
    choose_memory_events,
    memory_sampled,
    read_wanted,
)
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, collector


@collector(
    scope="run",
    intrusive=True,
    addresses=True,
    default=False,
    needs=("perf",),
    package="linux-perf",
    cost="0.1 kB per sample; about 10% of CPU time at 5000 cpu-clock samples per second and CPU "
    "(memory events: not measured); 0.2 s per run to locate the per-CPU areas",
    options=("period", "store_period", "ldlat", "event", "perf", "kernel_files"),
)
def perf_c2c(capture: Capture) -> Iterator[str]:
    """Sample loads and stores."""
    return capture_c2c(System(), capture)


def capture_c2c(system: System, capture: Capture) -> Iterator[str]:
    """Implement :func:`perf_c2c` for any system."""
    events = choose_memory_events(system, read_wanted("perf_c2c", capture.options, stores=True))
    # Outside of the sampled time: reading them moves this process across all CPUs.
    bases = UnitBases(system, capture.options)
    before = bases.read()
    with memory_sampled(system, capture, events, "perf_c2c") as recording:
        yield PREPARED
        recording.begin()
        yield BEGUN
    facts = describe_units(system, before, bases.read())
    (capture.folder / "percpu.json").write_text(json.dumps(facts, indent=1) + "\n")
