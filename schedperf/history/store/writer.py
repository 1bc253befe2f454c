# SPDX-License-Identifier: GPL-2.0-or-later
"""Write to a store: append decisions to the log, then apply them to the database.

A kill between the two leaves decisions that the database lacks; the next writer applies them first.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, select

from schedperf.history.store.apply import Applier, Content
from schedperf.history.store.contents import largest_file, read_content
from schedperf.history.store.database import Damaged, Database
from schedperf.history.store.decisions import Added, AnyDecision, Logged
from schedperf.history.store.directory import Directory, Say
from schedperf.history.store.tables import INPUT
from schedperf.history.store.watched import keep_watched
from schedperf.history.watch.state import Update
from schedperf.inputs.many.lost import Lost
from schedperf.inputs.many.urls import local_file
from schedperf.inputs.many.workers import Workers, start_workers
from schedperf.model.errors import InputError

# Decisions of one transaction.
BATCH = 50


class Writer:
    """Writes to a locked store.

    :param directory: the store
    :param database: its database, which has all decisions of the log
    """

    def __init__(self, directory: Directory, database: Database, say: Say) -> None:
        self._directory = directory
        self._database = database
        self._say = say

    def commit(self, decisions: Sequence[tuple[AnyDecision, Content | None]]) -> None:
        """Append decisions to the log, and apply them.

        :param decisions: each with the content of the file that it adds, or None
        :raises InputError: the log or the database cannot be written; after the log was written,
            the next writer continues
        """
        if not decisions:
            return
        start = self._end_of_log()
        self._directory.log.append([decision for decision, _ in decisions])
        contents = iter([content for _, content in decisions])
        with self._database.transaction() as connection:
            applier = Applier(connection)
            for logged, content in zip(self._directory.log.read(start), contents, strict=True):
                applier.apply(logged.line, content)
            applier.finish()
            applied = self._directory.applied(logged.end)
            self._database.set_applied(connection, applied)

    def keep_watched(self, found: Mapping[int, Update]) -> None:
        """Keep what was found in some series, which follows from the database.

        :param found: by the id of the series
        :raises InputError: the database cannot be written
        """
        with self._database.transaction() as connection:
            keep_watched(connection, found)

    def known(self, digests: Sequence[str]) -> set[str]:
        """Return those digests whose data are in the store."""
        query = select(INPUT.c.digest).where(INPUT.c.digest.in_(digests))
        with self._database.transaction() as connection:
            return set(connection.execute(query).scalars())

    def _end_of_log(self) -> int:
        applied = self._database.check(self._directory.id)
        return applied.bytes if applied else 0


def known_files(directory: Directory) -> set[str]:
    """Return the SHA-256 of all files that were added."""
    added = (each.line.decided for each in directory.log.read())
    return {each.sha256 for each in added if isinstance(each, Added)}


@contextmanager
def writing(directory: Directory, say: Say) -> Iterator[Writer]:
    """Lock a store, repair its log, and apply what its database lacks.

    :param say: called with one line for each thing that was repaired
    :raises InputError: the store cannot be written, or its database cannot be used
    """
    with directory.locked(say):
        repair_log(directory, say)
        database = directory.database()
        try:
            catch_up(directory, database, say)
            yield Writer(directory, database, say)
        finally:
            database.close()


def repair_log(directory: Directory, say: Say) -> None:
    """Remove an incomplete last line of the log, which a crash left.

    :raises InputError: the log cannot be written
    """
    removed = directory.log.append([])
    if removed:
        say(
            f"{directory.log.path}: removed an incomplete last line of {removed} bytes, which a "
            "crash left; what it decided was not done"
        )


def catch_up(directory: Directory, database: Database, say: Say) -> None:
    """Apply the decisions that a database lacks; create its tables if it has none.

    :raises InputError: a file that a decision adds cannot be read, or the database cannot be used
    """
    applied = database.check(directory.id)
    if applied is None:
        with database.transaction() as connection:
            database.create(connection, str(directory.id))
    elif applied:
        directory.check_applied(applied, database)
    start = applied.bytes if applied else 0
    missing = [*directory.log.read(start)]
    if not missing:
        return
    if applied:
        say(f"{database.name}: applying {len(missing)} decisions that a crash left out")
    with start_workers(len(missing)) as pool:
        for part in _batches(with_contents(directory, missing, pool)):
            with database.transaction() as connection:
                end = apply_all(connection, part)
                database.set_applied(connection, directory.applied(end))


def rebuild(directory: Directory, say: Say) -> int:
    """Make the database again from the log and the files; return the number of decisions.

    Until it is complete, readers see the old database, unless that is damaged.

    :raises InputError: a file cannot be read, or the database cannot be written; the old database
        is unchanged
    """
    with directory.locked(say):
        repair_log(directory, say)
        lines = [*directory.log.read()]
        database = directory.database()
        try:
            _move_damaged(directory, database, say)
            with start_workers(len(lines)) as pool, database.transaction() as connection:
                database.create(connection, str(directory.id))
                end = apply_all(connection, with_contents(directory, lines, pool))
                database.set_applied(connection, directory.applied(end))
        finally:
            database.close()
    return len(lines)


def _move_damaged(directory: Directory, database: Database, say: Say) -> None:
    """Move a database of SQLite away that cannot be read.

    :raises InputError: it is of another program, of another store or of a newer version
    """
    path = database.path
    try:
        database.check(directory.id)
        if path is not None and path.exists():
            _check_pages(database)
    except Damaged as error:
        if path is None:
            raise
        aside = path.with_name(f"{path.name}.damaged")
        # The journal belongs to the damaged database.
        for suffix in ("-wal", "-shm"):
            path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)
        path.replace(aside)
        say(f"{error}; moved to {aside}")


def _check_pages(database: Database) -> None:
    """Check the structure of a database of SQLite.

    :raises Damaged: it is damaged
    """
    with database.transaction() as connection:
        found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
    if found != "ok":
        raise Damaged(f"{database.name}: {found}")


def apply_all(connection: Connection, items: Iterable[tuple[Logged, Content | None]]) -> int:
    """Apply decisions; return the end of the last one in the log."""
    applier = Applier(connection)
    end = 0
    for logged, content in items:
        applier.apply(logged.line, content)
        end = logged.end
    applier.finish()
    return end


def with_contents(
    directory: Directory, lines: Sequence[Logged], pool: Workers
) -> Iterator[tuple[Logged, Content | None]]:
    """Yield decisions with the contents of the files that they add.

    :raises InputError: a file cannot be read, or has changed on disk
    """
    tasks = [_task(directory, each) for each in lines]
    for logged, (task, result) in zip(lines, pool.map(_read, tasks), strict=True):
        if isinstance(result, Lost):
            raise InputError(f"{task and task[0]}: {result.problem}")
        if isinstance(result, str):
            raise InputError(result)
        yield logged, result


def _task(directory: Directory, logged: Logged) -> tuple[str, Added] | None:
    """Return the name of the file that a decision adds; None if it adds none."""
    added = logged.line.decided
    if not isinstance(added, Added):
        return None
    return directory.file_of(added), added


def _read(task: tuple[str, Added] | None) -> Content | str | None:
    """Return the content of a file that a decision adds; its problem if it cannot be read."""
    if task is None:
        return None
    name, added = task
    try:
        with local_file(name, largest_file(added.kind)) as path:
            content = read_content(path, added.kind, Path(added.path).stem)
    except InputError as error:
        return f"{error}; added as {added.path}"
    if content.digest != added.digest:
        return (
            f"{name}: changed on disk (the data have another digest than when {added.path} was "
            "added); restore the file from a backup"
        )
    return content


def _batches(
    items: Iterable[tuple[Logged, Content | None]],
) -> Iterator[list[tuple[Logged, Content | None]]]:
    batch = []
    for item in items:
        batch.append(item)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
