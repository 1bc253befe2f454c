# SPDX-License-Identifier: GPL-2.0-or-later
"""Find out which children of the recorder are its collectors, and which one runs the setup."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from schedperf_collectors.machine.processes import Process
from schedperf_collectors.machine.system import System
from schedperf_collectors.machine.value_files import ValueFiles


@dataclass(frozen=True)
class OwnChildren:
    """The children of the recorder right before the command.

    :param collectors: pids of the collectors
    :param setup: the setup's process, which becomes the command; None without a setup
    """

    collectors: frozenset[int]
    setup: Process | None


def find_own_children(
    system: System, processes: Iterable[Process], recorder: int, earlier: Collection[int]
) -> OwnChildren:
    """Return the recorder's collectors and the setup's process.

    :param processes: all processes
    :param recorder: pid of the recorder
    :param earlier: children of the recorder that existed before the setup, e.g. a service
    """
    files = ValueFiles(system)
    # Collectors are copies of the recorder; a program that it executes has its own command line.
    own = files.value(f"/proc/{recorder}/cmdline")
    children = [each for each in processes if each.parent == recorder]
    collectors = {each.pid for each in children if files.value(f"/proc/{each.pid}/cmdline") == own}
    # Orphans of the setup began after its process, which leads a process group.
    begun = [
        each
        for each in children
        if each.pid not in collectors and each.pid not in earlier and each.pid == each.group
    ]
    setup = min(begun, key=lambda each: each.began_ticks, default=None)
    return OwnChildren(frozenset(collectors), setup)
