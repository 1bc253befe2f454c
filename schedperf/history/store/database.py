# SPDX-License-Identifier: GPL-2.0-or-later
"""Open the database of a store: SQLite in its directory, or PostgreSQL."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    create_engine,
    event,
    insert,
    inspect,
    make_url,
    select,
    update,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.pool import NullPool

from schedperf.history.store.tables import (
    APPLICATION_ID,
    METADATA,
    REBUILT,
    SCHEMA,
    STORE,
    WATCHED,
)
from schedperf.history.store.view import drop_view, make_view
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line

DEFAULT_URL = "sqlite:///history.db"
_ENGINES = {"sqlite", "postgresql"}
# How long to wait for another connection that writes.
_BUSY_S = 60.0
_HEADER_BYTES = 16
_SQLITE = b"SQLite format 3\0"
_REBUILD = "make it again by `schedperf history rebuild`"


class Damaged(InputError):
    """The database cannot be read, but can be made again."""


class Applied(NamedTuple):
    """Up to where the database was made from the log.

    :param bytes: offset in the log
    :param mark: the end of that part of the log, hashed
    """

    bytes: int
    mark: str


class Database:
    """One database.

    :param url: its URL; the path of SQLite is absolute
    :param is_read_only: whether connections may only read
    """

    def __init__(self, url: URL, *, is_read_only: bool = False) -> None:
        self.url = url
        self.is_sqlite = url.get_backend_name() == "sqlite"
        shown = url.render_as_string(hide_password=True)
        self.name = str(url.database) if self.is_sqlite else shown
        self._is_read_only = is_read_only
        self.engine = self._make_engine()

    @property
    def path(self) -> Path | None:
        """The file; None if it is not SQLite."""
        return Path(str(self.url.database)) if self.is_sqlite else None

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Yield a connection whose changes are committed at the end of the block.

        :raises InputError: the database cannot be used; :class:`Damaged` if it is damaged
        """
        with self.explained(), self.engine.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Turn errors of the database into one line.

        :raises InputError: as :meth:`transaction`
        """
        try:
            yield
        except DBAPIError as error:
            raise self._explain(str(error.orig)) from None

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def check(self, store_id: str | None) -> Applied | None:
        """Return up to where the database was made; None if it has no tables yet.

        :param store_id: identity of the store that it must belong to; None for any
        :raises InputError: it is foreign, of another store, of a newer version, or damaged
        """
        if self.path is not None and not self._is_sqlite_file(self.path):
            return None
        with self.transaction() as connection:
            names = set(inspect(connection).get_table_names())
            if not names:
                return None
            if STORE.name not in names or "applied_mark" not in _columns(connection, STORE.name):
                raise InputError(
                    f"{self.name}: a database of another program (tables: "
                    f"{', '.join(sorted(map(clean_line, names))[:3])}); choose another database in "
                    "store.toml"
                )
            row = connection.execute(select(STORE)).one_or_none()
        if row is None:
            raise Damaged(f"{self.name}: the database was not completed; {_REBUILD}")
        if row.schema > SCHEMA:
            raise InputError(
                f"{self.name}: the store has version {row.schema}, but this schedperf reads "
                f"version {SCHEMA}; use a newer schedperf"
            )
        if store_id is not None and row.id != store_id:
            raise InputError(
                f"{self.name}: the database of another store ({row.id}); choose another database "
                "in store.toml"
            )
        return Applied(row.applied_bytes, row.applied_mark)

    def create(self, connection: Connection, store_id: str) -> None:
        """Create the tables, in place of those that exist; leases are kept."""
        drop_view(connection)
        METADATA.drop_all(connection, [STORE, WATCHED, *REBUILT])
        METADATA.create_all(connection)
        make_view(connection)
        if self.is_sqlite:
            connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(
            insert(STORE).values(schema=SCHEMA, id=store_id, applied_bytes=0, applied_mark="")
        )

    def set_applied(self, connection: Connection, applied: Applied) -> None:
        """Store up to where the database was made."""
        connection.execute(
            update(STORE).values(applied_bytes=applied.bytes, applied_mark=applied.mark)
        )

    def _is_sqlite_file(self, path: Path) -> bool:
        """Return whether a file exists and is not empty.

        :raises InputError: it is not a database of SQLite, or cannot be read
        """
        try:
            with path.open("rb") as file:
                head = file.read(_HEADER_BYTES)
        except FileNotFoundError:
            return False
        except OSError as error:
            problem = (error.strerror or str(error)).lower()
            raise InputError(f"{path}: {problem}; check the file and its permissions") from None
        if head and head != _SQLITE:
            raise Damaged(f"{path}: not a database of SQLite; {_REBUILD}")
        return bool(head)

    def _make_engine(self) -> Engine:
        if self.is_sqlite:
            return self._make_sqlite()
        options = "-c default_transaction_read_only=on" if self._is_read_only else ""
        try:
            return create_engine(self.url, poolclass=NullPool, connect_args={"options": options})
        except ModuleNotFoundError:
            raise InputError(
                "psycopg: not installed (a store in PostgreSQL needs it); run: pip install "
                "'schedperf[postgresql]'"
            ) from None

    def _make_sqlite(self) -> Engine:
        mode = "ro" if self._is_read_only else "rwc"
        path = str(self.path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        uri = f"file:{path}?mode={mode}"

        def connect() -> sqlite3.Connection:
            connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_S, isolation_level=None)
            connection.execute("PRAGMA foreign_keys = ON")
            if not self._is_read_only and _is_ours(connection):
                connection.execute("PRAGMA journal_mode = WAL")
                # After a power cut, the log has what the last transactions lack.
                connection.execute("PRAGMA synchronous = NORMAL")
            return connection

        engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)
        begin = "BEGIN" if self._is_read_only else "BEGIN IMMEDIATE"

        # The driver would begin transactions late, and commit before changes of tables.
        @event.listens_for(engine, "begin")
        def _(connection: Connection) -> None:
            connection.exec_driver_sql(begin)

        return engine

    def _explain(self, problem: str) -> InputError:
        text = clean_line(problem)
        if "malformed" in text or "not a database" in text or "disk I/O error" in text:
            return Damaged(f"{self.name}: {text}; {_REBUILD}")
        if "full" in text or "No space" in text:
            return InputError(f"{self.name}: {text}; free space there, and repeat the command")
        if "locked" in text:
            return InputError(f"{self.name}: {text}; another program uses it; repeat the command")
        if "no such table" in text or "no such column" in text:
            return Damaged(f"{self.name}: {text}; {_REBUILD}")
        return InputError(f"{self.name}: {text}; check the URL in store.toml, and the database")


def _is_ours(connection: sqlite3.Connection) -> bool:
    """Return whether a database of SQLite is ours, or empty."""
    [(application_id,)] = connection.execute("PRAGMA application_id")
    [(pages,)] = connection.execute("PRAGMA page_count")
    return bool(application_id == APPLICATION_ID or pages == 0)


def parse_url(text: str, folder: Path) -> URL:
    """Return the URL of a database; a relative path of SQLite is below a directory.

    :raises InputError: it is invalid, or the database is of another kind
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise _invalid_url(text) from None
    if url.get_backend_name() not in _ENGINES:
        raise _invalid_url(text)
    if url.get_backend_name() == "sqlite":
        if not url.database:
            raise _invalid_url(text)
        return url.set(database=str(folder.absolute() / url.database))
    try:
        url.get_dialect()
    except NoSuchModuleError:
        raise _invalid_url(text) from None
    return url


def _invalid_url(text: str) -> InputError:
    # A URL may have a password.
    kind = clean_line(text.partition(":")[0])
    return InputError(
        f"{kind}: invalid URL of a database (expected e.g. {DEFAULT_URL} or "
        "postgresql://HOST/DATABASE); edit store.toml"
    )


def _columns(connection: Connection, table: str) -> set[str]:
    return {column["name"] for column in inspect(connection).get_columns(table)}
