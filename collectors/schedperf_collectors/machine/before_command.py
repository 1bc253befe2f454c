# SPDX-License-Identifier: GPL-2.0-or-later
"""The machine right before the command of a run: which processes are not the workload's.

A process that exists then is not the workload's, except that of the setup, which becomes the
command.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from schedperf_collectors.machine.own_children import find_own_children
from schedperf_collectors.machine.processes import (
    Process,
    all_processes,
    parse_schedstat,
    since_boot_us,
)
from schedperf_collectors.machine.system import System
from schedperf_collectors.machine.value_files import ValueFiles


@dataclass(frozen=True)
class Setup:
    """What the setup's process, which becomes the command, had used before the command."""

    process: Process
    lifetime_us: int
    exec_ns: int
    waiting_ns: int


@dataclass(frozen=True)
class Before:
    """The machine right before the command.

    :param listing_us: when the listing of the processes began, since boot
    :param since_us: when it had ended, on the monotonic clock
    :param processes: all processes, by pid
    :param collectors: pids of the recorder's collectors
    :param setup: the setup's process; None without a setup
    """

    listing_us: int
    since_us: int
    processes: Mapping[int, Process]
    collectors: frozenset[int]
    setup: Setup | None

    @classmethod
    def now(cls, system: System, recorder: int, earlier: Collection[int]) -> Before:
        """Return the current state.

        :param earlier: children of the recorder that existed before the setup, e.g. a service
        """
        listing_us = since_boot_us()
        processes = processes_by_pid(system)
        children = find_own_children(system, processes.values(), recorder, earlier)
        first = children.setup
        setup = None if first is None else _read_setup(ValueFiles(system), first)
        since_us = time.monotonic_ns() // 1000
        return cls(listing_us, since_us, processes, children.collectors, setup)

    @property
    def outside(self) -> frozenset[int]:
        """Return the pids of the processes that are not the workload's."""
        setup = set() if self.setup is None else {self.setup.process.pid}
        return frozenset(self.processes.keys() - setup)


def processes_by_pid(system: System) -> dict[int, Process]:
    """Return the current processes of a machine."""
    return {process.pid: process for process in all_processes(system.path("/proc"))}


def children_of(system: System, parent: int) -> frozenset[int]:
    """Return the pids of the current children of a process."""
    processes = processes_by_pid(system).values()
    return frozenset(each.pid for each in processes if each.parent == parent)


def find_setup(system: System, recorder: int, earlier: Collection[int]) -> Process | None:
    """Return the setup's process, which becomes the command; None without a setup.

    :param earlier: children of the recorder that existed before the setup, e.g. a service
    """
    processes = processes_by_pid(system).values()
    return find_own_children(system, processes, recorder, earlier).setup


def _read_setup(files: ValueFiles, process: Process) -> Setup:
    lifetime_us = since_boot_us() - process.began_us
    times = parse_schedstat(files.value(f"/proc/{process.pid}/schedstat") or "0 0 0")
    return Setup(process, lifetime_us, times.exec_ns, times.waiting_ns)
