# SPDX-License-Identifier: GPL-2.0-or-later
"""Open the directory of a store, or create it; lock it for writing."""

import fcntl
import hashlib
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from schedperf.history.store import STORE, is_store
from schedperf.history.store.database import DEFAULT_URL, Applied, Damaged, Database, parse_url
from schedperf.history.store.decisions import Added, Log
from schedperf.history.store.objects import Objects
from schedperf.inputs.bundle.durable import explain, write_durably
from schedperf.inputs.bundle.manifest import Facts
from schedperf.inputs.bundle.toml import read_toml, to_record
from schedperf.model.errors import InputError

FACTS = "facts.toml"
_LOCK = "lock"
# What a store may have before its first use; a killed process leaves a ``.new``.
_OURS = {FACTS, _LOCK, f"{STORE}.new"}
_SCHEMA = "schedperf/history/1"
_EXAMPLES = {"database": DEFAULT_URL, "id": "3f2a91c25d07"}
# How long to wait for another process that writes.
_WAIT_S = 600.0
_LOOK_AGAIN_S = 0.1
_SAY_AFTER_S = 2.0

Say = Callable[[str], None]


class _Settings(Struct, frozen=True, kw_only=True):
    """The file ``store.toml``.

    :param id: identity of the store; None if the file was written by hand
    """

    schema: Literal["schedperf/history/1"] = "schedperf/history/1"
    id: Annotated[str, Meta(pattern=r"\A[0-9a-f]{12}\Z")] | None = None
    database: Annotated[str, Meta(max_length=4096)] = DEFAULT_URL


class _FactsFile(Struct, frozen=True, kw_only=True):
    machine: Mapping[str, Facts] = field(default_factory=dict)


class Directory:
    """The directory of a store.

    :ivar log: its decisions
    :ivar objects: its bundles and tables
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = Log(folder)
        self.objects = Objects(folder)
        settings = _read_settings(folder)
        self.id = settings.id
        self._url = settings.database

    def database(self, *, is_read_only: bool = False) -> Database:
        """Return the database of the store.

        :raises InputError: its URL is invalid, or its driver is not installed
        """
        return Database(parse_url(self._url, self.folder), is_read_only=is_read_only)

    def facts_of(self, *machines: str | None) -> dict[str, str]:
        """Return the facts that ``facts.toml`` states about a machine.

        :param machines: its class and its name; later ones take precedence
        :raises InputError: the file is invalid
        """
        path = self.folder / FACTS
        if not path.exists():
            return {}
        tree = read_toml(path, "facts of machines")
        by_machine = to_record(tree, _FactsFile, path, {"machine": "rack = 'b12'"}).machine
        found: dict[str, str] = {}
        for machine in machines:
            found.update(by_machine.get(machine or "", {}))
        return found

    def file_of(self, added: Added) -> str:
        """Return the path of the file that a decision adds: of the copy, if there is one."""
        return str(self.objects.path(added.sha256, added.kind)) if added.kept else added.path

    def applied(self, end: int) -> Applied:
        """Return what a database stores that was made up to an offset of the log.

        :raises InputError: the log cannot be read
        """
        return Applied(end, hashlib.sha256(self.log.mark(end)).hexdigest())

    def check_applied(self, applied: Applied, database: Database) -> None:
        """Check that a database was made from the beginning of this log.

        :raises Damaged: it was made from another log, or the log has lost lines
        """
        if applied.bytes and self.applied(applied.bytes) != applied:
            raise Damaged(
                f"{self.log.path}: not the decisions that {database.name} was made from (lines are "
                "missing or changed); restore the file from a backup, or make the database again "
                "by `schedperf history rebuild`"
            )

    @contextmanager
    def locked(self, say: Say, wait_s: float = _WAIT_S) -> Iterator[None]:
        """Lock the store for writing; a killed process leaves no lock.

        :param say: called with one line if another process has it
        :raises InputError: another process has it for too long, or the directory is not writable
        """
        path = self.folder / _LOCK
        try:
            file = path.open("a+", encoding="ascii")
        except OSError as error:
            raise InputError(f"{path}: {explain(error)}; check the directory") from None
        with file:
            self._wait(file.fileno(), say, wait_s)
            yield

    def _wait(self, descriptor: int, say: Say, wait_s: float) -> None:
        began = time.monotonic()
        has_said = False
        while not _try_lock(descriptor):
            waited = time.monotonic() - began
            if waited > wait_s:
                raise InputError(
                    f"{self.folder}: another process has been writing to the store for "
                    f"{wait_s:.0f} s; wait for its end, and repeat the command"
                )
            if waited > _SAY_AFTER_S and not has_said:
                say(f"{self.folder}: waiting for another process that writes to the store")
                has_said = True
            time.sleep(_LOOK_AGAIN_S)


def open_directory(folder: Path) -> Directory:
    """Open a store.

    :raises InputError: the directory has no store, or ``store.toml`` is invalid
    """
    if not is_store(folder):
        raise InputError(
            f"{folder}: no store (expected a directory with {STORE}); make one by `schedperf "
            "history add`, or name another by --store"
        )
    return Directory(folder)


def open_or_create(folder: Path) -> tuple[Directory, bool]:
    """Open a store, or create it; return it, and whether it is new.

    A ``store.toml`` that was written by hand, to name a database, gets its identity.

    :raises InputError: the directory cannot be created, or has other files; or as
        :func:`open_directory`
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not is_store(folder) and {each.name for each in folder.iterdir()} - _OURS:
            raise InputError(
                f"{folder}: not empty and no store (expected a new directory, or one with "
                f"{STORE}); choose another --store"
            )
        with (folder / _LOCK).open("a+", encoding="ascii") as file:
            # Another process may create it at the same time.
            fcntl.flock(file.fileno(), fcntl.LOCK_EX)
            is_new = _complete_settings(folder)
    except OSError as error:
        raise InputError(
            f"{error.filename or folder}: {explain(error)}; choose another --store"
        ) from None
    return Directory(folder), is_new


def _complete_settings(folder: Path) -> bool:
    """Write ``store.toml``, unless it exists and has an identity; return whether it was written."""
    path = folder / STORE
    settings = _read_settings(folder) if path.exists() else _Settings()
    if settings.id is not None:
        return False
    write_durably(path, _to_toml(secrets.token_hex(6), settings.database).encode(), 0o600)
    return True


def _read_settings(folder: Path) -> _Settings:
    path = folder / STORE
    return to_record(read_toml(path, "a store of schedperf history"), _Settings, path, _EXAMPLES)


def _to_toml(store_id: str, database: str) -> str:
    quoted = database.replace("\\", "\\\\").replace('"', '\\"')
    return f'schema = "{_SCHEMA}"\nid = "{store_id}"\ndatabase = "{quoted}"\n'


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_url(store: str | os.PathLike[str]) -> bool:
    """Return whether a store is named by the URL of its database."""
    return "://" in str(store)
