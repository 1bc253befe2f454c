# SPDX-License-Identifier: GPL-2.0-or-later
"""Run commands in separate sessions, and kill all remaining processes at the end.

A *setup* is a shell command that runs in the process that then executes the command: settings of
that process (cgroup, CPU mask, environment, nice value, limits) apply to the command only.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Callable

from schedperf_collectors.machine.errors import Interrupted, RecordError
from schedperf_collectors.machine.orphans import Moment, end_orphans, end_with_parent
from schedperf_collectors.machine.signals import signals
from schedperf_collectors.machine.system import last_line

# A setup writes to /sys and /proc; one that takes longer is stuck.
SETUP_LIMIT_S = 60.0

# The shell finally executes the command. Its standard input is a socket: the shell reports on it
# that the setup is complete, and waits for permission to continue, so that its cgroup can be
# read and collectors can begin before the command runs. If the recorder has ended, the shell reads
# end of file and exits. The setup's output goes to stderr, because it is not part of the command's.
_SCRIPT = """\
schedperf_setup=$1
shift
exec 3>&0 0</dev/null 4>&1 1>&2
eval "$schedperf_setup"
echo >&3
read -r schedperf_setup <&3 || exit 1
unset schedperf_setup
exec 3>&- 1>&4 4>&-
exec "$@"
"""

Notice = Callable[[Sequence[str]], None]
Begin = Callable[[], None]


class SetupFailed(RecordError):
    """A command's setup failed before the command began."""


@dataclass(frozen=True)
class Running:
    """A command that has begun after its setup.

    :param began_s: on the monotonic clock: at the fork, or when the setup was allowed to continue
    :param cgroup: lines of its /proc/PID/cgroup then; None where the kernel has none
    :param moment: right before it ran
    """

    process: subprocess.Popen[bytes]
    began_s: float
    cgroup: tuple[str, ...] | None
    moment: Moment

    @property
    def pid(self) -> int:
        """Return the leader of the command's session and process group."""
        return self.process.pid


@dataclass(frozen=True)
class Ended:
    """The end of a command.

    :param status: as wait4(2) returns it
    :param usage: of the command and those of its children that it waited for, a struct_rusage
    :param timed_out: it was killed at its time limit
    :param left_behind: names of processes that it left running in other groups; they were killed
    """

    status: int
    usage: Any
    wall_s: float
    timed_out: bool
    left_behind: tuple[str, ...]


def start(
    command: Sequence[str],
    stdout: Path,
    stderr: Path,
    setup: str | None = None,
    on_start: Notice = lambda _: None,
    *,
    begin: Begin = lambda: None,
) -> Running:
    """Start a command, after its setup; its input is empty.

    :param on_start: called with the lines of its /proc/PID/cgroup, even if the setup fails
    :param begin: called after the setup, right before the command runs; if it raises an exception,
        the command is not run
    :raises OSError: the command cannot be executed
    :raises SetupFailed: the setup ended with an error, or did not end
    :raises Interrupted: a signal came during the setup
    """
    with stdout.open("wb") as out, stderr.open("wb") as err:
        if setup is not None:
            return _start_after(setup, command, (out, err), on_start, begin)
        # A child starts in its parent's cgroup, and may end before its cgroup can be read.
        cgroup = read_cgroup(os.getpid())
        begin()
        moment = Moment.now()
        began_s = time.monotonic()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            preexec_fn=_end_with_recorder(),  # noqa: PLW1509 # prctl(2) only
        )
    on_start(cgroup or ())
    return Running(process, began_s, cgroup, moment)


def _start_after(
    setup: str,
    command: Sequence[str],
    outputs: tuple[BinaryIO, BinaryIO],
    on_start: Notice,
    begin: Begin,
) -> Running:
    out, err = outputs
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            process = subprocess.Popen(
                ["sh", "-ec", _SCRIPT, "setup", setup, *command],
                stdin=theirs.fileno(),
                stdout=out,
                stderr=err,
                start_new_session=True,
                preexec_fn=_end_with_recorder(),  # noqa: PLW1509 # prctl(2) only
            )
        moment = Moment.now()
        problem = _await_setup(process, ours)
        cgroup = read_cgroup(process.pid)
        on_start(cgroup or ())
        if problem is None:
            try:
                begin()
            except BaseException:
                reap(Running(process, time.monotonic(), cgroup, moment))
                raise
            moment = Moment.now()
            running = Running(process, time.monotonic(), cgroup, moment)
            with contextlib.suppress(BrokenPipeError):
                ours.sendall(b"\n")
            return running
    status = reap(Running(process, time.monotonic(), cgroup, moment)).status
    signals.check()
    raise SetupFailed(problem or say_status(status) + last_words(Path(err.name)))


def _end_with_recorder() -> Callable[[], None]:
    # A recorder that is killed cannot end its command. Only the leader of the group gets the
    # signal; what the leader has started ends if it waits for it.
    return functools.partial(end_with_parent, os.getpid(), signal.SIGKILL)


def _await_setup(process: subprocess.Popen[bytes], ours: socket.socket) -> str | None:
    """Wait for the end of the setup; return the error, "" on success."""
    deadline = time.monotonic() + SETUP_LIMIT_S
    while True:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return f"the script did not finish within {SETUP_LIMIT_S:.0f} s"
        # Checked before the socket is read, so that the socket has all reports of an ended shell.
        ended = has_ended(process.pid)
        if signals.wait(0 if ended else left_s, ours.fileno()):
            return None if ours.recv(1) else ""
        if ended or signals.caught is not None:
            return ""


def finish(running: Running, timeout_s: float | None = None) -> Ended:
    """Wait for a command; kill the remaining processes of its group.

    :param timeout_s: kill it when it has run that long
    :raises Interrupted: a signal came meanwhile; the command has been killed
    """
    while not has_ended(running.pid):
        left_s = None
        if timeout_s is not None:
            left_s = running.began_s + timeout_s - time.monotonic()
            if left_s <= 0:
                return reap(running, timed_out=True)
        if signals.caught is not None:
            reap(running)
            raise Interrupted(signals.caught)
        signals.wait(left_s)
    return reap(running)


def has_ended(pid: int) -> bool:
    """Return whether a child has ended; it can still be reaped."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def reap(running: Running, *, timed_out: bool = False) -> Ended:
    """Kill the process group and reap its leader."""
    wall_s = time.monotonic() - running.began_s
    # The group is killed before its leader is reaped, because its number could be reused later.
    kill_group(running.pid)
    _, status, usage = os.wait4(running.pid, 0)
    # Popen does not know that the child was reaped, and would warn that it is still running.
    running.process.returncode = os.waitstatus_to_exitcode(status)
    left_behind = end_orphans(running.moment, running.pid)
    return Ended(status, usage, wall_s, timed_out, left_behind)


def read_cgroup(pid: int) -> tuple[str, ...] | None:
    """Return the lines of /proc/PID/cgroup; None when the process is gone or has none."""
    try:
        return tuple(Path(f"/proc/{pid}/cgroup").read_text(errors="replace").splitlines())
    except OSError:
        return None


def kill_group(pid: int) -> None:
    """Kill a process group; it may be gone already."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def run_shell(script: str, limit_s: float) -> str | None:
    """Run a shell script to its end, even if signals arrive.

    :return: why it failed; None if it succeeded
    """
    try:
        subprocess.run(
            ["sh", "-ec", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            timeout=limit_s,
            check=True,
        )
    except subprocess.TimeoutExpired:
        return f"the script did not finish within {limit_s:.0f} s"
    except subprocess.CalledProcessError as error:
        last = last_line(error.stderr.decode(errors="replace"))
        return f"exit status {error.returncode}" + (f": {last}" if last else "")
    return None


def say_status(status: int) -> str:
    """Return how a process ended, as text.

    >>> say_status(256)
    'exit status 1'
    """
    code = os.waitstatus_to_exitcode(status)
    return f"exit status {code}" if code >= 0 else f"killed by {signal_name(-code)}"


def signal_name(signum: int) -> str:
    """Return a signal's name; real-time ones have a number only."""
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"


def last_words(path: Path) -> str:
    """Return ``: TEXT`` with the last line of a file, for messages; "" if there is none."""
    # A program's last line is in its last 4 KiB.
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4096))
        text = file.read().decode(errors="replace").strip()
    line = "".join(letter for letter in text.rpartition("\n")[2] if letter.isprintable())
    return f": {line}" if line else ""
