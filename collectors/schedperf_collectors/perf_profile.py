# SPDX-License-Identifier: GPL-2.0-or-later
"""Profile all CPUs with ``perf record -a -g`` around an instrumented run.

``perf.data`` is kept unchanged. ``perf_profile.json`` describes the event as read from the file,
because perf records ``cpu-clock`` instead of ``cycles`` if there is no PMU::

    {"event": "cpu-clock", "requested": "cycles", "clock": "hrtimer", "nmi": false,
     "blind": true, "blind_reason": "cpu-clock is driven by an hrtimer: …",
     "recorder_pid": 4242, "setup_processes": [{"pid": 4250, "parent": 4242, "command": "sh"}], …}

The command is a child of the recorder, so its tasks can be told from other load.
``setup_processes`` are the processes that began after perf listed the running ones, and before it
recorded new ones.

*Blind* means that code that runs with interrupts off cannot be sampled. Its time is
attributed to the instruction that re-enables them. An event that excludes the kernel is blind too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.processes import all_processes
from schedperf_collectors.machine.system import X86_MACHINES, System, or_none
from schedperf_collectors.perf.running import describe_perf, perf_running
from schedperf_collectors.perf_header import (
    TYPE_BREAKPOINT,
    TYPE_SOFTWARE,
    TYPE_TRACEPOINT,
    BadPerfData,
    Event,
    Summary,
    summarise_perf_data,
)
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, collector

# Samples per second and CPU. Neither a multiple nor a divisor of HZ, so that samples do not run in
# step with the tick.
DEFAULT_FREQUENCY = "999"
# The event that `perf record` uses by default.
DEFAULT_EVENT = "cycles"

# Processes of a setup that are listed.
MOST_STARTED = 1000

CHARGED_ELSEWHERE = "time with interrupts off is attributed to the instruction that re-enables them"
TIMER_EVENTS = ("cpu-clock", "task-clock")
# Printed once per PMU by drivers/perf/arm_pmu.c, with ", using NMIs" if it uses them (v5.10).
ARM_PMU_LINE = re.compile(r"hw perfevents: enabled with .*")
# Pseudo-NMIs are off by default; the kernel parses the value with kstrtobool.
ARM_PSEUDO_NMI = re.compile(r"\birqchip\.gicv3_pseudo_nmi=(?:1|[yYtT]|[oO][nN])")


@collector(
    scope="run",
    intrusive=True,
    addresses=True,
    needs=("perf",),
    package="linux-perf",
    cost="999 samples per second and CPU, 0.1 kB each; up to 7% of CPU time with 2 CPUs; 0.4 s "
    "per run",
    options=("frequency", "event", "perf"),
)
def perf_profile(capture: Capture) -> Iterator[str]:
    """Profile all CPUs with call chains."""
    system = System()
    program = capture.options.get("perf", "perf")
    path = capture.folder / "perf.data"
    command = record_command(program, path, capture.options)
    earlier = {process.pid: process.began_ticks for process in all_processes()}
    with perf_running(command) as recording:
        yield PREPARED
        started = [
            {"pid": process.pid, "parent": process.parent, "command": process.name}
            for process in all_processes()
            if earlier.get(process.pid) != process.began_ticks
        ]
        recording.begin()
        yield BEGUN
    profile = summarise_perf_data(path)
    facts = {
        "requested": capture.options.get("event", DEFAULT_EVENT),
        **describe_profile(profile, system),
        **describe_perf(command, capture.folder, recording),
        "recorder_pid": capture.workload_pid,
        "setup_processes": started[:MOST_STARTED],
    }
    (capture.folder / "perf_profile.json").write_text(json.dumps(facts, indent=1) + "\n")


def record_command(program: str, path: Path, options: Mapping[str, str]) -> list[str]:
    """Return the command that records to ``path``, its last word."""
    event = ["-e", options["event"]] if "event" in options else []
    frequency = options.get("frequency", DEFAULT_FREQUENCY)
    # -N: do not touch the user's build-id cache.
    return [program, "record", "-a", "-g", "-N", "-F", frequency, *event, "-o", str(path)]


def describe_profile(profile: Summary, system: System) -> dict[str, object]:
    """Return the description of a profile's samples, as in perf_profile.json.

    If there are several sampling events, it describes the first one and lists the names of all.

    :raises BadPerfData: it has no sampling event
    """
    # perf adds a dummy event that only carries mmap and comm records.
    sampling = [event for event in profile.events if event.plain_name != "dummy"]
    if not sampling:
        raise BadPerfData(
            "perf.data: no sampling event; choose one with --set perf_profile.event=NAME"
        )
    event = sampling[0]
    nmi, blind, reason = blindness(event, system)
    return {
        "event": event.plain_name,
        "name": event.name,
        "type": event.type,
        "config": event.config,
        "precise_ip": event.precise_ip,
        "frequency": event.rate if event.by_frequency else None,
        "period": None if event.by_frequency else event.rate,
        "clock": _clock(event),
        "timestamps": "perf clock" if event.clockid is None else f"clockid {event.clockid}",
        "nmi": nmi,
        "blind": blind,
        "blind_reason": reason,
        "samples": profile.samples,
        "lost": profile.lost,
        "per_cpu": len(event.ids),
        "events": [each.plain_name for each in sampling],
    }


def _clock(event: Event) -> str | None:
    # What triggers a sample.
    if event.plain_name in TIMER_EVENTS:
        return "hrtimer"
    return None if event.type in (TYPE_SOFTWARE, TYPE_TRACEPOINT, TYPE_BREAKPOINT) else "pmu"


def blindness(event: Event, system: System) -> tuple[bool | None, bool | None, str]:
    """Return whether an event can sample code that runs with interrupts off.

    :return: whether its interrupt is an NMI (None if unknown or irrelevant), whether it is blind
        (None if unknown), and why
    """
    clock = _clock(event)
    if "kernel" in event.excluded:
        return None, True, f"{event.plain_name} excludes the kernel (exclude_kernel)"
    if clock == "hrtimer":
        return False, True, f"{event.plain_name} is driven by an hrtimer: {CHARGED_ELSEWHERE}"
    if clock is None:
        return None, None, f"samples of {event.plain_name} count events, not time"
    if system.machine in X86_MACHINES:
        return True, False, "the PMU interrupt is an NMI on x86"
    if system.machine == "aarch64":
        return _arm64_blindness(system)
    return None, None, f"unknown whether the PMU interrupt is an NMI on {system.machine}"


def _arm64_blindness(system: System) -> tuple[bool | None, bool | None, str]:
    try:
        asked = ARM_PSEUDO_NMI.search(system.text("/proc/cmdline"))
    except Unavailable as error:
        return None, None, f"unknown whether pseudo-NMIs are enabled: {error.reason}"
    if not asked:
        return (
            False,
            True,
            f"irqchip.gicv3_pseudo_nmi=1 is not on the kernel's command line: {CHARGED_ELSEWHERE}",
        )
    lines = ARM_PMU_LINE.findall(or_none(system.kernel_log) or "")
    if not lines:
        return None, None, "pseudo-NMIs are enabled, but the kernel log does not mention the PMU"
    if all("using NMIs" in line for line in lines):
        return True, False, "the kernel log reports: " + lines[0]
    return False, True, "pseudo-NMIs are enabled, but the kernel log reports: " + lines[0]
