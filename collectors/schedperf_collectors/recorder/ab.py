# SPDX-License-Identifier: GPL-2.0-or-later
"""``ab``: interleave settings of a machine, one bundle each, and restore the machine."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.machine.signals import signals
from schedperf_collectors.recorder.bundle import Existing, check_output
from schedperf_collectors.recorder.captures import HOST, Captured, Chosen, Staging
from schedperf_collectors.recorder.isolate import OK
from schedperf_collectors.recorder.plan import plan_ab
from schedperf_collectors.recorder.progress import Progress
from schedperf_collectors.recorder.record import examine_for, open_side
from schedperf_collectors.recorder.session import (
    Request,
    Session,
    Side,
    capture_boots,
    read_boot_id,
    settle,
)
from schedperf_collectors.recorder.settings import Machine, Setting, capture_host, restoring
from schedperf_collectors.recorder.source import check_build

# Load always differs, and missing values are not fields.
_NO_TREATMENT = ("state", "missing")


def ab(
    request: Request,
    settings: Sequence[Setting],
    chosen: Chosen,
    progress: Progress,
    *,
    force: bool,
    append: bool,
) -> None:
    """Record all sides.

    :param append: add to the bundles that exist
    :raises RecordError: recording could not start, or was stopped
    """
    _check_paths(settings)
    existing = [
        _check(setting, request, progress, force=force, append=append) for setting in settings
    ]
    check_build(request.source)
    names = [str(setting.name) for setting in settings]
    with signals, Staging() as staging, restoring(progress) as (machine, groups):
        usable, dropped, counts = settle(request, chosen, staging, progress)
        plan = plan_ab(request.points, counts, request.seed, names)
        session = Session(
            request,
            chosen=usable,
            dropped=dropped,
            sides=(sides := _open_sides(settings, existing, request, machine)),
            staging=staging,
            progress=progress,
            note_cgroup=groups.note,
        )
        machine.note_bundles([side.writer.names.path for side in sides])
        session.execute(plan, lambda: _prepare(session, sides))


def _check_paths(settings: Sequence[Setting]) -> None:
    paths = [setting.path.absolute() for setting in settings]
    for path in paths:
        if paths.count(path) > 1:
            raise RecordError(f"{path}: given as the output of two sides; give different files")


def _check(
    setting: Setting, request: Request, progress: Progress, *, force: bool, append: bool
) -> Existing | None:
    """Return the bundle to add to; None for a new one."""
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
    """Capture host.json of each side with its setting applied, everything else once."""
    hosts = [capture_host(session, side) for side in sides]
    treatment = _treatment(session, [host[0] for host in hosts])
    begun = [(side, host) for side, host in zip(sides, hosts) if not side.has_boot(read_boot_id())]
    others = [collector.name for collector in session.chosen.boot if collector.name != HOST]
    shared = capture_boots(session, os.getpid(), others) if begun else []
    for side in sides:
        side.treatment = treatment
    for side, host in begun:
        session.store_boot(side, [*host, *shared])


def _treatment(session: Session, hosts: Sequence[Captured]) -> tuple[str, ...]:
    """Return the differences between the sides' host.json, and the paths the user gave."""
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
