# SPDX-License-Identifier: GPL-2.0-or-later
"""Share what all steps of a night need: its machine, its folder and its state."""

import shutil
from collections.abc import Sequence
from copy import copy
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from schedperf.inputs.bundle.files import read_regular
from schedperf.inputs.bundle.json import decode
from schedperf.lab.night.job import Job
from schedperf.lab.night.lab import Lab, Machine, Tree
from schedperf.lab.night.machine import Target
from schedperf.lab.night.process import Commands
from schedperf.lab.night.state import Night, NightError, Store
from schedperf.publish.mail.site import has_site

LEAST_FREE = 0.1
_LARGEST_SOURCE_BYTES = 1 << 20


class NotNow(NightError):
    """The machine may not be used now, so the night waits."""

    exit_status = 1


class Failed(NightError):
    """Repeating the step would not help, so the night ends."""

    exit_status = 1


class Result(Struct, frozen=True, kw_only=True):
    """The result of a step.

    :param text: what the step found, one line
    :param outcome: result of the night after this step; None if it continues
    """

    text: str
    outcome: str | None = None


class _Source(Struct, frozen=True):
    commit: str


class Context:
    """The data that all steps of a night share.

    :param tree: the tree that is tested
    :param store: folder of the night
    :param previous: the previous night of the tree; None if this is the first
    :param again: record the kernels even if they are those of the previous night
    """

    def __init__(
        self,
        lab: Lab,
        machine: Machine,
        tree: Tree,
        *,
        store: Store,
        night: Night,
        commands: Commands,
        previous: Night | None,
        again: bool,
    ) -> None:
        self.lab = lab
        self.machine = machine
        self.tree = tree
        self.jobs: Sequence[Job] = lab.jobs_of(machine)
        self.store = store
        self.night = night
        self.commands = commands
        self.previous = previous
        self.again = again
        self.target = Target(machine.reach)

    def of_tree(self, tree: Tree) -> "Context":
        """Return the same for another tree."""
        other = copy(self)
        other.tree = tree
        return other

    def holding(self, lock: int) -> "Context":
        """Return the same; its commands inherit another lock."""
        other = copy(self)
        other.commands = self.commands.holding(lock)
        return other

    def file(self, name: str) -> Path:
        """Return the path of a file of this night."""
        return self.store.path / name

    def bundle(self, kernel: str) -> Path:
        """Return the path of a kernel's bundle.

        :param kernel: ``base``, ``new`` or ``yesterday``
        """
        return self.file(f"night-{kernel}.tar")

    @property
    def writes_mails(self) -> bool:
        """Return whether the lab has settings for mails."""
        return self.lab.mail is not None or has_site(self.lab.outbox)

    def source(self, release: str) -> Path | None:
        """Return the file about a kernel's commit; None if there is no file."""
        if self.tree.sources is None:
            return None
        path = Path(self.tree.sources, f"{release}.json")
        return path if path.exists() else None

    def revision(self, release: str) -> str:
        """Return how the history names a kernel: by its commit, or by its release.

        :raises InputError: the file about the commit is damaged
        """
        path = self.source(release)
        if path is None:
            return release
        content = read_regular(path, _LARGEST_SOURCE_BYTES, "the source of a kernel")
        return decode(content, _Source, str(path)).commit

    def check_space(self) -> None:
        """Check the free space of the night's file system.

        :raises NightError: less than 10% is free
        """
        usage = shutil.disk_usage(self.store.path)
        if usage.free < LEAST_FREE * usage.total:
            raise NightError(
                f"{self.store.path}: {usage.free / usage.total:.0%} of the disk free (expected "
                f"{LEAST_FREE:.0%} or more); remove old nights"
            )

    def check_hours(self) -> None:
        """Check that the machine may be used now.

        :raises NotNow: the machine is outside its hours
        """
        machine = self.machine
        if not machine.may_be_used(datetime.now().time()):  # noqa: DTZ005 # hours are local
            raise NotNow(
                f"{machine.name}: outside its hours ({machine.hours}); run the night again in them"
            )

    def check_programs(self) -> None:
        """Check that the programs of the benchmarks have not changed since the night began.

        :raises Failed: a program has changed
        :raises NightError: a program was removed from the machine, or the machine does not answer
        """
        for job in self.jobs:
            before = self.night.programs.get(job.name)
            if before is not None and self.target.hash_of(job.run[0]) != before:
                raise Failed(
                    f"{job.run[0]}: the program changed on {self.machine.name} during the night; "
                    "its runs cannot be compared; start a new night"
                )

    def run(self, log: str, words: Sequence[str]) -> None:
        """Run a command of schedperf, and require that it succeeds.

        :param log: name of its log
        :raises NightError: the command failed
        """
        if self.commands.schedperf(log, words) != 0:
            raise NightError(self.commands.last_error(log))
