# SPDX-License-Identifier: GPL-2.0-or-later
"""Measure the time from wakeup to running of each command on each CPU.

``wakeups.json`` contains a histogram per command and CPU, of the wakeups from before the workload
until after it::

    {"schema": "schedperf/wakeup_latency/1", "mechanism": "bpf", "seconds": 1.2,
     "programs": {"sched_wakeup": {"mechanism": "tp_btf", "function": "sched_wakeup",
                                   "reason": null}, …},
     "nodes": {"0": 0, "1": 1},
     "rows": [{"command": "hackbench", "cpu": 0, "bins": [[131, 17], [132, 20]],
               "sum_ns": 185000, "max_ns": 9731}, …],
     "lost": {}, "notes": []}

A wait begins at sched_wakeup or sched_wakeup_new, when the task is on a run queue, and ends at the
next sched_switch to it, on whichever CPU. A wakeup of a running task does not begin a wait, nor
does a preemption. Bins are pairs of number and count: 4 ns wide up to 64 ns, then 16 in each power
of two; the last one is open. The command is the task's ``comm`` when it runs, up to a slash; "" is
the sum of all commands that did not fit into the table. If BPF is not available to root, perf
records the same tracepoints at a higher cost (``"mechanism": "perf"``).
"""

from __future__ import annotations

import json
import os
import struct
import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from schedperf_collectors.bpf.libbpf import BpfObject, Candidate, load_what_works
from schedperf_collectors.bpf.objects import read_object
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.cpu import online_cpus, possible_cpus, topology_finders
from schedperf_collectors.machine.system import System, or_none
from schedperf_collectors.perf.tracepoint_recording import trace
from schedperf_collectors.perf.tracepoint_samples import Sample
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, Skipped, collector

SCHEMA = "schedperf/wakeup_latency/1"
FILE_NAME = "wakeups.json"

TRACEPOINTS = ("sched_wakeup", "sched_wakeup_new", "sched_switch")
# Both run at every event; programs at BTF tracepoints read kernel memory with plain loads.
MECHANISMS = {"tp_btf": "btf", "raw_tp": "raw"}
# The fields that perf needs of each tracepoint.
WANTED = {
    "sched:sched_wakeup": ("pid",),
    "sched:sched_wakeup_new": ("pid",),
    "sched:sched_switch": ("prev_pid", "next_pid", "next_comm"),
}

# Of wakeup_latency.bpf.c: bins of 4 ns, then 16 steps in each power of two.
UNIT_SHIFT, STEP_SHIFT, BINS = 2, 4, 512
KEY, WAITS = struct.Struct("=16sI"), struct.Struct(f"={BINS + 2}Q")
U32, U64 = struct.Struct("=I"), struct.Struct("=Q")
# Slots of tasks, 64 bytes each: 4 MiB on small machines, at most 64 MiB.
LEAST_SLOTS, MOST_SLOTS, SLOTS_PER_CPU = 1 << 16, 1 << 20, 512
# Entries of 4 KiB: 256 commands per CPU on small machines, never fewer than 16.
MOST_COMMANDS, LEAST_COMMANDS, ENTRIES = 256, 16, 1 << 14
# Maximum number of simultaneously waiting tasks; further pids belong to tasks that never ran.
WAITING_LIMIT = 1 << 17
# Commands that are counted separately if perf records; all others are counted together.
NAMES_LIMIT = 4096

HOTPLUG_NOTE = "CPUs went online or offline during the run"


@collector(
    scope="run",
    intrusive=True,
    default=False,
    cost="0.2 us per wakeup and 0.35 us per context switch (1 to 3% of hackbench's CPU time); 0.3 "
    "to 3 s to load; 6 MiB of kernel memory (0.6 GiB with 8192 CPUs); higher overhead if perf "
    "replaces BPF",
    options=("perf", "perf_limit"),
)
def wakeup_latency(capture: Capture) -> Generator[str, None, str]:
    """Measure the time from wakeup to running, per command and CPU."""
    system = System()
    try:
        programs = Programs(system)
    except Unavailable as error:
        if os.geteuid() != 0:
            raise Skipped(error.reason, error.remedy or "run as root") from error
        yield from _capture_with_perf(system, capture, error)
        return f"recorded with perf, because BPF is not available: {error.say()}"
    try:
        yield PREPARED
        cpus_before = _online(system)
        programs.open_gate()
        began_s = time.monotonic()
        yield BEGUN
        programs.close_gate()
        seconds = time.monotonic() - began_s
        _write(
            capture,
            mechanism="bpf",
            seconds=seconds,
            programs=programs.attached,
            nodes=_nodes(system),
            rows=programs.rows(),
            lost=programs.lost(),
            notes=[HOTPLUG_NOTE] if _online(system) != cpus_before else [],
        )
    finally:
        programs.close()
    return "; ".join(_refusals(programs.attached))


def _write(
    capture: Capture, *, rows: Iterable[Waits], lost: Mapping[str, int], **facts: Any
) -> None:
    document = {
        "schema": SCHEMA,
        **facts,
        "rows": [
            waits.describe() for waits in sorted(rows, key=lambda one: (one.command, one.cpu))
        ],
        "lost": {what: count for what, count in lost.items() if count},
    }
    (capture.folder / FILE_NAME).write_text(json.dumps(document) + "\n")


def _online(system: System) -> list[int] | None:
    return or_none(lambda: online_cpus(system))


def _nodes(system: System) -> dict[str, int]:
    places: Any = or_none(topology_finders(system)["cpus"]) or []
    return {str(place["cpu"]): place["node"] for place in places if place["node"] is not None}


def _refusals(attached: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name, program in attached.items():
        if program["reason"] is not None:
            yield f"{name}: {program['reason']}"


@dataclass
class Waits:
    """The waits of one command that ended on one CPU.

    :param bins: number of waits by bin, see :func:`bin_of`
    """

    command: str
    cpu: int
    bins: Counter[int] = field(default_factory=Counter)
    sum_ns: int = 0
    max_ns: int = 0

    def add(self, ns: int) -> None:
        """Count one wait."""
        self.bins[bin_of(ns)] += 1
        self.sum_ns += ns
        self.max_ns = max(self.max_ns, ns)

    def describe(self) -> dict[str, object]:
        """Return the row of wakeups.json."""
        return {
            "command": self.command,
            "cpu": self.cpu,
            "bins": sorted(self.bins.items()),
            "sum_ns": self.sum_ns,
            "max_ns": self.max_ns,
        }


def bin_of(
    ns: int, unit_shift: int = UNIT_SHIFT, step_shift: int = STEP_SHIFT, bins: int = BINS
) -> int:
    """Return the bin of a wait, as the BPF program does.

    :param unit_shift: logarithm to base 2 of the width of the smallest bins in ns
    :param step_shift: logarithm to base 2 of the number of bins in each power of two
    :param bins: number of bins; the last one is open

    >>> [bin_of(ns) for ns in (0, 4, 63, 64, 68, 128, 136, 1 << 50)]
    [0, 1, 15, 16, 17, 32, 33, 511]
    """
    units = ns >> unit_shift
    power = max(0, units.bit_length() - 1 - step_shift)
    return min((power << step_shift) + (units >> power), bins - 1)


def command_of(comm: bytes) -> str:
    """Return the command of a ``comm``, as the BPF program does.

    >>> command_of(b"kworker/0:1-eve"), command_of(b"sh" + bytes(14))
    ('kworker', 'sh')
    """
    return comm.partition(b"\0")[0].partition(b"/")[0].decode("utf-8", "replace")


class Programs:
    """The loaded BPF programs, which count nothing until :meth:`open_gate`.

    :ivar attached: by tracepoint, the "mechanism" and the "function" of its program; the "reason"
        why there is none is always None here
    :raises Unavailable: libbpf or the compiled BPF object is missing, the kernel rejects a program,
        or /sys does not list the possible CPUs
    """

    def __init__(self, system: System) -> None:
        self._cpus = max(possible_cpus(system)) + 1
        candidates = [
            Candidate(name, f"{name}_{suffix}", mechanism, name)
            for name in TRACEPOINTS
            for mechanism, suffix in MECHANISMS.items()
        ]
        data = read_object("wakeup_latency")
        loaded = load_what_works(data, "wakeup_latency", candidates, self._prepare)
        self._object = loaded.object
        self.attached = loaded.programs
        refusals = list(_refusals(self.attached))
        if refusals:
            # With only some of them, begins or ends of waits would be missed.
            self.close()
            raise Unavailable(refusals[0])
        table, nothing = self._object.map("waits"), bytes(WAITS.size)
        for cpu in range(self._cpus):
            table.write(KEY.pack(b"", cpu), nothing)

    def _prepare(self, loading: BpfObject) -> None:
        slots = 1 << (self._cpus * SLOTS_PER_CPU - 1).bit_length()
        slots = min(max(slots, LEAST_SLOTS), MOST_SLOTS)
        loading.resize("slots", slots)
        loading.resize("waits", entries(self._cpus))
        loading.set_constants(U32.pack(slots - 1))

    def open_gate(self) -> None:
        """Start counting.

        :raises Unavailable: the kernel refuses
        """
        self._object.set_gate(is_open=True)

    def close_gate(self) -> None:
        """Stop counting.

        :raises Unavailable: the kernel refuses
        """
        self._object.set_gate(is_open=False)

    def close(self) -> None:
        """Detach the programs."""
        self._object.close()

    def rows(self) -> Iterator[Waits]:
        """Yield the waits of each command and CPU that has any.

        :raises Unavailable: the kernel refuses to read the map
        """
        for key, value in self._object.map("waits").items():
            comm, cpu = KEY.unpack(key)
            *bins, sum_ns, max_ns = WAITS.unpack(value)
            counts = Counter({index: count for index, count in enumerate(bins) if count})
            if counts:
                yield Waits(command_of(comm), cpu, counts, sum_ns, max_ns)

    def lost(self) -> dict[str, int]:
        """Return the number of lost events by kind.

        :raises Unavailable: the kernel refuses to read the map
        """
        counts = self._object.map("lost_slots").read(U32.pack(0)) or b""
        return {
            "woken tasks that lost their slot to another task": sum(
                count for (count,) in U64.iter_unpack(counts)
            ),
            **{f"calls of {name}": count for name, count in self._object.misses().items()},
        }


def entries(cpus: int) -> int:
    """Return the number of pairs of command and CPU that fit into the table.

    :param cpus: number of possible CPUs

    >>> [entries(cpus) for cpus in (2, 256, 8192)]
    [514, 16640, 139264]
    """
    # One pair per CPU is for commands without a name.
    return cpus + max(LEAST_COMMANDS * cpus, min(MOST_COMMANDS * cpus, ENTRIES))


def _capture_with_perf(system: System, capture: Capture, error: Unavailable) -> Iterator[str]:
    online = _online(system) or []
    traced = yield from trace(capture, WANTED, len(online), error.reason, error.remedy)
    missing = list(_refusals(traced.programs))
    try:
        if missing:
            raise Skipped(f"{error.reason}; perf: {missing[0]}", error.remedy)
        flow = Flow(traced.start_ns, traced.end_ns)
        lost = traced.follow(flow.see)
    finally:
        traced.remove()
    notes = [
        f"recorded with perf, because BPF is not available: {error.reason}",
        "perf may miss wakeups without reporting it",
    ]
    end_ns = traced.end_ns
    if traced.limit is not None:
        end_ns = flow.newest_ns
        notes.append(
            f"perf stopped at the size limit of {traced.limit}; the end of the run is not recorded"
        )
    _write(
        capture,
        mechanism="perf",
        seconds=(end_ns - traced.start_ns) / 1e9,
        programs=traced.programs,
        nodes=_nodes(system),
        rows=flow.rows,
        lost={"perf records": lost, "waiting tasks": flow.lost},
        notes=notes,
    )


class Flow:
    """Find the waits among samples ordered by time, as the BPF program does.

    :param start_ns: earlier samples are ignored (CLOCK_MONOTONIC)
    :param end_ns: later samples are ignored
    :ivar lost: number of waiting tasks that were forgotten, because more than
        :data:`WAITING_LIMIT` waited
    :ivar newest_ns: time of the last sample that was not ignored; ``start_ns`` before the first
    """

    def __init__(self, start_ns: int, end_ns: int) -> None:
        self.lost = 0
        self.newest_ns = start_ns
        self._start_ns = start_ns
        self._end_ns = end_ns
        self._woken_ns: dict[int, int] = {}
        self._waits: dict[tuple[str, int], Waits] = {}

    @property
    def rows(self) -> Iterable[Waits]:
        """Return the waits of each command and CPU."""
        return self._waits.values()

    def see(self, sample: Sample) -> None:
        """Process one sample."""
        if not self._start_ns <= sample.time_ns <= self._end_ns:
            return
        self.newest_ns = sample.time_ns
        if sample.name != "sched:sched_switch":
            self._wake(sample.values[0], sample.time_ns)
            return
        leaving, coming, comm = sample.values
        self._woken_ns.pop(leaving, None)
        # Every idle task has the pid 0.
        since_ns = self._woken_ns.pop(coming, None) if coming else None
        if since_ns is not None:
            self._waits_of(command_of(comm), sample.cpu).add(max(0, sample.time_ns - since_ns))

    def _wake(self, pid: int, time_ns: int) -> None:
        if pid not in self._woken_ns and len(self._woken_ns) >= WAITING_LIMIT:
            del self._woken_ns[next(iter(self._woken_ns))]
            self.lost += 1
        self._woken_ns[pid] = time_ns

    def _waits_of(self, command: str, cpu: int) -> Waits:
        if (command, cpu) not in self._waits and len(self._waits) >= NAMES_LIMIT:
            command = ""
        return self._waits.setdefault((command, cpu), Waits(command, cpu))
