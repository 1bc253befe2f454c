# SPDX-License-Identifier: GPL-2.0-or-later
"""Reserve a machine that others use, too: by labgrid, or by a program of the site.

::

    with reserved("labgrid:lab1", "2x48", Path("nights/2x48/reserved.json")):
        …

The file says that this owner holds the machine. It is written before the machine is reserved, so
that a run that was killed is continued by the next one, which takes over its reservation.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.json import decode, encode

from schedperf.inputs.bundle.durable import write_durably
from schedperf.inputs.bundle.files import read_regular
from schedperf.lab.group import end_group, signals_delayed
from schedperf.model.errors import InputError, SchedperfError
from schedperf.model.text import clean_line, cut

LABGRID = "labgrid:"
COMMAND = "command:"
# One call of labgrid-client or of the program.
LIMIT_S = 120.0
_AGAIN_S = 30.0
_TEMPORARY = 75
_LARGEST_BYTES = 1 << 16
_LONGEST = 200
_EXPECTED = "expected labgrid:PLACE or command:PATH, e.g. labgrid:lab1"
# Parts of the messages of labgrid-client 26.0, whose exit status is 1 for every error.
_IS_OURS = "you have already acquired"
_IS_FREE = "is not acquired"
_NO_PLACE = ("matches nothing", "matches multiple", "no place named")


class Busy(SchedperfError):
    """The machine cannot be reserved now; a retry may succeed (``EX_TEMPFAIL``)."""

    exit_status = _TEMPORARY


class _Held(Struct, frozen=True, kw_only=True):
    """What this owner holds, or was about to reserve.

    :param how: ``labgrid:PLACE`` or ``command:PATH``
    """

    how: str
    machine: str


class _Answer(Struct, frozen=True, kw_only=True):
    """How a call ended: exit status, and the last line of its output."""

    status: int
    line: str


def check(how: str) -> None:
    """Check that a reservation can be made in this way, without making it.

    :param how: value of the key ``reserve`` of a machine
    :raises InputError: it has another form, or its program does not exist
    """
    _command(how, "reserve", "")


@contextlib.contextmanager
def reserved(how: str | None, machine: str, file: Path, wait_s: float = 0.0) -> Iterator[None]:
    """Hold a machine during the block; see :func:`reserve` and :func:`release`.

    :param how: None to reserve nothing
    """
    reserve(how, machine, file, wait_s)
    try:
        yield
    finally:
        release(file)


def reserve(how: str | None, machine: str, file: Path, wait_s: float = 0.0) -> None:
    """Reserve a machine, or take over the reservation of an earlier run of this owner.

    What that run held in another way, or of another machine, is released first.

    :param how: ``labgrid:PLACE``, or ``command:PATH``: ``PATH reserve MACHINE`` must reserve the
        machine, also if it holds it already, and end with exit status 75 if others use it. None to
        reserve nothing
    :param machine: name of the machine
    :param file: says what this owner holds; in a directory that exists
    :param wait_s: how long to wait for a machine that others use, s
    :raises Busy: others use the machine, or labgrid or the program does not answer
    :raises InputError: the key is invalid, the place is unknown, or the program is missing or fails
    """
    held = _read(file)
    mine = None if how is None else _Held(how=how, machine=machine)
    if held is not None and held != mine:
        release(file)
        held = None
    if mine is None:
        return
    command = _command(mine.how, "reserve", machine)
    if held is None:
        write_durably(file, encode(mine))
    try:
        _await(mine, command, wait_s, is_again=held is not None)
    except SchedperfError:
        # Nothing is known of a reservation that an earlier run may hold.
        if held is None:
            file.unlink(missing_ok=True)
        raise


def release(file: Path) -> None:
    """Give a machine back; nothing happens if the file does not exist.

    :param file: as for :func:`reserve`
    :raises Busy: labgrid or the program does not answer; the file is kept, for another try
    :raises InputError: the file is damaged, or the program is missing or fails
    """
    held = _read(file)
    if held is None:
        return
    answer = _call(held, _command(held.how, "release", held.machine))
    # A place that a person took from us, or that labgrid lost, is not ours to release.
    is_gone = held.how.startswith(LABGRID) and (
        _IS_FREE in answer.line.lower() or "different user" in answer.line.lower()
    )
    if answer.status != 0 and not is_gone:
        raise _error(held, answer, "release")
    file.unlink(missing_ok=True)


def _await(held: _Held, command: Sequence[str], wait_s: float, *, is_again: bool) -> None:
    until_s = time.monotonic() + wait_s
    while True:
        answer = _call(held, command)
        # Without an earlier run, the place is held by a person of the same name.
        if answer.status == 0 or (is_again and _IS_OURS in answer.line.lower()):
            return
        error = _error(held, answer, "reserve")
        if not isinstance(error, Busy) or time.monotonic() >= until_s:
            raise error
        time.sleep(min(_AGAIN_S, max(until_s - time.monotonic(), 0.0)))


def _command(how: str, verb: str, machine: str) -> list[str]:
    """Return the command that reserves or releases a machine.

    :raises InputError: the key is invalid, or the program does not exist
    """
    if how.startswith(LABGRID):
        place = how.removeprefix(LABGRID)
        if not place or place.startswith("-") or not place.isprintable():
            raise InputError(f"reserve: invalid value {_shown(how)!r} ({_EXPECTED})")
        words = ["labgrid-client", "-p", place, "acquire" if verb == "reserve" else "release"]
        remedy = "install it on the controller, e.g. with `pipx install labgrid`"
    elif how.startswith(COMMAND) and how != COMMAND:
        words = [how.removeprefix(COMMAND), verb, machine]
        remedy = "give the path of an executable file"
    else:
        raise InputError(f"reserve: invalid value {_shown(how)!r} ({_EXPECTED})")
    program = shutil.which(words[0]) if "\0" not in words[0] else None
    if program is None:
        raise InputError(f"reserve: {_shown(words[0])}: no such program; {remedy}")
    return [program, *words[1:]]


def _call(held: _Held, command: Sequence[str]) -> _Answer:
    """Run a command to its end.

    :raises Busy: it did not end within LIMIT_S
    :raises InputError: it cannot be executed
    """
    try:
        with (
            signals_delayed() as deliver,
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, "LC_ALL": "C"},
                start_new_session=True,
                preexec_fn=deliver,  # noqa: PLW1509 # sigprocmask(2) only
            ) as process,
        ):
            try:
                deliver()
                output, _ = process.communicate(timeout=LIMIT_S)
            finally:
                end_group(process)
    except subprocess.TimeoutExpired:
        raise Busy(
            f"{held.machine}: `{' '.join(command)}` did not end within {LIMIT_S:.0f} s; see that "
            "it answers"
        ) from None
    except OSError as error:
        raise InputError(
            f"reserve: {command[0]}: {str(error.strerror).lower()}; make it executable"
        ) from error
    lines = output[-_LARGEST_BYTES:].decode(errors="replace").strip().splitlines()
    return _Answer(status=process.returncode, line=clean_line(lines[-1]) if lines else "")


def _error(held: _Held, answer: _Answer, verb: str) -> SchedperfError:
    said = cut(answer.line, _LONGEST) or _describe_status(answer.status)
    where = f"{held.machine}: {verb} by {_shown(held.how)}"
    if held.how.startswith(COMMAND):
        if answer.status == _TEMPORARY:
            return Busy(f"{where}: busy: {said}; try again later")
        return InputError(
            f"{where}: failed with exit status {answer.status}: {said} (expected 0, or 75 if "
            "others use the machine); correct the program"
        )
    if any(text in answer.line.lower() for text in _NO_PLACE):
        return InputError(f"{where}: {said}; see `labgrid-client places`")
    return Busy(f"{where}: busy: {said}; see `labgrid-client who`")


def _describe_status(status: int) -> str:
    return f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"


def _read(file: Path) -> _Held | None:
    if not file.exists():
        return None
    content = read_regular(file, _LARGEST_BYTES, "a reservation of schedperf")
    try:
        return decode(content, type=_Held)
    except (ValueError, RecursionError) as error:
        reason = clean_line(cut(str(error), _LONGEST))
        raise InputError(
            f"{file}: damaged ({reason}); release the machine yourself, then remove the file"
        ) from None


def _shown(text: str) -> str:
    return clean_line(cut(text, _LONGEST))
