# SPDX-License-Identifier: GPL-2.0-or-later
"""Follow task placement without BPF: record the scheduler's tracepoints with perf.

The tracepoints do not contain the balancer's decisions, task groups and bandwidth timers.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from schedperf_collectors.perf.tracepoint_recording import trace
from schedperf_collectors.perf.tracepoint_samples import Sample
from schedperf_collectors.placement.machine import CpuGroup, Machine
from schedperf_collectors.placement.tracepoints import Move
from schedperf_collectors.plugin import Capture

SCHEMA = "schedperf/bpf_placement/1"
# The required fields of each tracepoint. sched_wakeup_new occurs in the parent.
WANTED = {
    "sched:sched_waking": ("pid",),
    "sched:sched_wakeup": ("pid", "target_cpu"),
    "sched:sched_wakeup_new": ("pid", "target_cpu"),
    "sched:sched_migrate_task": ("pid", "orig_cpu", "dest_cpu"),
    "sched:sched_switch": ("prev_pid", "prev_state", "next_pid"),
}
# Maximum number of simultaneously waiting tasks; further pids belong to tasks that never ran.
WAITING_LIMIT = 1 << 17
STEP_S = 0.1
STEPS_LIMIT = 2000
LATENCY_BINS = 40
# Sleeping states are below this; a runnable task has none of them, preempted or not
# (TASK_REPORT_MAX in include/linux/sched.h, printed as "R+").
SLEEPING_STATES = 0xFF

NOT_CARRIED = {
    "balance": "tracepoints do not report the load balancer's decisions",
    "timers": "tracepoints do not report the task group of a timer",
    "depth": "tracepoints do not report task groups",
    "exec": "tracepoints do not report the CPU that a task left in sched_exec()",
}


def capture_with_perf(
    capture: Capture, machine: Machine, reason: str, remedy: str = ""
) -> Iterator[str]:
    """Record the tracepoints around a run and write placement.json.

    :param reason: why BPF cannot be used, one line
    :param remedy: what makes BPF usable; "" if that is not known
    :raises Skipped: perf cannot be used either
    :raises PerfFailed: perf ended with an error
    :raises BadPerfData: the file that perf wrote cannot be read
    """
    traced = yield from trace(capture, WANTED, len(machine.places), reason, remedy)
    flow = Flow(machine, traced.start_ns, traced.end_ns)
    try:
        lost = traced.follow(flow.see)
    finally:
        traced.remove()
    if lost:
        flow.lost["perf records"] += lost
    notes = [f"recorded with perf, because BPF is not available: {reason}"]
    if traced.limit is not None:
        flow.end_early()
        notes.append(
            f"perf stopped at the size limit of {traced.limit}; the end of the run is not recorded"
        )
    facts = {"programs": traced.programs, **describe_flow(flow, machine), "notes": notes}
    (capture.folder / "placement.json").write_text(json.dumps(facts) + "\n")


def describe_flow(flow: Flow, machine: Machine) -> dict[str, object]:
    """Return placement.json without its programs and notes."""
    return {
        "schema": SCHEMA,
        "mechanism": "perf",
        "seconds": flow.seconds,
        "nodes": {str(cpu): node for cpu, node in sorted(machine.nodes.items())},
        "types": {str(cpu): core_type for cpu, core_type in sorted(machine.types.items())},
        "levels_from": machine.levels_from,
        **flow.results(),
        "balance": None,
        "timers": [],
        "invisible": [{"what": what, "reason": why} for what, why in NOT_CARRIED.items()],
        "lost": dict(flow.lost),
    }


@dataclass
class _Latency:
    bins: list[int] = field(default_factory=lambda: [0] * LATENCY_BINS)
    sum_ns: int = 0
    max_ns: int = 0

    def add(self, ns: int) -> None:
        self.bins[min(max(ns.bit_length() - 1, 0), LATENCY_BINS - 1)] += 1
        self.sum_ns += ns
        self.max_ns = max(self.max_ns, ns)


class Flow:
    """Reconstruct placements and wait times of tasks from samples ordered by time.

    :param start_ns: earlier samples are used only for the state of tasks (CLOCK_MONOTONIC)
    :param end_ns: later samples are ignored
    :ivar lost: number of lost events by kind
    """

    def __init__(self, machine: Machine, start_ns: int, end_ns: int) -> None:
        self.lost: Counter[str] = Counter()
        self._newest_ns = start_ns
        self._machine = machine
        self._start_ns = start_ns
        self._end_ns = end_ns
        # A longer run has longer steps, so that their number is limited.
        steps = -(-(end_ns - start_ns) // round(STEP_S * 1e9))
        self._step_ns = round(STEP_S * 1e9) * max(1, -(-steps // STEPS_LIMIT))
        self._wakers: dict[int, int] = {}
        self._runnable_ns: dict[int, int] = {}
        self._moves: Counter[Move] = Counter()
        self._series: dict[tuple[str, str | None, bool], Counter[int]] = {}
        self._latency: dict[CpuGroup, _Latency] = {}

    @property
    def seconds(self) -> float:
        """Return the recorded time in s."""
        return (self._end_ns - self._start_ns) / 1e9

    def end_early(self) -> None:
        """End at the last sample, because perf stopped there; count the rest as lost."""
        self._end_ns = self._newest_ns
        self.lost["end of the run"] += 1

    def see(self, sample: Sample) -> None:
        """Process one sample."""
        if sample.time_ns > self._end_ns:
            return
        self._newest_ns = max(self._newest_ns, sample.time_ns)
        pid = sample.values[0]
        if sample.name == "sched:sched_switch":
            self._switch(sample)
        elif sample.name == "sched:sched_waking":
            self._remember(self._wakers, pid, sample.cpu)
        elif sample.name == "sched:sched_migrate_task":
            # The waker selects the CPU between these two events; other causes are unknown.
            cause = "wakeup" if pid in self._wakers else None
            self._move(sample, "migration", cause, sample.values[1], sample.values[2])
        else:
            is_new = sample.name == "sched:sched_wakeup_new"
            waker = self._wakers.pop(pid, sample.cpu)
            self._remember(self._runnable_ns, pid, sample.time_ns)
            event = "fork" if is_new else "wakeup"
            self._move(sample, event, None, sample.cpu if is_new else waker, sample.values[1])

    def _remember(self, values_by_pid: dict[int, int], pid: int, value: int) -> None:
        if pid not in values_by_pid and len(values_by_pid) >= WAITING_LIMIT:
            del values_by_pid[next(iter(values_by_pid))]
            self.lost["waiting tasks"] += 1
        values_by_pid[pid] = value

    def _switch(self, sample: Sample) -> None:
        leaving, state, coming = sample.values
        # Every idle task has the pid 0.
        if leaving and not state & SLEEPING_STATES:
            self._remember(self._runnable_ns, leaving, sample.time_ns)
        since = self._runnable_ns.pop(coming, None) if coming else None
        location = self._machine.places.get(sample.cpu)
        if since is not None and location is not None and sample.time_ns >= self._start_ns:
            self._latency.setdefault(location.group, _Latency()).add(max(0, sample.time_ns - since))

    def _move(self, sample: Sample, event: str, cause: str | None, old: int, new: int) -> None:
        if sample.time_ns < self._start_ns:
            return
        start, end = self._machine.places.get(old), self._machine.places.get(new)
        if start is None or end is None:
            self.lost["moves from or to CPUs without a NUMA node"] += 1
            return
        level = self._machine.level_of(start, end)
        types = start.core_type or None, end.core_type or None
        self._moves[Move(event, cause, start.node, end.node, level, *types)] += 1
        steps = self._series.setdefault((event, cause, start.node != end.node), Counter())
        steps[(sample.time_ns - self._start_ns) // self._step_ns] += 1

    def results(self) -> Mapping[str, object]:
        """Return moves, series, latency and depth (always empty) of placement.json."""
        last = max((max(steps) for steps in self._series.values()), default=-1)
        return {
            "moves": [{**move.as_row(), "count": count} for move, count in self._moves.items()],
            "series": {
                "step_s": self._step_ns / 1e9,
                "rows": [
                    {"event": event, "cause": cause, "crossing": crossing,
                     "counts": [steps[step] for step in range(last + 1)]}
                    for (event, cause, crossing), steps in self._series.items()
                ],
            },
            "latency": [
                {**group.as_row(), "log2_ns": latency.bins, "sum_ns": latency.sum_ns,
                 "count": sum(latency.bins), "max_ns": latency.max_ns}
                for group, latency in sorted(self._latency.items())
            ],
            "depth": [],
        }  # fmt: skip
