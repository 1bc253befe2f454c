# SPDX-License-Identifier: GPL-2.0-or-later
"""``record``: record the runs of one side into a new bundle, or add them to one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from schedperf_collectors.contract import format_template, point_key
from schedperf_collectors.machine.signals import signals
from schedperf_collectors.recorder.bundle import (
    BundleWriter,
    Existing,
    check_no_partial,
    check_output,
    examine,
)
from schedperf_collectors.recorder.captures import (
    Captured,
    Chosen,
    Staging,
    capture_boot,
    check_named,
)
from schedperf_collectors.recorder.looks import Looks
from schedperf_collectors.recorder.plan import plan_record
from schedperf_collectors.recorder.progress import Progress, say_missing
from schedperf_collectors.recorder.session import (
    Request,
    Session,
    Side,
    read_boot_id,
    settle,
)


@dataclass(frozen=True)
class Target:
    """The bundle to write.

    :param append: add to the existing bundle
    :param force: replace an existing file
    :param label: None: the file's name, or the existing label
    """

    path: Path
    append: bool
    force: bool
    label: str | None


def record(
    request: Request,
    target: Target,
    chosen: Chosen,
    progress: Progress,
    looks: Looks | None = None,
) -> None:
    """Record runs of one side.

    :param looks: looks that may end the recording; None: make all runs
    :raises RecordError: recording could not start, or was stopped
    """
    existing = _check_target(target, request, progress)
    with signals, Staging() as staging:
        if looks is not None:
            looks.begin(
                workload=format_template(request.template),
                points=[point_key(dict(point)) for point in request.points],
                metric=request.metrics,
            )
        usable, dropped, counts = settle(request, chosen, staging, progress)
        plan = plan_record(request.points, counts, request.seed)
        side = _open_side(request, target, existing)
        session = Session(
            request,
            chosen=usable,
            dropped=dropped,
            sides=[side],
            staging=staging,
            progress=progress,
            looks=looks,
        )

        def prepare() -> None:
            if existing is None or read_boot_id() not in existing.boots:
                session.store_boot(side, capture_boots(session, os.getpid()))
            if looks is not None:
                looks.check_host(side.writer.names.partial, request.vary)

        session.execute(plan, prepare)


def capture_boots(session: Session, pid: int, names: Sequence[str] | None = None) -> list[Captured]:
    """Run the collectors of scope "boot".

    :param pid: a process in the workload's cgroup and with its CPU mask
    :param names: only these collectors
    :raises CannotCapture: a collector that the user named did not work
    """
    captures = []
    for collector in session.chosen.boot:
        if names is None or collector.name in names:
            session.progress.note(f"capturing {collector.name}")
            captured = capture_boot(collector, session.staging, pid, session.request.options)
            check_named(session.chosen, captured)
            say_missing(captured, session.progress)
            captures.append(captured)
    return captures


def default_label(path: Path) -> str:
    """Return a side's default label: the bundle's name without its suffix."""
    return path.name.partition(".tar")[0]


def _check_target(target: Target, request: Request, progress: Progress) -> Existing | None:
    if target.append:
        check_no_partial(target.path)
        existing = examine(target.path)
        _check_workload(existing, format_template(request.template), progress)
        _check_conditions(existing, progress)
        return existing
    check_output(target.path, force=target.force)
    return None


def _check_workload(existing: Existing, workload: str, progress: Progress) -> None:
    recorded = existing.manifest["workload"]
    if recorded and workload not in recorded:
        commands = ", ".join(f"`{command}`" for command in recorded)
        progress.warn(
            f"{existing.path} has runs of {commands}; runs of `{workload}` are added as another "
            "workload"
        )


def _check_conditions(existing: Existing, progress: Progress) -> None:
    """Warn if runs of another kernel, or without the setup, would be added to a side."""
    uname = os.uname()
    running = f"{uname.release} {uname.version}"
    if existing.kernels and running not in existing.kernels:
        progress.warn(
            f"{existing.path} has runs of kernel {', '.join(existing.kernels)}; runs of kernel "
            f"{running} are added to the same side; use -o FILE for another side"
        )
    if existing.manifest.get("setup"):
        progress.warn(
            f"{existing.path} was recorded by `ab` with a setup, which `record` does not apply; "
            "use `ab` again for runs with it"
        )


def _open_side(request: Request, target: Target, existing: Existing | None) -> Side:
    label = target.label or default_label(target.path)
    boot_number, next_run = existing.place(read_boot_id()) if existing else (0, 0)
    return Side(
        name=None,
        writer=BundleWriter(target.path, existing),
        label=str(existing.manifest.get("label", label)) if existing else label,
        boot_number=boot_number,
        next_run=next_run,
        existing=existing,
        treatment=request.vary,
    )
