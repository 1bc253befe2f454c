# SPDX-License-Identifier: GPL-2.0-or-later
"""``ab``: interleave two settings of a machine, one bundle each, and restore the machine."""

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
from schedperf_collectors.machine.orphans import Moment, end_orphans
from schedperf_collectors.machine.process import SetupFailed, reap, run_shell, start
from schedperf_collectors.machine.signals import signals
from schedperf_collectors.recorder.bundle import BundleWriter, check_output
from schedperf_collectors.recorder.captures import HOST, Captured, Chosen, Staging
from schedperf_collectors.recorder.control_groups import all_cgroups, new_cgroups, remove_cgroups
from schedperf_collectors.recorder.isolate import OK
from schedperf_collectors.recorder.journal import Journal, journal_folder
from schedperf_collectors.recorder.plan import plan_ab
from schedperf_collectors.recorder.progress import Progress
from schedperf_collectors.recorder.record import capture_boots, default_label
from schedperf_collectors.recorder.session import Request, Session, Side, settle
from schedperf_collectors.recorder.tunables import (
    MOVED_BY_FIRMWARE,
    Tunables,
    changed_tunables,
    read_tunables,
    restore_tunables,
    say_undo,
)

# A teardown undoes a setup; one that takes longer is stuck.
TEARDOWN_LIMIT_S = 60.0

# Load always differs, and missing values are not fields.
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
    tunables = read_tunables()
    with signals, Staging() as staging, Journal(tunables, journal_folder()) as journal:
        usable, dropped, counts = settle(request, chosen, staging, progress)
        plan = plan_ab(request.points, counts, request.seed)
        machine = Machine(tunables, progress, journal)
        groups = _Groups(journal)
        session = Session(
            request,
            chosen=usable,
            dropped=dropped,
            sides=(sides := _open_sides(settings, request, machine)),
            staging=staging,
            progress=progress,
            note_cgroup=groups.note,
        )
        try:
            session.execute(plan, lambda: _prepare(session, sides))
        finally:
            for problem in remove_cgroups(groups.created):
                progress.warn(problem)


class _Groups:
    """The control groups that setups create."""

    def __init__(self, journal: Journal) -> None:
        self.created: set[Path] = set()
        self._before = all_cgroups()
        self._journal = journal

    def note(self, lines: Sequence[str]) -> None:
        """Remember the new ones among those of a workload, from its /proc/PID/cgroup."""
        for folder in new_cgroups(lines, self._before):
            if folder not in self.created:
                self.created.add(folder)
                self._journal.note_group(folder)


class Machine:
    """The machine's tunables, which a setup may change for the time of one run."""

    def __init__(self, tunables: Tunables, progress: Progress, journal: Journal) -> None:
        self._tunables = tunables
        self._progress = progress
        self._journal = journal
        self._stuck: set[Path] = set()
        self._told: set[Path] = set()
        self._told_left: set[tuple[str, str]] = set()

    @contextlib.contextmanager
    def with_setting(self, setting: Setting) -> Iterator[None]:
        """Check the tunables; at the end of the block, undo the setting.

        The teardown runs, processes that the setup left are killed, and tunables that changed in
        the block are restored.

        :raises RecordError: an earlier run changed a tunable that cannot be restored
        """
        before = {**self._tunables, **self._check()}
        began = Moment.now()
        self._journal.begin_setting(setting.name, setting.teardown)
        try:
            yield
        finally:
            # What a teardown starts is to stay, e.g. a service that the setup stopped.
            until = Moment.now()
            if setting.teardown:
                problem = run_shell(setting.teardown, TEARDOWN_LIMIT_S)
                if problem is not None:
                    self._progress.warn(
                        f"teardown of {setting.name} failed: {problem}; undo its setup by hand"
                    )
            self._tell_left(setting.name, end_orphans(began, until=until))
            for path, now in restore_tunables(before).items():
                undo = say_undo(path, before[path], now)
                self._progress.warn(f"{path}: could not be restored; undo it with: {undo}")
                self._stuck.add(path)
            self._journal.end_setting()

    def _tell_left(self, side: str, names: Sequence[str]) -> None:
        shown = ", ".join(dict.fromkeys(names))
        if names and (side, shown) not in self._told_left:
            self._told_left.add((side, shown))
            self._progress.warn(
                f"the setup of {side} left {len(names)} process(es) running: {shown}; the "
                "recorder kills them after each run; end them in the teardown"
            )

    def _check(self) -> Tunables:
        """Return the tunables that differ from the start of the recording, as they are now."""
        changed = changed_tunables(self._tunables)
        for path, now in changed.items():
            if path in self._stuck and path.name not in MOVED_BY_FIRMWARE:
                raise RecordError(
                    f"{path}: was not restored after the last run, so the next run would not have "
                    f"the setting of its side; undo it with: "
                    f"{say_undo(path, self._tunables[path], now)}"
                )
            if path not in self._told:
                self._told.add(path)
                self._progress.warn(
                    f"{path}: changed from {self._tunables[path]!r} to {now!r} during the "
                    "recording; runs before and after differ in it"
                )
        return changed


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
            environment=functools.partial(machine.with_setting, setting),
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
