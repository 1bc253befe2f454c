# SPDX-License-Identifier: GPL-2.0-or-later
"""Run ``record``: record the runs of one side into a new or an existing bundle."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from schedperf_collectors.contract import format_template, point_key, read_boot_id
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.machine.signals import signals
from schedperf_collectors.recorder.analysis import Analysis
from schedperf_collectors.recorder.bundle import (
    BundleWriter,
    Existing,
    bundle_mode,
    check_no_partial,
    check_output,
    examine,
)
from schedperf_collectors.recorder.captures import (
    HOST,
    Captured,
    Chosen,
    Staging,
)
from schedperf_collectors.recorder.looks import Looks
from schedperf_collectors.recorder.plan import plan_record
from schedperf_collectors.recorder.progress import Progress
from schedperf_collectors.recorder.request import Request, Side
from schedperf_collectors.recorder.service import Service
from schedperf_collectors.recorder.session import Session, capture_boots, settle
from schedperf_collectors.recorder.settings import Setting, capture_host, restoring
from schedperf_collectors.recorder.source import agree, agree_facts, check_build

_SUFFIX = re.compile(r"\.tar(\.[a-z0-9]+)?\Z")


@dataclass(frozen=True)
class Target:
    """The bundle to write.

    :param append: whether to add to the existing bundle
    :param force: whether to replace an existing file
    :param label: label of the side; None for the file's name. An existing bundle keeps its label
    :param setup: shell command that runs in the process that becomes the workload; "" for none
    :param teardown: shell command that runs after each run; "" for none
    :param service: program that runs during each run; None without one
    """

    path: Path
    append: bool
    force: bool
    label: str | None
    setup: str = ""
    teardown: str = ""
    service: Service | None = None

    @property
    def setting(self) -> Setting:
        """Return the setting of the side."""
        return Setting(None, self.path, self.label, self.setup, self.teardown, self.service)


def record(
    request: Request,
    target: Target,
    chosen: Chosen,
    progress: Progress,
    looks: Looks | None = None,
    *,
    analysis: Analysis | None = None,
) -> None:
    """Record runs of one side.

    :param looks: interim analyses that may end the recording; None to make all runs
    :param analysis: checks the first run; None to skip the check
    :raises RecordError: recording could not start, or was stopped
    """
    existing = _check_target(target, request, progress)
    check_build(request.source)
    with signals, Staging() as staging, contextlib.ExitStack() as at_end:
        if looks is not None:
            looks.begin(
                workload=format_template(request.template),
                points=[point_key(dict(point)) for point in request.points],
                metric=request.metrics,
            )
        usable, dropped, counts = settle(request, chosen, staging, progress)
        plan = plan_record(request.points, counts, request.seed)
        side = open_side(request, target.path, target.label, existing)
        side.service = target.service
        session = Session(
            request,
            chosen=usable,
            dropped=dropped,
            sides=[side],
            staging=staging,
            progress=progress,
            looks=looks,
            analysis=analysis,
        )
        if target.setup or target.teardown:
            machine, groups = at_end.enter_context(restoring(progress, [target.setting]))
            session.note_cgroup = groups.note
            side.setup = target.setting.setup or None
            side.teardown = target.teardown
            side.environment = functools.partial(machine.with_setting, target.setting)

        def prepare() -> None:
            captured = side.captured(read_boot_id())
            names = [each.name for each in session.chosen.boot if each.name not in captured]
            if names:
                session.store_boot(side, _capture_boots(session, side, names))
            if looks is not None:
                looks.check_host(side.writer.names.partial, request.vary, read_boot_id())

        session.execute(plan, prepare)


def _capture_boots(session: Session, side: Side, names: Sequence[str]) -> list[Captured]:
    if HOST not in names or (side.setup is None and side.service is None):
        return capture_boots(session, os.getpid(), names)
    # host.json describes a process that has run the setup, while the service runs.
    others = [name for name in names if name != HOST]
    return [*capture_host(session, side), *capture_boots(session, os.getpid(), others)]


def default_label(path: Path) -> str:
    """Return a side's default label: the bundle's name without its suffix.

    >>> default_label(Path("out/my.tarball.tar.xz"))
    'my.tarball'
    """
    return _SUFFIX.sub("", path.name)


def _check_target(target: Target, request: Request, progress: Progress) -> Existing | None:
    if target.append:
        return examine_for(target.path, request, target.setting, progress)
    check_output(target.path, force=target.force)
    return None


def examine_for(path: Path, request: Request, setting: Setting, progress: Progress) -> Existing:
    """Check the bundle to which runs of this machine will be added; see :func:`examine_same`.

    Also warn if it was recorded with another kernel, setup or service.
    """
    existing = examine_same(path, request, progress)
    _check_conditions(existing, setting, progress)
    return existing


def examine_same(path: Path, request: Request, progress: Progress) -> Existing:
    """Check the bundle to which runs will be added; warn if it has another workload.

    :raises RecordError: runs cannot be added to it: it is not a readable bundle, another recording
        writes to it, or it was recorded with another source, machine, load or server
    """
    check_no_partial(path)
    existing = examine(path)
    agree(path, "--source", existing.manifest.get("source"), request.source)
    agree(path, "--machine", existing.manifest.get("machine"), request.machine)
    agree_facts(path, existing.manifest.get("facts"), request.facts)
    _check_load(existing, request.load)
    _check_server(existing, request.server)
    _check_workload(existing, format_template(request.template), progress)
    return existing


def _check_load(existing: Existing, load: str | None) -> None:
    recorded = existing.manifest.get("load")
    if recorded != load:
        option = f"give --with-load {shlex.quote(recorded)}" if recorded else "omit --with-load"
        raise RecordError(
            f"{existing.path}: recorded {'beside another' if recorded else 'without a'} load; "
            f"{option}, or use -o FILE for another side"
        )


def _check_server(existing: Existing, server: str | None) -> None:
    recorded = existing.manifest.get("server")
    if recorded != server:
        what = f"with the tasks of a server ({recorded})" if recorded else "without a server"
        option = "give" if recorded else "omit"
        raise RecordError(
            f"{existing.path}: recorded {what}; {option} --workload-pid, --workload-unit or "
            "--workload-cgroup, or use -o FILE for another side"
        )


def _check_workload(existing: Existing, workload: str, progress: Progress) -> None:
    recorded = existing.manifest["workload"]
    if recorded and workload not in recorded:
        commands = ", ".join(f"`{command}`" for command in recorded)
        progress.warn(
            f"{existing.path} has runs of {commands}; runs of `{workload}` are added as another "
            "workload"
        )


def _check_conditions(existing: Existing, setting: Setting, progress: Progress) -> None:
    """Warn if runs of another kernel, setup or service would be added to a side."""
    uname = os.uname()
    running = f"{uname.release} {uname.version}"
    kernels = {f"{each.release} {each.version}".strip(): None for each in existing.kernels}
    if kernels and running not in kernels:
        progress.warn(
            f"{existing.path} has runs of kernel {', '.join(kernels)}; runs of kernel "
            f"{running} are added to the same side; use -o FILE for another side"
        )
    service = setting.service.command if setting.service else ""
    for name, given in (("setup", setting.setup), ("service", service)):
        recorded = existing.manifest.get(name) or ""
        if recorded != given:
            progress.warn(
                f"{existing.path} was recorded with {'another' if recorded else 'no'} {name}; make "
                f"--{name} match that recording, or use -o FILE for another side"
            )


def open_side(request: Request, path: Path, label: str | None, existing: Existing | None) -> Side:
    """Begin to write the bundle of a side.

    :param label: label of the side; None for the file's name. An existing bundle keeps its label
    :param existing: the bundle to add to; None for a new one
    :raises RecordError: it cannot be written
    """
    name = label or default_label(path)
    boot_number, next_run = existing.place(read_boot_id()) if existing else (0, 0)
    return Side(
        name=None,
        writer=BundleWriter(path, existing, mode=bundle_mode(shareable=request.shareable)),
        label=str(existing.manifest.get("label", name)) if existing else name,
        boot_number=boot_number,
        next_run=next_run,
        existing=existing,
        treatment=request.vary,
    )
