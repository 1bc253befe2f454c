# SPDX-License-Identifier: GPL-2.0-or-later
"""Answer a query in SQL that only reads."""

import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple

from sqlalchemy import PoolProxiedConnection

from schedperf.history.store.database import Database
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line

# What a statement may do; everything else is refused, e.g. to attach another file.
_ALLOWED = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
_REFUSED_FUNCTIONS = {"load_extension"}
# In messages of SQLite and PostgreSQL about what is not allowed.
_REFUSALS = (
    "not authorized",
    "authorization denied",
    "prohibited",
    "read-only",
    "one statement",
    "multiple commands",
)
_ROWS = 10_000

Cell = str | int | float | None


class Answer(NamedTuple):
    """The answer to a query; it must be read before the database is closed.

    :param columns: names of the columns
    :param rows: one tuple per row
    """

    columns: tuple[str, ...]
    rows: Iterator[tuple[Cell, ...]]


def query(database: Database, statement: str) -> Answer:
    """Answer one statement.

    :param database: opened for reading only
    :raises InputError: the statement is invalid, is not one SELECT, or the database cannot be read
    """
    with database.explained():
        # It is closed when nothing refers to it any more.
        held = database.engine.raw_connection()
    connection: Any = held.driver_connection
    try:
        cursor = connection.cursor()
        if isinstance(connection, sqlite3.Connection):
            connection.set_authorizer(_authorize)
            cursor.execute(statement)
        else:
            # A prepared statement is a single one.
            cursor.execute(statement, prepare=True)
    except Exception as error:
        if not isinstance(error, sqlite3.Error | ValueError) and not _is_of_driver(error):
            raise
        raise _explain(error) from None
    if cursor.description is None:
        raise _refused()
    columns = tuple(str(column[0]) for column in cursor.description)
    return Answer(columns, _fetch(cursor, held))


def _authorize(
    action: int, first: str | None, second: str | None, _database: str | None, _view: str | None
) -> int:
    name = second if action == sqlite3.SQLITE_FUNCTION else first
    is_allowed = action in _ALLOWED and name not in _REFUSED_FUNCTIONS
    return sqlite3.SQLITE_OK if is_allowed else sqlite3.SQLITE_DENY


def _fetch(cursor: Any, held: PoolProxiedConnection) -> Iterator[tuple[Cell, ...]]:
    try:
        while rows := cursor.fetchmany(_ROWS):
            for row in rows:
                yield tuple(map(_cell, row))
        held.close()
    except Exception as error:
        if not isinstance(error, sqlite3.Error) and not _is_of_driver(error):
            raise
        raise _explain(error) from None


def _cell(value: object) -> Cell:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None  # noqa: PLR0124 # NaN
    return str(value)


def _is_of_driver(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] == "psycopg"


def _explain(error: Exception) -> InputError:
    problem = clean_line(str(error).partition("\n")[0])
    refused = (
        "not authorized",
        "authorization denied",
        "prohibited",
        "read-only",
        "one statement",
        "multiple commands",
    )
    if any(word in problem for word in refused):
        return _refused()
    return InputError(f"query: {problem}; docs/history.md describes the tables and columns")


def _refused() -> InputError:
    return InputError(
        "query: refused (expected one SELECT, since the history is only read); give one statement"
    )
