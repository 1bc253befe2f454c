# SPDX-License-Identifier: GPL-2.0-or-later
"""Call boot hooks on this machine, with limits on time and output.

A hook is the name of a built-in hook, or ``command:PATH`` for a program of the user.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Callable

from schedperf_collectors.boots.scripts import BUILT_IN, script
from schedperf_collectors.machine.errors import RecordError, explain
from schedperf_collectors.machine.process import kill_group

COMMAND = "command:"
# The name that means guests, which need no hook.
GUESTS = "virtme-ng"

# A hook reads and writes a few small files; one that takes longer is stuck.
LIMIT_S = 60.0
OUTPUT_BYTES = 64 << 10
# Time for the last lines of a hook that has ended to arrive.
_DRAIN_S = 1.0


@dataclass(frozen=True)
class Called:
    """The result of a call.

    :param status: exit status, negative for a signal; None if it was killed at the time limit
    :param stdout: beginning of its output, at most ``OUTPUT_BYTES``
    :param stderr: beginning of its error output, at most ``OUTPUT_BYTES``
    """

    status: int | None
    stdout: str
    stderr: str


# Calls a hook with its arguments, here or on another machine.
Call = Callable[[str, Sequence[str]], Called]


def check_name(hook: str) -> None:
    """Check the name of a hook.

    :raises RecordError: it is neither built in nor a command; ``auto`` and ``virtme-ng`` are
        neither
    """
    if hook == GUESTS:
        raise RecordError(
            f"--boot {GUESTS}: boots guests, not this machine; check them with `schedperf vm "
            "--check`, and record with `schedperf vm`"
        )
    if not is_hook(hook):
        names = ", ".join(BUILT_IN)
        raise RecordError(
            f"--boot: unknown hook {hook[:64]!r} (expected auto, {names} or {COMMAND}PATH, "
            "e.g. grub-reboot); see docs/kernels.md"
        )


def is_hook(name: str) -> bool:
    """Return whether a name is that of a built-in hook, or a command."""
    return name in BUILT_IN or (name.startswith(COMMAND) and name != COMMAND)


def call_here(hook: str, arguments: Sequence[str], limit_s: float = LIMIT_S) -> Called:
    """Call a hook on this machine; kill its process group at the time limit and at its end.

    :param limit_s: time limit in s
    :raises RecordError: the command, or sh for a built-in hook, cannot be executed
    :raises KeyError: the hook is neither a command nor built in
    """
    with tempfile.TemporaryFile() as text:
        command = _command(hook, text)
        try:
            process = subprocess.Popen(
                [*command, *arguments],
                stdin=text,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env={"SCHEDPERF_TARGET": "", **os.environ},
            )
        except OSError as error:
            raise RecordError(
                f"--boot {hook}: {explain(error)} (expected an executable file)"
            ) from error
    return _finish(process, limit_s)


def _command(hook: str, text: IO[bytes]) -> list[str]:
    if hook.startswith(COMMAND):
        return [hook[len(COMMAND) :]]
    text.write(script(hook))
    text.seek(0)
    return ["sh", "-s", "--"]


def _finish(process: subprocess.Popen[bytes], limit_s: float) -> Called:
    assert process.stdout is not None
    assert process.stderr is not None
    outputs = (_Output(process.stdout), _Output(process.stderr))
    deadline = time.monotonic() + limit_s
    status: int | None = None
    try:
        status = process.wait(limit_s)
        # A background process of the hook may hold its output open.
        deadline = time.monotonic() + _DRAIN_S
        for output in outputs:
            output.join(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        pass
    finally:
        kill_group(process.pid)
        process.wait()
    for output in outputs:
        output.join(_DRAIN_S)
    return Called(status, outputs[0].text(), outputs[1].text())


class _Output(threading.Thread):
    """Read a pipe to its end, but store only the beginning."""

    def __init__(self, pipe: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self._pipe = pipe
        self._kept = bytearray()
        self.start()

    def run(self) -> None:
        with self._pipe:
            while True:
                data = self._pipe.read1(OUTPUT_BYTES)  # type: ignore[attr-defined] # buffered
                if not data:
                    return
                self._kept += data[: OUTPUT_BYTES - len(self._kept)]

    def text(self) -> str:
        """Return the stored text."""
        return bytes(self._kept).decode(errors="replace")
