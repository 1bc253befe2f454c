# SPDX-License-Identifier: GPL-2.0-or-later
"""Check measured wakeup latencies against an independent computation from the same trace.

It runs as root, here or in a guest, needs perf, and prints one JSON object.
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
    r".*prev_comm=(?P<from>.*) prev_pid=(?P<leaving>\d+) prev_prio=-?\d+ prev_state=(?P<state>\S+)"
    r" ==> next_comm=(?P<to>.*) next_pid=(?P<coming>\d+)"
)


def independent(script: str, start_ns: int, end_ns: int) -> dict[str, dict[str, list[int]]]:
    """Return the durations of all waits in ns, by kind and then by command.

    "wakeup" waits begin at a wakeup, and begin and end within the run. "runnable" waits begin at a
    wakeup or a preemption, as in perf sched latency, and may also lie outside the run.

    :param script: what ``perf script --ns`` prints
    :param start_ns: CLOCK_MONOTONIC at the start of the run
    :param end_ns: CLOCK_MONOTONIC at its end
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
        leaving, state, comm, coming = switched.group("leaving", "state", "to", "coming")
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


def count_missed(script: str, command: str) -> int:
    """Return how many waits of a command may lack their start or their end in a recording of perf.

    If perf missed a wakeup, a task runs that went to sleep before and was not woken. If it missed a
    switch, the task that leaves a CPU is not the one that was switched to there.

    :param script: what ``perf script --ns`` prints
    """
    awake: set[int] = set()
    waiting: set[int] = set()
    running: dict[str, int] = {}
    missed = 0
    for sample in filter(None, map(SAMPLE.match, script.splitlines())):
        cpu, event = sample[1], f" {sample[5]}"
        switched = SWITCHED.match(event)
        if switched is None:
            pid = int(WOKEN.match(event)[1])  # type: ignore[index] # perf prints it
            awake.add(pid)
            waiting.add(pid)
            continue
        leaving, coming = int(switched["leaving"]), int(switched["coming"])
        came_unseen = running.get(cpu, leaving) != leaving
        if came_unseen and (leaving in waiting or leaving not in awake):
            missed += switched["from"].partition("/")[0] == command
        waiting.discard(leaving)
        if not switched["state"].startswith("R"):
            awake.discard(leaving)
        if coming not in awake:
            missed += switched["to"].partition("/")[0] == command
        awake.add(coming)
        waiting.discard(coming)
        running[cpu] = coming
    return missed


@contextlib.contextmanager
def tracing(folder: Path) -> Iterator[list[Traced]]:
    """Record the tracepoints with perf during a ``with`` block.

    The yielded list is empty; after the block it contains the recording.
    """
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
    """Return the histogram of each command, the sum of all CPUs.

    :param rows: histograms by command and CPU
    """
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
    """Return the percentiles as order statistics, and the maximum ("max"), in ns.

    A percentile is missing if less than one wait lies above it.

    :param waits: in ns, at least one
    """
    ordered = sorted(waits)
    values: dict[str, float] = {
        name: float(ordered[max(0, math.ceil(len(ordered) * part - 1e-9) - 1)])
        for name, part in QUANTILES.items()
        if len(ordered) * (1.0 - part) >= 1.0 - 1e-9
    }
    return {**values, "max": float(ordered[-1])}


def values_of(histogram: Histogram) -> dict[str, float]:
    """Return the percentiles that schedperf reports, and the maximum ("max"), in ns.

    Percentiles that it does not report are missing.
    """
    values = {name: histogram.quantile(part) for name, part in QUANTILES.items()}
    known: dict[str, float] = {name: value for name, value in values.items() if value is not None}
    return {**known, "max": float(histogram.max_ns)}


def bounds(histogram: Histogram, part: float, total: int) -> tuple[float, float | None]:
    """Return the lowest and highest possible value of a percentile or the maximum, in ns.

    The highest is None if it is unknown.

    :param part: the percentile, between 0 and 1; 1 for the maximum
    :param total: number of waits, of which some may be missing in the histogram
    """
    missing = max(0, total - histogram.total)
    if part == 1.0:
        return float(histogram.max_ns), None if missing else float(histogram.max_ns)
    rank = part * total
    ranks = (rank - missing, rank)
    low, high = (
        histogram.quantile(one / histogram.total) if 0 < one <= histogram.total else None
        for one in ranks
    )
    return low or 0.0, high


def to_us(ns: float | None) -> float | None:
    """Return microseconds with two decimals; None for None."""
    return None if ns is None else round(ns / 1e3, 2)


def largest_error(ours: Mapping[str, float], theirs: Mapping[str, float]) -> float:
    """Return the largest relative error of the values in ns, as a fraction of ``theirs``.

    A difference of up to 4 ns, the width of the narrowest bin, does not count.

    :raises AssertionError: the two have different keys
    """
    assert ours.keys() == theirs.keys(), (ours, theirs)
    return max(max(0.0, abs(ours[name] - theirs[name]) - 4.0) / theirs[name] for name in theirs)


def check_trace(folder: Path) -> dict[str, Any]:
    """Record the workload with perf, and evaluate the trace with schedperf and independently.

    :return: what ``judge`` in ``__main__`` checks: counts and maxima of perf script, the largest
        error of a percentile, and the maxima of perf sched
    :raises CalledProcessError: the workload or perf fails
    """
    with tracing(folder) as found:
        subprocess.run(WORKLOAD, check=True, stdout=subprocess.DEVNULL)
    [traced] = found
    flow = Flow(traced.start_ns, traced.end_ns)
    lost = traced.follow(flow.see)
    ours = by_command([*flow.rows])
    script = print_samples(traced)
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
    """Return the longest wait of the workload in ms; 0 if it has none in a tool's output."""
    return max((each.max_ns for each in waits if each.command == COMMAND), default=0) / 1e6


def check_bpf(folder: Path) -> dict[str, Any]:
    """Measure the same run with BPF and perf.

    :return: counts and latencies of both; ``{"reason": text}`` if BPF is not available
    :raises CalledProcessError: the workload or perf fails
    """
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
    script = print_samples(traced)
    traced.remove()
    perf_waits = by_command([*flow.rows])[COMMAND]
    values = values_of(bpf)
    return {
        "mechanisms": mechanisms,
        "lost": sum(lost.values()),
        "lost by perf": perf_lost,
        "waits": [bpf.total, perf_waits.total],
        "missed by perf": count_missed(script, COMMAND),
        "us": {
            name: [to_us(value) for value in (values[name], *bounds(perf_waits, part, bpf.total))]
            for name, part in (*QUANTILES.items(), ("max", 1.0))
            if name in values
        },
    }


def print_samples(traced: Traced) -> str:
    """Return the output of perf script for a recording; raise as :func:`perf`."""
    fields = ("--ns", "-F", "cpu,time,event,trace")
    return perf("script", *fields, "-i", str(traced.path)).decode(errors="replace")


def perf(*arguments: str) -> bytes:
    """Run perf and return its output.

    :raises CalledProcessError: it fails
    """
    done = subprocess.run(["perf", *arguments], capture_output=True, check=True)
    return done.stdout


def main() -> None:
    """Print the results of both checks as JSON: ``{"trace": …, "bpf": …}``."""
    with tempfile.TemporaryDirectory() as name:
        print(json.dumps({"trace": check_trace(Path(name)), "bpf": check_bpf(Path(name))}))


if __name__ == "__main__":
    main()
