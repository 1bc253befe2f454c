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
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Executable, Integer, Table, func, select, text, types

from schedperf.history.questions.history import History
from schedperf.history.store.database import Database
from schedperf.history.store.tables import INPUT, LEASE, METADATA, RESULT, STORE, VALUE
from schedperf.history.store.view import VIEW, view_columns
from schedperf.inputs.bundle.durable import explain
from schedperf.model.errors import InputError

# Tables that the view has, and those of one machine.
_LEFT_OUT = {STORE, LEASE, VALUE}
_ROWS = 100_000
_CLASS = "machine_class"
_NO_CLASS = "unknown"


def export_parquet(history: History, folder: Path) -> int:
    """Write all tables to a new directory; return the number of files.

    :raises InputError: pyarrow is not installed, the directory has files, or it cannot be written
    """
    if importlib.util.find_spec("pyarrow") is None:
        raise InputError(
            "pyarrow: not installed (Parquet needs it); run: pip install 'schedperf[parquet]'"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InputError(f"{folder}: not empty (expected a new directory); choose another one")
        return sum(1 for _ in _write_all(history.database, folder))
    except OSError as error:
        raise InputError(
            f"{error.filename or folder}: {explain(error)}; choose another directory"
        ) from None


def _write_all(database: Database, folder: Path) -> Iterator[Path]:
    with database.transaction() as connection:
        for table in METADATA.sorted_tables:
            if table not in _LEFT_OUT:
                path = folder / f"{table.name}.parquet"
                query = select(table).order_by(*table.primary_key.columns)
                yield _write(connection, query, _types_of(table), path)
        shown = [each for each in view_columns(connection) if each != _CLASS]
        for machine_class, month in _partitions(connection):
            part = folder / VIEW / f"{_CLASS}={quote(machine_class or _NO_CLASS, safe='')}"
            part = part / f"month={month}"
            part.mkdir(parents=True)
            runs = text(_RUNS.format(columns=", ".join(shown)))
            runs = runs.bindparams(machine_class=machine_class, month=month)
            yield _write(connection, runs, {}, part / "part.parquet")


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


def _write(connection: Connection, query: Executable, kinds: Mapping[str, Any], path: Path) -> Path:
    import pyarrow as pa  # noqa: PLC0415 # an extra
    import pyarrow.parquet as pq  # noqa: PLC0415

    rows = connection.execution_options(yield_per=_ROWS).execute(query)
    schema = pa.schema(
        [
            (name, kinds.get(name) or pa.type_for_alias(_OF_VIEW.get(name, "string")))
            for name in rows.keys()  # noqa: SIM118 # not a mapping
        ]
    )
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for part in rows.partitions(_ROWS):
            columns = list(zip(*part, strict=True))
            arrays = [
                pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)
            ]
            writer.write_batch(pa.record_batch(arrays, schema=schema))
    return path
