# SPDX-License-Identifier: GPL-2.0-or-later
"""Count events on the whole machine during an instrumented run: ``perf stat -a --per-node``.

Software events, scheduler tracepoints and hardware events, each only if it can be counted here:
perf exits with 0 when an event is ``<not supported>``, so every event is tried first.
``perf_stat.csv`` is kept unchanged; ``perf_stat.json`` lists what was counted and why the rest was
not::

    {"events": ["context-switches", …], "not_counted": {"cycles": "not supported"}, …}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.system import System, or_none, run
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
TRACEFS = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
# A line of CSV is value,unit,event,…
NOT_SUPPORTED = re.compile(r"^<not supported>,[^,\n]*,([^,\n]+)", re.MULTILINE)
# Long enough for each event to be scheduled once on each CPU.
TRIAL = ("sleep", "0.01")


@collector(
    scope="run",
    intrusive=True,
    needs=("perf",),
    package="linux-perf",
    cost="some 20 counters on each CPU: up to 7% of CPU time; 1 s around, with two short trials",
)
def perf_stat(capture: Capture) -> Iterator[str]:
    """Count scheduler, software and hardware events per NUMA node; option: perf (the program)."""
    program = capture.options.get("perf", "perf")
    events, not_counted = choose_events(program, System())
    if not events:
        raise Skipped(
            "no event can be counted here: " + "; ".join(sorted(set(not_counted.values())))
        )
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


def choose_events(program: str, system: System) -> tuple[list[str], dict[str, str]]:
    """Return the events that can be counted here, and the reasons for the others.

    :raises Skipped: this user may not count on all CPUs
    """
    not_counted = unreadable_tracepoints(system)
    tried = [
        event
        for event in (*SOFTWARE_EVENTS, *TRACEPOINTS, *HARDWARE_EVENTS)
        if event not in not_counted
    ]
    output = perf_output([program, "stat", "-a", "-x,", "-e", ",".join(tried), *TRIAL])
    for event in NOT_SUPPORTED.findall(output):
        not_counted[event] = "perf says: not supported"
    return [event for event in tried if event not in not_counted], not_counted


def unreadable_tracepoints(system: System) -> dict[str, str]:
    """Return the tracepoints that perf cannot open, with reasons.

    One such event makes perf refuse all of them.
    """
    reasons: dict[str, str] = {}
    for event in TRACEPOINTS:
        place = "/events/{}/{}/id".format(*event.split(":"))
        try:
            system.first_text(*(folder + place for folder in TRACEFS))
        except Unavailable as error:
            reasons[event] = error.reason
    return reasons


def can_count_per_node(program: str, event: str) -> bool:
    """Return whether perf and the machine support --per-node."""
    try:
        perf_output([program, "stat", "-a", "--per-node", "-x,", "-e", event, *TRIAL])
    except PerfFailed:
        return False
    return True
