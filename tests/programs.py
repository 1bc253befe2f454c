# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs that tests start: signals reach them under nohup too, and none outlives the tests."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from uuid import uuid4

import pytest

# Every process inherits it from the tests that started it.
_MARK = "SCHEDPERF_TESTED_BY"
# pytest sets it, so that a process also says which test started it.
_TEST = b"PYTEST_CURRENT_TEST="
# A busy machine needs time to end what was killed a moment ago.
_LONGEST_WAIT_S = 60.0
# A process has no environment for a moment, when it begins to execute another program.
_LOOKS_WITHOUT = 2


class Program(subprocess.Popen[str]):
    """A program that ends when the test that started it fails inside ``with``."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Wait for its end; do not wait for an end that the test did not bring about."""
        if kind is not None:
            self._end()
        super().__exit__(kind, value, traceback)

    def _end(self) -> None:
        # A recorder that is told to end also ends its workload.
        self.terminate()
        try:
            self.wait(_LONGEST_WAIT_S)
        except subprocess.TimeoutExpired:
            self.kill()


def skip_without_strace() -> None:
    """Skip a test where strace is missing, or may not trace."""
    try:
        done = subprocess.run(["strace", "-f", "-o", os.devnull, "true"], capture_output=True)
    except FileNotFoundError:
        pytest.skip("strace is not installed")
    if done.returncode:
        pytest.skip("strace may not trace here (ptrace is refused)")


def default_hangup() -> None:
    """Let SIGHUP end this process: a ``preexec_fn`` for programs that a test hangs up.

    ``nohup make test`` ignores it, and all that is started inherits that.
    """
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def lives(pid: str | int) -> bool:
    """Return whether a process that would live for a minute lives on.

    What was killed a moment ago takes a moment to go.
    """
    deadline = time.monotonic() + _LONGEST_WAIT_S
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
        # An orphan may wait for init to reap it.
        if state == "Z":
            return False
        time.sleep(0.02)
    return True


@contextmanager
def no_process_left(longest_wait_s: float = _LONGEST_WAIT_S) -> Iterator[None]:
    """Kill the processes that were started inside and do not end.

    :raises AssertionError: names them
    """
    mark = uuid4().hex
    before = os.environ.get(_MARK)
    os.environ[_MARK] = mark
    try:
        yield
    finally:
        if before is None:
            del os.environ[_MARK]
        else:
            os.environ[_MARK] = before
        left = _await_end(lambda: _started_with(mark), longest_wait_s)
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert not left, "processes were left running:\n" + "\n".join(left.values())


def _await_end(running: Callable[[], dict[int, str]], longest_wait_s: float) -> dict[int, str]:
    deadline = time.monotonic() + longest_wait_s
    looks_without = 0
    while looks_without < _LOOKS_WITHOUT and time.monotonic() < deadline:
        looks_without = 0 if running() else looks_without + 1
        time.sleep(0.05)
    return running()


def _started_with(mark: str) -> dict[int, str]:
    """Return what each process with this mark is, by its number."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        # Those of other users cannot be read.
        with suppress(OSError):
            environment = (folder / "environ").read_bytes().split(b"\0")
            if f"{_MARK}={mark}".encode() in environment:
                found[int(folder.name)] = _describe(folder, environment)
    return found


def _describe(folder: Path, environment: list[bytes]) -> str:
    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    tests = [line.removeprefix(_TEST).decode() for line in environment if line.startswith(_TEST)]
    return f"{folder.name} {command.strip()} (started by {', '.join(tests) or 'a fixture'})"
