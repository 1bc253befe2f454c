# SPDX-License-Identifier: GPL-2.0-or-later
"""Check a store: the digests of all files, and the database row by row."""

import itertools
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from sqlalchemy import URL, Connection, Table, select

from schedperf.history.store.contents import hash_named
from schedperf.history.store.database import Database
from schedperf.history.store.decisions import Added, Logged
from schedperf.history.store.directory import Directory, Say
from schedperf.history.store.reading import PARSER
from schedperf.history.store.tables import INPUT, REBUILT
from schedperf.history.store.writer import apply_all, repair_log, with_contents
from schedperf.inputs.many.workers import start_workers
from schedperf.model.errors import InputError
from schedperf_collectors.contract import temporary_prefix

_REBUILD = "run `schedperf history rebuild`"


def check(directory: Directory, say: Say) -> Iterator[str]:
    """Yield each problem of a store, one line each; nothing if it is intact.

    :param say: called with one line for each remark
    :raises InputError: the store cannot be read, or another process writes to it
    """
    with directory.locked(say):
        repair_log(directory, say)
        lines = [*directory.log.read()]
        problems = [*_check_files(directory, lines, say)]
        yield from problems
        if problems:
            say("rows not checked, because files are missing or changed")
            return
        yield from _check_rows(directory, lines, say)


def _check_files(directory: Directory, lines: Sequence[Logged], say: Say) -> Iterator[str]:
    """Yield a line for each file that is missing, or that has changed."""
    added = [each.line.decided for each in lines if isinstance(each.line.decided, Added)]
    for each in added:
        if each.kept or each.format is None:
            yield from _check_file(directory.file_of(each), each)
    used = {directory.objects.path(each.sha256, each.kind) for each in added if each.kept}
    left_over = [*directory.objects.left_over(used)]
    if left_over:
        say(
            f"{directory.objects.folder}: {len(left_over)} files that nothing uses, which killed "
            f"commands left, e.g. {left_over[0].name}; they may be removed"
        )


def _check_file(name: str, added: Added) -> Iterator[str]:
    try:
        if hash_named(name, added.kind) != added.sha256:
            yield (
                f"{name}: changed on disk (added from {added.path}); restore the file from a backup"
            )
    except InputError as error:
        yield f"{error}; added from {added.path}"


def _check_rows(directory: Directory, lines: Sequence[Logged], say: Say) -> Iterator[str]:
    """Yield a line for each table that differs from one that is made from the log."""
    database = directory.database(is_read_only=True)
    applied = database.check(directory.id)
    if applied is None:
        yield f"{database.name}: no database; {_REBUILD}"
        return
    directory.check_applied(applied, database)
    end = lines[-1].end if lines else 0
    if applied.bytes != end:
        yield f"{database.name}: lacks decisions that a crash left out; {_REBUILD}"
        return
    with tempfile.TemporaryDirectory(prefix=temporary_prefix()) as folder:
        path = str(Path(folder) / "history.db")
        fresh = Database(URL.create("sqlite", database=path))
        with fresh.transaction() as made:
            fresh.create(made, str(directory.id))
            with start_workers(len(lines)) as pool:
                apply_all(made, with_contents(directory, lines, pool))
            with database.transaction() as stored:
                yield from _compare(database.name, stored, made, say)
        fresh.close()
    database.close()


def _compare(name: str, stored: Connection, made: Connection, say: Say) -> Iterator[str]:
    parsers = set(stored.execute(select(INPUT.c.parser).distinct()).scalars())
    others = sorted(parsers - {PARSER})
    if others:
        say(
            f"{name}: rows not checked, because schedperf {', '.join(others)} read them, and this "
            f"is {PARSER}; to read them again, {_REBUILD}"
        )
        return
    for table in REBUILT:
        pairs = itertools.zip_longest(_rows(stored, table), _rows(made, table))
        number = sum(first != second for first, second in pairs)
        if number:
            yield f"{name}: {number} rows of table {table.name} differ; {_REBUILD}"


def _rows(connection: Connection, table: Table) -> Iterator[tuple[object, ...]]:
    query = select(table).order_by(*table.primary_key.columns)
    for row in connection.execution_options(yield_per=10_000).execute(query):
        yield tuple(row)
