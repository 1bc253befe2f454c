# SPDX-License-Identifier: GPL-2.0-or-later
"""Count task placements (forks, execs, wakeups, migrations) and the time that tasks wait for a CPU.

``placement.json`` contains the counts of BPF programs at the scheduler's tracepoints, at functions
of the load balancer and at the bandwidth timers, from before the run until after it::

    {"schema": "schedperf/bpf_placement/1", "mechanism": "bpf", "seconds": 1.2,
     "programs": {"sched_wakeup": {"mechanism": "tp_btf", "function": "sched_wakeup",
                                   "reason": null}, …},
     "nodes": {"0": 0, "1": 1}, "types": {}, "levels_from": "domains",
     "moves": [{"event": "wakeup", "cause": null, "from_node": 0, "to_node": 1,
                "level": "NUMA", "count": 1234}, …],
     "series": {"step_s": 0.1, "rows": […]}, "latency": […], "depth": […],
     "balance": {…}, "timers": […], "invisible": […], "lost": {…}, "notes": […]}

All programs are tried, and the reason of each failure is recorded. If BPF is not available to root,
perf records tracepoints at a higher cost (``"mechanism": "perf"``), without load balancer,
bandwidth timers, task groups and execs.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections import Counter
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.cpu import online_cpus
from schedperf_collectors.machine.pid_namespace import global_pid
from schedperf_collectors.machine.system import System, or_none
from schedperf_collectors.placement import balance as _placement_balance
from schedperf_collectors.placement import timers as _placement_timers
from schedperf_collectors.placement.machine import CpuGroup, Machine, read_machine
from schedperf_collectors.placement.perf import capture_with_perf
from schedperf_collectors.placement.series import Series
from schedperf_collectors.placement.tracepoints import CpuCounts, Tracepoints, is_placed
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, Skipped, collector

SCHEMA = "schedperf/bpf_placement/1"
FILE_NAME = "placement.json"

# A reason is preceded by the mechanisms that it applies to.
_ONE = "(?:tp_btf|raw_tp|fentry|fexit|kprobe|kretprobe)"
_MECHANISMS = rf"{_ONE}(?:(?:, |/){_ONE})*"
_PARTS = re.compile(rf"; (?={_MECHANISMS}: )")
_PART = re.compile(rf"(?:({_MECHANISMS}): )?(.*)")
_QUOTED = re.compile(r" '[^']*'")

HOTPLUG_NOTE = (
    "CPUs went online or offline during the run; tasks pushed off an offline CPU are counted as "
    "moved by load_balance"
)


class Crossing(NamedTuple):
    """A kind of moves that is counted over time; the keys of a row of placement.json's "series".

    :param cause: cause of a migration; None for other events
    :param crossing: whether the move was to another NUMA node
    """

    event: str
    cause: str | None
    crossing: bool


@collector(
    scope="run",
    intrusive=True,
    default=False,
    cost="0.1 us per wakeup and per context switch (1% of hackbench's CPU time); 0.3 to 3 s to "
    "load; 4 MiB of kernel memory (0.3 GiB with 8192 CPUs); higher overhead if perf replaces BPF",
    options=("perf", "perf_limit"),
)
def bpf_placement(capture: Capture) -> Generator[str, None, str]:
    """Count task placements by cause and distance, and the time tasks wait for a CPU."""
    system = System()
    try:
        machine = read_machine(system, global_pid(system, capture.workload_pid))
    except Unavailable as error:
        raise Skipped(error.reason) from error
    try:
        tracepoints = Tracepoints(machine)
    except Unavailable as error:
        if os.geteuid() != 0:
            raise Skipped(error.reason, error.remedy or "run as root") from error
        yield from capture_with_perf(capture, machine, error.reason, error.remedy)
        return f"recorded with perf, because BPF is not available: {error.say()}"
    with contextlib.closing(tracepoints):
        return (yield from _capture_with_bpf(system, capture.folder, machine, tracepoints))


def _capture_with_bpf(
    system: System, folder: Path, machine: Machine, tracepoints: Tracepoints
) -> Generator[str, None, str]:
    with contextlib.ExitStack() as stack:
        balance = stack.enter_context(contextlib.closing(_placement_balance.start(machine)))
        timers = stack.enter_context(contextlib.closing(_placement_timers.start(machine)))
        series = Series(lambda: _by_crossing(tracepoints))
        yield PREPARED
        cpus_before = or_none(lambda: online_cpus(system))
        for each in (balance, timers, tracepoints):
            each.open_gate()
        began_s = time.monotonic()
        series.start()
        stack.callback(series.halt)
        yield BEGUN
        for each in (tracepoints, timers, balance):
            each.close_gate()
        seconds = time.monotonic() - began_s
        series.stop()
        document = {
            "schema": SCHEMA,
            "mechanism": "bpf",
            "seconds": seconds,
            **_read_tracepoints(tracepoints, machine, series),
            "balance": balance.read(),
            "timers": timers.read(),
        }
        for part in (balance, timers):
            document["programs"].update(part.programs)
            document["lost"].update(part.lost)
            document["invisible"] += part.invisible
        if or_none(lambda: online_cpus(system)) != cpus_before:
            document["notes"].append(HOTPLUG_NOTE)
        (folder / FILE_NAME).write_text(json.dumps(document) + "\n")
        return _refusals(document["programs"])


def _refusals(programs: Mapping[str, Mapping[str, Any]]) -> str:
    """Return in one line which programs are not attached and why; "" if all are."""
    refused = {
        name: str(program["reason"])
        for name, program in programs.items()
        if not program["mechanism"]
    }
    if not refused:
        return ""
    # The slots of one subject are named NAME_enter and NAME_leave.
    subjects = dict.fromkeys(re.sub("_(enter|leave)$", "", name) for name in refused)
    mechanisms: dict[str, dict[str, None]] = {}
    for reason in refused.values():
        # Remove the function's name, which would split equal reasons.
        for part in _PARTS.split(_QUOTED.sub("", reason)):
            by, text = _PART.fullmatch(part).groups()  # type: ignore[union-attr] # it fits any line
            mechanisms.setdefault(text, {}).update(dict.fromkeys(filter(None, [by])))
    reasons = "; ".join(
        ": ".join(filter(None, (", ".join(by), why))) for why, by in mechanisms.items()
    )
    return (
        f"{len(refused)} of {len(programs)} BPF programs not attached: {reasons} "
        f"({', '.join(subjects)})"
    )


def _by_crossing(tracepoints: Tracepoints) -> Counter[Crossing]:
    counts: Counter[Crossing] = Counter()
    for move, count in tracepoints.moves().items():
        if is_placed(move):
            crossing = move.from_node != move.to_node
            counts[Crossing(move.event, move.cause, crossing)] += count
    return counts


def _read_tracepoints(
    tracepoints: Tracepoints, machine: Machine, series: Series[Crossing]
) -> dict[str, Any]:
    moves = tracepoints.moves()
    cpus = dict(tracepoints.cpus())
    lost = {
        "moves": sum(each.lost_moves for each in cpus.values()),
        "moves from or to CPUs that came online during the run": sum(
            count for move, count in moves.items() if not is_placed(move)
        ),
        "latencies": sum(each.lost_slots for each in cpus.values()),
        **{f"calls of {name}": count for name, count in tracepoints.misses().items()},
    }
    notes = (
        []
        if series.failure is None
        else [f"the time series of moves does not cover the whole run: {series.failure}"]
    )
    return {
        "programs": dict(tracepoints.programs),
        "nodes": {str(cpu): node for cpu, node in machine.nodes.items()},
        "types": {str(cpu): core_type for cpu, core_type in machine.types.items()},
        "levels_from": machine.levels_from,
        "moves": [
            {**move.as_row(), "count": count}
            for move, count in sorted(moves.items(), key=str)
            if is_placed(move)
        ],
        "series": _describe_series(series),
        "latency": _latency(cpus, machine),
        "depth": _depth(cpus, machine, notes),
        "lost": {name: count for name, count in lost.items() if count},
        "invisible": [],
        "notes": notes,
    }


def _describe_series(series: Series[Crossing]) -> dict[str, Any]:
    rows = []
    for key, counts in sorted(series.rows.items(), key=str):
        rows.append({**key._asdict(), "counts": counts})
    return {"step_s": series.step_s, "rows": rows}


def _latency(cpus: dict[int, CpuCounts], machine: Machine) -> list[dict[str, Any]]:
    of_groups: dict[CpuGroup, list[CpuCounts]] = {}
    for cpu, location in machine.places.items():
        if cpu in cpus:
            of_groups.setdefault(location.group, []).append(cpus[cpu])
    return [
        {
            **group.as_row(),
            "log2_ns": [sum(bins) for bins in zip(*(each.latency_log2 for each in counts))],
            "sum_ns": sum(each.latency_sum_ns for each in counts),
            "count": sum(sum(each.latency_log2) for each in counts),
            "max_ns": max(each.latency_max_ns for each in counts),
        }
        for group, counts in sorted(of_groups.items())
    ]


def _depth(cpus: dict[int, CpuCounts], machine: Machine, notes: list[str]) -> list[dict[str, int]]:
    if not machine.recorder:
        notes.append("`depth`: the workload's tasks cannot be identified inside a pid namespace")
    if any(each.without_groups for each in cpus.values()):
        notes.append("`depth`: this kernel has no task groups (CONFIG_FAIR_GROUP_SCHED=n)")
    switches = [sum(bins) for bins in zip(*(each.depth for each in cpus.values()))]
    return [{"depth": depth, "switches": count} for depth, count in enumerate(switches) if count]
