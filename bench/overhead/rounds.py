# SPDX-License-Identifier: GPL-2.0-or-later
"""Run hackbench in rounds, once alone and once with each collector, and print the times.

``python3 -m bench.overhead.rounds`` needs only Python and the collectors, so it also runs in a
guest. In every round the order is random, so that a change of the machine's speed affects all
collectors alike; the first round is a warm-up and is not counted. It prints one JSON object::

    {"command": "hackbench -l 700 -g 1", "kernel": "6.1.192-tip", "cpus": 4,
     "alone": [[wall_s, cpu_s], …], "with": {"schedstat": [[wall_s, cpu_s, round], …]},
     "around_s": {"schedstat": 0.05}, "bytes": {…}, "refused": {"bpf_pelt": "no kernel headers"},
     "clocked": ["perf_mem"],
     "programs": [{"collector": "bpf_placement", "program": "sched_switch", "calls": n, "ns": t}]}

``around_s`` is the time that a collector takes before and after the run, ``bytes`` the size of its
captured files: medians over the runs. ``programs`` are the kernel's own counts of calls and time of
each BPF program (kernel.bpf_stats_enabled), from a separate run, because the counting reads a clock
twice per call. If the CPU cannot sample memory accesses, the collectors that do so run with
cpu-clock in place of the memory event (``clocked``): this measures the overhead of perf at a usual
rate of samples, but not that of the hardware.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from schedperf_collectors.machine.signals import signals
from schedperf_collectors.plugin import Capture, Collector, all_collectors
from schedperf_collectors.recorder.captures import (
    Captured,
    RunCaptures,
    Staging,
    capture_after,
    try_run_collectors,
)
from schedperf_collectors.recorder.isolate import OK
from schedperf_collectors.recorder.progress import describe_outcome
from schedperf_collectors.workload import run_workload

SEED = 20261121
LEAST_ROUNDS = 4
# Long enough that starting processes is a small part, short enough for many rounds.
RUN_S = 0.5
TRIAL_LOOPS = 50
# Nanoseconds: 5000 samples a second and busy CPU, as AMD's IBS takes at the collectors' period.
CLOCK_PERIOD = 200_000
CLOCK_OPTIONS = {"event": "cpu-clock", "period": str(CLOCK_PERIOD)}
SAMPLING_MEMORY = ("perf_c2c", "perf_mem")
BPF_STATS = Path("/proc/sys/kernel/bpf_stats_enabled")

Cost = tuple[float, float]


class Rounds:
    """Runs of hackbench alone and with collectors, and their times.

    :param options: options of each collector, as given by ``--set``
    """

    def __init__(self, staging: Staging, options: dict[str, dict[str, str]]) -> None:
        self.staging = staging
        self.options = options
        self.command = f"hackbench -l {TRIAL_LOOPS} -g 1"
        self.alone: list[Cost] = []
        self.costs: dict[str, list[tuple[float, float, int]]] = {}
        self.captured: dict[str, list[Captured]] = {}

    def calibrate(self) -> None:
        """Choose the number of messages so that a run takes about ``RUN_S`` seconds.

        :raises SystemExit: as in :meth:`run`
        """
        self.run(None)
        wall_s = min(self.run(None)[0] for _ in range(2))
        loops = max(TRIAL_LOOPS, round(TRIAL_LOOPS * RUN_S / wall_s))
        self.command = f"hackbench -l {loops} -g 1"

    def run(self, collector: Collector | None) -> Cost:
        """Run the workload once, alone or with one collector; return its wall and CPU seconds.

        :raises SystemExit: the workload fails
        """
        chosen = [] if collector is None else [collector]
        with RunCaptures(chosen, self.staging, self.options) as captures:
            capture = Capture(self.staging.folder(), os.getpid(), {"command": self.command})
            run = run_workload(capture, begin=captures.begin)
            for one in captures.stop():
                self.captured.setdefault(one.collector.name, []).append(one)
        if not run.succeeded or run.wall_s is None or run.rusage is None:
            sys.exit(f"{self.command}: {describe_outcome(run)}; install rt-tests")
        return run.wall_s, run.rusage["utime_s"] + run.rusage["stime_s"]

    def measure(self, collectors: list[Collector], budget_s: float) -> None:
        """Run a warm-up round, then rounds until the time is used up, but at least LEAST_ROUNDS.

        :param budget_s: seconds for all rounds
        :raises SystemExit: as in :meth:`run`
        """
        order = random.Random(SEED)  # noqa: S311 # no secret
        began = time.monotonic()
        rounds = 0
        choices: list[Collector | None] = [None, *collectors]
        while rounds <= LEAST_ROUNDS or (time.monotonic() - began) * (1 + 1 / rounds) < budget_s:
            for choice in order.sample(choices, len(choices)):
                cost = self.run(choice)
                if rounds == 0:
                    continue
                if choice is None:
                    self.alone.append(cost)
                else:
                    self.costs.setdefault(choice.name, []).append((*cost, rounds - 1))
            rounds += 1

    def programs(self, collectors: list[Collector]) -> list[dict[str, object]]:
        """Return the kernel's counts of calls and time of each BPF program in one run.

        Return [] if the kernel cannot count them, or without root.
        """
        try:
            before = BPF_STATS.read_text()
            BPF_STATS.write_text("1")
        except OSError:
            return []
        try:
            return [row for one in collectors for row in self._programs(one)]
        finally:
            BPF_STATS.write_text(before)

    def _programs(self, collector: Collector) -> list[dict[str, object]]:
        known = {program["id"] for program in _loaded_programs()}
        with RunCaptures([collector], self.staging, self.options) as captures:
            capture = Capture(self.staging.folder(), os.getpid(), {"command": self.command})
            run_workload(capture, begin=captures.begin)
            rows = [
                {"collector": collector.name, "program": program.get("name", ""),
                 "calls": program["run_cnt"], "ns": program["run_time_ns"]}
                for program in _loaded_programs()
                if program["id"] not in known and program.get("run_cnt")
            ]  # fmt: skip
            captures.stop()
        return rows


def _loaded_programs() -> list[dict[str, object]]:
    try:
        done = subprocess.run(["bpftool", "-j", "prog", "show"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    found = json.loads(done.stdout)
    return found if isinstance(found, list) else []


def _size(captured: Captured) -> int:
    return sum(path.stat().st_size for _, path in captured.files)


def _describe(rounds: Rounds, refused: dict[str, str | None], clocked: list[str]) -> str:
    captured = {name: found[-len(rounds.alone) :] for name, found in rounds.captured.items()}
    return json.dumps(
        {
            "command": rounds.command,
            "kernel": os.uname().release,
            "cpus": os.cpu_count(),
            "alone": rounds.alone,
            "with": rounds.costs,
            "around_s": {
                name: median(one.result.seconds or 0.0 for one in found)
                for name, found in captured.items()
            },
            "bytes": {name: median(map(_size, found)) for name, found in captured.items()},
            "refused": refused,
            "clocked": clocked,
        }
    )


def main() -> None:
    """Measure all collectors that work on this machine, and print the JSON object."""
    parser = argparse.ArgumentParser(prog="python3 -m bench.overhead.rounds", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="for all rounds together")
    parser.add_argument("--only", action="append", metavar="COLLECTOR", help="measure no other")
    asked = parser.parse_args()
    in_run = [
        one
        for one in all_collectors().values()
        if one.scope == "run" and (asked.only is None or one.name in asked.only)
    ]
    after = [one for one in all_collectors().values() if one.scope == "after"]
    with signals, Staging() as staging:
        tried = try_run_collectors(in_run, staging, {})
        refused = {
            one.collector.name: one.result.reason for one in tried if one.result.status != OK
        }
        memory = [one for one in in_run if one.name in refused and one.name in SAMPLING_MEMORY]
        options = {one.name: CLOCK_OPTIONS for one in memory}
        again = try_run_collectors(memory, staging, options)
        usable = [one.collector for one in (*tried, *again) if one.result.status == OK]
        rounds = Rounds(staging, options)
        rounds.calibrate()
        rounds.measure(usable, asked.seconds)
        brought = [found[-1] for found in rounds.captured.values()]
        for one in after:
            rounds.captured[one.name] = [capture_after(one, staging, {}, brought, frozenset())]
        clocked = [one.name for one in usable if one.name in options]
        record = json.loads(_describe(rounds, refused, clocked))
        record["programs"] = rounds.programs([one for one in usable if "bpf" in one.name])
    print(json.dumps(record))


if __name__ == "__main__":
    main()
