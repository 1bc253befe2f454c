# SPDX-License-Identifier: GPL-2.0-or-later
"""Find the places of ``ab --probe session``: this shell's cgroup and root, autogroup on and off.

Autogroup is a setting of the machine, and only tasks in the root cgroup are in an autogroup
(task_wants_autogroup, kernel/sched/autogroup.c). The kernel decides in which task group a process
is when it starts, and when it moves to another cgroup of the cpu controller; a setup runs in a
process that exists already. So setups move their process after they have set autogroup. In a
session that is not necessary, because autogroup has no effect there.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.kernel import cgroup_folder, cpu_cgroup
from schedperf_collectors.machine.system import System

AUTOGROUP = "/proc/sys/kernel/sched_autogroup_enabled"
NAMESPACE = "/proc/self/ns/cgroup"
# PROC_CGROUP_INIT_INO, include/linux/proc_ns.h.
INITIAL_NAMESPACE = 0xEFFFFFFB

_AS_ROOT = "run as root, e.g. with sudo"


@dataclass(frozen=True)
class Place:
    """One place.

    :param name: name of its side
    :param setup: shell command that moves its process there; "" for none
    """

    name: str
    setup: str


@dataclass(frozen=True)
class Places:
    """The places of one probe.

    :param tried: the place of this shell first
    :param not_tried: a line for each place that is missing: what, why, and what to do
    """

    tried: tuple[Place, ...]
    not_tried: tuple[str, ...]


@dataclass(frozen=True)
class _Groups:
    """The cgroups of the cpu controller.

    :param path: that of this shell
    :param effective: that in which the scheduler sees its tasks: the controller may be disabled in
        the deeper ones of version 2
    :param root: directory of the root cgroup
    """

    version: int
    path: str
    effective: str
    root: str

    @property
    def in_session(self) -> bool:
        return self.effective != "/"


def find_session_places(system: System | None = None, pid: int | None = None) -> Places:
    """Return where a command can run: session and root cgroup, each with autogroup on and off.

    :param system: None for this machine
    :param pid: process whose cgroup is that of the session; None for this process
    """
    system = system or System()
    try:
        groups = _read_groups(system, os.getpid() if pid is None else pid)
    except Unavailable as error:
        reason = f"the root cgroup, and autogroup on and off: {error.reason}"
        return Places((Place("session", ""),), (reason,))
    why_no_root = _why_no_root(system, groups)
    why_no_autogroup = _why_no_autogroup(system, groups, why_no_root)
    not_tried = []
    if not groups.in_session:
        not_tried.append(f"the user's session: {_why_no_session(groups)}")
    elif why_no_root:
        not_tried.append(f"the root cgroup: {why_no_root}")
    if why_no_autogroup:
        not_tried.append(f"autogroup on and off: {why_no_autogroup}")
    values = (None,) if why_no_autogroup else _values(system)
    moves = list(_moves(groups, has_root=not why_no_root, is_switched=not why_no_autogroup))
    return Places(
        tuple(_place(name, value, move) for name, move in moves for value in values),
        tuple(not_tried),
    )


def _read_groups(system: System, pid: int) -> _Groups:
    version, path = cpu_cgroup(system, pid)
    effective = PurePosixPath(path)
    if version != 1:
        # A cgroup has the controller if its parent passes it on (cgroup-v2.rst).
        while str(effective) != "/" and not _has_cpu(system, str(effective), "cgroup.controllers"):
            effective = effective.parent
    return _Groups(version, path, str(effective), cgroup_folder(system, version, "/"))


def _has_cpu(system: System, path: str, name: str) -> bool:
    try:
        return "cpu" in system.text(f"{cgroup_folder(system, 2, path)}/{name}").split()
    except Unavailable:
        return False


def _why_no_session(groups: _Groups) -> str:
    if groups.path == "/":
        return "this shell runs in the root cgroup (log in as the user, and run the command there)"
    return (
        f"the cpu controller is not enabled in {groups.path}, so for the scheduler its tasks are "
        "in the root cgroup"
    )


def _why_no_root(system: System, groups: _Groups) -> str | None:
    """Return why a process cannot be moved to the root cgroup; None if it can."""
    if _is_container(system):
        return "this is a container, whose root cgroup is not that of the machine (run outside)"
    procs = f"{groups.root}/cgroup.procs"
    return None if _is_writable(system, procs) else f"{procs}: not writable ({_AS_ROOT})"


def _is_container(system: System) -> bool:
    try:
        return system.path(NAMESPACE).stat().st_ino != INITIAL_NAMESPACE
    except OSError:
        # Linux before 4.6 has no namespaces of cgroups.
        return False


def _is_writable(system: System, name: str) -> bool:
    return os.access(system.path(name), os.W_OK)


def _why_no_autogroup(system: System, groups: _Groups, why_no_root: str | None) -> str | None:
    """Return why autogroup cannot be switched for a command; None if it can."""
    if not system.exists(AUTOGROUP):
        return f"no {AUTOGROUP} (boot a kernel with CONFIG_SCHED_AUTOGROUP=y)"
    if not _is_writable(system, AUTOGROUP):
        return f"{AUTOGROUP}: not writable ({_AS_ROOT})"
    if groups.in_session:
        return None
    if why_no_root is None and groups.version != 1:
        control = f"{groups.root}/cgroup.subtree_control"
        if not _has_cpu(system, "/", "cgroup.subtree_control"):
            return f"the cpu controller is not enabled in {control} (run `echo +cpu > {control}`)"
    return why_no_root


def _values(system: System) -> tuple[str, str]:
    return ("0", "1") if system.text(AUTOGROUP) == "0" else ("1", "0")


def _moves(groups: _Groups, *, has_root: bool, is_switched: bool) -> Iterator[tuple[str, str]]:
    """Yield the cgroups, and for each the shell command that moves the setup's process there."""
    root = shlex.quote(groups.root)
    into_root = f"echo $$ > {root}/cgroup.procs"
    if groups.in_session:
        yield "session", ""
        if has_root:
            yield "root", into_root
    elif is_switched:
        other = f"{root}/schedperf-probe-$$"
        yield (
            "root",
            f"mkdir {other}; echo $$ > {other}/cgroup.procs; {into_root}; rmdir {other}",
        )
    else:
        yield "root", ""


def _place(name: str, value: str | None, move: str) -> Place:
    if value is None:
        return Place(name, move)
    word = {"0": "noautogroup", "1": "autogroup"}[value]
    switch = f"echo {value} > {AUTOGROUP}"
    return Place(f"{name}-{word}", f"{switch}; {move}" if move else switch)
