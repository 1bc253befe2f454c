# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the time account of runs with independent numbers: ``python -m bench.account``.

Each workload is recorded once, as root, with the collectors ``account`` and ``bpf_account``, below
GNU time and beside a recording of the scheduler's events by perf. CPU time and switches must be
those of GNU time, and waiting must be the sum over the events; exits with status 1 otherwise.
"""

import argparse
import json
import re
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.account.events import Waits, add_up_waits, find_processes, record_beside_events

# Relative differences of two clocks of the kernel; larger for tasks that live less than a tick.
LARGEST_ERROR, LARGEST_ERROR_OF_FORKS = 0.01, 0.07
# GNU time prints hundredths of a second, and its own process is in the account only.
TICKS_S = 0.02
MOST_OWN_SWITCHES = 10
# If perf misses a larger fraction of the switches, waiting is not compared.
MOST_MISSED = 0.05
# First line that GNU time prints of a command.
BEGINS = "Command being timed"
# Parts of waits.json that are waiting for a CPU.
WAITS = ("woken", "preempted", "yielded", "throttled")


class Workload(NamedTuple):
    """One workload.

    :param largest_error: allowed relative error of waiting
    """

    name: str
    command: str
    largest_error: float = LARGEST_ERROR


LOOP = "timeout 2 yes >/dev/null"
WORKLOADS = (
    Workload("hackbench", "hackbench -l 1500 -g 1"),
    Workload("sysbench threads", "sysbench threads --threads=8 --time=2 run"),
    Workload("loop beside loop", f"taskset -c 0 sh -c '{LOOP} & {LOOP}; wait'"),
    Workload("stress-ng --fork", "stress-ng --fork 1 --fork-ops 1000 -q", LARGEST_ERROR_OF_FORKS),
)  # fmt: skip


class Numbers(NamedTuple):
    """The compared numbers of a run; times in s."""

    cpu_s: float
    switches: float
    waiting_s: float


def record(workload: Workload, folder: Path) -> tuple[Numbers, Numbers, float, Waits]:
    """Record a workload; return our numbers, the independent ones, BPF's waiting in s, and waits.

    :raises subprocess.CalledProcessError: the recording or perf fails
    """
    bundle, times = folder / "a.tar", folder / "time.txt"
    timed = ["/usr/bin/time", "-v", "-a", "-o", str(times), "sh", "-c", f"exec {workload.command}"]
    text = record_beside_events(bundle, "account,bpf_account", timed)
    # The runs of both kinds are in random order.
    place, run, account, by_bpf = read(bundle)
    usage = run["rusage"]
    ours = Numbers(
        usage["utime_s"] + usage["stime_s"], usage["nvcsw"] + usage["nivcsw"], account["waiting_s"]
    )
    printed = read_times(times.read_text().split(BEGINS)[1 + place])
    waits = add_up_waits(text, find_processes(text, "time")[place])
    theirs = Numbers(
        printed["User time (seconds)"] + printed["System time (seconds)"],
        printed["Voluntary context switches"] + printed["Involuntary context switches"],
        waits.seconds,
    )
    of_waits = [part["seconds"] for name, part in by_bpf["parts"].items() if name in WAITS and part]
    return ours, theirs, sum(of_waits), waits


def read(bundle: Path) -> tuple[int, Any, Any, Any]:
    """Return number, run.json, account.json and waits.json of the instrumented run of a bundle.

    The number is that of the run among all runs, from 0.
    """
    with tarfile.open(bundle) as members:
        names = members.getnames()
        [waits] = [name for name in names if name.endswith("/bpf_account/waits.json")]
        folder = waits.rpartition("/bpf_account/")[0]
        files = (f"{folder}/run.json", f"{folder}/account/account.json", waits)
        found = [json.load(file) for name in files if (file := members.extractfile(name))]
    run, account, parts = found
    return int(folder.rpartition("/")[2]), run, account, parts


def read_times(text: str) -> Mapping[str, float]:
    """Return what ``time -v`` prints as plain numbers, by its labels."""
    lines = re.findall(r"^\s*([A-Z][^:\n]*): ([0-9.]+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in lines}


def missed_by_perf(theirs: Numbers, waits: Waits) -> float:
    """Return the fraction of the tasks' switches that perf did not see."""
    return max(0.0, 1.0 - waits.switches / theirs.switches) if theirs.switches else 0.0


def judge(workload: Workload, ours: Numbers, theirs: Numbers, waits: Waits) -> Iterator[str]:
    """Yield a line for each number that differs by more than is allowed."""
    if abs(ours.cpu_s - theirs.cpu_s) > LARGEST_ERROR * theirs.cpu_s + TICKS_S:
        yield f"CPU time: {ours.cpu_s} s, and {theirs.cpu_s} s by GNU time"
    # GNU time's own tasks are switched, too.
    if not 0 <= ours.switches - theirs.switches <= MOST_OWN_SWITCHES:
        yield f"switches: {ours.switches}, and {theirs.switches} by GNU time"
    # Each missed switch hides a wait.
    missed = missed_by_perf(theirs, waits)
    largest = (workload.largest_error + 2.0 * missed) * theirs.waiting_s
    if missed <= MOST_MISSED and abs(ours.waiting_s - theirs.waiting_s) > largest:
        yield f"waiting: {ours.waiting_s} s, and {theirs.waiting_s} s by the events of perf"


def main(arguments: Sequence[str]) -> int:
    """Record and compare each workload; return 1 if a number is wrong, else 0."""
    argparse.ArgumentParser(prog="python -m bench.account", description=__doc__).parse_args(
        arguments
    )
    wrong = 0
    print(f"{'workload':18}{'CPU s':>9}{'time':>9}{'switches':>10}{'time':>9}"
          f"{'waiting s':>11}{'perf':>9}{'BPF':>9}{'missed by perf':>16}")  # fmt: skip
    for workload in WORKLOADS:
        with tempfile.TemporaryDirectory(prefix="schedperf-account-") as name:
            ours, theirs, bpf_s, waits = record(workload, Path(name))
        print(
            f"{workload.name:18}{ours.cpu_s:9.3f}{theirs.cpu_s:9.3f}{ours.switches:10.0f}"
            f"{theirs.switches:9.0f}{ours.waiting_s:11.3f}{theirs.waiting_s:9.3f}{bpf_s:9.3f}"
            f"{missed_by_perf(theirs, waits):16.2%}"
        )
        for problem in judge(workload, ours, theirs, waits):
            wrong += 1
            print(f"  WRONG: {problem}")
    print(f"{wrong} numbers differ by more than they may")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
