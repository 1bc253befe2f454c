# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare where tasks wait with the scheduler's events of perf: ``python -m bench.where``.

Each workload is recorded twice, as root, with the collector ``bpf_preemption`` and with
``bpf_blocking``, below GNU time, beside a recording of the scheduler's events by perf. With both
at once, the pauses of one contain the stack walks of the other. Number and time of preemptions and
of blocked times must be those computed from the events; exits with status 1 otherwise.

On some machines, perf gets no events from the idle task of a CPU, so that the ends of pauses are
missing: the task has left its CPU twice, and has not arrived between. Such pauses are counted, but
have no length, and the sums are then not compared.
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
# The programs of one tracepoint run one after the other, and read the clock when they run.
BETWEEN_CLOCKS_S = 0.5e-6
KINDS = ("preemption", "blocking")
WORKLOADS = (
    "perf bench sched messaging -g 2 -l 300",
    "perf bench sched pipe -l 20000",
    "taskset -c 0 sh -c 'timeout 2 yes >/dev/null & timeout 2 yes >/dev/null; wait'",
)


class Pauses(NamedTuple):
    """Pauses of one kind, with their sum in s.

    :param endless: those among them whose end is not known; they are not in the sum
    """

    number: int
    seconds: float
    endless: int = 0


def add_up_pauses(script: str, root: int, *, preempted: bool) -> Pauses:
    """Add up the pauses of a process and of its descendants.

    :param preempted: those of runnable tasks; otherwise those of blocked ones
    :param script: ``perf script --ns -F time,event,trace``; the events of the whole machine
    """
    own = {root}
    left: dict[int, int] = {}
    ns: list[int] = []
    endless = 0
    for event in read_events(script):
        if event.name == "sched_process_fork" and event.first in own:
            own.add(event.second)
        elif event.name == "sched_switch":
            began = left.pop(event.second, None)
            if began is not None:
                ns.append(event.ns - began)
            endless += left.pop(event.first, None) is not None
            if event.first in own and event.is_runnable == preempted:
                left[event.first] = event.ns
    return Pauses(len(ns) + endless, sum(ns) / 1e9, endless)


def record(command: str, kind: str, folder: Path) -> tuple[Pauses, Pauses]:
    """Record a workload; return the pauses of the collector, and those of perf's events.

    :raises subprocess.CalledProcessError: the recording or perf fails
    """
    bundle = folder / "a.tar"
    timed = ["/usr/bin/time", "-o", "/dev/null", "sh", "-c", command]
    text = record_beside_events(bundle, f"bpf_{kind}", timed)
    number, ours = read(bundle, kind)
    root = find_processes(text, "time")[number]
    return ours, add_up_pauses(text, root, preempted=kind == "preemption")


def read(bundle: Path, kind: str) -> tuple[int, Pauses]:
    """Return the number and the pauses of the instrumented run of a bundle."""
    with tarfile.open(bundle) as members:
        [name] = [each for each in members.getnames() if each.endswith(f"/{kind}.json")]
        file = members.extractfile(name)
        assert file is not None
        pauses = add_up_rows(json.load(file))
    return int(Path(name).parts[-3]), pauses


def add_up_rows(document: Mapping[str, Any]) -> Pauses:
    """Return the sum of the rows of a document and of its shorter pauses."""
    rows = [*document["rows"], document["shorter"]]
    return Pauses(sum(row["count"] for row in rows), sum(row["ns"] for row in rows) / 1e9)


def judge(ours: Pauses, theirs: Pauses) -> Iterator[str]:
    """Yield a line for each number that differs by more than is allowed."""
    if abs(ours.number - theirs.number) > LARGEST_ERROR * theirs.number + MOST_AT_EDGES:
        yield f"{ours.number} times, and {theirs.number} by the events of perf"
    # A pause at the edges may be as long as the mean.
    edge_s = MOST_AT_EDGES * theirs.seconds / theirs.number if theirs.number else 0.0
    allowed_s = LARGEST_ERROR * theirs.seconds + edge_s + BETWEEN_CLOCKS_S * theirs.number
    if abs(ours.seconds - theirs.seconds) > allowed_s and has_ends(theirs):
        yield f"{ours.seconds:.4f} s, and {theirs.seconds:.4f} s by the events of perf"


def has_ends(theirs: Pauses) -> bool:
    """Return whether the ends of all pauses are known, except at the edges."""
    return theirs.endless <= MOST_AT_EDGES


def main(arguments: Sequence[str]) -> int:
    """Record and compare each workload; return 1 if a number is wrong, else 0."""
    argparse.ArgumentParser(prog="python -m bench.where", description=__doc__).parse_args(arguments)
    wrong = 0
    print(f"{'kind':10}{'times':>9}{'perf':>9}{'seconds':>11}{'perf':>11}")
    for command in WORKLOADS:
        print(command)
        for kind in KINDS:
            with tempfile.TemporaryDirectory(prefix="schedperf-where-") as name:
                ours, theirs = record(command, kind, Path(name))
            print(
                f"{kind:10}{ours.number:9}{theirs.number:9}{ours.seconds:11.4f}{theirs.seconds:11.4f}"
            )
            for problem in judge(ours, theirs):
                wrong += 1
                print(f"  WRONG: {problem}")
            if not has_ends(theirs):
                print(f"  perf lacks the ends of {theirs.endless} pauses: seconds not compared")
    print(f"{wrong} numbers differ by more than they may")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
