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
StepName = Literal[
    "prepare", "record", "compare", "retest", "confirm", "culprit", "publish", "draft", "history"
]
# The steps, in their order.
STEPS: tuple[StepName, ...] = get_args(StepName)
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
    :param kernels: base first; () before ``prepare`` is finished
    :param workload: SHA-256 of the benchmark's program on the machine; None before ``prepare`` is
        finished
    :param notes: remarks about the night for readers
    :param verdict: verdict of the first comparison; None if not compared, or without a verdict
    :param retest: verdict of the retest; None if not retested, or without a verdict
    :param store: store of ``schedperf history`` to which it is added at the end; None for none
    :param outcome: how it ended, one line; None if unfinished
    :param failed: whether it ended without a result
    """

    schema: Literal["schedperf/night/1"] = "schedperf/night/1"
    id: Annotated[str, Meta(pattern=r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}(-[0-9]{1,4})?\Z")]
    machine: Text
    job: Text
    kernels: tuple[NightKernel, ...] = ()
    workload: Text | None = None
    notes: tuple[Text, ...] = ()
    verdict: Text | None = None
    retest: Text | None = None
    steps: dict[StepName, StepState] = {}
    store: Text | None = None
    outcome: Text | None = None
    failed: bool = False

    def step(self, name: StepName) -> StepState:
        """Return the state of a step; add an empty one if the night has not reached the step."""
        return self.steps.setdefault(name, StepState())

    @property
    def is_over(self) -> bool:
        """Return whether it has ended, and is in its store."""
        history = self.steps.get("history")
        is_stored = self.store is None or (history is not None and history.ended is not None)
        return self.outcome is not None and is_stored

    @property
    def current(self) -> StepName | None:
        """Return the first unfinished step that has begun; None if there is none."""
        return next(
            (name for name, step in self.steps.items() if step.began and not step.ended), None
        )


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
                    "night status JOB.toml"
                )
            time.sleep(_LOOK_AGAIN_S)
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
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
