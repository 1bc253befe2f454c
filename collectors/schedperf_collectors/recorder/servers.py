# SPDX-License-Identifier: GPL-2.0-or-later
"""Find the server of the workload: ``--workload-pid``, ``--workload-unit``, ``--workload-cgroup``.

A server, e.g. a database or a virtual machine, was started before the recording. The collector
``account`` accounts for its tasks like for those of the command.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from schedperf_collectors.contract import ACCOUNT
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.machine.processes import Process, all_processes
from schedperf_collectors.machine.server_tasks import Server, to_options
from schedperf_collectors.machine.system import System
from schedperf_collectors.machine.value_files import ValueFiles
from schedperf_collectors.recorder.control_groups import cgroup_mounts

_PROCS = "cgroup.procs"
_ANSWER_LIMIT_S = 10.0


@dataclass(frozen=True)
class FoundServer:
    """A server that was found.

    :param text: what it is, the same in later recordings: "process postgres, unit redis.service"
    """

    server: Server
    text: str

    @property
    def settings(self) -> list[tuple[str, str, str]]:
        """Return settings of the collector that accounts for it: collector, name and value."""
        return [(ACCOUNT, name, value) for name, value in to_options(self.server).items()]


def find_server(options: argparse.Namespace) -> FoundServer | None:
    """Return the server that options name; None if they name none.

    :raises RecordError: there is no such process, unit or cgroup, or this recorder is in it
    """
    running = {process.pid: process for process in all_processes()}
    pids, texts = {}, []
    for pid in options.workload_pid:
        process = _find_process(pid, running)
        pids[pid] = process.began_ticks
        texts.append(f"process {_printable(process.name)}")
        _refuse_recorder(f"--workload-pid {pid}", Server({pid: process.began_ticks}, ()), running)
    cgroups = []
    for unit in options.workload_unit:
        cgroups.append(_find_unit(unit))
        texts.append(f"unit {unit}")
        _refuse_recorder(f"--workload-unit {unit}", Server({}, (cgroups[-1],)), running)
    for path in options.workload_cgroup:
        cgroups.append(_find_cgroup(path, f"--workload-cgroup {path}"))
        texts.append(f"cgroup {path}")
        _refuse_recorder(f"--workload-cgroup {path}", Server({}, (cgroups[-1],)), running)
    if not texts:
        return None
    return FoundServer(Server(pids, tuple(cgroups)), ", ".join(dict.fromkeys(texts)))


def _printable(name: str) -> str:
    return name if name.isprintable() else ascii(name)[1:-1]


def _find_process(pid: int, running: Mapping[int, Process]) -> Process:
    if pid not in running or running[pid].state == "Z":
        raise RecordError(
            f"--workload-pid {pid}: no such process; give the pid of the running server"
        )
    return running[pid]


def _refuse_recorder(option: str, server: Server, running: Mapping[int, Process]) -> None:
    """Reject a server without processes, and one that this recorder belongs to.

    :param option: option that names the server, for messages
    :raises RecordError: the server has no processes, or this recorder is one of them
    """
    pids = server.processes(ValueFiles(System()), running)
    if not pids:
        raise RecordError(f"{option}: no process in it; start the server first")
    if os.getpid() in pids:
        raise RecordError(
            f"{option}: this recorder is in it; give only the server's processes, or start "
            "schedperf elsewhere"
        )


def _find_unit(unit: str) -> str:
    """Return the directory of a systemd unit's cgroup.

    :raises RecordError: systemd does not run here, or the unit is not active
    """
    option = f"--workload-unit {unit}"
    command = ["systemctl", "show", "--property=ControlGroup", "--", unit]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_ANSWER_LIMIT_S,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        problem = type(error).__name__ if isinstance(error, subprocess.SubprocessError) else error
        raise RecordError(
            f"{option}: cannot ask systemd ({problem}); give --workload-cgroup instead"
        ) from error
    if done.returncode:
        lines = done.stderr.split("\n")
        raise RecordError(
            f"{option}: cannot ask systemd ({lines[0].strip()}); give --workload-cgroup instead"
        )
    path = done.stdout.strip().partition("=")[2]
    if not path:
        raise RecordError(
            f"{option}: no such unit, or it is not active; see `systemctl status {unit}`"
        )
    return _find_cgroup(path, option)


def _find_cgroup(path: str, option: str) -> str:
    """Return the directory of a cgroup.

    :param path: the directory, or the path as in /proc/PID/cgroup
    :raises RecordError: there is none
    """
    given = Path(path)
    folders = [given, *(mount.point / path.strip("/") for mount in cgroup_mounts())]
    found = [folder for folder in folders if (folder / _PROCS).is_file()]
    # A hierarchy of version 1 may have the group, but no process in it.
    used = next((folder for folder in found if _has_process(folder)), None)
    if used is None and not found:
        raise RecordError(
            f"{option}: no such cgroup (expected a directory, or a path as in /proc/PID/cgroup, "
            "e.g. /system.slice/postgresql.service)"
        )
    return str((used or found[0]).resolve())


def _has_process(folder: Path) -> bool:
    try:
        return any(path.read_text().strip() for path in folder.rglob(_PROCS))
    except OSError:
        return False
