# SPDX-License-Identifier: GPL-2.0-or-later
"""Count events during an instrumented run, of the workload and on the whole machine.

``perf stat -a --per-node`` counts the software events, scheduler tracepoints and hardware events
that perf supports here: perf exits with 0 when an event is ``<not supported>``, so every event is
tried first. If perf rejects ``--per-node``, events are counted for all nodes together. On hybrid
machines, which have a PMU per type of CPU core, hardware events are counted on each of them, as
separate events (``cpu_core/cycles/``, ``cpu_atom/cycles/``), if perf accepts these names.

A second perf, ``perf stat -p PID``, counts software and hardware events of the workload: of its
process after the setup and all that it starts. Without a setup, this process does not exist yet,
and perf counts the recorder, whose next child it is: its own work while it starts the command and
waits is included (some 20 switches). Tracepoints are not counted for the workload: perf counts
them for the task that is running when they fire, a wakeup for the task that wakes another.

``perf_stat.csv`` and ``workload.csv`` are kept unchanged; ``perf_stat.json`` lists the events that
were counted, and why others were not. ``workload`` is null if its events could not be counted, and
``no_workload`` is the reason::

    {"events": ["context-switches", …],
     "not_counted": {"cycles": "not supported by perf on this machine"}, …
     "workload": {"events": ["context-switches", …], "not_counted": {…}, "command": […]},
     "no_workload": null}
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from schedperf_collectors.machine.before_command import children_of, find_setup
from schedperf_collectors.machine.core_types import core_pmus
from schedperf_collectors.machine.system import System, attempt, or_none, run
from schedperf_collectors.machine.tracefs import read_event_file
from schedperf_collectors.perf.running import PerfFailed, Recording, perf_output, perf_running
from schedperf_collectors.plugin import ATTACHED, BEGUN, PREPARED, Capture, Skipped, collector

SOFTWARE_EVENTS = ("context-switches", "cpu-migrations", "page-faults", "cpu-clock")
# The clock of tasks; that of CPUs also counts when they are idle.
CLOCKS = {"cpu-clock": "task-clock"}
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
    attaches=True,
    needs=("perf",),
    package="linux-perf",
    cost="about 20 counters per CPU and 10 per task, up to 7% of CPU time; 1 s per run, including "
    "two short test runs",
    options=("perf",),
)
def perf_stat(capture: Capture) -> Generator[str, None, str]:
    """Count software and hardware events of the workload and per NUMA node, and tracepoints."""
    program, system = capture.options.get("perf", "perf"), System()
    events, not_counted = choose_events(program, system)
    if not events:
        raise Skipped("no event can be counted: " + "; ".join(sorted(set(not_counted.values()))))
    recorder = capture.workload_pid
    per_node = can_count_per_node(program, events[0])
    grouping = ["--per-node"] if per_node else []
    path = capture.folder / "perf_stat.csv"
    command = [program, "stat", "-a", *grouping, "-x,", "-e", ",".join(events), "-o"]
    with ExitStack() as stack:
        recording = stack.enter_context(perf_running([*command, str(path)]))
        earlier = children_of(system, recorder)
        yield PREPARED
        setup = find_setup(system, recorder, earlier)
        pid = recorder if setup is None else setup.pid
        own = [program, "stat", "-p", str(pid), "-x,", "-e", ",".join(_of_tasks(events)), "-o"]
        workload = stack.enter_context(_counting_workload(own, capture.folder / "workload.csv"))
        yield ATTACHED
        workload.begin()
        recording.begin()
        yield BEGUN
    facts = {
        "events": events,
        "not_counted": not_counted,
        "per_node": per_node,
        "perf_version": or_none(lambda: run([program, "--version"])),
        "command": [*command, path.name],
        "started": "acknowledged" if recording.acknowledged else "assumed",
        **workload.describe(_of_tasks(events), not_counted),
    }
    (capture.folder / "perf_stat.json").write_text(json.dumps(facts, indent=1) + "\n")
    hints = (
        describe_not_counted(not_counted),
        workload.reason and f"events of the workload not counted: {workload.reason}",
    )
    return "; ".join(filter(None, hints))


@dataclass
class _Workload:
    """The perf that counts the workload.

    :param command: its command line, without its file
    :param path: its file
    :param reason: why it does not count; "" if it does
    :param recording: the running perf; None if it could not start
    """

    command: Sequence[str]
    path: Path
    reason: str = ""
    recording: Recording | None = field(default=None, repr=False)

    def begin(self) -> None:
        """Start counting; on an error of perf, set :attr:`reason`."""
        if self.recording is not None:
            try:
                self.recording.begin()
            except PerfFailed as error:
                self.reason = str(error)

    def describe(self, events: Sequence[str], not_counted: Mapping[str, str]) -> dict[str, object]:
        """Return the entries of perf_stat.json.

        :param not_counted: reasons by event of the whole machine
        """
        if self.reason:
            return {"workload": None, "no_workload": self.reason}
        missing = {CLOCKS.get(event, event): reason for event, reason in not_counted.items()}
        of_workload = {
            "events": events,
            "not_counted": {event: missing[event] for event in _of_tasks(not_counted)},
            "command": [*self.command, self.path.name],
        }
        return {"workload": of_workload, "no_workload": None}


@contextmanager
def _counting_workload(command: Sequence[str], path: Path) -> Iterator[_Workload]:
    """Run perf in a ``with`` block; the counts of the machine do not depend on its success."""
    workload = _Workload(command, path)
    with ExitStack() as stack:
        try:
            workload.recording = stack.enter_context(perf_running([*command, str(path)]))
        except (PerfFailed, Skipped) as error:
            workload.reason = str(error)
        yield workload
        try:
            stack.close()
        except (PerfFailed, Skipped) as error:
            workload.reason = str(error)
    if workload.reason:
        path.unlink(missing_ok=True)


def _of_tasks(events: Iterable[str]) -> list[str]:
    """Return the events that are counted for tasks: all but tracepoints, and with their clock."""
    return [CLOCKS.get(event, event) for event in events if event not in TRACEPOINTS]


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
