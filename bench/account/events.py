# SPDX-License-Identifier: GPL-2.0-or-later
"""Add up how long a command's tasks waited for a CPU, from the scheduler's events of perf."""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

EVENTS = ("sched_switch", "sched_wakeup", "sched_wakeup_new", "sched_process_fork")

_SAMPLE = re.compile(r"\s*(\d+)\.(\d{9}):\s+sched:(\w+):\s(.*)")
_FORKED = re.compile(r".* pid=(\d+) child_comm=.* child_pid=(\d+)")
_WOKEN = re.compile(r".* pid=(\d+) prio=")
_SWITCHED = re.compile(
    r".*prev_comm=(?P<from>.*) prev_pid=(?P<leaving>\d+) prev_prio=-?\d+ prev_state=(?P<state>\S+)"
    r" ==> next_comm=(?P<to>.*) next_pid=(?P<coming>\d+)"
)


class Event(NamedTuple):
    """One event.

    :param first: the parent of a new task, the task that leaves a CPU, or the one that is woken
    :param second: the new task, or the one that comes to the CPU; 0 for a wakeup
    :param is_runnable: of a switch, whether the task that leaves goes on waiting for a CPU
    """

    name: str
    ns: int
    first: int
    second: int = 0
    is_runnable: bool = False


def record_beside_events(bundle: Path, collectors: str, command: Sequence[str]) -> str:
    """Record a command once with collectors, beside a recording of the scheduler's events by perf.

    :param bundle: to be written; perf's file is written beside it
    :return: the events, as :func:`read_events` reads them
    :raises subprocess.CalledProcessError: the recording or perf fails
    """
    trace = bundle.with_name("perf.data")
    events = [word for event in EVENTS for word in ("-e", f"sched:{event}")]
    recorder = [
        *(sys.executable, "-m", "schedperf", "record", "-o", str(bundle)),
        *("-n", "1", "--instrumented", "1", "--warmup", "0", "--with", collectors),
        *("--", *command),
    ]
    perf = ["perf", "record", "-q", "-a", "-m", "4096", *events, "-o", str(trace), "--", *recorder]
    subprocess.run(perf, stdout=sys.stderr, check=True)
    script = ["perf", "script", "--ns", "-F", "time,event,trace", "-i", str(trace)]
    return subprocess.run(script, stdout=subprocess.PIPE, check=True).stdout.decode()


def read_events(script: str) -> Iterator[Event]:
    """Yield the events of ``perf script --ns -F time,event,trace``."""
    for sample in filter(None, map(_SAMPLE.match, script.splitlines())):
        now_ns, name, text = int(sample[1]) * 10**9 + int(sample[2]), sample[3], f" {sample[4]}"
        if forked := _FORKED.match(text):
            yield Event(name, now_ns, int(forked[1]), int(forked[2]))
        elif switched := _SWITCHED.match(text):
            leaving, state, coming = switched.group("leaving", "state", "coming")
            yield Event(name, now_ns, int(leaving), int(coming), state.startswith("R"))
        elif woken := _WOKEN.match(text):
            yield Event(name, now_ns, int(woken[1]))


def find_processes(script: str, command: str) -> list[int]:
    """Return the pids of the processes with a name, in the order in which they ran first.

    A child has its parent's name until it executes its own program, so children are left out.
    """
    found = re.findall(rf"next_comm={re.escape(command)} next_pid=(\d+)", script)
    pids = dict.fromkeys(map(int, found))
    children = {
        event.second
        for event in read_events(script)
        if event.name == "sched_process_fork" and event.first in pids
    }
    return [pid for pid in pids if pid not in children]


class Waits(NamedTuple):
    """The waits of a command's tasks.

    :param seconds: their sum
    :param switches: switches to them that perf saw
    """

    seconds: float
    switches: int


def add_up_waits(script: str, parent: int) -> Waits:
    """Add up how long the descendants of a process waited for a CPU.

    The end of a wait is unknown if the switch to the task was missed; such a wait is left out.

    :param script: as for :func:`read_events`; the events of the whole machine
    :param parent: pid of the process, whose own waits are left out
    """
    own: set[int] = set()
    since: dict[int, int] = {}
    waited_ns = switches = 0
    for event in read_events(script):
        if event.name == "sched_process_fork":
            if event.first in own or event.first == parent:
                own.add(event.second)
        elif event.name != "sched_switch":
            if event.first in own:
                since.setdefault(event.first, event.ns)
        else:
            if event.first in own:
                since.pop(event.first, None)
                if event.is_runnable:
                    since[event.first] = event.ns
            if event.second in own:
                switches += 1
                waited_ns += event.ns - since.pop(event.second, event.ns)
    return Waits(waited_ns / 1e9, switches)
