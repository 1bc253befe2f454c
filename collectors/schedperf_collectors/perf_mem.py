# SPDX-License-Identifier: GPL-2.0-or-later
"""Sample loads around an instrumented run: where they are served from and their latency.

The events are those of ``perf_c2c``, without stores if the hardware can sample loads separately:
only the search for false sharing needs stores, and there are fewer samples. ``perf mem report``
reads ``perf.data``; ``perf_mem.json`` has the keys of ``perf_c2c.json``.
"""

from __future__ import annotations

from collections.abc import Iterator

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
    "(memory events: not measured)",
    options=("period", "ldlat", "event", "perf"),
)
def perf_mem(capture: Capture) -> Iterator[str]:
    """Sample loads with latency and data source."""
    return capture_mem(System(), capture)


def capture_mem(system: System, capture: Capture) -> Iterator[str]:
    """Implement :func:`perf_mem` for any system."""
    events = choose_memory_events(system, read_wanted("perf_mem", capture.options, stores=False))
    with memory_sampled(system, capture, events, "perf_mem") as recording:
        yield PREPARED
        recording.begin()
        yield BEGUN
