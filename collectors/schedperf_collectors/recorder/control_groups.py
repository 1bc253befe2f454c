# SPDX-License-Identifier: GPL-2.0-or-later
"""Find the cgroups that setups create, and remove them at the end."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

# init reaps a killed workload's children, which may take a moment.
_EMPTY_WITHIN_S = 2.0
_LOOK_AGAIN_S = 0.02


@dataclass(frozen=True)
class CgroupMount:
    """A mount of a cgroup hierarchy.

    :param controllers: controllers of a version 1 hierarchy; None for version 2
    :param root: the cgroup at the mount point
    :param point: the mount point
    """

    controllers: frozenset[str] | None
    root: str
    point: Path


def cgroup_mounts() -> list[CgroupMount]:
    """Return the mounted cgroup hierarchies.

    Source: proc_pid_mountinfo(5): ``31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup none rw,cpu``.
    """
    mounts = []
    for line in Path("/proc/self/mountinfo").read_text(errors="replace").splitlines():
        left, _, right = line.partition(" - ")
        fields, (kind, _, options) = left.split(), right.split(None, 2)
        root, point = fields[3], Path(fields[4])
        if kind == "cgroup2":
            mounts.append(CgroupMount(None, root, point))
        elif kind == "cgroup":
            mounts.append(CgroupMount(frozenset(options.split(",")), root, point))
    return mounts


def all_cgroups() -> set[Path]:
    """Return the directories of all cgroups that are visible on a mount, of both versions."""
    return {Path(folder) for mount in cgroup_mounts() for folder, _, _ in os.walk(mount.point)}


def is_empty(folder: Path) -> bool:
    """Return whether a cgroup and its descendants have no processes; False if that is unknown."""
    try:
        return not any(path.read_text().strip() for path in folder.rglob("cgroup.procs"))
    except OSError:
        return False


def cgroup_folders(lines: Collection[str]) -> set[Path]:
    """Return the directories of the cgroups in /proc/PID/cgroup that are visible on a mount.

    ``4:cpu,cpuacct:/a/b`` is a directory of a version 1 hierarchy, ``0::/a/b`` one of version 2.

    :param lines: lines of /proc/PID/cgroup
    """
    fields = [line.split(":", 2)[1:] for line in lines]
    folders = {folder_on(mount, *field) for mount in cgroup_mounts() for field in fields}
    return {folder for folder in folders if folder is not None}


def folder_on(mount: CgroupMount, controllers: str, path: str) -> Path | None:
    """Return the directory of a cgroup on a mount.

    :param controllers: second field of a line of /proc/PID/cgroup: "cpu,cpuacct"; "" for version 2
    :param path: third field of that line
    :return: None if the cgroup is not visible there, or belongs to another hierarchy
    """
    if mount.controllers is None:
        fits = not controllers
    else:
        fits = bool(controllers) and frozenset(controllers.split(",")) <= mount.controllers
    root = mount.root.rstrip("/")
    # The kernel writes /.. for groups outside our cgroup namespace.
    if not fits or ".." in path.split("/") or not (path + "/").startswith(root + "/"):
        return None
    return mount.point / path[len(root) :].strip("/")


def new_cgroups(lines: Collection[str], before: Collection[Path]) -> list[Path]:
    """Return the cgroups of a process, and their ancestors, that did not exist before.

    :param lines: lines of its /proc/PID/cgroup
    :param before: directories of all cgroups that existed
    :return: directories, deepest first
    """
    new = {
        folder
        for deepest in cgroup_folders(lines)
        for folder in (deepest, *deepest.parents)
        if folder not in before and (folder / "cgroup.procs").exists()
    }
    return sorted(new, key=lambda path: len(path.parts), reverse=True)


def remove_cgroups(folders: Iterable[Path]) -> list[str]:
    """Remove cgroups, deepest first; wait for each until its processes are gone, at most 2 s.

    :return: one line for each that could not be removed
    """
    problems = []
    for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
        problem = _remove(folder)
        if problem:
            problems.append(f"{folder}: {problem}; remove this cgroup with rmdir")
    return problems


def _remove(folder: Path) -> str | None:
    deadline = time.monotonic() + _EMPTY_WITHIN_S
    while True:
        problem = _try_remove(folder)
        if problem is None or time.monotonic() > deadline:
            return problem
        time.sleep(_LOOK_AGAIN_S)


def _try_remove(folder: Path) -> str | None:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return None
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return None
