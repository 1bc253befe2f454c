# SPDX-License-Identifier: GPL-2.0-or-later
"""Record cpu.stat of the workload's cgroup, the groups below it, and groups with a bandwidth limit.

If the workload is in the root group, only the root and groups with a limit are recorded. A workload
may create groups and remove them before it ends. So groups are also searched while it runs, and the
last counters of those that may be removed are kept. The kernel reports new groups and, in version
2, groups whose last task exited; their counters are read at once. Groups of the same name are
distinguished by inode. At most :data:`MOST_GROUPS` groups are recorded.

The text has a section for each group::

    === /bench/one
    nr_periods 41
    nr_throttled 40
    …
    populated 1
    --- 25000 100000 0
    +++ 1234 8361123456789 new

The name is followed by cpu.stat as the kernel wrote it, then whether a task is in the group
(``populated`` of cgroup.events, read before cpu.stat; version 2 only), then the limit (quota,
period and burst in microseconds; ``max``: no limit; ``-``: unknown), then the inode, the monotonic
time of the read in nanoseconds, and whether the group is ``new`` since the first read or ``old``.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.directory_events import (
    IN_CREATE,
    IN_ISDIR,
    IN_MODIFY,
    IN_ONLYDIR,
    Inotify,
)
from schedperf_collectors.machine.kernel import cgroup_folder, cpu_cgroup
from schedperf_collectors.machine.system import System
from schedperf_collectors.machine.value_files import ABSENT, ValueFiles

# Groups of services and containers: some hundreds on a desktop, some thousands on a server.
MOST_WALKED = 4096
# Groups whose counters are kept.
MOST_GROUPS = 256
# Maximum depth; a systemd service in a container of a pod is at 8.
DEEPEST = 32

NO_LIMIT = "max"
# The kernel reports a change of this file.
EVENTS = "cgroup.events"
# A directory without subdirectories has two links; file systems that do not count links have one.
CHILDLESS_LINKS = 2
TOO_MANY = f"cgroups with a CPU quota beyond the first {MOST_GROUPS} are not recorded"


@dataclass(frozen=True)
class Hierarchy:
    """The cgroup hierarchy with the cpu controller.

    :param version: 1 or 2
    :param folder: directory of its root group
    :param own: path of the workload's group below ``folder``; "" for the root
    """

    version: int
    folder: str
    own: str


def find_hierarchy(system: System, pid: int) -> Hierarchy:
    """Return the hierarchy and group of a process.

    :raises Unavailable: there are no cgroups, they are not mounted, or their root has no cpu.stat
    """
    version, path = cpu_cgroup(system, pid)
    folder = cgroup_folder(system, version, "/")
    if not system.exists(f"{folder}/cpu.stat"):
        raise Unavailable(f"{folder}/cpu.stat does not exist, so cgroup throttling is not recorded")
    return Hierarchy(version, folder, cgroup_folder(system, version, path)[len(folder) :])


class ThrottledGroups:
    """The counters of cgroups, read before, during and after a run.

    Call :meth:`first_look` first, then optionally :meth:`watch_changes`.

    :ivar notes: what was not recorded and why, one line each
    """

    def __init__(self, system: System, hierarchy: Hierarchy) -> None:
        self.notes: set[str] = set()
        self._files = ValueFiles(system)
        self._root = str(system.root).rstrip("/") + hierarchy.folder
        self._hierarchy = hierarchy
        # Inode and number of links of each group; a group has one link for each child.
        self._known: dict[str, tuple[int, int]] = {}
        # The groups of the first look, by path and inode; None before it.
        self._old: frozenset[tuple[str, int]] | None = None
        # Groups that may no longer exist at the end: followed ones, and new ones.
        self._watched: set[str] = set()
        self._last: dict[tuple[str, int], bytes] = {}
        self._changes: Inotify | None = None
        # Directory and file of each watch: ("/job", "") for new groups, ("/job", EVENTS) for tasks.
        self._watches: dict[int, tuple[str, str]] = {}

    def watch_changes(self) -> bool:
        """Watch known and new groups; the caller then calls :meth:`handle` on changes.

        :return: whether the kernel can report changes
        """
        try:
            self._changes = Inotify()
        except OSError as error:
            self.notes.add(
                f"inotify failed ({error.strerror}), so cgroups that exist for less than 0.5 s "
                "may be missed"
            )
            return False
        for path in self._known:
            self._watch(path)
        return True

    def fileno(self) -> int:
        """Return the descriptor that is readable after a change; only while watching."""
        assert self._changes is not None
        return self._changes.fileno()

    def handle(self) -> None:
        """Find groups that were created; keep the counters of groups whose last task exited.

        Counters are kept only of groups that were recorded, or created since the first look.
        """
        assert self._changes is not None
        for event in self._changes.events():
            path, file = self._watches.get(event.watch, ("", None))
            if file == "" and event.mask & IN_CREATE and event.mask & IN_ISDIR:
                self._walk(f"{path}/{event.name}")
            elif file == EVENTS and event.mask & IN_MODIFY and path in self._watched:
                section = self._section(path)
                if section is not None:
                    self._keep(path, section)

    def close(self) -> None:
        """Stop watching."""
        if self._changes is not None:
            self._changes.close()
            self._changes = None

    def _watch(self, path: str) -> None:
        # A directory that was removed has lost its watches.
        assert self._changes is not None
        for file, mask in (("", IN_CREATE | IN_ONLYDIR), (EVENTS, IN_MODIFY)):
            if file and path not in self._watched:
                continue
            watch = self._changes.watch(f"{self._root}{path}/{file}", mask)
            if watch is not None:
                self._watches[watch] = (path, file)

    def first_look(self) -> bytes:
        """Find the groups before the run; return the text of the recorded ones."""
        self._walk("")
        if self._hierarchy.own not in self._known:
            self.notes.add(
                f"the workload's cgroup {self._hierarchy.own!r} is not in the mounted hierarchy"
            )
        self._old = frozenset((path, inode) for path, (inode, _) in self._known.items())
        return self._text()

    def look(self) -> None:
        """Find new groups, and keep the counters of groups that may be removed."""
        for path, before in list(self._known.items()):
            if self._identity(path) != before:
                self._walk(path)
        for path in sorted(self._watched):
            section = self._section(path)
            if section is not None:
                self._keep(path, section)

    def last_look(self) -> bytes:
        """Return the text of the recorded groups that exist now."""
        self._walk("")
        return self._text()

    def last_seen(self) -> bytes:
        """Return the text that :meth:`look` and :meth:`handle` kept: the last one of each group."""
        return b"".join(self._last.values())

    def _text(self) -> bytes:
        sections: list[bytes] = []
        for path in sorted(self._known, key=lambda path: (not self._is_own(path), path)):
            section = self._section(path)
            if section is None:
                continue
            if len(sections) == MOST_GROUPS:
                self.notes.add(TOO_MANY)
                break
            self._watched.add(path)
            sections.append(section)
        return b"".join(sections)

    def _keep(self, path: str, section: bytes) -> None:
        key = (path, self._known[path][0])
        if key in self._last or len(self._last) < MOST_GROUPS:
            self._last[key] = section
        else:
            self.notes.add(TOO_MANY)

    def _walk(self, top: str) -> None:
        """Add a group and those below it, top down; remove groups that no longer exist."""
        for path in [path for path in self._known if f"{path}/".startswith(f"{top}/")]:
            del self._known[path]
        level = [top]
        for _ in range(DEEPEST):
            level = [child for path in level for child in self._learn(path)]
        if level:
            self.notes.add(f"cgroups nested more than {DEEPEST} levels deep are not recorded")
        self._watched &= self._known.keys()

    def _learn(self, path: str) -> list[str]:
        """Add one group; return those directly below it."""
        identity = self._identity(path)
        if identity is None:
            return []
        if len(self._known) >= MOST_WALKED:
            self.notes.add(f"cgroups beyond the first {MOST_WALKED} are not recorded")
            return []
        self._known[path] = identity
        if self._old is not None and (path, identity[0]) not in self._old:
            self._watched.add(path)
        if self._changes is not None:
            self._watch(path)
        return [] if identity[1] == CHILDLESS_LINKS else self._children(path)

    def _children(self, path: str) -> list[str]:
        try:
            with os.scandir(self._root + path) as entries:
                folders = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return []
        return [f"{path}/{name}" for name in sorted(folders)]

    def _identity(self, path: str) -> tuple[int, int] | None:
        try:
            status = os.stat(self._root + path)  # noqa: PTH116 # a Path would double the time
        except OSError:
            return None
        return status.st_ino, status.st_nlink

    def _is_own(self, path: str) -> bool:
        # The root contains all groups, so for the root only its own counters are recorded.
        own = self._hierarchy.own
        return path == own or (own != "" and path.startswith(f"{own}/"))

    def _section(self, path: str) -> bytes | None:
        """Return the text of a group; None if it is not recorded or no longer exists."""
        folder = self._hierarchy.folder + path
        quota, period, burst = self._limit(folder)
        # Read first: version 2 sums the counters of all CPUs when cpu.stat is read.
        if not self._is_own(path) and quota in {None, NO_LIMIT}:
            return None
        populated = self._populated(folder)
        counted = self._files.value(f"{folder}/cpu.stat")
        if counted is None:
            return None
        inode = self._known[path][0]
        is_new = self._old is not None and (path, inode) not in self._old
        lines = (
            f"=== {path or '/'}",
            counted,
            *populated,
            "--- " + " ".join(value or ABSENT for value in (quota, period, burst)),
            f"+++ {inode} {time.monotonic_ns()} {'new' if is_new else 'old'}",
        )
        return ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")

    def _populated(self, folder: str) -> list[str]:
        """Return the line ``populated`` of cgroup.events; [] in version 1 and for the root."""
        events = self._files.value(f"{folder}/{EVENTS}") or ""
        return [line for line in events.splitlines() if line.startswith("populated ")]

    def _limit(self, folder: str) -> tuple[str | None, str | None, str | None]:
        """Return quota, period and burst in microseconds, as text; None if unknown.

        A quota of :data:`NO_LIMIT` means no limit.
        """
        if self._hierarchy.version == 1:
            quota = self._files.value(f"{folder}/cpu.cfs_quota_us")
            return (
                NO_LIMIT if quota == "-1" else quota,
                self._files.value(f"{folder}/cpu.cfs_period_us"),
                self._files.value(f"{folder}/cpu.cfs_burst_us"),
            )
        quota, _, period = (self._files.value(f"{folder}/cpu.max") or "").partition(" ")
        return quota or None, period or None, self._files.value(f"{folder}/cpu.max.burst")
