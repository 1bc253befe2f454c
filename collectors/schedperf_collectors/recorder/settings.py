# SPDX-License-Identifier: GPL-2.0-or-later
"""Handle the setting of a side: apply it for the workload, capture it, restore the machine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.machine.orphans import Moment, end_orphans
from schedperf_collectors.machine.process import SetupFailed, reap, run_shell, start
from schedperf_collectors.recorder.captures import HOST, Captured
from schedperf_collectors.recorder.control_groups import all_cgroups, new_cgroups, remove_cgroups
from schedperf_collectors.recorder.journal import Journal, Written
from schedperf_collectors.recorder.journal_folder import journal_folder
from schedperf_collectors.recorder.progress import Progress
from schedperf_collectors.recorder.request import Side, of_side
from schedperf_collectors.recorder.service import Service
from schedperf_collectors.recorder.session import Session, capture_boots
from schedperf_collectors.recorder.tunables import (
    MOVED_BY_FIRMWARE,
    Tunables,
    changed_tunables,
    read_tunables,
    restore_tunables,
    undo_command,
)

# A teardown undoes a setup; one that takes longer is stuck.
TEARDOWN_LIMIT_S = 60.0


@dataclass(frozen=True)
class Setting:
    """The setting of one side.

    :param name: name of a side of ``ab``, e.g. "base"; None with one side
    :param path: path of its bundle
    :param label: label of the side; None for the file's name
    :param setup: shell command that runs in the process that becomes the workload; "" for none
    :param teardown: shell command that runs after each run; "" for none
    :param service: program that runs during each run; None without one
    :param level: its level of the factor "setting"; None if the sides have no factors
    :param output: value of -o, from which the path is made; None if the path was given
    """

    name: str | None
    path: Path
    label: str | None
    setup: str
    teardown: str
    service: Service | None = None
    level: str | None = None
    output: str | None = None


@contextlib.contextmanager
def restoring(progress: Progress, settings: Sequence[Setting]) -> Iterator[tuple[Machine, Groups]]:
    """Yield the machine's tunables, and the cgroups that setups create.

    In the block, a journal stores what must be restored if this process is killed. At the end of
    the block, the cgroups are removed; :meth:`Machine.with_setting` restores the tunables.
    """
    bundles = [
        Written(each.path, None if each.output is None else Path(each.output)) for each in settings
    ]
    tunables = read_tunables()
    with Journal(tunables, journal_folder(), bundles, progress.warn) as journal:
        groups = Groups(journal)
        try:
            yield Machine(tunables, progress, journal), groups
        finally:
            for problem in remove_cgroups(groups.created):
                progress.warn(problem)


class Groups:
    """The cgroups that setups create.

    :ivar created: their directories
    """

    def __init__(self, journal: Journal) -> None:
        self.created: set[Path] = set()
        self._before = all_cgroups()
        self._journal = journal

    def note(self, lines: Sequence[str]) -> None:
        """Record the new cgroups of a workload.

        :param lines: lines of its /proc/PID/cgroup
        """
        for folder in new_cgroups(lines, self._before):
            if folder not in self.created:
                self.created.add(folder)
                self._journal.note_group(folder)


class Machine:
    """The machine's tunables, which a setup may change during one run."""

    def __init__(self, tunables: Tunables, progress: Progress, journal: Journal) -> None:
        self._tunables = tunables
        self._progress = progress
        self._journal = journal
        self._stuck: set[Path] = set()
        self._told: set[Path] = set()
        self._told_left: set[str | None] = set()

    @contextlib.contextmanager
    def with_setting(self, setting: Setting) -> Iterator[None]:
        """Check the tunables; at the end of the block, undo the setting.

        The teardown runs, processes that the setup left are killed, and tunables that changed in
        the block are restored; what fails is a warning.

        :raises RecordError: a tunable that an earlier run changed is still not restored; limits of
            CPU frequencies, which firmware also moves, are exempt
        """
        before = {**self._tunables, **self._check()}
        began = Moment.now()
        self._journal.begin_setting(setting.name or "the recording", setting.teardown)
        try:
            yield
        finally:
            # Processes that a teardown starts must stay, e.g. a service that the setup stopped.
            until = Moment.now()
            if setting.teardown:
                problem = run_shell(setting.teardown, TEARDOWN_LIMIT_S)
                if problem is not None:
                    self._progress.warn(
                        f"the teardown{of_side(setting.name)} failed ({problem}); undo the setup "
                        "by hand"
                    )
            self._tell_left(setting.name, end_orphans(began, until=until))
            for path, now in restore_tunables(before).items():
                undo = undo_command(path, before[path], now)
                self._progress.warn(f"{path}: could not be restored; run `{undo}`")
                self._stuck.add(path)
            self._journal.end_setting()

    def _tell_left(self, side: str | None, names: Sequence[str]) -> None:
        shown = ", ".join(dict.fromkeys(names))
        if names and side not in self._told_left:
            self._told_left.add(side)
            self._progress.warn(
                f"the setup{of_side(side)} left {len(names)} process(es) running ({shown}), "
                "which the recorder kills after each run; end them in the teardown"
            )

    def _check(self) -> Tunables:
        """Return the current values of tunables that differ from the start of the recording.

        Warn once about each of them.

        :raises RecordError: as in :meth:`with_setting`
        """
        changed = changed_tunables(self._tunables)
        for path, now in changed.items():
            if path in self._stuck and path.name not in MOVED_BY_FIRMWARE:
                raise RecordError(
                    f"{path}: was not restored after the last run, so the next run would not have "
                    f"the setting of its side; run "
                    f"`{undo_command(path, self._tunables[path], now)}`"
                )
            if path not in self._told:
                self._told.add(path)
                self._progress.warn(
                    f"{path}: changed from {self._tunables[path]!r} to {now!r} during the "
                    "recording, so earlier and later runs have different values"
                )
        return changed


def capture_host(session: Session, side: Side) -> list[Captured]:
    """Capture host.json of a process that has run the side's setup, while its service runs.

    :return: the capture of the collector "host", the only one
    :raises SetupFailed: the setup failed
    :raises ServiceFailed: the service cannot be used, did not become ready, or left its effect
    :raises CannotCapture: the user named the collector "host", and it did not work
    """
    log = session.staging.log()
    with session.watched(side, session.staging), side.environment():
        try:
            holder = start(["sleep", "86400"], log, log, side.setup, session.note_cgroup)
        except SetupFailed as error:
            raise SetupFailed(f"setup{of_side(side.name)} failed: {error}") from error
        try:
            return capture_boots(session, holder.pid, [HOST])
        finally:
            reap(holder)
