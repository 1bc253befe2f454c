"""``ab``: two settings of one machine, their runs interleaved, one bundle each."""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
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
from schedperf_collectors.recorder.restore import (
    all_cgroups,
    read_sysctls,
    remove_new_cgroups,
    restore_sysctls,
)
from schedperf_collectors.recorder.session import Request, Session, Side
from schedperf_collectors.recorder.settle import settle

# A teardown undoes what a setup did; one that takes longer waits for something that will not come.
TEARDOWN_LIMIT_S = 60.0

# It moves all the time, and missing values have no path of their own.
_NO_TREATMENT = ("state", "missing")


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

    :raises RecordError: it could not begin, or what stopped it
    """
    chosen = choose(collectors)
    if settings[0].path.absolute() == settings[1].path.absolute():
        raise RecordError(f"{settings[0].path}: both sides cannot be one file; name two")
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
    """Restore the machine at the end, whatever happens."""
    before = read_sysctls()
    try:
        yield
    finally:
        if setting.teardown:
            problem = run_shell(setting.teardown, TEARDOWN_LIMIT_S)
            if problem is not None:
                progress.warn(f"teardown of {setting.name}: {problem}; undo its setup by hand")
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
    """Capture each side's host.json with its setting in force, everything else once."""
    hosts = [_capture_host(session, side) for side in sides]
    others = [one.name for one in session.chosen.boot if one.name != HOST]
    shared = capture_boots(session, os.getpid(), others)
    treatment = _treatment(session, [host[0] for host in hosts])
    for side, host in zip(sides, hosts):
        side.treatment = treatment
        session.store_boot(side, [*host, *shared])


def _capture_host(session: Session, side: Side) -> list[Captured]:
    """Capture host.json around a process that has gone through the side's setup."""
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
    """Return what differs between the sides' host.json, and what the user named."""
    told = session.request.vary
    if any(host.result.status != OK for host in hosts):
        session.progress.warn("without host.json the treatment is what --vary says only")
        return told
    base, new = (json.loads(host.files[0][1].read_bytes()) for host in hosts)
    for group in _NO_TREATMENT:
        base.pop(group, None)
        new.pop(group, None)
    return tuple(dict.fromkeys([*told, *differing_paths(base, new)]))


def differing_paths(base: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the dotted paths of what differs between two JSON objects; lists count as one value.

    >>> differing_paths({"sched": {"hz": 250, "autogroup": 0}}, {"sched": {"hz": 250}})
    ['sched.autogroup']
    """
    paths = []
    for key in sorted({*base, *new}):
        one, other = base.get(key), new.get(key)
        if isinstance(one, dict) and isinstance(other, dict):
            paths += [f"{key}.{path}" for path in differing_paths(one, other)]
        elif one != other:
            paths.append(key)
    return paths
