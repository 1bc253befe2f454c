# SPDX-License-Identifier: GPL-2.0-or-later
"""Run perf around a workload: enabled before it starts, stopped with SIGINT after it.

perf is started with its events disabled, and a command through a pipe enables them
(``-D -1 --control fd:…``, in perf since 5.10); its acknowledgements prove that it
is ready and counting. A perf without that option counts from its start, and the recorder waits for
a short time instead, which the capture records.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.process import signal_name
from schedperf_collectors.machine.system import c_locale, execute, last_line, or_none, run
from schedperf_collectors.plugin import Skipped

# Opening an event on each of 512 CPUs and reading all of /proc takes seconds, more under emulation.
READY_TIMEOUT_S = 60.0
# After SIGINT perf record reads the build ids of all that was mapped.
STOP_TIMEOUT_S = 120.0
# Time for a perf without --control to open its events; 0.15 s were measured on 2 CPUs.
SETTLE_S = 1.0
POLL_S = 0.02
# perf writes its file and then dies of the SIGINT; older versions exit with 0 or 130.
GOOD_STATUS = (0, -int(signal.SIGINT), 130)
# prctl(2): the signal that a child gets when its parent dies.
PR_SET_PDEATHSIG = 1

PARANOID_REMEDY = "run as root, or set kernel.perf_event_paranoid to -1 with sysctl"
# Root without this capability is root in a container, or has dropped it.
ROOT_REMEDY = "add CAP_PERFMON or CAP_SYS_ADMIN to the container, or record outside of it"
# Messages of perf if this user may not use perf_event_open or tracefs, of old and new versions.
DENIED = ("perf_event_paranoid", "No permission", "Permission denied", "Operation not permitted")


class PerfFailed(Exception):
    """perf failed; the message is its error line."""


@dataclass
class _Control:
    # Ends of two pipes: perf reads commands from ``read`` and acknowledges on ``ack_write``.
    read: int
    write: int
    ack_read: int
    ack_write: int


@dataclass
class Recording:
    """A running perf.

    :param acknowledged: whether perf acknowledges commands; if not, it counts from its start, and
        the recorder waited for :data:`SETTLE_S`
    :param stderr: output of perf, once it has ended; "" before
    """

    process: subprocess.Popen[bytes]
    control: _Control
    acknowledged: bool
    stderr: str = ""

    def begin(self) -> None:
        """Enable the events; do nothing if perf does not acknowledge commands.

        :raises PerfFailed: perf has ended, or did not answer within :data:`READY_TIMEOUT_S`
        """
        if self.acknowledged and not _obeys(self.control, self.process, b"enable\n"):
            status = self.process.poll()
            how = "perf hung" if status is None else _describe_end(status)
            raise PerfFailed(f"{how} before its events were enabled")


@contextmanager
def perf_running(command: Sequence[str]) -> Iterator[Recording]:
    """Run perf, for the time of a ``with`` block; it counts from :meth:`Recording.begin` on.

    A perf without the option ``--control`` counts from its start.

    :param command: program and options, without a workload
    :raises Skipped: this user may not use perf
    :raises PerfFailed: perf ended with an error, before or after the block
    """
    with tempfile.TemporaryFile() as stderr, _control_pipes() as control:
        recording = _start(command, stderr, control)
        try:
            yield recording
        finally:
            status = _stop(recording.process)
        recording.stderr = _text_of(stderr)
        if status not in GOOD_STATUS:
            raise failure(recording.stderr, status)


def describe_perf(command: Sequence[str], folder: Path, recording: Recording) -> dict[str, object]:
    """Return version, command and messages of perf, for a capture's JSON.

    :param command: the command line; its last word is a file in ``folder``
    """
    return {
        "perf_version": or_none(lambda: run([command[0], "--version"])),
        "command": [*command[:-1], Path(command[-1]).name],
        "started": "acknowledged" if recording.acknowledged else "assumed",
        "messages": recording.stderr.replace(f"{folder}/", "").splitlines(),
    }


def perf_output(command: Sequence[str]) -> str:
    """Run a perf command until it ends, and return its standard error.

    :raises Skipped: this user may not use perf
    :raises PerfFailed: perf ended with an error or not at all
    """
    try:
        done = execute(command, READY_TIMEOUT_S, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    except Unavailable as error:
        raise PerfFailed(error.reason) from error
    stderr = done.stderr.decode("utf-8", "replace")
    if done.returncode != 0:
        raise failure(stderr, done.returncode)
    return stderr


def failure(stderr: str, status: int) -> Exception:
    """Return the exception for a failed perf; the caller raises it.

    :param stderr: standard error of perf
    :param status: exit status; negative for a signal, as in :mod:`subprocess`
    :return: :class:`Skipped` if this user may not use perf, else :class:`PerfFailed`
    """
    if any(sign in stderr for sign in DENIED):
        if os.geteuid() == 0:
            return Skipped("perf is not permitted, although this user is root", ROOT_REMEDY)
        return Skipped("perf is not permitted for this user", PARANOID_REMEDY)
    if status < 0:
        # Earlier output does not explain a signal.
        return PerfFailed(_describe_end(status))
    return PerfFailed(f"perf: exit status {status}: {_reason(stderr)}")


def _describe_end(status: int) -> str:
    if status < 0:
        return f"perf was killed by {signal_name(-status)}"
    return f"perf exited with status {status}"


def _reason(stderr: str) -> str:
    # perf prints advice and usage after the error, so the error is not the last line.
    lines = [line.strip() for line in stderr.splitlines()]
    for index, line in enumerate(lines):
        if line.startswith("event syntax error"):
            return line
        if line.startswith("Error:"):
            return line[len("Error:") :].strip() or next(filter(None, lines[index + 1 :]), line)
    return last_line(stderr)


@contextmanager
def _control_pipes() -> Iterator[_Control]:
    # They stay open until perf has ended: perf record 6.1 gives up ("Thread and evlist pollfd index
    # mismatch") and leaves an empty file when the other end of its control pipe is closed.
    control = _Control(*os.pipe(), *os.pipe())
    try:
        yield control
    finally:
        for descriptor in (control.read, control.write, control.ack_read, control.ack_write):
            os.close(descriptor)


def _start(command: Sequence[str], stderr: IO[bytes], control: _Control) -> Recording:
    options = ["-D", "-1", "--control", f"fd:{control.read},{control.ack_write}"]
    process = _spawn([*command, *options], stderr, (control.read, control.ack_write))
    # The events are still disabled; an answer shows that perf has opened them.
    if _obeys(control, process, b"disable\n"):
        return Recording(process, control, acknowledged=True)
    status = _stop(process)
    if "unknown option" in _text_of(stderr).lower():
        stderr.seek(0)
        stderr.truncate()
        process = _spawn(command, stderr, ())
        time.sleep(SETTLE_S)
        if process.poll() is None:
            return Recording(process, control, acknowledged=False)
        status = process.wait()
    raise failure(_text_of(stderr), status)


def _obeys(control: _Control, process: subprocess.Popen[bytes], command: bytes) -> bool:
    os.write(control.write, command)
    deadline = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        if select.select([control.ack_read], [], [], POLL_S)[0]:
            return os.read(control.ack_read, 16).startswith(b"ack")
    return False


def _spawn(
    command: Sequence[str], stderr: IO[bytes], pass_fds: Sequence[int]
) -> subprocess.Popen[bytes]:
    # A session of its own, so that Ctrl-C does not end perf before the workload. SIGINT on the
    # death of this process, so that perf does not record for ever.
    libc = ctypes.CDLL(None)

    def end_with_parent() -> None:
        libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGINT))

    return subprocess.Popen(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        env=c_locale(),
        pass_fds=tuple(pass_fds),
        start_new_session=True,
        preexec_fn=end_with_parent,  # noqa: PLW1509 # a collector's process has one thread
    )


def _stop(process: subprocess.Popen[bytes]) -> int:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    try:
        return process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _text_of(stderr: IO[bytes]) -> str:
    stderr.seek(0)
    return stderr.read().decode("utf-8", "replace")
