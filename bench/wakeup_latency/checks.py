# SPDX-License-Identifier: GPL-2.0-or-later
"""Check measured wakeup latencies against an independent computation from the same trace.

Runs on any machine with perf, here and in a guest, and prints one JSON document.
"""

import contextlib
import json
import math
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from schedperf.evidence.wakeup_latency.capture import Waits as PrintedWaits
from schedperf.evidence.wakeup_latency.histogram import Histogram
from schedperf.evidence.wakeup_latency.record import QUANTILES
from schedperf.evidence.wakeup_latency.texts import parse_latency, parse_timehist
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.system import System
from schedperf_collectors.perf.tracepoint_recording import Traced, trace
from schedperf_collectors.plugin import Capture
from schedperf_collectors.wakeup_latency import WANTED, Flow, Programs, Waits

WORKLOAD = ("hackbench", "-l", "100", "-g", "2")
COMMAND = "hackbench"
FEWEST_WAITS = 10
# perf prints microseconds.
US_NS = 1000

SAMPLE = re.compile(r"\s*\[(\d+)\]\s+(\d+)\.(\d{9}):\s+sched:(\w+):\s(.*)")
WOKEN = re.compile(r".* pid=(\d+) prio=")
SWITCHED = re.compile(
    r".* prev_pid=(\d+) prev_prio=-?\d+ prev_state=(\S+) ==> next_comm=(.*) next_pid=(\d+)"
)


def independent(script: str, start_ns: int, end_ns: int) -> dict[str, dict[str, list[int]]]:
    """Return all waits by command: "wakeup", and "runnable" as perf sched latency counts them.

    :param script: what ``perf script --ns`` prints
    :param start_ns: waits that begin earlier are not of the run (CLOCK_MONOTONIC)
    """
    woken: dict[int, int] = {}
    runnable: dict[int, int] = {}
    waits: dict[str, dict[str, list[int]]] = {"wakeup": {}, "runnable": {}}
    for line in script.splitlines():
        sample = SAMPLE.match(line)
        if sample is None:
            continue
        now_ns = int(sample[2]) * 10**9 + int(sample[3])
        is_inside = start_ns <= now_ns <= end_ns
        if sample[4] != "sched_switch":
            pid = int(WOKEN.match(f" {sample[5]}")[1])  # type: ignore[index] # perf prints it
            if is_inside:
                woken[pid] = now_ns
            runnable.setdefault(pid, now_ns)
            continue
        switched = SWITCHED.match(f" {sample[5]}")
        assert switched is not None
        leaving, state, comm, coming = switched.groups()
        woken.pop(int(leaving), None)
        runnable.pop(int(leaving), None)
        # perf 6.1 takes the state of a task that the kernel preempted, R+, for that of a sleeper.
        if state == "R":
            runnable[int(leaving)] = now_ns
        command = comm.partition("/")[0]
        for kind, since in (("wakeup", woken), ("runnable", runnable)):
            began_ns = since.pop(int(coming), None)
            if began_ns is not None and int(coming) and (is_inside or kind == "runnable"):
                waits[kind].setdefault(command, []).append(now_ns - began_ns)
    return waits


@contextlib.contextmanager
def tracing(folder: Path) -> Iterator[list[Traced]]:
    """Record the tracepoints with perf meanwhile; the list has the recording afterwards."""
    capture = Capture(folder, os.getpid(), {"perf_limit": "256M"})
    running = trace(capture, WANTED, os.cpu_count() or 1, "wanted")
    found: list[Traced] = []
    next(running)
    next(running)
    yield found
    try:
        next(running)
    except StopIteration as end:
        found.append(end.value)


def by_command(rows: Sequence[Waits]) -> dict[str, Histogram]:
    """Return the histogram of each command on all CPUs."""
    members: dict[str, list[Waits]] = {}
    for row in rows:
        members.setdefault(row.command, []).append(row)
    return {
        command: Histogram.of(
            [row.bins for row in some], above=0, max_ns=max(row.max_ns for row in some)
        )
        for command, some in members.items()
    }


def exact(waits: Sequence[int]) -> dict[str, float]:
    """Return percentiles as order statistics, and the maximum, in ns."""
    ordered = sorted(waits)
    values: dict[str, float] = {
        name: float(ordered[max(0, math.ceil(len(ordered) * part - 1e-9) - 1)])
        for name, part in QUANTILES.items()
        if len(ordered) * (1.0 - part) >= 1.0 - 1e-9
    }
    return {**values, "max": float(ordered[-1])}


def values_of(histogram: Histogram) -> dict[str, float]:
    """Return the percentiles that schedperf reports, and the maximum, in ns."""
    values = {name: histogram.quantile(part) for name, part in QUANTILES.items()}
    known: dict[str, float] = {name: value for name, value in values.items() if value is not None}
    return {**known, "max": float(histogram.max_ns)}


def largest_error(ours: Mapping[str, float], theirs: Mapping[str, float]) -> float:
    """Return the largest relative error, without the 4 ns of the narrowest bin."""
    assert ours.keys() == theirs.keys(), (ours, theirs)
    return max(max(0.0, abs(ours[name] - theirs[name]) - 4.0) / theirs[name] for name in theirs)


def check_trace(folder: Path) -> dict[str, Any]:
    """Compare our reading of a trace with one of what perf script prints, and with perf sched."""
    with tracing(folder) as found:
        subprocess.run(WORKLOAD, check=True, stdout=subprocess.DEVNULL)
    [traced] = found
    flow = Flow(traced.start_ns, traced.end_ns)
    lost = traced.follow(flow.see)
    ours = by_command([*flow.rows])
    fields = ("--ns", "-F", "cpu,time,event,trace")
    script = perf("script", *fields, "-i", str(traced.path)).decode(errors="replace")
    theirs = independent(script, traced.start_ns, traced.end_ns)
    frequent = [name for name, waits in theirs["wakeup"].items() if len(waits) >= FEWEST_WAITS]
    latency = parse_latency(perf("sched", "latency", "-i", str(traced.path)), "latency")
    timehist = parse_timehist(perf("sched", "timehist", "-i", str(traced.path)), "timehist")
    result = {
        "lost": lost,
        "commands": len(frequent),
        "waits": sum(histogram.total for histogram in ours.values()),
        "counts equal": all(
            ours[name].total == len(waits) for name, waits in theirs["wakeup"].items()
        ),
        "largest error of a percentile": max(
            largest_error(values_of(ours[name]), exact(theirs["wakeup"][name])) for name in frequent
        ),
        "maxima equal": all(
            ours[name].max_ns == max(waits) for name, waits in theirs["wakeup"].items()
        ),
        "max of wakeups, ms": ours[COMMAND].max_ns / 1e6,
        "max of wakeups and preemptions, ms": max(theirs["runnable"][COMMAND]) / 1e6,
        "max of perf sched timehist, ms": longest(timehist.waits),
        "max of perf sched latency, ms": longest(latency.waits),
    }
    traced.remove()
    return result


def longest(waits: Sequence[PrintedWaits]) -> float:
    """Return the longest wait of the workload in ms; 0 if the tool names no such command."""
    return max((each.max_ns for each in waits if each.command == COMMAND), default=0) / 1e6


def check_bpf(folder: Path) -> dict[str, Any]:
    """Measure the same run with BPF and perf."""
    try:
        programs = Programs(System())
    except Unavailable as error:
        return {"reason": error.say()}
    with contextlib.closing(programs):
        with tracing(folder) as found:
            programs.open_gate()
            subprocess.run(WORKLOAD, check=True, stdout=subprocess.DEVNULL)
            programs.close_gate()
        bpf = by_command([*programs.rows()])[COMMAND]
        lost = programs.lost()
        mechanisms = sorted({str(each["mechanism"]) for each in programs.attached.values()})
    [traced] = found
    flow = Flow(traced.start_ns, traced.end_ns)
    perf_lost = traced.follow(flow.see)
    traced.remove()
    perf_waits = by_command([*flow.rows])[COMMAND]
    return {
        "mechanisms": mechanisms,
        "lost": sum(lost.values()),
        "lost by perf": perf_lost,
        "waits": [bpf.total, perf_waits.total],
        "us": {
            name: [round(value / 1e3, 2), round(values_of(perf_waits)[name] / 1e3, 2)]
            for name, value in values_of(bpf).items()
        },
    }


def perf(*arguments: str) -> bytes:
    """Return what perf prints."""
    done = subprocess.run(["perf", *arguments], capture_output=True, check=True)
    return done.stdout


def main() -> None:
    """Print the results of all checks."""
    with tempfile.TemporaryDirectory() as name:
        print(json.dumps({"trace": check_trace(Path(name)), "bpf": check_bpf(Path(name))}))


if __name__ == "__main__":
    main()
