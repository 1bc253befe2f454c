# SPDX-License-Identifier: GPL-2.0-or-later
"""``ab``: interleave settings of a machine, one bundle each, and restore the machine."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from schedperf_collectors.contract import read_boot_id
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.machine.signals import signals
from schedperf_collectors.recorder.analysis import Analysis
from schedperf_collectors.recorder.bundle import Existing, check_output
from schedperf_collectors.recorder.captures import HOST, Captured, Chosen, Staging
from schedperf_collectors.recorder.isolate import OK
from schedperf_collectors.recorder.looks import Looks
from schedperf_collectors.recorder.plan import plan_ab
from schedperf_collectors.recorder.progress import Progress
from schedperf_collectors.recorder.record import examine_for, open_side
from schedperf_collectors.recorder.request import Request, Side
from schedperf_collectors.recorder.session import Session, capture_boots, settle
from schedperf_collectors.recorder.settings import Machine, Setting, capture_host, restoring
from schedperf_collectors.recorder.source import check_build

# Load always differs; a missing value is not a field.
_NO_TREATMENT = ("state", "missing")


def ab(
    request: Request,
    settings: Sequence[Setting],
    chosen: Chosen,
    progress: Progress,
    looks: Looks | None = None,
    *,
    force: bool,
    append: bool,
    analysis: Analysis | None = None,
) -> None:
    """Record all sides.

    :param looks: interim analyses that may end the recording; None to make all rounds
    :param force: whether to replace existing files
    :param append: whether to add to those bundles that exist; the others are new
    :param analysis: checks the first run; None to skip the check
    :raises RecordError: recording could not start, or was stopped
    """
    _check_paths(settings)
    existing = [
        _check(setting, request, progress, force=force, append=append) for setting in settings
    ]
    check_build(request.source)
    names = [str(setting.name) for setting in settings]
    with signals, Staging() as staging, restoring(progress, settings) as (machine, groups):
        usable, dropped, counts = settle(request, chosen, staging, progress)
        plan = plan_ab(request.points, counts, request.seed, names)
        session = Session(
            request,
            chosen=usable,
            dropped=dropped,
            sides=(sides := _open_sides(settings, existing, request, machine)),
            staging=staging,
            progress=progress,
            looks=looks,
            note_cgroup=groups.note,
            analysis=analysis,
        )
        if looks is not None:
            looks.between([side.writer.names.partial for side in sides])
        session.execute(plan, lambda: _prepare(session, sides))


def _check_paths(settings: Sequence[Setting]) -> None:
    paths = [setting.path.absolute() for setting in settings]
    for path in paths:
        if paths.count(path) > 1:
            raise RecordError(f"{path}: given as the output of two sides; give different files")


def _check(
    setting: Setting, request: Request, progress: Progress, *, force: bool, append: bool
) -> Existing | None:
    """Return the bundle to add to; None for a new one.

    :raises RecordError: a new bundle cannot be written, or runs cannot be added to the existing one
    """
    if not (append and setting.path.exists()):
        check_output(setting.path, force=force)
        return None
    return examine_for(setting.path, request, setting, progress)


def _open_sides(
    settings: Sequence[Setting],
    existing: Sequence[Existing | None],
    request: Request,
    machine: Machine,
) -> list[Side]:
    sides: list[Side] = []
    for setting, bundle in zip(settings, existing):
        try:
            side = open_side(request, setting.path, setting.label, bundle)
        except RecordError:
            for opened in sides:
                opened.writer.discard()
            raise
        side.name = setting.name
        side.setup = setting.setup
        side.teardown = setting.teardown
        side.service = setting.service
        if setting.level is not None:
            side.factors = {"setting": setting.level}
        side.environment = functools.partial(machine.with_setting, setting)
        sides.append(side)
    return sides


def _prepare(session: Session, sides: Sequence[Side]) -> None:
    """Capture host.json of each side with its setting applied; capture everything else once.

    The captures are stored in bundles that have none of this boot. The treatment of all sides is
    set.
    """
    hosts = [capture_host(session, side) for side in sides]
    treatment = _treatment(session, [host[0] for host in hosts])
    boot_id = read_boot_id()
    names = [collector.name for collector in session.chosen.boot]
    missing = [[name for name in names if name not in side.captured(boot_id)] for side in sides]
    others = [name for name in names if name != HOST and any(name in each for each in missing)]
    shared = capture_boots(session, os.getpid(), others) if others else []
    for side in sides:
        side.treatment = treatment
    for side, host, lacking in zip(sides, hosts, missing):
        captures = [each for each in shared if each.collector.name in lacking]
        if lacking:
            session.store_boot(side, [*(host if HOST in lacking else ()), *captures])


def _treatment(session: Session, hosts: Sequence[Captured]) -> tuple[str, ...]:
    """Return the paths of host.json that the user gave, then those that differ between the sides.

    If a host.json is missing, warn, and return only the former.
    """
    allowed = session.request.vary
    if any(host.result.status != OK for host in hosts):
        session.progress.warn(
            "host.json is missing; only the fields named by --vary are recorded as expected "
            "differences"
        )
        return allowed
    base, *others = (json.loads(host.files[0][1].read_bytes()) for host in hosts)
    for fields in (base, *others):
        for group in _NO_TREATMENT:
            fields.pop(group, None)
    differing = (path for other in others for path in differing_paths(base, other))
    return tuple(dict.fromkeys([*allowed, *differing]))


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
