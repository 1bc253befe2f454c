# SPDX-License-Identifier: GPL-2.0-or-later
"""Run the service of a side around each of its runs, and let collectors watch the run.

A *service* is a program that is started before the setup of each run and stopped after the run,
such as a scheduler that is loaded as long as its program runs. The recorder kills processes that a
setup or a workload leaves running, but not the service, because it started earlier. A *watch* of a
collector determines when the service is ready, and whether the run is valid.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Callable

from schedperf_collectors.contract import Unavailable, cut
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.machine.orphans import Moment, end_orphans, end_with_parent
from schedperf_collectors.machine.process import (
    describe_status,
    has_ended,
    kill_group,
    last_words,
)
from schedperf_collectors.machine.signals import signals
from schedperf_collectors.machine.system import run
from schedperf_collectors.plugin import Watch, all_collectors
from schedperf_collectors.recorder.captures import Options
from schedperf_collectors.recorder.output import shorten
from schedperf_collectors.recorder.programs import digest

# Verifying and loading BPF programs takes seconds, and half a minute under emulation.
START_LIMIT_S = 120.0
# A service that SIGINT does not end within this time is killed.
STOP_LIMIT_S = 20.0
# Time for the machine to return to its state before the service.
SETTLE_LIMIT_S = 20.0
VERSION_LIMIT_S = 20.0
# A scheduler prints some lines, and a debug dump of some 10 kB when it fails.
HEAD_BYTES = TAIL_BYTES = 64 << 10
# Readers of bundles shorten longer sentences.
LONGEST_REASON = 300
LONGEST_VERSION = 100

_POLL_S = 0.02


class ServiceFailed(RecordError):
    """A service cannot be used, did not become ready, or left its effect on the machine."""


@dataclass(frozen=True)
class Service:
    """The service of one side.

    :param command: command in shell syntax, as the user gave it
    """

    command: str

    @property
    def words(self) -> tuple[str, ...]:
        """Return the argument list of the program."""
        return tuple(shlex.split(self.command))

    @property
    def name(self) -> str:
        """Return the base name of the program."""
        return Path(self.words[0]).name


def read_service(side: str, command: str) -> Service | None:
    """Return the service of a command line; None if it is empty.

    :param side: name of the side, for messages; "" with one side
    :raises RecordError: the command cannot be split, or its program does not exist or is not
        executable
    """
    option = f"--service {side}".strip()
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise RecordError(
            f"{option}: invalid command {command!r}: {str(error).lower()} (expected a "
            "program and its arguments, e.g. 'scx_lavd --performance')"
        ) from error
    if not words:
        return None
    if shutil.which(words[0]) is None:
        is_file = "/" in words[0] and Path(words[0]).is_file()
        no_program = "no such program; install it or give its path"
        reason = "not executable; make it executable with chmod +x" if is_file else no_program
        raise RecordError(f"{option}: {words[0]}: {reason}")
    return Service(command)


class Watched:
    """The service and the watches of one run.

    Entering the ``with`` block creates the watches, starts the service and waits until it is ready.
    Leaving the block stops the service.

    :param side: name of the side for messages; None with one side
    :param service: the service; None for a side without one
    :param folder: a new directory for the output of the service
    :param options: options of all collectors, by name
    :raises ServiceFailed: when entering: a watch cannot be created, or the service did not start or
        did not become ready; when leaving: the service ended, but its effect on the machine did not
    :raises Interrupted: when entering: a signal came; the service was stopped
    """

    def __init__(
        self, side: str | None, service: Service | None, folder: Path, options: Options
    ) -> None:
        self._of_side = "" if side is None else f" of {side}"
        self._service = service
        self.output = folder / "output"
        self._options = options
        self._watches: list[Watch] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._ended_early = False
        self._was_killed = False
        self._status: int | None = None
        self._moment = Moment(frozenset(), 0)

    def __enter__(self) -> Watched:  # noqa: PYI034 # Self came with Python 3.11
        words = self._service.words if self._service else ()
        try:
            self._watches = [
                collector.watch(words, self._options.get(collector.name, {}))
                for collector in all_collectors().values()
                if collector.watch is not None
            ]
        except RecordError as error:
            raise ServiceFailed(str(error)) from error
        if self._service is not None:
            self._moment = Moment.now()
            self._process = self._start(words)
            try:
                self._await_ready(self._process)
            except BaseException:
                self._stop(self._process)
                raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._stop(self._process)
            # This must not hide an error that already stops the recording.
            if kind is None:
                self._await_over()

    def begin(self) -> None:
        """Let the watches read the machine's state, right before the workload runs."""
        for watch in self._watches:
            watch.begin()

    def end(self) -> None:
        """Let the watches read the machine's state, right after the workload has ended.

        Also determine whether the service is still running.
        """
        for watch in self._watches:
            watch.end()
        self._ended_early = self._process is not None and has_ended(self._process.pid)

    def why_discard(self) -> str | None:
        """Return why the run must not be used, as a clause; None if it may be used.

        Call this after the ``with`` block, when the service has printed everything.
        """
        output = self._shorten_output()
        reasons = (watch.why_discard(output) for watch in self._watches)
        reason = next(filter(None, reasons), None)
        if reason is None and self._ended_early and self._service is not None:
            reason = f"{self._service.name} ended during the run ({self._describe_end()})"
        return None if reason is None else cut(_printable(reason), LONGEST_REASON)

    def killed_warning(self) -> str | None:
        """Return a warning if the service had to be killed, else None.

        Waiting until it is killed takes time in each run. Call this after the ``with`` block.
        """
        if self._service is None or not self._was_killed:
            return None
        return (
            f"the service{self._of_side} did not end within {STOP_LIMIT_S:.0f} s of SIGINT and was "
            "killed; let the program end on SIGINT"
        )

    def describe(self) -> Mapping[str, object] | None:
        """Return the service for run.json: command, program and how it ended; None without one."""
        if self._service is None:
            return None
        has_version = any(watch.awaits for watch in self._watches)
        return {
            "command": self._service.command,
            **describe_program(self._service.words[0], asks_version=has_version),
            "end": None if self._status is None else describe_status(self._status),
        }

    def _start(self, words: Sequence[str]) -> subprocess.Popen[bytes]:
        end_with_recorder = functools.partial(end_with_parent, os.getpid(), signal.SIGKILL)
        try:
            with self.output.open("wb") as output:
                return subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    preexec_fn=end_with_recorder,  # noqa: PLW1509 # prctl(2) only
                )
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ServiceFailed(
                f"service{self._of_side} failed: {words[0]}: {reason}; correct the program"
            ) from error

    def _await_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while not all(watch.is_ready() for watch in self._watches):
            signals.check()
            awaited = ", ".join(filter(None, (watch.awaits for watch in self._watches)))
            if has_ended(process.pid):
                self._stop(process)
                raise ServiceFailed(
                    f"service{self._of_side} failed: waiting for {awaited}, but the program ended "
                    f"({self._describe_end()}); run it by hand to see why"
                )
            if time.monotonic() > deadline:
                raise ServiceFailed(
                    f"service{self._of_side} failed: waited {START_LIMIT_S:.0f} s for {awaited}"
                    f"{last_words(self.output)}; run the program by hand to see why"
                )
            signals.wait(_POLL_S)

    def _stop(self, process: subprocess.Popen[bytes]) -> None:
        if process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGINT)
        self._was_killed = not _poll(lambda: has_ended(process.pid), STOP_LIMIT_S)
        # The remaining processes of its group; its number is not reused before the leader is
        # reaped.
        kill_group(process.pid)
        _, self._status = os.waitpid(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(self._status)
        end_orphans(self._moment, process.pid)

    def _await_over(self) -> None:
        if not _poll(lambda: all(watch.is_over() for watch in self._watches), SETTLE_LIMIT_S):
            raise ServiceFailed(
                f"the service{self._of_side} has ended, but not its effect on the machine "
                f"({self._describe_end()}); undo it by hand, then record again"
            )

    def _describe_end(self) -> str:
        assert self._status is not None
        return f"{describe_status(self._status)}{last_words(self.output)}"

    def _shorten_output(self) -> str:
        if self._service is None:
            return ""
        shorten(self.output, head_bytes=HEAD_BYTES, tail_bytes=TAIL_BYTES)
        return self.output.read_bytes().decode("utf-8", "replace")


@functools.cache
def describe_program(word: str, *, asks_version: bool) -> Mapping[str, str | None]:
    """Return path, SHA-256 and version of a program.

    The path is the word itself if no such program is on PATH. SHA-256 and version are None if they
    are unknown. Later calls with the same arguments return the same result.

    :param word: name or path of the program
    :param asks_version: whether to run it with ``--version``, without which the version is unknown;
        a program that does not know the option may start instead
    """
    path = shutil.which(word) or word
    version = None
    if asks_version:
        with contextlib.suppress(Unavailable):
            lines = run([path, "--version"], VERSION_LIMIT_S).splitlines()
            version = cut(_printable(lines[0]), LONGEST_VERSION) if lines else None
    return {"program": path, "sha256": digest(Path(path)), "version": version}


def _poll(is_so: Callable[[], bool], limit_s: float) -> bool:
    """Wait until a condition holds, even if signals arrive; return whether it does."""
    deadline = time.monotonic() + limit_s
    while not is_so():
        if time.monotonic() > deadline:
            return False
        signals.wait(_POLL_S)
    return True


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text).strip()
