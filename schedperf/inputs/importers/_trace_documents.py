# SPDX-License-Identifier: GPL-2.0-or-later
"""Write what the tasks of a trace did as the files that collectors write (docs/bundle.md)."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping

from schedperf.inputs.importers._trace_events import EventReader
from schedperf.inputs.importers._trace_flow import SLEEP, Interval, Sums

NS_PER_S = 1e9
# Limits of the files: account.json lists few commands.
MOST_OTHERS, MOST_COMMANDS = 100, 1000
SWITCH, MIGRATE = "sched_switch", "sched_migrate_task"
WAKEUPS = ("sched_wakeup", "sched_waking")
# Traces of some tasks lack the switches of the others: 10% of the switches did not continue the one
# before, or 16% of the tasks never left their CPU. Of whole machines, it was up to 0.5% and 3%.
MOST_GAPS, MOST_STAYED = 0.02, 0.1


class Traced:
    """What a trace says of its tasks.

    :param lost: events that the kernel lost; None if unknown
    :ivar is_of_command: whether the sums are those of the command that the tracer started, not of
        all tasks
    :ivar sums: what these tasks did
    """

    def __init__(self, reader: EventReader, lost: int | None) -> None:
        self.lost = lost
        self._reader = reader
        self._flow = flow = reader.flow
        self.is_of_command = flow.command is not None and flow.command.name != SLEEP
        self.sums = flow.own
        if not self.is_of_command:
            self.sums = Sums()
            self.sums.merge(flow.own)
            self.sums.merge(flow.others)

    @property
    def seconds(self) -> float:
        """Time from the first event to the last, in s."""
        return self._reader.seconds

    @property
    def has_wakeups(self) -> bool:
        """Whether the trace has wakeups."""
        return any(self._reader.seen[name] for name in WAKEUPS)

    @property
    def is_partial(self) -> bool:
        """Whether the trace has the switches of some tasks only."""
        is_whole = bool(self.lost) or self._flow.never_left <= MOST_STAYED
        return not is_whole or self._flow.gaps > MOST_GAPS * self._reader.seen[SWITCH]

    @property
    def command(self) -> str | None:
        """Name of the command whose tasks these are; None for all tasks."""
        command = self._flow.command
        return command.name if command is not None and self.is_of_command else None

    @property
    def elapsed_s(self) -> float | None:
        """Time from the start of the command until its end; None if the trace has only a part."""
        command = self._flow.command
        if not self.is_of_command or command is None or command.end_ns is None:
            return None
        return max(0, command.end_ns - command.start_ns) / NS_PER_S

    @property
    def usage(self) -> Mapping[str, float]:
        """The resource usage of run.json, as far as the trace has it."""
        return {
            "cpu_s": self.sums.cpu_ns / NS_PER_S,
            "nvcsw": self.sums.voluntary,
            "nivcsw": self.sums.involuntary,
        }

    def captures(self) -> Iterator[tuple[str, bytes]]:
        """Yield name and content of each file."""
        if self.has_wakeups:
            documents = {
                "account/traced.json": self._account(),
                "bpf_account/waits.json": self._waits(),
                "bpf_blocking/blocking.json": self._blocking(),
                "wakeup_latency/wakeups.json": self._wakeups(),
            }
            for name, document in documents.items():
                yield name, (json.dumps(document) + "\n").encode()

    def counts(self) -> Iterator[tuple[str, int]]:
        """Yield what the trace lacks, each with its number."""
        flow = self._flow
        counts = {
            "events lost, with the time around them left out": self.lost or 0,
            "events left out, because their fields cannot be read": self._reader.unreadable,
            "context switches that lack the one before, with the time between left out": flow.gaps,
            "times below 0 that count as 0 (clocks of CPUs differ; record with `-C mono`)": (
                flow.reordered
            ),
            "tasks forgotten, because too many exist at once": flow.forgotten,
        }
        yield from ((what, count) for what, count in counts.items() if count)

    def notes(self) -> Iterator[str]:
        """Yield whose times the trace has, and what is unknown."""
        if self.lost is None:
            yield "unknown whether events were lost"
        if not self.has_wakeups:
            yield (
                "no wakeups are traced, so waiting and blocked times are unknown; record "
                "sched_wakeup, sched_wakeup_new and sched_waking, too"
            )
        elif not self._reader.seen["sched_wakeup"]:
            yield (
                "waits begin at sched_waking, because sched_wakeup is not traced; compare with "
                "traces of the same events"
            )
        if not self.is_of_command:
            yield (
                "the account is of all tasks without the tracer, per second, because the trace "
                "does not have the start of a command other than sleep"
            )
        elif self.elapsed_s is None:
            yield "the account is per second, because the trace does not have the command's end"
        else:
            yield "the tracer slows the command down; compare with traced runs only"

    def _wakeups(self) -> Mapping[str, object]:
        return {
            "schema": "schedperf/wakeup_latency/1",
            "mechanism": "trace",
            "seconds": self.seconds,
            "programs": {},
            "nodes": {},
            "rows": [
                waits.describe()
                for waits in sorted(
                    self._flow.waits.values(), key=lambda one: (one.command, one.cpu)
                )
            ],
            "lost": self._losses(),
            "notes": [],
        }

    def _losses(self) -> Mapping[str, int]:
        return {"events of the trace": self.lost} if self.lost else {}

    def _account(self) -> Mapping[str, object]:
        sums, others = self.sums, self._flow.others
        waiting_s = sums.waiting_ns / NS_PER_S
        cpu_s, blocked_s = sums.cpu_ns / NS_PER_S, sums.blocked.ns / NS_PER_S
        top = Counter(dict(others.cpu_of)).most_common(MOST_OTHERS)
        return {
            "schema": "schedperf/traced_account/1",
            "exits": None,
            # A trace needs no messages about ended tasks.
            "lost": 0,
            "left_out": 0,
            "unresolved": 0,
            "tasks": sums.ended,
            "lifetime_s": cpu_s + waiting_s + blocked_s,
            "exec_s": cpu_s,
            "waiting_s": waiting_s,
            "recorder_cpu_s": self._flow.tracer.cpu_ns / NS_PER_S,
            **({"others_cpu_s": others.cpu_ns / NS_PER_S} if self.is_of_command else {}),
            "others": [
                {"command": name, "cpu_s": ns / NS_PER_S} for name, ns in top
            ] if self.is_of_command else [],
            "commands": list(sums.commands)[:MOST_COMMANDS],
            "server": None,
        }  # fmt: skip

    def _waits(self) -> Mapping[str, object]:
        sums, flow = self.sums, self._flow
        # If tasks run on several CPUs, they were moved, and the event is not traced.
        knows_moves = bool(self._reader.seen[MIGRATE]) or not flow.moved
        return {
            "schema": "schedperf/bpf_account/1",
            "seconds": self.seconds,
            "tasks": sums.tasks,
            "left_out": flow.forgotten,
            "unfinished": sums.tasks - sums.ended,
            "missed": flow.missed + flow.gaps,
            "migrations": sums.migrations if knows_moves else None,
            "parts": {
                "woken": _interval(sums.waits["woken"]),
                "preempted": _interval(sums.waits["preempted"]),
                "yielded": None,
                "throttled": None,
                "io": None,
                "other": _interval(sums.blocked),
            },
        }

    def _blocking(self) -> Mapping[str, object]:
        return {
            "schema": "schedperf/bpf_blocking/1",
            "seconds": self.seconds,
            "programs": {},
            "frames": [],
            "stacks": [],
            "rows": [
                {
                    "kernel": None, "user": None, "call": None, "who": who, "state": state,
                    "count": pauses.count, "ns": pauses.ns, "max_ns": pauses.max_ns,
                    "bins": sorted(pauses.bins.items()), "runnable_ns": pauses.runnable_ns,
                    "slice_left_ns": None,
                }
                for (state, who), pauses in sorted(
                    self.sums.pauses.items(), key=lambda item: (item[0][0], item[0][1] or "")
                )
            ],
            "least_ns": 0,
            "shorter": {"count": 0, "ns": 0},
            "lost": self._losses(),
            "notes": [],
        }  # fmt: skip


def _interval(interval: Interval) -> Mapping[str, object]:
    return {"seconds": interval.ns / NS_PER_S, "count": interval.count}
