# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare where tasks wait with the scheduler's events of perf: ``python -m bench.where``.

Each workload is recorded once, as root, with the collectors ``bpf_preemption`` and
``bpf_blocking``, below GNU time, beside a recording of the scheduler's events by perf. The numbers
and times of preemptions and of blocked times must be those computed from the events; exits with
status 1 otherwise.
"""

import argparse
import json
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.account.events import find_processes, read_events, record_beside_events

# Relative difference that is allowed, and number of pauses at the edges of the recordings: the
# collectors begin and end one after the other.
LARGEST_ERROR, MOST_AT_EDGES = 0.01, 10
WORKLOADS = (
    "perf bench sched messaging -g 2 -l 300",
    "perf bench sched pipe -l 20000",
    "taskset -c 0 sh -c 'timeout 2 yes >/dev/null & timeout 2 yes >/dev/null; wait'",
)


class Pauses(NamedTuple):
    """Pauses of one kind, with their sum in s."""

    number: int
    seconds: float


class Found(NamedTuple):
    """The pauses of a workload's tasks."""

    preempted: Pauses
    blocked: Pauses


def add_up_pauses(script: str, root: int) -> Found:
    """Add up the pauses of a process and of its descendants.

    :param script: ``perf script --ns -F time,event,trace``; the events of the whole machine
    """
    own = {root}
    left: dict[int, tuple[int, bool]] = {}
    ns: dict[bool, list[int]] = {True: [], False: []}
    for event in read_events(script):
        if event.name == "sched_process_fork" and event.first in own:
            own.add(event.second)
        elif event.name == "sched_switch":
            began = left.pop(event.second, None)
            if began is not None:
                ns[began[1]].append(event.ns - began[0])
            if event.first in own:
                left[event.first] = event.ns, event.is_runnable
    return Found(*(Pauses(len(ns[kind]), sum(ns[kind]) / 1e9) for kind in (True, False)))


def record(command: str, folder: Path) -> tuple[Found, Found]:
    """Record a workload; return the pauses of the collectors, and those of perf's events.

    :raises subprocess.CalledProcessError: the recording or perf fails
    """
    bundle = folder / "a.tar"
    timed = ["/usr/bin/time", "-o", "/dev/null", "sh", "-c", command]
    text = record_beside_events(bundle, "bpf_preemption,bpf_blocking", timed)
    number, ours = read(bundle)
    return ours, add_up_pauses(text, find_processes(text, "time")[number])


def read(bundle: Path) -> tuple[int, Found]:
    """Return the number and the pauses of the instrumented run of a bundle."""
    with tarfile.open(bundle) as members:
        names = members.getnames()
        [place] = {name.split("/bpf_")[0] for name in names if "/bpf_" in name}
        parts = []
        for name in ("bpf_preemption/preemption.json", "bpf_blocking/blocking.json"):
            file = members.extractfile(f"{place}/{name}")
            assert file is not None
            parts.append(add_up_rows(json.load(file)))
    return int(place.rpartition("/")[2]), Found(*parts)


def add_up_rows(document: Mapping[str, Any]) -> Pauses:
    """Return the sum of the rows of a document and of its shorter pauses."""
    rows = [*document["rows"], document["shorter"]]
    return Pauses(sum(row["count"] for row in rows), sum(row["ns"] for row in rows) / 1e9)


def judge(ours: Found, theirs: Found) -> Iterator[str]:
    """Yield a line for each number that differs by more than is allowed."""
    for name, our, their in zip(Found._fields, ours, theirs, strict=True):
        if abs(our.number - their.number) > LARGEST_ERROR * their.number + MOST_AT_EDGES:
            yield f"{name}: {our.number} times, and {their.number} by the events of perf"
        # A pause at the edges may be as long as the mean.
        edge_s = MOST_AT_EDGES * their.seconds / their.number if their.number else 0.0
        if abs(our.seconds - their.seconds) > LARGEST_ERROR * their.seconds + edge_s:
            yield f"{name}: {our.seconds:.4f} s, and {their.seconds:.4f} s by the events of perf"


def main(arguments: Sequence[str]) -> int:
    """Record and compare each workload; return 1 if a number is wrong, else 0."""
    argparse.ArgumentParser(prog="python -m bench.where", description=__doc__).parse_args(arguments)
    wrong = 0
    print(f"{'kind':10}{'times':>9}{'perf':>9}{'seconds':>11}{'perf':>11}")
    for command in WORKLOADS:
        with tempfile.TemporaryDirectory(prefix="schedperf-where-") as name:
            ours, theirs = record(command, Path(name))
        print(command)
        for kind, our, their in zip(Found._fields, ours, theirs, strict=True):
            print(
                f"{kind:10}{our.number:9}{their.number:9}{our.seconds:11.4f}{their.seconds:11.4f}"
            )
        for problem in judge(ours, theirs):
            wrong += 1
            print(f"  WRONG: {problem}")
    print(f"{wrong} numbers differ by more than they may")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
