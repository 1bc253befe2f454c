# SPDX-License-Identifier: GPL-2.0-or-later
"""Record a command with what commits build: here, in guests, or on a machine reached by ssh."""

import fcntl
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from msgspec.structs import replace

from schedperf.commands.vm import GuestRecorder
from schedperf.inputs.git import Commit
from schedperf.lab.bisect.prove import switched
from schedperf.lab.bisect.search import Untestable
from schedperf.lab.build import read_built
from schedperf.lab.group import signals_delayed
from schedperf.lab.vm.session import KernelFailed
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line, cut
from schedperf_collectors.machine.errors import RecordError, explain
from schedperf_collectors.machine.orphans import end_with_parent
from schedperf_collectors.recorder.recover import recover
from schedperf_collectors.recorder.sides import FEATURES

_USAGE = 2
# The file of the guest's kernel; the redirection fails if there is none.
_FEATURES = f"$(ls {shlex.join(map(str, FEATURES))} 2>/dev/null | head -n 1)"
_VARIED = "sched.features"
# A recorder whose search was killed ends shortly after it.
_ENDS_WITHIN_S = 60.0
_LOOK_AGAIN_S = 0.1
_ERROR = "schedperf: error: "
_TAIL_BYTES = 64 << 10
_LONGEST_ERROR = 300


MayDescribe = Callable[[Commit], Mapping[str, Any] | None]


class Recorder:
    """Runs schedperf in another process, one at a time, even if a search was killed.

    :param lock: path of a file that is locked while it runs
    """

    def __init__(self, lock: Path) -> None:
        self._lock = lock

    def run(self, arguments: Sequence[str], folder: Path, log: Path | None) -> int:
        """Run a command of schedperf to its end; return its exit status, -N after signal N.

        :param folder: working directory
        :param log: file for its output; None to print its messages, and to discard its stdout
        :raises InputError: it cannot be started
        """
        command = [sys.executable, "-m", "schedperf", *arguments]
        with self.alone() as lock:
            if log is None:
                return _run(command, folder, lock, subprocess.DEVNULL, None)
            with log.open("ab") as file:
                return _run(command, folder, lock, file, file)

    @contextmanager
    def alone(self) -> Iterator[int]:
        """Wait until no process of a killed search is left; yield the descriptor of the lock.

        :raises InputError: one is left for long, or a file cannot be opened
        """
        until = time.monotonic() + _ENDS_WITHIN_S
        try:
            with self._lock.open("ab") as file:
                while not _try_lock(file.fileno()):
                    if time.monotonic() > until:
                        raise InputError(
                            f"{self._lock}: the recorder of a killed search is still running; end "
                            "it, and repeat the command"
                        )
                    time.sleep(_LOOK_AGAIN_S)
                yield file.fileno()
        except OSError as error:
            raise InputError(
                f"{error.filename or self._lock}: {explain(error)}; see `df`"
            ) from None


class Here:
    """Records a command on this machine, in the directory of what a commit built.

    Nothing boots: each run counts as a boot.

    :param options: further options of ``record``
    :param words: the command
    """

    def __init__(self, recorder: Recorder, options: Sequence[str], words: Sequence[str]) -> None:
        self._recorder = recorder
        self._options = options
        self._words = words

    def boot(self, commit: Commit, built: Path, boots: int, bundle: Path) -> None:
        """Run the command in some processes, one after the other, and add the runs to a bundle.

        :param commit: what the bundle is about
        :param built: directory of what the commit built; the command runs in it
        :param boots: number of runs
        :raises Untestable: no run of the command is successful
        :raises InputError: the recorder cannot record, or was killed
        """
        before = _size(bundle)
        # Bundles describe the commit of the kernel, which is another repository's.
        label = f"--label={commit.short}"
        target = [f"--append={bundle}"] if bundle.exists() else [f"--output={bundle}", label]
        arguments = ["record", *target, f"-n={boots}", *self._options, "--", *self._words]
        log = bundle.with_suffix(".log")
        status = self._recorder.run(arguments, built, log)
        if status == _USAGE and _size(bundle) != before:
            raise Untestable(f"does not run: {_last_error(log)}")
        if status == _USAGE:
            raise InputError(f"{commit.short}: {_last_error(log)}")
        if status < 0:
            self.recover(bundle)
            raise InputError(
                f"{commit.short}: the recorder was killed by signal {-status}; "
                "repeat the command to continue"
            )

    def switch(self, *_: object, **__: object) -> None:
        """Refuse: no kernel boots here.

        :raises Untestable: always
        """
        raise Untestable("no kernel boots here")

    def recover(self, bundle: Path) -> None:
        """Complete a bundle whose recording was killed.

        :raises InputError: it cannot be read or written, or is being recorded
        """
        with self._recorder.alone():
            try:
                recover(bundle)
            except RecordError as error:
                raise InputError(str(error)) from None


class Guests:
    """Boots kernels in guests, and records the command in each boot.

    :param describe: function that returns the fields of a commit that a bundle stores; None if they
        are unknown
    :param label: function that returns the label of a commit in reports
    """

    def __init__(
        self, recorder: GuestRecorder, describe: MayDescribe, label: Callable[[Commit], str]
    ) -> None:
        self._recorder = recorder
        self._describe = describe
        self._label = label

    def boot(self, commit: Commit, built: Path, boots: int, bundle: Path) -> None:
        """Record the command in some boots, and add them to a bundle.

        :raises Untestable: the kernel does not boot
        :raises InputError: a guest cannot record
        """
        kernel = read_built(built, bundle.stem, self._label(commit))
        kernel = replace(kernel, source=self._describe(commit))
        try:
            self._recorder.record([kernel], boots)
        except KernelFailed as error:
            raise Untestable(f"does not boot: {error.reason}") from None

    def switch(self, commit: Commit, built: Path, boots: int, feature: str, bundle: Path) -> None:
        """Record the command with a scheduler feature off and on, each in some boots.

        :param bundle: path ``NAME.tar``; the bundles are ``NAME-NO_FEATURE.tar`` and
            ``NAME-FEATURE.tar``
        :raises Untestable: the kernel does not boot, or lacks the feature
        """
        for word, path in zip((f"NO_{feature}", feature), switched(bundle, feature), strict=True):
            kernel = read_built(built, path.stem, f"{commit.short} {word}")
            kernel = replace(kernel, source=self._describe(commit))
            try:
                self._recorder.record(
                    [kernel], boots, setup=f"echo {word} >{_FEATURES}", vary=[_VARIED]
                )
            except InputError as error:
                raise Untestable(f"{word}: {error}") from None

    def recover(self, bundle: Path) -> None:
        """Do nothing: a bundle has each finished boot."""


def _size(bundle: Path) -> int | None:
    return bundle.stat().st_size if bundle.exists() else None


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _run(
    command: Sequence[str],
    folder: Path,
    lock: int,
    stdout: int | IO[bytes],
    stderr: IO[bytes] | None,
) -> int:
    """Run a command to its end; return its exit status, -N after signal N.

    :param lock: descriptor that the command inherits, so that it holds the lock as long as it runs
    :raises OSError: it cannot be started
    """
    parent = os.getpid()
    with signals_delayed() as deliver:

        def prepare() -> None:
            # If the search is killed, the recorder must not go on recording.
            end_with_parent(parent)
            deliver()

        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            pass_fds=(lock,),
            process_group=0,
            preexec_fn=prepare,  # noqa: PLW1509 # this process has one thread
        )
        try:
            deliver()
            return process.wait()
        except BaseException:
            # The recorder keeps the finished runs.
            process.terminate()
            process.wait()
            raise


def _last_error(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
    errors = [line.removeprefix(_ERROR) for line in lines if line.startswith(_ERROR)]
    last = (errors or lines or ["no output"])[-1]
    return cut(clean_line(last), _LONGEST_ERROR)
