# SPDX-License-Identifier: GPL-2.0-or-later
"""Install kernels on a real machine, and boot and record one of them per visit.

A visit is a recording of ``ab --kernel --append`` with one kernel: each of its boots is added to
the kernel's bundle. Its state is beside the bundles, so that a visit that was interrupted goes on
at the next call. A site's program installs the kernels.
"""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from schedperf.inputs.git import Commit
from schedperf.lab.bisect.search import Untestable
from schedperf.lab.build import run_logged
from schedperf.model.errors import InputError
from schedperf_collectors.boots.engine import DOES_NOT_BOOT
from schedperf_collectors.boots.shell import parse_host
from schedperf_collectors.boots.state import OVER, STATE, State, Store, folder_of
from schedperf_collectors.machine.errors import TRY_AGAIN, RecordError, explain
from schedperf_collectors.recorder.boot_options import NAME, RELEASE
from schedperf_collectors.recorder.source import format_source

_BY_SIGNAL = 128

Describe = Callable[[Commit], Mapping[str, Any]]
# Runs the recorder with these arguments, and returns its exit status.
Run = Callable[[Sequence[str]], int]


class NotNow(InputError):
    """The machine does not answer, or a signal asked to end; the next call goes on."""

    exit_status = TRY_AGAIN


class Site(Struct, frozen=True, kw_only=True):
    """A machine, and what is recorded there.

    :param target: ``ssh:HOST`` or ``ssh:HOST:PORT``
    :param install: shell command that installs a kernel on the target and prints its release as its
        last line. It runs before each visit, with ``SCHEDPERF_OUT`` (directory of what the commit
        built), ``SCHEDPERF_COMMIT`` and ``SCHEDPERF_TARGET`` (the host of the target), and may find
        the kernel installed. Exit status 75 means that it cannot do so now
    :param install_limit_s: time limit of the command, in s
    :param options: options of ``ab``: for the boots, e.g. ``--boot``, and for the runs, e.g. ``-n``
    :param command: the workload
    """

    target: str
    install: str
    install_limit_s: float
    options: Sequence[str]
    command: Sequence[str]


class Hardware:
    """A real machine that is reached by ssh.

    :param describe: function that returns the fields of a commit that a bundle stores
    :param run: runs the recorder
    :raises InputError: the target has another form
    """

    def __init__(self, site: Site, describe: Describe, run: Run) -> None:
        self._site = site
        self._describe = describe
        self._run = run
        try:
            self._host = parse_host(site.target).host
        except RecordError as error:
            raise InputError(f"--on: {error}") from error

    def boot(self, commit: Commit, built: Path, boots: int, bundle: Path) -> None:
        """Boot a kernel several times, record each boot, and add the boots to its bundle.

        :param built: directory of what the commit built
        :param bundle: path ``NAME.tar``; one visit at a time writes to its directory
        :raises Untestable: the kernel does not boot; boots that are recorded stay in the bundle
        :raises NotNow: the visit was interrupted or could not begin; it can be repeated
        :raises InputError: the kernel cannot be installed, or the recording failed
        """
        self._visit(commit, built, boots, bundle)

    def switch(self, commit: Commit, built: Path, boots: int, feature: str, bundle: Path) -> None:
        """Boot a kernel several times, and record each boot with a scheduler feature off and on.

        :param bundle: path ``NAME.tar``; the bundles are ``NAME-NO_FEATURE.tar`` and
            ``NAME-FEATURE.tar``
        :raises Untestable: as :meth:`boot`; so are the others
        :raises NotNow:
        :raises InputError:
        """
        self._visit(commit, built, boots, bundle, f"--feature={feature}")

    def _visit(self, commit: Commit, built: Path, boots: int, bundle: Path, *more: str) -> None:
        name, output = bundle.stem, _output(bundle)
        if bundle.suffix != ".tar" or not NAME.match(name):
            raise InputError(f"{bundle}: invalid name of a bundle (expected e.g. 0123456789ab.tar)")
        self.recover(bundle)
        release = self._install(commit, built, bundle.with_suffix(".install.log"))
        source = format_source(self._describe(commit))
        site = self._site
        self._record(
            [
                *("--append", "-o", output, "--kernel", f"{name}={release}"),
                *("--boots", str(boots), "--on", site.target, "--source", f"{name}={source}"),
                *(*site.options, *more, "--", *site.command),
            ],
            output,
        )

    def recover(self, bundle: Path) -> None:
        """Finish the visit of a bundle that was interrupted; stop one of another bundle.

        :raises NotNow: the machine does not answer, or a signal asked to end
        :raises InputError: the recording failed, or its state is damaged
        """
        output = _output(bundle)
        visit = _read_visit(output)
        if visit is None or visit.phase == OVER:
            return
        action = "continue" if visit.kernels[0].name == bundle.stem else "stop"
        # The next visit finds again that a kernel does not boot.
        with contextlib.suppress(Untestable):
            self._record([action, "-o", output], output)

    def _install(self, commit: Commit, built: Path, log: Path) -> str:
        """Install a kernel; return its release.

        :raises NotNow: the command cannot install it now
        :raises InputError: the command failed, took too long, or printed no release, or the log
            cannot be written
        """
        site = self._site
        environment = {
            **os.environ,
            "SCHEDPERF_OUT": str(built.absolute()),
            "SCHEDPERF_COMMIT": commit.hash,
            "SCHEDPERF_TARGET": self._host,
        }
        try:
            status, last = run_logged(
                site.install, log.parent, environment, log, site.install_limit_s
            )
        except OSError as error:
            raise InputError(
                f"{error.filename or log}: {explain(error)}; free space there, and repeat the "
                "command"
            ) from error
        if status is None:
            raise InputError(
                f"--install: not finished after {site.install_limit_s:.0f} s; log: {log}"
            )
        if status != 0:
            kind = NotNow if status == TRY_AGAIN else InputError
            raise kind(f"--install: exit status {status}: {last or 'no output'}; log: {log}")
        if not RELEASE.match(last):
            raise InputError(
                f"--install: last line {last!r} (expected the release of the installed kernel, "
                f"e.g. 6.18.0-rc1-g0123456789ab); log: {log}"
            )
        return last

    def _record(self, words: Sequence[str], output: str) -> None:
        """Run ``ab`` for a visit.

        :raises Untestable: the kernel does not boot
        :raises NotNow: ``ab`` can go on later
        :raises InputError: ``ab`` failed; it has printed why
        """
        status = self._run(["ab", *words])
        if status == 0:
            return
        if status == TRY_AGAIN or status > _BY_SIGNAL:
            raise NotNow(f"{self._site.target}: interrupted; repeat the command to go on")
        visit = _read_visit(output)
        if status == DOES_NOT_BOOT and visit is not None and visit.kernels[0].gave_up is not None:
            raise Untestable(visit.kernels[0].gave_up)
        raise InputError(
            f"{self._site.target}: `schedperf ab` failed (exit status {status}); see its message "
            "above"
        )


def _output(bundle: Path) -> str:
    return f"{bundle.parent.absolute()}/"


def _read_visit(output: str) -> State | None:
    """Return the state of the last visit; None before the first one.

    :raises InputError: it is damaged
    """
    store = Store(folder_of(output) / STATE)
    if not store.path.exists():
        return None
    try:
        return store.read()
    except RecordError as error:
        raise InputError(str(error)) from error
