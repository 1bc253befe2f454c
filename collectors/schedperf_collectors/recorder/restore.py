"""Gives the machine back as it was: sysctls and control groups that a setup changed or made."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

SYSCTL_ROOTS = (Path("/proc/sys/kernel"), Path("/proc/sys/vm"))

# The kernel itself writes these, or reading them does something.
_SELF_MOVING = frozenset(
    {
        "/proc/sys/kernel/ns_last_pid",
        "/proc/sys/kernel/perf_event_max_sample_rate",
        "/proc/sys/kernel/tainted",
        "/proc/sys/vm/stat_refresh",
    }
)
_RANDOM = Path("/proc/sys/kernel/random")

# A killed workload's children are reaped by init, which may take a moment.
_EMPTY_WITHIN_S = 2.0
_LOOK_AGAIN_S = 0.02


def read_sysctls() -> dict[Path, bytes]:
    """Return all values below kernel/ and vm/ that this process can read and write."""
    values = {}
    for root in SYSCTL_ROOTS:
        for folder, _, names in os.walk(root):
            for name in names:
                path = Path(folder, name)
                if str(path) not in _SELF_MOVING and _RANDOM not in path.parents:
                    with contextlib.suppress(OSError):
                        if os.access(path, os.R_OK | os.W_OK):
                            values[path] = path.read_bytes()
    return values


def restore_sysctls(before: Mapping[Path, bytes]) -> list[str]:
    """Write back what has changed.

    :return: one line for each value that could not be restored
    """
    changed = _changed(before)
    for path in changed:
        # Some values are two views of one setting (dirty_ratio, dirty_bytes): writing
        # one restores both and the other one refuses. What counts is what is read then.
        with contextlib.suppress(OSError):
            path.write_bytes(before[path])
    return [
        f"{path}: could not be restored; set it to {_text(before[path])}"
        for path in _changed({path: before[path] for path in changed})
    ]


def _changed(before: Mapping[Path, bytes]) -> list[Path]:
    changed = []
    for path, value in before.items():
        try:
            now = path.read_bytes()
        except OSError:
            continue
        if now != value:
            changed.append(path)
    return changed


def _text(value: bytes) -> str:
    return repr(value.decode(errors="replace").strip())


@dataclass(frozen=True)
class CgroupMount:
    """Where a hierarchy of control groups is mounted.

    :param controllers: of a version 1 hierarchy; None for version 2
    :param root: the control group that lies at the mount point
    """

    controllers: frozenset[str] | None
    root: str
    point: Path


def cgroup_mounts() -> list[CgroupMount]:
    """Return the mounted hierarchies.

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
    """Return the folders of all control groups."""
    return {Path(folder) for mount in cgroup_mounts() for folder, _, _ in os.walk(mount.point)}


def cgroup_folders(lines: Collection[str]) -> set[Path]:
    """Return the folders that lines of /proc/PID/cgroup name.

    ``4:cpu,cpuacct:/a/b`` names a folder of a version 1 hierarchy, ``0::/a/b`` one of version 2.
    """
    fields = [line.split(":", 2)[1:] for line in lines]
    folders = {folder_on(mount, *field) for mount in cgroup_mounts() for field in fields}
    return {folder for folder in folders if folder is not None}


def folder_on(mount: CgroupMount, controllers: str, path: str) -> Path | None:
    """Return where a control group lies on a mount; None where it cannot be seen there."""
    if mount.controllers is None:
        fits = not controllers
    else:
        fits = bool(controllers) and frozenset(controllers.split(",")) <= mount.controllers
    root = mount.root.rstrip("/")
    # The kernel writes /.. for what lies outside our cgroup namespace.
    if not fits or ".." in path.split("/") or not (path + "/").startswith(root + "/"):
        return None
    return mount.point / path[len(root) :].strip("/")


def remove_new_cgroups(lines: Collection[str], before: Collection[Path]) -> list[str]:
    """Remove the control groups of the workload that a setup has made, the deepest first.

    :param lines: of the workloads' /proc/PID/cgroup
    :param before: those that existed before
    :return: one line for each that could not be removed
    """
    new = {
        folder
        for deepest in cgroup_folders(lines)
        for folder in (deepest, *deepest.parents)
        if folder not in before and (folder / "cgroup.procs").exists()
    }
    problems = []
    for folder in sorted(new, key=lambda path: len(path.parts), reverse=True):
        problem = _remove(folder)
        if problem:
            problems.append(f"{folder}: {problem}; remove this control group with rmdir")
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
