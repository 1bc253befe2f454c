# SPDX-License-Identifier: GPL-2.0-or-later
"""``ab``: interleave two settings of a machine, one bundle each, and restore the machine."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.machine.process import SetupFailed, reap, run_shell, start
from schedperf_collectors.machine.signals import signals
from schedperf_collectors.recorder.bundle import BundleWriter, check_output
from schedperf_collectors.recorder.captures import HOST, Captured, Staging, choose
from schedperf_collectors.recorder.isolate import OK
from schedperf_collectors.recorder.plan import plan_ab
from schedperf_collectors.recorder.progress import Progress
from schedperf_collectors.recorder.record import capture_boots, default_label
from schedperf_collectors.recorder.session import Request, Session, Side, settle

# A teardown undoes a setup; one that takes longer is stuck.
TEARDOWN_LIMIT_S = 60.0

# Load always differs, and missing values are not fields.
_NO_TREATMENT = ("state", "missing")
_SYSCTL_ROOTS = (Path("/proc/sys/kernel"), Path("/proc/sys/vm"))

# The kernel itself writes these, or reading them has side effects.
_SELF_MOVING = frozenset(
    {
        "/proc/sys/kernel/ns_last_pid",
        "/proc/sys/kernel/perf_event_max_sample_rate",
        "/proc/sys/kernel/tainted",
        "/proc/sys/vm/stat_refresh",
    }
)
_RANDOM = Path("/proc/sys/kernel/random")

# init reaps a killed workload's children, which may take a moment.
_EMPTY_WITHIN_S = 2.0
_LOOK_AGAIN_S = 0.02


@dataclass(frozen=True)
class Setting:
    """One side.

    :param setup: shell script that runs in the process that becomes the workload; "" for none
    :param teardown: shell script that runs after each run; "" for none
    """

    name: str
    path: Path
    label: str | None
    setup: str
    teardown: str


def ab(
    request: Request,
    settings: Sequence[Setting],
    collectors: Sequence[str],
    progress: Progress,
    *,
    force: bool,
) -> None:
    """Record both sides.

    :raises RecordError: recording could not start, or was stopped
    """
    chosen = choose(collectors)
    if settings[0].path.absolute() == settings[1].path.absolute():
        raise RecordError(
            f"{settings[0].path}: given as the output of both sides; give two different files"
        )
    for setting in settings:
        check_output(setting.path, force=force)
    with signals, Staging() as staging:
        usable, dropped, counts = settle(request, chosen, staging, progress)
        plan = plan_ab(request.points, counts, request.seed)
        sides = _open_sides(settings, request, progress)
        session = Session(
            request,
            chosen=usable,
            dropped=dropped,
            sides=sides,
            staging=staging,
            progress=progress,
        )
        cgroups_before = all_cgroups()
        try:
            session.execute(plan, lambda: _prepare(session, sides))
        finally:
            for problem in remove_new_cgroups(session.cgroups, cgroups_before):
                progress.warn(problem)


@contextlib.contextmanager
def in_force(setting: Setting, progress: Progress) -> Iterator[None]:
    """Restore the machine's settings at the end of the block."""
    before = read_sysctls()
    try:
        yield
    finally:
        if setting.teardown:
            problem = run_shell(setting.teardown, TEARDOWN_LIMIT_S)
            if problem is not None:
                progress.warn(
                    f"teardown of {setting.name} failed: {problem}; undo its setup by hand"
                )
        for line in restore_sysctls(before):
            progress.warn(line)


def _open_sides(settings: Sequence[Setting], request: Request, progress: Progress) -> list[Side]:
    sides: list[Side] = []
    for setting in settings:
        try:
            writer = BundleWriter(setting.path)
        except RecordError:
            for side in sides:
                side.writer.discard()
            raise
        side = Side(
            name=setting.name,
            writer=writer,
            label=setting.label or default_label(setting.path),
            setup=setting.setup,
            environment=functools.partial(in_force, setting, progress),
            treatment=request.vary,
        )
        sides.append(side)
    return sides


def _prepare(session: Session, sides: Sequence[Side]) -> None:
    """Capture host.json of each side with its setting applied, everything else once."""
    hosts = [_capture_host(session, side) for side in sides]
    others = [collector.name for collector in session.chosen.boot if collector.name != HOST]
    shared = capture_boots(session, os.getpid(), others)
    treatment = _treatment(session, [host[0] for host in hosts])
    for side, host in zip(sides, hosts):
        side.treatment = treatment
        session.store_boot(side, [*host, *shared])


def _capture_host(session: Session, side: Side) -> list[Captured]:
    """Capture host.json of a process that has run the side's setup."""
    log = session.staging.log()
    with side.environment():
        try:
            holder = start(["sleep", "86400"], log, log, side.setup, session.note_cgroup)
        except SetupFailed as error:
            raise SetupFailed(f"setup of {side.name} failed: {error}") from error
        try:
            return capture_boots(session, holder.pid, [HOST])
        finally:
            reap(holder)


def _treatment(session: Session, hosts: Sequence[Captured]) -> tuple[str, ...]:
    """Return the differences between the sides' host.json, and the paths the user gave."""
    allowed = session.request.vary
    if any(host.result.status != OK for host in hosts):
        session.progress.warn(
            "host.json is missing; only the fields named by --vary are recorded as differing"
        )
        return allowed
    base, new = (json.loads(host.files[0][1].read_bytes()) for host in hosts)
    for group in _NO_TREATMENT:
        base.pop(group, None)
        new.pop(group, None)
    return tuple(dict.fromkeys([*allowed, *differing_paths(base, new)]))


def differing_paths(base: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the dotted paths at which two JSON objects differ; lists count as one value.

    >>> differing_paths({"sched": {"hz": 250, "autogroup": 0}}, {"sched": {"hz": 250}})
    ['sched.autogroup']
    """
    paths = []
    for key in sorted({*base, *new}):
        base_value, new_value = base.get(key), new.get(key)
        if isinstance(base_value, dict) and isinstance(new_value, dict):
            paths += [f"{key}.{path}" for path in differing_paths(base_value, new_value)]
        elif base_value != new_value:
            paths.append(key)
    return paths


def read_sysctls() -> dict[Path, bytes]:
    """Return all values below kernel/ and vm/ that this process can read and write."""
    values = {}
    for root in _SYSCTL_ROOTS:
        for folder, _, names in os.walk(root):
            for name in names:
                path = Path(folder, name)
                if str(path) not in _SELF_MOVING and _RANDOM not in path.parents:
                    with contextlib.suppress(OSError):
                        if os.access(path, os.R_OK | os.W_OK):
                            values[path] = path.read_bytes()
    return values


def restore_sysctls(before: Mapping[Path, bytes]) -> list[str]:
    """Write back changed values.

    :return: one line for each value that could not be restored
    """
    changed = _changed(before)
    for path in changed:
        # Some values are two views of one setting (dirty_ratio, dirty_bytes): writing one restores
        # both, and the other write fails. The values read afterwards decide.
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
    """Return the directories of all control groups."""
    return {Path(folder) for mount in cgroup_mounts() for folder, _, _ in os.walk(mount.point)}


def cgroup_folders(lines: Collection[str]) -> set[Path]:
    """Return the directories of the control groups in /proc/PID/cgroup.

    ``4:cpu,cpuacct:/a/b`` is a directory of a version 1 hierarchy, ``0::/a/b`` one of version 2.
    """
    fields = [line.split(":", 2)[1:] for line in lines]
    folders = {folder_on(mount, *field) for mount in cgroup_mounts() for field in fields}
    return {folder for folder in folders if folder is not None}


def folder_on(mount: CgroupMount, controllers: str, path: str) -> Path | None:
    """Return the directory of a control group on a mount; None if it is not visible there."""
    if mount.controllers is None:
        fits = not controllers
    else:
        fits = bool(controllers) and frozenset(controllers.split(",")) <= mount.controllers
    root = mount.root.rstrip("/")
    # The kernel writes /.. for groups outside our cgroup namespace.
    if not fits or ".." in path.split("/") or not (path + "/").startswith(root + "/"):
        return None
    return mount.point / path[len(root) :].strip("/")


def remove_new_cgroups(lines: Collection[str], before: Collection[Path]) -> list[str]:
    """Remove the workloads' control groups that a setup created, the deepest first.

    :param lines: of the workloads' /proc/PID/cgroup
    :param before: control groups that existed before
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
