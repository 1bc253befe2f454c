# SPDX-License-Identifier: GPL-2.0-or-later
"""Count events on the whole machine during an instrumented run: ``perf stat -a --per-node``.

Count the software events, scheduler tracepoints and hardware events that perf supports here:
perf exits with 0 when an event is ``<not supported>``, so every event is tried first. If perf
rejects ``--per-node``, events are counted for all nodes together. ``perf_stat.csv`` is kept
unchanged; ``perf_stat.json`` lists the events that were counted, and why others were not. On hybrid
machines, which have a PMU per type of CPU core, hardware events are counted on each of them, as
separate events (``cpu_core/cycles/``, ``cpu_atom/cycles/``), if perf accepts these names::

    {"events": ["context-switches", …],
     "not_counted": {"cycles": "not supported by perf on this machine"}, …}
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping

from schedperf_collectors.machine.core_types import core_pmus
from schedperf_collectors.machine.system import System, attempt, or_none, run
from schedperf_collectors.machine.tracefs import read_event_file
from schedperf_collectors.perf.running import PerfFailed, perf_output, perf_running
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, Skipped, collector

SOFTWARE_EVENTS = ("context-switches", "cpu-migrations", "page-faults", "cpu-clock")
HARDWARE_EVENTS = (
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
)
TRACEPOINTS = (
    "sched:sched_switch",
    "sched:sched_waking",
    "sched:sched_wakeup",
    "sched:sched_wakeup_new",
    "sched:sched_migrate_task",
    "sched:sched_process_fork",
    "sched:sched_process_exit",
    "sched:sched_wake_idle_without_ipi",
    "sched:sched_move_numa",
    "sched:sched_swap_numa",
    "sched:sched_stick_numa",
)
# A line of CSV is value,unit,event,…
NOT_SUPPORTED = re.compile(r"^<not supported>,[^,\n]*,([^,\n]+)", re.MULTILINE)
# Long enough for each event to be scheduled once on each CPU.
TRIAL = ("sleep", "0.01")


@collector(
    scope="run",
    intrusive=True,
    needs=("perf",),
    package="linux-perf",
    cost="about 20 counters per CPU, up to 7% of CPU time; 1 s per run, including two short test "
    "runs",
    options=("perf",),
)
def perf_stat(capture: Capture) -> Generator[str, None, str]:
    """Count scheduler, software and hardware events per NUMA node."""
    program = capture.options.get("perf", "perf")
    events, not_counted = choose_events(program, System())
    if not events:
        raise Skipped("no event can be counted: " + "; ".join(sorted(set(not_counted.values()))))
    per_node = can_count_per_node(program, events[0])
    grouping = ["--per-node"] if per_node else []
    path = capture.folder / "perf_stat.csv"
    command = [program, "stat", "-a", *grouping, "-x,", "-e", ",".join(events), "-o"]
    with perf_running([*command, str(path)]) as recording:
        yield PREPARED
        recording.begin()
        yield BEGUN
    facts = {
        "events": events,
        "not_counted": not_counted,
        "per_node": per_node,
        "perf_version": or_none(lambda: run([program, "--version"])),
        "command": [*command, path.name],
        "started": "acknowledged" if recording.acknowledged else "assumed",
    }
    (capture.folder / "perf_stat.json").write_text(json.dumps(facts, indent=1) + "\n")
    return describe_not_counted(not_counted)


def describe_not_counted(not_counted: Mapping[str, str]) -> str:
    """Return which events are not counted, grouped by reason; "" if all are.

    >>> describe_not_counted({"cycles": "not supported", "branches": "not supported"})
    'events not counted: not supported (cycles, branches)'
    """
    events: dict[str, list[str]] = {}
    for event, reason in not_counted.items():
        events.setdefault(reason, []).append(event)
    groups = [f"{reason} ({', '.join(names)})" for reason, names in events.items()]
    return f"events not counted: {'; '.join(groups)}" if groups else ""


def choose_events(program: str, system: System) -> tuple[list[str], dict[str, str]]:
    """Return the events to count, and by event why others are not counted.

    Removed are tracepoints that cannot be read, and events that perf reports as
    ``<not supported>`` in a short test. An event may still be ``<not counted>``.

    :param program: the perf program
    :raises Skipped: this user is not permitted to count on all CPUs
    :raises PerfFailed: perf ended with an error
    """
    not_counted = unreadable_tracepoints(system)
    tried = [
        event
        for event in (*SOFTWARE_EVENTS, *TRACEPOINTS, *hardware_events(program, system))
        if event not in not_counted
    ]
    output = perf_output([program, "stat", "-a", "-x,", "-e", ",".join(tried), *TRIAL])
    for event in NOT_SUPPORTED.findall(output):
        not_counted[event] = "not supported by perf on this machine"
    return [event for event in tried if event not in not_counted], not_counted


def hardware_events(program: str, system: System) -> tuple[str, ...]:
    """Return the hardware events: on hybrid machines for each type of CPU core.

    If perf rejects the names of these events, the plain names are returned.

    :raises Skipped: this user is not permitted to count on all CPUs
    """
    events = tuple(f"{pmu}/{event}/" for event in HARDWARE_EVENTS for pmu in core_pmus(system))
    if not events:
        return HARDWARE_EVENTS
    try:
        perf_output([program, "stat", "-a", "-x,", "-e", ",".join(events), *TRIAL])
    except PerfFailed:
        # Older versions of perf accept these names for PMUs of Intel only.
        return HARDWARE_EVENTS
    return events


def unreadable_tracepoints(system: System) -> dict[str, str]:
    """Return why tracepoints cannot be read in tracefs, by tracepoint.

    If one of perf's events is such a tracepoint, perf rejects all events.
    """
    tried = {event: attempt(read_event_file, system, event, "id") for event in TRACEPOINTS}
    return {event: reason for event, (text, reason) in tried.items() if text is None}


def can_count_per_node(program: str, event: str) -> bool:
    """Return whether perf and the machine support --per-node.

    :param event: an event that can be counted
    :raises Skipped: this user is not permitted to count on all CPUs
    """
    try:
        perf_output([program, "stat", "-a", "--per-node", "-x,", "-e", event, *TRIAL])
    except PerfFailed:
        return False
    return True
