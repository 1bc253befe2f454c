# SPDX-License-Identifier: GPL-2.0-or-later
"""Follow task placement without BPF: record the scheduler's tracepoints with perf.

``perf record`` writes each occurrence to a file, which is aggregated when the
workload has ended and then removed. That costs far more than counting in the kernel, and perf may
lose events, which are counted. The balancer's decisions, task groups and bandwidth timers are not
in the tracepoints.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from schedperf_collectors.bpf.probes import as_root
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.system import System
from schedperf_collectors.perf.running import PerfFailed, perf_running
from schedperf_collectors.perf.tracepoint_samples import (
    Sample,
    Samples,
    Tracepoint,
    read_tracepoint,
)
from schedperf_collectors.perf_header import BadPerfData, read_header
from schedperf_collectors.placement.machine import Machine
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, Skipped

SCHEMA = "schedperf/bpf_placement/1"
# The fields that are needed of each tracepoint. sched_wakeup_new is made by the parent.
WANTED = {
    "sched:sched_waking": ("pid",),
    "sched:sched_wakeup": ("pid", "target_cpu"),
    "sched:sched_wakeup_new": ("pid", "target_cpu"),
    "sched:sched_migrate_task": ("pid", "orig_cpu", "dest_cpu"),
    "sched:sched_switch": ("prev_pid", "prev_state", "next_pid"),
}
# Some 600,000 samples, which take 4 s to aggregate, and a minute in an emulated machine.
FILE_LIMIT = "64M"
# What perf prints when it stops because of it, in whichever unit.
LIMIT_REACHED = "size limit reached"
# Each CPU's buffer, and that of all together.
BUFFER_BYTES = 2 << 20
BUFFERS_LIMIT_BYTES = 256 << 20
# Tasks that wait at the same moment; pids beyond are those of tasks that never ran.
WAITING_LIMIT = 1 << 17
STEP_S = 0.1
STEPS_LIMIT = 2000
LATENCY_BINS = 40
# Sleeping states are below; a task that could go on has none of them, preempted or not
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

    Options: perf (the program) and perf_limit, after which it stops ("64M").

    :param reason: why BPF cannot be used, one line
    :param remedy: what makes BPF usable; "" if that is not known
    :raises Skipped: perf cannot be used either
    :raises PerfFailed: perf ended with an error
    :raises BadPerfData: the file that perf wrote cannot be read
    """
    program = capture.options.get("perf", "perf")
    if shutil.which(program) is None:
        perf = "run `apt-get install linux-perf`"
        raise Skipped(f"{reason}; perf is not on PATH", remedy or perf)
    tracepoints, programs = find_tracepoints(System())
    if not tracepoints:
        refused = next(iter(programs.values()))["reason"]
        raise Skipped(f"{reason}; perf cannot read tracepoints ({refused})", remedy or as_root())
    path = capture.folder / "perf.data"
    limit = capture.options.get("perf_limit", FILE_LIMIT)
    command = [program, *record_options(tracepoints, machine, limit), "-o", str(path)]
    try:
        with _after(reason), perf_running(command) as recording:
            yield PREPARED
            recording.begin()
            start_ns = time.monotonic_ns()
            yield BEGUN
            end_ns = time.monotonic_ns()
        flow = Flow(machine, start_ns, end_ns)
        follow(path, tracepoints, flow)
    finally:
        path.unlink(missing_ok=True)
    notes = [f"recorded with perf, because BPF is not available: {reason}"]
    if LIMIT_REACHED in recording.stderr:
        flow.end_early()
        notes.append(
            f"perf stopped at the size limit of {limit}; the end of the run is not recorded"
        )
    facts = {"programs": programs, **describe_flow(flow, machine), "notes": notes}
    (capture.folder / "placement.json").write_text(json.dumps(facts) + "\n")


@contextlib.contextmanager
def _after(reason: str) -> Iterator[None]:
    # The reason of perf alone would hide why BPF is not used.
    try:
        yield
    except Skipped as skipped:
        raise Skipped(f"{reason}; {skipped.reason}", skipped.remedy) from skipped
    except PerfFailed as error:
        raise PerfFailed(f"{reason}; {error}") from error


def describe_flow(flow: Flow, machine: Machine) -> dict[str, object]:
    """Return placement.json without its programs and notes."""
    return {
        "schema": SCHEMA,
        "mechanism": "perf",
        "seconds": flow.seconds,
        "nodes": {str(cpu): node for cpu, node in sorted(machine.nodes.items())},
        "levels_from": machine.levels_from,
        **flow.results(),
        "balance": None,
        "timers": [],
        "invisible": [{"what": what, "reason": why} for what, why in NOT_CARRIED.items()],
        "lost": dict(flow.lost),
    }


def find_tracepoints(system: System) -> tuple[list[Tracepoint], dict[str, dict[str, str | None]]]:
    """Return the readable tracepoints, and the "programs" of placement.json."""
    tracepoints = []
    programs: dict[str, dict[str, str | None]] = {}
    for name, fields in WANTED.items():
        function = name.partition(":")[2]
        try:
            tracepoints.append(read_tracepoint(system, name, fields))
            programs[function] = {"mechanism": "perf", "function": function, "reason": None}
        except Unavailable as error:
            programs[function] = {"mechanism": None, "function": None, "reason": error.say()}
    return tracepoints, programs


def record_options(tracepoints: Sequence[Tracepoint], machine: Machine, limit: str) -> list[str]:
    """Return the arguments of perf, without the output file.

    :param limit: size of the file at which perf stops, in perf's syntax
    """
    # A power of two, in whole kB.
    share = min(BUFFER_BYTES, BUFFERS_LIMIT_BYTES // max(1, len(machine.places)))
    buffer = f"{1 << max(0, (share >> 10).bit_length() - 1)}K"
    names = ",".join(tracepoint.name for tracepoint in tracepoints)
    # -N: do not touch the user's build-id cache; -k: use the clock that this process reads.
    clock = ["-k", "mono"]
    return ["record", "-a", "-N", *clock, "-m", buffer, "--max-size", limit, "-e", names]


def follow(path: Path, tracepoints: Sequence[Tracepoint], flow: Flow) -> None:
    """Pass all recorded samples to ``flow``.

    :raises BadPerfData: the file is empty or damaged
    """
    if not path.stat().st_size:
        raise BadPerfData(f"{path.name}: empty; record it again")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        header = read_header(data, path.name)
        if header.cut:
            raise BadPerfData(
                f"{path.name}: truncated (perf did not finish writing it); record it again"
            )
        samples = Samples(data, header, path.name, tracepoints)
        for sample in samples:
            flow.see(sample)
        if samples.lost:
            flow.lost["perf records"] += samples.lost


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
        self._moves: Counter[tuple[str, str | None, int, int, str]] = Counter()
        self._series: dict[tuple[str, str | None, bool], Counter[int]] = {}
        self._latency: dict[int, _Latency] = {}

    @property
    def seconds(self) -> float:
        """Return the recorded time in s."""
        return (self._end_ns - self._start_ns) / 1e9

    def end_early(self) -> None:
        """End at the last sample, because the time after it was not recorded."""
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
            self._latency.setdefault(location.node, _Latency()).add(max(0, sample.time_ns - since))

    def _move(self, sample: Sample, event: str, cause: str | None, old: int, new: int) -> None:
        if sample.time_ns < self._start_ns:
            return
        start, end = self._machine.places.get(old), self._machine.places.get(new)
        if start is None or end is None:
            self.lost["moves from or to CPUs without a NUMA node"] += 1
            return
        self._moves[event, cause, start.node, end.node, self._machine.level_of(start, end)] += 1
        steps = self._series.setdefault((event, cause, start.node != end.node), Counter())
        steps[(sample.time_ns - self._start_ns) // self._step_ns] += 1

    def results(self) -> Mapping[str, object]:
        """Return moves, series, latency and depth of placement.json."""
        last = max((max(steps) for steps in self._series.values()), default=-1)
        return {
            "moves": [
                {"event": event, "cause": cause, "from_node": old, "to_node": new, "level": level,
                 "count": count}
                for (event, cause, old, new, level), count in self._moves.items()
            ],
            "series": {
                "step_s": self._step_ns / 1e9,
                "rows": [
                    {"event": event, "cause": cause, "crossing": crossing,
                     "counts": [steps[step] for step in range(last + 1)]}
                    for (event, cause, crossing), steps in self._series.items()
                ],
            },
            "latency": [
                {"node": node, "log2_ns": latency.bins, "sum_ns": latency.sum_ns,
                 "count": sum(latency.bins), "max_ns": latency.max_ns}
                for node, latency in sorted(self._latency.items())
            ],
            "depth": [],
        }  # fmt: skip
