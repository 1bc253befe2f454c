# SPDX-License-Identifier: GPL-2.0-or-later
"""Record the state of sched_ext around each run; discard runs whose scheduler was ejected.

A BPF scheduler (sched_ext, since v6.12) schedules tasks while its program runs. If it misbehaves,
the kernel ejects it and the fair class takes over, which the workload does not notice. So a run is
valid only if the same scheduler, or none, was loaded from its begin to its end.

``sched_ext.json`` has the files below /sys/kernel/sched_ext; a file that does not exist is null.
Without ``root/ops`` (``ops``), no scheduler is loaded; without any file, the kernel has no
sched_ext::

    {"schema": "schedperf/sched_ext/1",
     "before": {"state": "enabled", "enable_seq": "3", "ops": "lavd_1.0.20", "switch_all": "1",
                "nr_rejected": "0", "hotplug_seq": "2"},
     "after": {…}}
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePath

from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.machine.system import System, or_none
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, collector

SCHEMA = "schedperf/sched_ext/1"
FOLDER = "/sys/kernel/sched_ext"
ENABLED = "enabled"
DISABLED = "disabled"
# Schedulers of the sched_ext project have such names: scx_lavd, scx_rusty, scx_simple.
PREFIX = "scx_"
# The name of a scheduler has at most 127 characters (SCX_OPS_NAME_LEN), a number 20.
MOST_CHARACTERS = 128
# The output of the project's schedulers at exit, in C (UEI_REPORT) and in Rust: the kernel's
# reason, and its message in parentheses.
_EXIT = re.compile(r"\bEXIT: (?P<reason>[^\n]{1,400})")

_NO_SCHED_EXT = (
    f"schedulers in BPF (no {FOLDER}; boot a kernel >= 6.12 with CONFIG_SCHED_CLASS_EXT=y)"
)


@dataclass(frozen=True)
class State:
    """The files of sched_ext, as text without white space around it.

    The value of a file that does not exist or cannot be read is None.

    :param state: "enabled", "disabled", "enabling" or "disabling"
    :param enable_seq: number of schedulers loaded since boot
    :param ops: name of the loaded scheduler
    :param switch_all: "1" if all tasks are switched to it, not only those of SCHED_EXT
    :param nr_rejected: tasks that the scheduler refused
    :param hotplug_seq: how often CPUs went offline or online
    """

    state: str | None = None
    enable_seq: str | None = None
    ops: str | None = None
    switch_all: str | None = None
    nr_rejected: str | None = None
    hotplug_seq: str | None = None

    @property
    def scheduler(self) -> tuple[str | None, str | None, str | None]:
        """Return a key that changes if another scheduler, or the same one again, was loaded."""
        return self.state, self.enable_seq, self.ops

    def say(self) -> str:
        """Return the enabled scheduler's name, else the state, else "none", for a message."""
        return (self.ops if self.state == ENABLED else None) or self.state or "none"


def read_state(system: System) -> State:
    """Read the files of sched_ext."""

    def read(name: str) -> str | None:
        text = or_none(lambda: system.text(f"{FOLDER}/{name}"))
        return None if text is None else text[:MOST_CHARACTERS]

    return State(
        state=read("state"),
        enable_seq=read("enable_seq"),
        ops=read("root/ops"),
        switch_all=read("switch_all"),
        nr_rejected=read("nr_rejected"),
        hotplug_seq=read("hotplug_seq"),
    )


class SchedulerWatch:
    """Wait for the scheduler of a service; discard the run if the scheduler changed.

    :param command: command of the service, () without one; a program named scx_… is a scheduler
    :param options: ``service``: whether the service is a scheduler, "yes" or "no", which overrides
        its name
    :param system: None for this machine
    :ivar awaits: see :class:`Watch`; None unless the service is a scheduler
    :raises RecordError: an option is invalid, or the kernel cannot load the scheduler
    """

    def __init__(
        self, command: Sequence[str], options: Mapping[str, str], system: System | None = None
    ) -> None:
        self._system = system or System()
        self._program = PurePath(command[0]).name if command else ""
        declared = options.get("service")
        if declared not in (None, "yes", "no"):
            # If it is not recognised as a scheduler, its ejection would go unnoticed.
            raise RecordError(
                f"--set sched_ext.service: invalid value {declared!r} (expected yes or no)"
            )
        by_name = "yes" if self._program.startswith(PREFIX) else "no"
        is_scheduler = bool(command) and (declared or by_name) == "yes"
        self.awaits = "sched_ext to be enabled" if is_scheduler else None
        self._start = self._ready = self._before = self._after = read_state(self._system)
        if is_scheduler and self._start == State():
            raise RecordError(f"--service {command[0]}: this kernel cannot load {_NO_SCHED_EXT}")

    def is_ready(self) -> bool:
        """Return whether a scheduler was loaded since this watch was created.

        Return True if the service is not a scheduler.
        """
        if self.awaits is not None:
            self._ready = read_state(self._system)
            is_new = self._ready.enable_seq != self._start.enable_seq
            return self._ready.state == ENABLED and is_new
        return True

    def begin(self) -> None:
        """Read the state before the workload."""
        self._before = read_state(self._system)

    def end(self) -> None:
        """Read the state after the workload."""
        self._after = read_state(self._system)

    def is_over(self) -> bool:
        """Return whether no scheduler is loaded; True if the service is not a scheduler."""
        return self.awaits is None or read_state(self._system).state == DISABLED

    def why_discard(self, output: str) -> str | None:
        """Return how the scheduler changed, as a clause; None if it did not change.

        The scheduler of a service must not change after :meth:`is_ready`, any other during the run.

        :param output: output of the service, which may contain the reason
        """
        if self.awaits is not None and self._after.scheduler != self._ready.scheduler:
            return f"{self._program} was ejected ({exit_reason(output) or self._describe_change()})"
        if self._before.scheduler != self._after.scheduler:
            return (
                f"another program changed the scheduler during the run ({self._describe_change()})"
            )
        return None

    def _describe_change(self) -> str:
        before = self._before if self.awaits is None else self._ready
        seqs = before.enable_seq, self._after.enable_seq
        loads = f", enable_seq {seqs[0]} -> {seqs[1]}" if seqs[0] != seqs[1] else ""
        return f"sched_ext: {before.say()} -> {self._after.say()}{loads}"


def exit_reason(output: str) -> str | None:
    """Return why the kernel ejected a scheduler, from the scheduler's output; None if unknown.

    The first reason counts, because a scheduler may load itself again and later exit normally.

    >>> exit_reason("lavd started\\nEXIT: runnable task stall (make[7] failed to run for 30.1s)\\n")
    'runnable task stall (make[7] failed to run for 30.1s)'
    """
    match = _EXIT.search(output)
    return None if match is None else match["reason"].strip() or None


@collector(
    scope="run",
    cost="two reads of six small files of sysfs, 0.4 kB",
    watch=SchedulerWatch,
    options=("service",),
)
def sched_ext(capture: Capture) -> Generator[str, None, str | None]:
    """Read state, name and counters of the loaded sched_ext scheduler."""
    return capture_sched_ext(System(), capture)


def capture_sched_ext(system: System, capture: Capture) -> Generator[str, None, str | None]:
    """Implement :func:`sched_ext` for any system.

    :return: a hint if the kernel has no sched_ext, else None
    """
    yield PREPARED
    before = read_state(system)
    yield BEGUN
    record = {"schema": SCHEMA, "before": asdict(before), "after": asdict(read_state(system))}
    (capture.folder / "sched_ext.json").write_text(json.dumps(record) + "\n")
    return _NO_SCHED_EXT if before == State() else None
