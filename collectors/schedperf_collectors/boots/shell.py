# SPDX-License-Identifier: GPL-2.0-or-later
"""Run commands here and by ssh, with limits on time and output."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

from schedperf_collectors.machine.errors import RecordError, explain
from schedperf_collectors.machine.process import kill_group
from schedperf_collectors.machine.signals import signals
from schedperf_collectors.recorder.boot_options import HOST

LIMIT_S = 60.0
OUTPUT_BYTES = 1 << 20
# Another ssh program or more options, e.g. "ssh -F FILE".
SSH_VARIABLE = "SCHEDPERF_SSH"

_SSH_OPTIONS = (
    "-T",
    *("-o", "BatchMode=yes"),
    *("-o", "ConnectTimeout=10"),
    *("-o", "ServerAliveInterval=5"),
    *("-o", "ServerAliveCountMax=3"),
)
# ssh uses this status for its own errors.
_SSH_FAILED = 255
_LOOK_AGAIN_S = 0.1
_DRAIN_S = 1.0


class Unreachable(Exception):
    """The target does not answer; the text is the reason."""


@dataclass(frozen=True)
class Output:
    """The result of a command.

    :param status: exit status, negative for a signal; None if it was killed at the time limit
    :param stdout: its first ``OUTPUT_BYTES``; empty if the output went to a file
    :param stderr: its first ``OUTPUT_BYTES``
    """

    status: int | None
    stdout: bytes
    stderr: str

    def last_line(self) -> str:
        """Return the last line of stderr that is not empty; "" if there is none.

        It has no control characters, and at most 300 characters.
        """
        lines = ["".join(filter(str.isprintable, line)) for line in self.stderr.splitlines()]
        return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")


def run(
    command: Sequence[str],
    source: bytes | IO[bytes] = b"",
    limit_s: float = LIMIT_S,
    to: IO[bytes] | None = None,
) -> Output:
    """Run a command; kill its process group at the time limit, at a signal and at its end.

    :param source: its input, or a file with its input
    :param limit_s: time limit in s
    :param to: file for its output; None to return the first ``OUTPUT_BYTES``
    :raises RecordError: it cannot be executed
    :raises Interrupted: a signal requests termination
    """
    with tempfile.TemporaryFile() as held:
        if isinstance(source, bytes):
            held.write(source)
            held.seek(0)
            source = held
        try:
            process = subprocess.Popen(
                command,
                stdin=source,
                stdout=subprocess.PIPE if to is None else to,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise RecordError(
                f"{command[0]}: {explain(error)} (expected an executable file); install it"
            ) from error
    readers = [_OutputThread(pipe) for pipe in (process.stdout, process.stderr) if pipe is not None]
    status: int | None = None
    try:
        status = _wait(process, limit_s)
        for reader in readers:
            reader.join(_DRAIN_S)
    finally:
        kill_group(process.pid)
        process.wait()
    for reader in readers:
        reader.join(_DRAIN_S)
    stdout = readers[0].data() if to is None else b""
    return Output(status, stdout, readers[-1].data().decode(errors="replace"))


def _wait(process: subprocess.Popen[bytes], limit_s: float) -> int | None:
    deadline = time.monotonic() + limit_s
    while True:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return None
        try:
            return process.wait(min(left_s, _LOOK_AGAIN_S))
        except subprocess.TimeoutExpired:
            signals.check()


class _OutputThread(threading.Thread):
    """Read a pipe to its end, but store only the beginning."""

    def __init__(self, pipe: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self._pipe = pipe
        self._kept = bytearray()
        self.start()

    def run(self) -> None:
        with self._pipe:
            while True:
                data = self._pipe.read1(1 << 16)  # type: ignore[attr-defined] # buffered
                if not data:
                    return
                self._kept += data[: OUTPUT_BYTES - len(self._kept)]

    def data(self) -> bytes:
        """Return the stored bytes."""
        return bytes(self._kept)


@dataclass(frozen=True)
class Ssh:
    """Another machine, reached by OpenSSH with the user's configuration.

    :param host: host name as for ssh, e.g. root@lab1; an IPv6 address is in brackets
    :param port: None for the port of ssh's configuration
    """

    host: str
    port: int | None = None

    def run(
        self,
        command: Sequence[str],
        source: bytes | IO[bytes] = b"",
        limit_s: float = LIMIT_S,
        to: IO[bytes] | None = None,
    ) -> Output:
        """Run a command there; see :func:`run`.

        :raises Unreachable: ssh failed, or the time limit was reached
        :raises RecordError: ssh cannot be executed, or SCHEDPERF_SSH is not a valid command
        :raises Interrupted: a signal requests termination
        """
        program = _ssh_program()
        port = [] if self.port is None else ["-p", str(self.port)]
        words = [*program, *_SSH_OPTIONS, *port, "--", self.host.strip("[]"), shlex.join(command)]
        output = run(words, source, limit_s, to)
        if output.status is None:
            raise Unreachable(f"no answer within {limit_s:.0f} s")
        if output.status == _SSH_FAILED or output.status < 0:
            raise Unreachable(output.last_line() or f"ssh ended with status {output.status}")
        return output


def _ssh_program() -> list[str]:
    text = os.environ.get(SSH_VARIABLE, "")
    try:
        return shlex.split(text) or ["ssh"]
    except ValueError as error:
        raise RecordError(
            f"{SSH_VARIABLE}: invalid command {text!r}: {str(error).lower()} (expected ssh and its "
            "options, e.g. 'ssh -F lab.conf'); correct it"
        ) from error


def parse_host(text: str) -> Ssh:
    """Parse ``ssh:HOST`` or ``ssh:HOST:PORT``.

    >>> parse_host("ssh:root@lab1:2222")
    Ssh(host='root@lab1', port=2222)

    :raises RecordError: the text has another form
    """
    match = HOST.match(text)
    if not match:
        raise RecordError(f"invalid target {text!r} (expected ssh:HOST, e.g. ssh:root@lab1)")
    return Ssh(match["host"], int(match["port"]) if match["port"] else None)
