# SPDX-License-Identifier: GPL-2.0-or-later
"""Export a history as Parquet files, which DuckDB, Spark and pandas read.

::

    input.parquet, night.parquet, result.parquet, series.parquet, step.parquet, …
    runs/machine_class=3f2a91c25d07/month=2026-11/part.parquet

Equal histories give equal bytes. The rows of a file of ``runs`` are sorted by result and night.
"""

import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol
from urllib.parse import quote

from sqlalchemy import Connection, Executable, Integer, Table, func, select, text, types

from schedperf.history.questions.history import History
from schedperf.history.store.database import Database
from schedperf.history.store.tables import INPUT, LEASE, METADATA, RESULT, STORE, VALUE
from schedperf.history.store.view import VIEW, view_columns
from schedperf.inputs.bundle.durable import explain
from schedperf.inputs.many.urls import Remote, explained, local_path, open_remote, redact
from schedperf.model.errors import InputError

# Tables that the view has, and those of one machine.
_LEFT_OUT = {STORE, LEASE, VALUE}
_ROWS = 100_000
_CLASS = "machine_class"
_NO_CLASS = "unknown"


def export_parquet(history: History, target: str | Path) -> int:
    """Write all tables to a new directory; return the number of files.

    :param target: a directory, or its URL
    :raises InputError: pyarrow or fsspec is not installed, the directory has files, or it cannot be
        written
    """
    if importlib.util.find_spec("pyarrow") is None:
        raise InputError(
            "pyarrow: not installed (Parquet needs it); run: pip install 'schedperf[parquet]'"
        )
    folder = local_path(str(target))
    if folder is None:
        return _export_to_url(history, str(target))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _refuse_files(str(folder), any(folder.iterdir()))
        return _write_all(history.database, _LocalFolder(folder))
    except OSError as error:
        raise InputError(
            f"{error.filename or folder}: {explain(error)}; choose another directory"
        ) from None


def _export_to_url(history: History, url: str) -> int:
    shown = redact(url)
    remote = open_remote(url)
    with explained(shown):
        is_used = remote.files.exists(remote.path) and bool(remote.files.ls(remote.path))
    _refuse_files(shown, is_used)
    with explained(shown):
        return _write_all(history.database, _RemoteFolder(remote))


def _refuse_files(name: str, is_used: bool) -> None:  # noqa: FBT001 # an answer
    if is_used:
        raise InputError(f"{name}: not empty (expected a new directory); choose another one")


class _Folder(Protocol):
    def create(self, name: str) -> BinaryIO: ...


class _LocalFolder(NamedTuple):
    path: Path

    def create(self, name: str) -> BinaryIO:
        """Create a file and its directories."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("xb")


class _RemoteFolder(NamedTuple):
    remote: Remote

    def create(self, name: str) -> BinaryIO:
        """Create a file and its directories, which object stores do not have."""
        path = f"{self.remote.path.rstrip('/')}/{name}"
        self.remote.files.makedirs(path.rpartition("/")[0], exist_ok=True)
        opened: BinaryIO = self.remote.files.open(path, "wb")
        return opened


def _write_all(database: Database, folder: _Folder) -> int:
    """Write all files; return their number."""
    number = 0
    with database.transaction() as connection:
        for name, query, kinds in _files(connection):
            with folder.create(name) as file:
                _write(connection, query, kinds, file)
            number += 1
    return number


def _files(connection: Connection) -> Iterator[tuple[str, Executable, Mapping[str, Any]]]:
    """Yield each file with its rows and the types of its columns."""
    for table in METADATA.sorted_tables:
        if table not in _LEFT_OUT:
            query = select(table).order_by(*table.primary_key.columns)
            yield f"{table.name}.parquet", query, _types_of(table)
    shown = [each for each in view_columns(connection) if each != _CLASS]
    for machine_class, month in _partitions(connection):
        part = f"{_CLASS}={quote(machine_class or _NO_CLASS, safe='')}"
        runs = text(_RUNS.format(columns=", ".join(shown)))
        runs = runs.bindparams(machine_class=machine_class, month=month)
        yield f"{VIEW}/{part}/month={month}/part.parquet", runs, {}


# The directory has the machine class, as readers of partitions expect.
_RUNS = """
SELECT {columns} FROM runs WHERE machine_class = :machine_class AND substr(night, 1, 7) = :month
ORDER BY result_id, night, input_id, boot, run
"""


def _partitions(connection: Connection) -> list[tuple[str, str]]:
    """Return the machine classes and months that have runs."""
    month = func.substr(INPUT.c.night, 1, 7)
    query = (
        select(RESULT.c.machine_class, month)
        .join(VALUE, VALUE.c.result_id == RESULT.c.id)
        .join(INPUT, INPUT.c.id == VALUE.c.input_id)
        .distinct()
        .order_by(RESULT.c.machine_class, month)
    )
    return [(machine_class, str(month)) for machine_class, month in connection.execute(query)]


def _types_of(table: Table) -> Mapping[str, Any]:
    """Return the Arrow type of each column, which a column without values does not show."""
    import pyarrow as pa  # noqa: PLC0415 # an extra

    def type_of(kind: types.TypeEngine[Any]) -> Any:
        if isinstance(kind, types.Boolean):
            return pa.bool_()
        if isinstance(kind, Integer):
            return pa.int64()
        return pa.float64() if isinstance(kind, types.Double) else pa.string()

    return {column.name: type_of(column.type) for column in table.columns}


# Columns of the view that are not text.
_OF_VIEW = {
    **dict.fromkeys(("boot", "run", "run_order", "round", "result_id", "input_id"), "int64"),
    "value": "float64",
}


def _write(
    connection: Connection, query: Executable, kinds: Mapping[str, Any], file: BinaryIO
) -> None:
    import pyarrow as pa  # noqa: PLC0415 # an extra
    import pyarrow.parquet as pq  # noqa: PLC0415

    rows = connection.execution_options(yield_per=_ROWS).execute(query)
    schema = pa.schema(
        [
            (name, kinds.get(name) or pa.type_for_alias(_OF_VIEW.get(name, "string")))
            for name in rows.keys()  # noqa: SIM118 # not a mapping
        ]
    )
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for part in rows.partitions(_ROWS):
            columns = list(zip(*part, strict=True))
            arrays = [
                pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)
            ]
            writer.write_batch(pa.record_batch(arrays, schema=schema))
