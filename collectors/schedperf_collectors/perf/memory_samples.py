"""Recording memory accesses around a workload, as perf_c2c and perf_mem both do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from schedperf_collectors.machine.cpu import cpuinfo_field
from schedperf_collectors.machine.system import System, or_none
from schedperf_collectors.perf.memory_events import (
    MemoryEvents,
    cannot_decode,
    check_samples,
)
from schedperf_collectors.perf.running import Recording, describe_perf, perf_output, perf_running
from schedperf_collectors.perf_header import Summary, summarise_perf_data
from schedperf_collectors.plugin import Capture

TRACE = "trace.data"


@contextmanager
def memory_sampled(
    system: System, capture: Capture, events: MemoryEvents, collector: str
) -> Iterator[Recording]:
    """Sample memory accesses in a ``with`` block; write perf.data and COLLECTOR.json.

    Nothing is sampled before what it yields is told to begin.

    :raises Skipped: this user may not use perf
    :raises PerfFailed: perf refused, or could not decode what it had recorded
    :raises BadPerfData: it recorded something else
    """
    program = capture.options.get("perf", "perf")
    samples = capture.folder / "perf.data"
    recorded = capture.folder / TRACE if events.is_trace else samples
    command = events.record_command(program, str(recorded))
    with perf_running(command) as recording:
        yield recording
    if events.is_trace:
        # Only perf can decode a trace, and only this one knows the CPU that it ran on.
        perf_output([program, "inject", "--itrace=M", "-i", str(recorded), "-o", str(samples)])
        recorded.unlink()
    summary = summarise_perf_data(samples)
    facts = {
        **describe_samples(system, events, summary),
        **describe_perf(command, capture.folder, recording),
    }
    undecoded = cannot_decode(system, str(facts["perf_version"])) if events.is_trace else None
    facts["blind"] = [*events.blind, *check_samples(events, summary), *filter(None, [undecoded])]
    (capture.folder / f"{collector}.json").write_text(json.dumps(facts, indent=1) + "\n")


def describe_samples(system: System, events: MemoryEvents, summary: Summary) -> dict[str, object]:
    """Return what memory samples rest on: what was asked for, and what the file's events say."""
    return {
        "vendor": events.vendor,
        "observable": events.observable,
        "cpu": or_none(lambda: cpuinfo_field(system, "model name", "CPU part", "cpu")),
        "requested": list(events.events),
        "events": [
            {
                "name": event.name,
                "period": None if event.by_frequency else event.rate,
                "precise_ip": event.precise_ip,
            }
            for event in summary.events
            if event.plain_name != "dummy"
        ],
        "period": events.period,
        "store_period": events.store_period,
        "ldlat": events.ldlat,
        "samples": summary.samples,
        "lost": summary.lost,
    }
