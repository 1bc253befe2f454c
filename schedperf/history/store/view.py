# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the view ``runs``: one row per value, with what is known about it; facts are columns."""

from collections.abc import Sequence

from sqlalchemy import Connection, inspect, select

from schedperf.history.store.tables import FACT

VIEW = "runs"
_COLUMNS = """
  input.digest, input.parser, input.machine, result.machine_class, boot.environment, input.tree,
  input.ref, input.commit_hash, input.committed, input.kernel, input.role, input.purpose,
  input.night, result.workload, result.point, result.metric, result.unit, result.better,
  result.family, boot.boot_id, value.boot, value.run, run.run_order, run.round, run.started,
  value.value, value.result_id, value.input_id"""
_FACT = """,
  (SELECT fact.value FROM fact WHERE fact.input_id = input.id AND fact.key = '{key}')
    AS fact_{key}"""
_TABLES = """
FROM value
JOIN result ON result.id = value.result_id
JOIN input ON input.id = value.input_id
JOIN run ON run.input_id = value.input_id AND run.boot = value.boot AND run.run = value.run
JOIN boot ON boot.input_id = value.input_id AND boot.boot = value.boot"""


def make_view(connection: Connection) -> None:
    """Create the view again, with a column ``fact_KEY`` for each fact of the store."""
    keys = connection.execute(select(FACT.c.key).distinct().order_by(FACT.c.key)).scalars().all()
    drop_view(connection)
    connection.exec_driver_sql(f"CREATE VIEW {VIEW} AS {_query(keys)}")


def view_columns(connection: Connection) -> list[str]:
    """Return the names of the columns of the view."""
    return [column["name"] for column in inspect(connection).get_columns(VIEW)]


def drop_view(connection: Connection) -> None:
    """Remove the view."""
    connection.exec_driver_sql(f"DROP VIEW IF EXISTS {VIEW}")


def _query(keys: Sequence[str]) -> str:
    # Keys of facts are letters, digits and _: decisions are checked when they are read.
    facts = "".join(_FACT.format(key=key) for key in keys)
    return f"SELECT{_COLUMNS}{facts}{_TABLES}"  # as above
