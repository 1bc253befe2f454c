# SPDX-License-Identifier: GPL-2.0-or-later
"""Run the commands of a night, as a user would; what they print goes to a log."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from schedperf.model.text import clean_line
from schedperf.night.state import NightError
from schedperf_collectors.machine.errors import explain
from schedperf_collectors.machine.orphans import end_with_parent

# How often a running command is looked at.
_LOOK_AGAIN_S = 2.0
_ASKED_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TAIL_BYTES = 64 << 10
_ERROR = "schedperf: error: "


class Interrupted(NightError):
    """A signal asks to terminate; the night goes on when it is run again."""

    def __init__(self, signum: int) -> None:
        super().__init__("interrupted; run the night again to go on")
        self.exit_status = 128 + signum


class Commands:
    """Runs commands one after the other.

    :param folder: gets their logs
    :param lock: descriptor of the night's lock, which they inherit: it is held until the last one
        of a killed night has ended
    """

    def __init__(self, folder: Path, lock: int) -> None:
        self._folder = folder
        self._lock = lock

    def schedperf(
        self, log: str, words: Sequence[str], look: Callable[[], None] = lambda: None
    ) -> int:
        """Run a command of schedperf; return its exit status."""
        return self.run(log, [sys.executable, "-m", "schedperf", *words], look=look)

    def run(
        self,
        log: str,
        command: Sequence[str],
        *,
        more: dict[str, str] | None = None,
        look: Callable[[], None] = lambda: None,
    ) -> int:
        """Run a program to its end; pass signals on; return its exit status.

        :param log: name of its log
        :param more: additional environment variables
        :param look: called from time to time while it runs
        :raises NightError: it cannot be executed
        :raises Interrupted: a signal asks to terminate; the program has ended
        """
        parent = os.getpid()
        try:
            with self.log(log).open("ab") as file:
                process = subprocess.Popen(
                    command,
                    cwd=self._folder,
                    env={**os.environ, **(more or {})},
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    pass_fds=(self._lock,),
                    # A killed night must not leave it running.
                    preexec_fn=lambda: end_with_parent(parent),  # noqa: PLW1509 # prctl(2) only
                )
        except OSError as error:
            where = clean_line(str(error.filename or command[0]))
            raise NightError(f"{where}: {explain(error)}; see `df` and the file's mode") from error
        with _passing_signals(process) as signums:
            while True:
                try:
                    status = process.wait(_LOOK_AGAIN_S)
                    break
                except subprocess.TimeoutExpired:
                    look()
        if signums:
            raise Interrupted(signums[0])
        return status

    def log(self, name: str) -> Path:
        """Return the path of a log."""
        return self._folder / f"{name}.log"

    def last_error(self, name: str) -> str:
        """Return the last line that a log has about an error, else its last line."""
        try:
            with self.log(name).open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
                lines = file.read().decode(errors="replace").splitlines()
        except OSError:
            return "no output"
        errors = [line.removeprefix(_ERROR) for line in lines if line.startswith(_ERROR)]
        last = (errors or [line for line in lines if line.strip()] or ["no output"])[-1]
        return clean_line(last)


@contextmanager
def _passing_signals(process: subprocess.Popen[bytes]) -> Iterator[list[int]]:
    """Pass signals on to a process; yield the list of those that arrive."""
    arrived: list[int] = []

    def pass_on(signum: int, _frame: FrameType | None) -> None:
        arrived.append(signum)
        process.send_signal(signum)

    before = {signum: signal.getsignal(signum) for signum in _ASKED_TO_END}
    taken = [signum for signum, handler in before.items() if handler != signal.SIG_IGN]
    for signum in taken:
        signal.signal(signum, pass_on)
    try:
        yield arrived
    finally:
        for signum in taken:
            signal.signal(signum, before[signum])
