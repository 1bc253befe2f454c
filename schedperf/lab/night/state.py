# SPDX-License-Identifier: GPL-2.0-or-later
"""Store the state of a night: write it to disk before each step, and read it after a kill."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, get_args

from msgspec import Meta, Struct

from schedperf.inputs.bundle.durable import write_durably
from schedperf.inputs.bundle.files import read_regular
from schedperf.inputs.bundle.json import decode
from schedperf.model.errors import BundleError, InputError, SchedperfError
from schedperf.model.json_text import to_json
from schedperf.model.text import clean_line
from schedperf_collectors.machine.errors import explain

SCHEMA = "schedperf/night/1"
# The steps until a night has its result.
MainName = Literal["prepare", "record", "compare"]
# The steps after that, however the night has ended. From "records" on, they are of the whole lab.
AfterName = Literal["history", "requests", "records", "publish", "draft", "digest"]
StepName = MainName | AfterName
MAIN: tuple[MainName, ...] = get_args(MainName)
AFTER: tuple[AfterName, ...] = get_args(AfterName)
STEPS: tuple[StepName, ...] = (*MAIN, *AFTER)
STATE = "state.json"
_LOCK = "lock"
_LARGEST_BYTES = 1 << 20
# The commands of a killed night end shortly after it.
_ENDS_WITHIN_S = 60.0
_LOOK_AGAIN_S = 0.5

Text = Annotated[str, Meta(max_length=4096)]
Number = Annotated[int, Meta(ge=0, le=1 << 31)]


class NightError(SchedperfError):
    """The night cannot continue now; a retry may succeed (``EX_TEMPFAIL``)."""

    exit_status = 75


class NightKernel(Struct, frozen=True, kw_only=True):
    """One kernel of the night.

    :param name: ``base``, ``new`` or ``yesterday``
    :param image: SHA-256 of its boot image; None if the machine cannot read it
    """

    name: Text
    release: Text
    image: Text | None = None


class StepState(Struct, kw_only=True):
    """The state of one step.

    :param began: when it was last started, ISO 8601; None if not started
    :param ended: when it ended, ISO 8601; None if unfinished
    :param result: what it found, one line; None if unfinished
    :param problem: why it failed when it was last tried, one line; None if it did not
    :param failures: number of failures; being killed is not a failure
    """

    began: Text | None = None
    ended: Text | None = None
    result: Text | None = None
    problem: Text | None = None
    failures: Number = 0


class Night(Struct, kw_only=True):
    """The state of one night.

    :param id: date of its beginning: ``2026-11-27``; the second night of a date is ``2026-11-27-2``
    :param job: names of the jobs, joined by ", "
    :param tree: name of the tree; None if it has none
    :param first: id of the first night of the same start, which has one per tree; None if the
        night is of an older version
    :param kernels: base first; () before ``prepare`` is finished
    :param programs: SHA-256 of the benchmarks' programs on the machine, by job; {} before
        ``prepare`` is finished
    :param notes: remarks about the night for readers
    :param verdict: verdict of the comparison; None if not compared, or without a verdict
    :param is_emulated: whether its timings come from an emulator
    :param outcome: its result, or why it has none, one line; None before
    :param failed: whether it has no result
    """

    schema: Literal["schedperf/night/1"] = "schedperf/night/1"
    id: Annotated[str, Meta(pattern=r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}(-[0-9]{1,4})?\Z")]
    machine: Text
    job: Text
    tree: Text | None = None
    first: Text | None = None
    kernels: tuple[NightKernel, ...] = ()
    programs: dict[Text, Text] = {}
    notes: tuple[Text, ...] = ()
    verdict: Text | None = None
    is_emulated: bool = False
    # Names of steps of other versions are kept.
    steps: dict[Text, StepState] = {}
    outcome: Text | None = None
    failed: bool = False

    def step(self, name: StepName) -> StepState:
        """Return the state of a step; add an empty one if the night has not reached the step."""
        return self.steps.setdefault(name, StepState())

    def has_ended(self, name: StepName) -> bool:
        """Return whether a step has ended."""
        return name in self.steps and self.steps[name].ended is not None

    @property
    def start(self) -> str:
        """Return the id of the first night of the same start."""
        return self.first or self.id

    @property
    def following(self) -> StepName | None:
        """Return the first step that has not ended; None if the night is over."""
        names = MAIN if self.outcome is None else AFTER
        return next((name for name in names if not self.has_ended(name)), None)

    @property
    def is_over(self) -> bool:
        """Return whether all its steps have ended."""
        return self.following is None

    def note(self, text: str) -> None:
        """Add a remark, unless it has it."""
        if text not in self.notes:
            self.notes = (*self.notes, text)


def now() -> str:
    """Return the current time in the format of the state: ISO 8601, UTC, whole seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Store:
    """The folder of one night.

    :param path: an existing folder
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, night: Night) -> None:
        """Replace the state file durably.

        :raises NightError: the file cannot be written; the old one is unchanged
        """
        try:
            write_durably(self.path / STATE, to_json(night).encode())
        except OSError as error:
            raise NightError(
                f"{self.path / STATE}: {explain(error)}; free space, then run the night again"
            ) from error

    def read(self) -> Night:
        """Return the state of the night.

        :raises InputError: the state file is missing, damaged or of another version
        """
        path = self.path / STATE
        content = read_regular(path, _LARGEST_BYTES, "the state of a night", "remove the file")
        try:
            return decode(content, Night, str(path))
        except BundleError as error:
            raise InputError(
                f"{error.problem}; move {self.path} away, and start a new night"
            ) from None


def find_nights(out: Path) -> list[Store]:
    """Return all nights of a folder that have a state file, oldest first."""
    dated = [path.parent for path in out.glob(f"[0-9]*/{STATE}")]
    return [Store(path) for path in sorted(dated, key=lambda path: _sort_key(path.name))]


def _sort_key(name: str) -> tuple[str, int]:
    number = name[11:]
    return name[:10], int(number) if number.isdigit() else 0


def new_store(out: Path, date: str) -> Store:
    """Create the folder of a new night; number it if the date already has a night.

    A folder without a state file, which a killed night left, is used again.

    :raises NightError: the folder cannot be created
    """
    number = 1
    while True:
        path = out / (date if number == 1 else f"{date}-{number}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            if not (path / STATE).exists() and path.is_dir():
                return Store(path)
            number += 1
        except OSError as error:
            raise NightError(f"{path}: {explain(error)}; see `df` and the folder's mode") from error
        else:
            return Store(path)


@contextmanager
def locked(out: Path) -> Iterator[int]:
    """Lock the nights; yield the lock's descriptor, which the night's commands inherit.

    If a killed night still holds the lock through its commands, wait up to 60 s for their end.

    :raises InputError: another night is running, or the lock file cannot be written
    """
    path = out / _LOCK
    try:
        out.mkdir(parents=True, exist_ok=True)
        file = path.open("a+", encoding="ascii")
    except OSError as error:
        raise InputError(f"{path}: {explain(error)}; see `df` and the folder's mode") from error
    with file:
        until = time.monotonic() + _ENDS_WITHIN_S
        while not _try_lock(file.fileno()):
            file.seek(0)
            owner = clean_line(file.read(32))
            if _is_alive(owner) or time.monotonic() > until:
                raise InputError(
                    f"{path}: another night runs (process {owner or 'unknown'}); see: schedperf "
                    "night status LAB.toml"
                )
            time.sleep(_LOOK_AGAIN_S)
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield file.fileno()


@contextmanager
def in_turn(path: Path, limit_s: float) -> Iterator[int]:
    """Lock what machines of a lab write one after the other; yield the lock's descriptor.

    :param path: the lock file, in an existing directory
    :param limit_s: how long to wait for the other machines, s
    :raises NightError: another machine has it for longer, or the file cannot be written
    """
    try:
        file = path.open("a+", encoding="ascii")
    except OSError as error:
        raise NightError(f"{path}: {explain(error)}; see `df` and the folder's mode") from error
    with file:
        until = time.monotonic() + limit_s
        while not _try_lock(file.fileno()):
            if time.monotonic() > until:
                raise NightError(
                    f"{path}: another machine of the lab has it for more than {limit_s:.0f} s; see "
                    "what runs there, then run the night again"
                )
            time.sleep(_LOOK_AGAIN_S)
        yield file.fileno()


def is_running(out: Path) -> bool:
    """Return whether a night is running now; false if its lock file is missing or unreadable."""
    try:
        with (out / _LOCK).open("rb") as file:
            if not _try_lock(file.fileno(), fcntl.LOCK_SH):
                return True
    except OSError:
        pass
    return False


def _try_lock(descriptor: int, kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_alive(owner: str) -> bool:
    return owner.isdigit() and Path(f"/proc/{owner}").exists()
