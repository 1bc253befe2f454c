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
from schedperf_collectors.machine.processes import Process, read_process
from schedperf_collectors.machine.signals import signals
from schedperf_collectors.machine.system import last_line

# Time limit for a setup, which only writes to /sys and /proc.
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
    """A command that was started, after its setup if it has one.

    :param began_s: start of the command in s on the monotonic clock: right before the fork or,
        with a setup, when its shell is allowed to execute the command
    :param cgroup: lines of its /proc/PID/cgroup at the start; None if they cannot be read
    :param moment: the processes that existed right before the command ran
    :param before: its process when the setup had finished; None without a setup
    """

    process: subprocess.Popen[bytes]
    began_s: float
    cgroup: tuple[str, ...] | None
    moment: Moment
    before: Process | None = None

    @property
    def pid(self) -> int:
        """Return the pid of the command, which leads its own session and process group."""
        return self.process.pid


@dataclass(frozen=True)
class Usage:
    """What a command used, including the children that it waited for and its orphans.

    :param user_s: CPU time in user mode
    :param system_s: CPU time in kernel mode
    :param largest_bytes: the largest resident size of one process, those of the setup included
    :param voluntary_switches: those of the setup included
    """

    user_s: float
    system_s: float
    largest_bytes: int
    minor_faults: int
    major_faults: int
    voluntary_switches: int
    involuntary_switches: int


@dataclass(frozen=True)
class Ended:
    """The result of a command.

    :param status: as wait4(2) returns it
    :param usage: what the command used, without its setup
    :param wall_s: elapsed time in s since :attr:`Running.began_s`
    :param timed_out: whether it was killed at its time limit
    :param left_behind: names of processes that it left running in other process groups; they were
        killed, except those marked "(still running)"
    """

    status: int
    usage: Usage
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
    """Start a command after its setup, with empty input.

    :param stdout: file for its output; an existing file is overwritten
    :param stderr: file for its error output; an existing file is overwritten
    :param setup: shell command; None for none. With a setup, a command that cannot be executed
        raises nothing: the shell ends with status 126 or 127.
    :param on_start: called once with the lines of its /proc/PID/cgroup, () if unknown: after the
        setup, even if that fails, or without a setup after the start
    :param begin: called after the setup, right before the command runs; if it raises an exception,
        the command is not run
    :raises OSError: a command without setup cannot be executed, or a file cannot be opened
    :raises SetupFailed: the setup failed, or did not end within :data:`SETUP_LIMIT_S`
    :raises Interrupted: a signal arrived during the setup
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
            before = read_process(process.pid)
            running = Running(process, time.monotonic(), cgroup, moment, before)
            with contextlib.suppress(BrokenPipeError):
                ours.sendall(b"\n")
            return running
    status = reap(Running(process, time.monotonic(), cgroup, moment)).status
    signals.check()
    raise SetupFailed(problem or describe_status(status) + last_words(Path(err.name)))


def _end_with_recorder() -> Callable[[], None]:
    # A recorder that is killed cannot end its command. Only the leader of the group gets the
    # signal; what the leader has started ends if it waits for it.
    return functools.partial(end_with_parent, os.getpid(), signal.SIGKILL)


def _await_setup(process: subprocess.Popen[bytes], ours: socket.socket) -> str | None:
    """Wait for the end of the setup.

    :return: None on success; the error at the time limit; "" if the shell ended or a signal came
    """
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
    """Wait for a command; kill the processes that it leaves running.

    :param timeout_s: time since its start after which it is killed; None for no limit
    :raises Interrupted: a signal arrived; the command was killed
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
    """Return whether a child process has ended; do not reap it.

    :raises ChildProcessError: it is not a child of this process, or was already reaped
    """
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def reap(running: Running, *, timed_out: bool = False) -> Ended:
    """Kill the command's process group and its orphans in other groups; reap the command.

    :param timed_out: value of :attr:`Ended.timed_out`
    """
    wall_s = time.monotonic() - running.began_s
    # The group is killed before its leader is reaped, because its number could be reused later.
    kill_group(running.pid)
    _, status, usage = os.wait4(running.pid, 0)
    # Popen does not know that the child was reaped, and would warn that it is still running.
    running.process.returncode = os.waitstatus_to_exitcode(status)
    usages = [usage]
    left_behind = end_orphans(running.moment, running.pid, reaped=usages.append)
    return Ended(status, _sum(usages, running.before), wall_s, timed_out, left_behind)


def _sum(usages: Sequence[Any], before: Process | None) -> Usage:
    """Add up what processes used; subtract what a setup had used.

    :param usages: struct_rusage of each
    """
    setup = [] if before is None else [before.used, before.used_by_children]

    def total(field: str, of_setup: float) -> float:
        return max(0.0, float(sum(getattr(usage, field) for usage in usages)) - of_setup)

    return Usage(
        user_s=total("ru_utime", sum(used.user_s for used in setup)),
        system_s=total("ru_stime", sum(used.system_s for used in setup)),
        # Linux reports it in KiB.
        largest_bytes=max(usage.ru_maxrss for usage in usages) * 1024,
        minor_faults=int(total("ru_minflt", sum(used.minor_faults for used in setup))),
        major_faults=int(total("ru_majflt", sum(used.major_faults for used in setup))),
        voluntary_switches=sum(usage.ru_nvcsw for usage in usages),
        involuntary_switches=sum(usage.ru_nivcsw for usage in usages),
    )


def read_cgroup(pid: int) -> tuple[str, ...] | None:
    """Return the lines of /proc/PID/cgroup; None if it cannot be read.

    That is the case if the process has ended, or if the kernel has no cgroups.
    """
    try:
        return tuple(Path(f"/proc/{pid}/cgroup").read_text(errors="replace").splitlines())
    except OSError:
        return None


def kill_group(pid: int) -> None:
    """Kill a process group; ignore one that no longer exists or belongs to another user.

    :param pid: pid of its leader
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def run_shell(script: str, limit_s: float) -> str | None:
    """Run a shell script with ``sh -e``, even if signals arrive; kill it at the time limit.

    :return: why it failed; None if it succeeded
    """
    with subprocess.Popen(
        ["sh", "-ec", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            _, errors = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            kill_group(process.pid)
            return f"the script did not finish within {limit_s:.0f} s"
        except BaseException:
            kill_group(process.pid)
            raise
    if process.returncode == 0:
        return None
    last = last_line(errors.decode(errors="replace"))
    return f"exit status {process.returncode}" + (f": {last}" if last else "")


def describe_status(status: int) -> str:
    """Describe how a process ended.

    :param status: as wait4(2) returns it

    >>> describe_status(256)
    'exit status 1'
    """
    code = os.waitstatus_to_exitcode(status)
    return f"exit status {code}" if code >= 0 else f"killed by {signal_name(-code)}"


def signal_name(signum: int) -> str:
    """Return a signal's name, ``SIGINT``; ``signal 35`` for one without a name (real-time)."""
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"


def last_words(path: Path) -> str:
    """Return ``: TEXT`` with the last line of a file, for messages; "" if there is none.

    :raises OSError: the file cannot be read
    """
    # A program's last line is in its last 4 KiB.
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4096))
        text = file.read().decode(errors="replace").strip()
    line = "".join(letter for letter in text.rpartition("\n")[2] if letter.isprintable())
    return f": {line}" if line else ""
