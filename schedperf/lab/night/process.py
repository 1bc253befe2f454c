# SPDX-License-Identifier: GPL-2.0-or-later
"""Run the commands of a night as a user would; write their output to logs."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType

from schedperf.lab.group import end_group
from schedperf.lab.night.state import NightError
from schedperf.model.text import clean_line, cut
from schedperf_collectors.machine.errors import explain
from schedperf_collectors.machine.orphans import end_with_parent

# Interval of polling a running command.
_LOOK_AGAIN_S = 2.0
_ASKED_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Time limit of schedperf commands other than recordings, whose hooks have limits of their own.
LIMIT_S = 4 * 3600.0
_TAIL_BYTES = 64 << 10
_LONGEST_ERROR = 300
_ERROR = "schedperf: error: "


class Interrupted(NightError):
    """A signal requests termination; the night continues when it is run again.

    :param signum: the signal; the exit status is 128 more
    """

    def __init__(self, signum: int) -> None:
        super().__init__("interrupted; run the night again to go on")
        self.exit_status = 128 + signum


class Commands:
    """Runs commands one after the other.

    :param folder: directory for their logs
    :param locks: descriptors of the night's locks; commands of schedperf inherit them, so that a
        killed night keeps its locks until its last command has ended
    """

    def __init__(self, folder: Path, *locks: int) -> None:
        self._folder = folder
        self._locks = locks

    def holding(self, lock: int) -> "Commands":
        """Return the same, with another lock."""
        return Commands(self._folder, *self._locks, lock)

    def schedperf(
        self,
        log: str,
        words: Sequence[str],
        look: Callable[[], None] = lambda: None,
        limit_s: float | None = LIMIT_S,
    ) -> int:
        """Run a command of schedperf to its end and forward signals; return its exit status.

        Parameters and errors are those of :meth:`run`.

        :param words: the command and its arguments, without ``schedperf``
        """
        command = [sys.executable, "-m", "schedperf", *words]
        return self._run(log, command, {}, look, limit_s, is_hook=False)

    def run(
        self,
        log: str,
        command: Sequence[str],
        *,
        more: dict[str, str] | None = None,
        look: Callable[[], None] = lambda: None,
        limit_s: float | None,
    ) -> int:
        """Run a hook to its end and forward signals; return its exit status.

        Processes that it leaves behind do not hold the night's lock; on an interrupt they are
        killed.

        :param log: name of its log
        :param more: additional environment variables
        :param look: called about every 2 s while it runs; if it raises, the program is killed
        :param limit_s: time limit in seconds; None for no limit
        :raises NightError: the hook cannot be executed, did not end in time, or its log cannot be
            written
        :raises Interrupted: a signal requests termination; the program has ended
        """
        return self._run(log, command, more or {}, look, limit_s, is_hook=True)

    def _run(
        self,
        log: str,
        command: Sequence[str],
        more: dict[str, str],
        look: Callable[[], None],
        limit_s: float | None,
        *,
        is_hook: bool,
    ) -> int:
        parent = os.getpid()
        try:
            with self.log(log).open("ab") as file:
                process = subprocess.Popen(
                    command,
                    cwd=self._folder,
                    env={**os.environ, **more},
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    pass_fds=() if is_hook else self._locks,
                    process_group=0,
                    # If the night is killed, the command must not go on running.
                    preexec_fn=lambda: end_with_parent(parent),  # noqa: PLW1509 # prctl(2) only
                )
        except OSError as error:
            where = clean_line(str(error.filename or command[0]))
            raise NightError(f"{where}: {explain(error)}; see `df` and the file's mode") from error
        until = None if limit_s is None else time.monotonic() + limit_s
        # Commands of schedperf terminate their own children.
        send: Callable[[int], None]
        send = partial(os.killpg, process.pid) if is_hook else process.send_signal
        status = None
        with passing_signals(send) as signums:
            try:
                while (status := _wait(process, until)) is None:
                    look()
                    if until is not None and time.monotonic() > until:
                        raise NightError(
                            f"{clean_line(command[0])}: did not end within {limit_s:.0f} s and was "
                            f"killed; see {self.log(log)}"
                        )
            finally:
                if status is None or (is_hook and signums):
                    end_group(process)
        if signums:
            raise Interrupted(signums[0])
        return status

    def log(self, name: str) -> Path:
        """Return the path of a log."""
        return self._folder / f"{name}.log"

    def last_error(self, name: str) -> str:
        """Return the last error of schedperf in a log; without one, its last line.

        It is "no output" if the log is empty or cannot be read.
        """
        try:
            with self.log(name).open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
                lines = file.read().decode(errors="replace").splitlines()
        except OSError:
            return "no output"
        errors = [line.removeprefix(_ERROR) for line in lines if line.startswith(_ERROR)]
        last = (errors or [line for line in lines if clean_line(line)] or ["no output"])[-1]
        return cut(clean_line(last), _LONGEST_ERROR)


def _wait(process: subprocess.Popen[bytes], until: float | None) -> int | None:
    """Return the exit status of a process; None if it still runs after 2 s, or at ``until``."""
    left_s = _LOOK_AGAIN_S if until is None else max(0.0, until - time.monotonic())
    try:
        return process.wait(min(_LOOK_AGAIN_S, left_s))
    except subprocess.TimeoutExpired:
        return None


@contextmanager
def passing_signals(send: Callable[[int], None]) -> Iterator[list[int]]:
    """Forward SIGINT, SIGTERM and SIGHUP, unless ignored; yield the list of the received ones."""
    arrived: list[int] = []

    def pass_on(signum: int, _frame: FrameType | None) -> None:
        arrived.append(signum)
        with suppress(ProcessLookupError, PermissionError):
            send(signum)

    before = {signum: signal.getsignal(signum) for signum in _ASKED_TO_END}
    taken = [signum for signum, handler in before.items() if handler != signal.SIG_IGN]
    for signum in taken:
        signal.signal(signum, pass_on)
    try:
        yield arrived
    finally:
        for signum in taken:
            signal.signal(signum, before[signum])
