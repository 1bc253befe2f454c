# SPDX-License-Identifier: GPL-2.0-or-later
"""``ab``: interleave two settings of a machine, one bundle each, and restore the machine."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.machine.signals import signals
from schedperf_collectors.recorder.bundle import BundleWriter, check_output
from schedperf_collectors.recorder.captures import HOST, Captured, Chosen, Staging
from schedperf_collectors.recorder.isolate import OK
from schedperf_collectors.recorder.plan import plan_ab
from schedperf_collectors.recorder.progress import Progress
from schedperf_collectors.recorder.record import default_label
from schedperf_collectors.recorder.session import Request, Session, Side, capture_boots, settle
from schedperf_collectors.recorder.settings import Machine, Setting, capture_host, restoring

# Load always differs, and missing values are not fields.
_NO_TREATMENT = ("state", "missing")


def ab(
    request: Request,
    settings: Sequence[Setting],
    chosen: Chosen,
    progress: Progress,
    *,
    force: bool,
) -> None:
    """Record both sides.

    :raises RecordError: recording could not start, or was stopped
    """
    if settings[0].path.absolute() == settings[1].path.absolute():
        raise RecordError(
            f"{settings[0].path}: given as the output of both sides; give two different files"
        )
    for setting in settings:
        check_output(setting.path, force=force)
    with signals, Staging() as staging, restoring(progress) as (machine, groups):
        usable, dropped, counts = settle(request, chosen, staging, progress)
        plan = plan_ab(request.points, counts, request.seed)
        session = Session(
            request,
            chosen=usable,
            dropped=dropped,
            sides=(sides := _open_sides(settings, request, machine)),
            staging=staging,
            progress=progress,
            note_cgroup=groups.note,
        )
        session.execute(plan, lambda: _prepare(session, sides))


def _open_sides(settings: Sequence[Setting], request: Request, machine: Machine) -> list[Side]:
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
            teardown=setting.teardown,
            environment=functools.partial(machine.with_setting, setting),
            treatment=request.vary,
        )
        sides.append(side)
    return sides


def _prepare(session: Session, sides: Sequence[Side]) -> None:
    """Capture host.json of each side with its setting applied, everything else once."""
    hosts = [capture_host(session, side) for side in sides]
    others = [collector.name for collector in session.chosen.boot if collector.name != HOST]
    shared = capture_boots(session, os.getpid(), others)
    treatment = _treatment(session, [host[0] for host in hosts])
    for side, host in zip(sides, hosts):
        side.treatment = treatment
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
