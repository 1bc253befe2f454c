# SPDX-License-Identifier: GPL-2.0-or-later
"""Read a history: series, nights and steps."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from msgspec import Struct
from sqlalchemy import Connection, Row, Select, select

from schedperf.history.questions.records import Night, Series, Step, StepChange
from schedperf.history.store.database import Database, parse_url
from schedperf.history.store.directory import Directory, is_url, open_directory
from schedperf.history.store.tables import NIGHT, RESULT, SERIES, STEP, STEP_CHANGE
from schedperf.history.store.watched import select_unwatched
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line, cut, list_some

if TYPE_CHECKING:
    import pandas as pd

Record = TypeVar("Record", bound=Struct)

_LONGEST = 60
_ROWS_AT_ONCE = 10_000
_MOST_MATCHES = 3


class History:
    """A history that is open for reading.

    ::

        with schedperf.open_history("history") as history:
            history.frame()

    :param database: its database
    :param directory: its store; None if it was opened by the URL of the database
    """

    def __init__(self, database: Database, directory: Directory | None) -> None:
        self.database = database
        self._directory = directory

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the database."""
        self.database.close()

    def series(self) -> tuple[Series, ...]:
        """Return all series, by machine class, workload, metric and point.

        :raises InputError: the database cannot be read
        """
        query = _SERIES.order_by(
            RESULT.c.machine_class,
            SERIES.c.tree,
            RESULT.c.workload,
            RESULT.c.metric,
            RESULT.c.point,
            SERIES.c.id,
        )
        return tuple(self._read(Series, query))

    def find(self, name: str) -> Series:
        """Return the series that a key, the beginning of a key, or a name means.

        :raises InputError: there is none, or several
        """
        series = self.series()
        by_key = [each for each in series if each.key.startswith(name)]
        exact = [each for each in series if each.name == name]
        parts = [each for each in series if name in each.name or name in each.workload]
        matches = by_key or exact or parts
        if len(matches) == 1:
            return matches[0]
        shown = clean_line(cut(name, _LONGEST))
        if not matches:
            raise InputError(f"{shown}: no such series; `schedperf history list` lists them")
        names = [
            " on ".join(filter(None, (f"{each.key} {each.name}", each.machine_class)))
            for each in matches
        ]
        some = list_some([clean_line(each) for each in names], _MOST_MATCHES)
        raise InputError(f"{shown}: {len(matches)} series ({some}); give the key of one")

    def nights(self, series: Series, since: int | None = None) -> tuple[Night, ...]:
        """Return the nights of a series in their order; lost nights have no value.

        :param since: position of the first night; None for all
        :raises InputError: the database cannot be read
        """
        query = (
            _NIGHTS.join(SERIES, SERIES.c.id == NIGHT.c.series_id)
            .where(SERIES.c.key == series.key)
            .order_by(NIGHT.c.position, NIGHT.c.revision)
        )
        if since is not None:
            query = query.where(NIGHT.c.position >= since)
        return tuple(self._read(Night, query))

    def all_nights(self) -> Mapping[str, Sequence[Night]]:
        """Return the nights of all series by key, in their order.

        :raises InputError: the database cannot be read
        """
        query = (
            _NIGHTS.add_columns(SERIES.c.key)
            .join(SERIES, SERIES.c.id == NIGHT.c.series_id)
            .order_by(NIGHT.c.series_id, NIGHT.c.position, NIGHT.c.revision)
        )
        found: dict[str, list[Night]] = {}
        with self.database.transaction() as connection:
            for row in connection.execute(query):
                found.setdefault(row.key, []).append(_record(Night, row))
        return found

    def unwatched_nights(self) -> Iterator[tuple[int, str, list[Night]]]:
        """Yield id, key and nights of each series that has nights since it was watched.

        :raises InputError: the database cannot be read
        """
        columns = [NIGHT.c[name] for name in Night.__struct_fields__]
        query = select_unwatched(*columns, SERIES.c.id, SERIES.c.key)
        with self.database.transaction() as connection:
            rows = connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(query)
            for (number, key), of_series in groupby(rows, key=lambda row: (row.id, row.key)):
                yield number, key, [_record(Night, row) for row in of_series]

    def steps(self, series: Series | None = None) -> tuple[Step, ...]:
        """Return the steps that the watch has found, of one series or of all.

        :raises InputError: the database cannot be read
        """
        query = (
            select(*(_STEP_COLUMNS[name] for name in Step.__struct_fields__))
            .join(SERIES, SERIES.c.id == STEP.c.series_id)
            .order_by(STEP.c.position, STEP.c.id)
        )
        if series is not None:
            query = query.where(SERIES.c.key == series.key)
        return tuple(self._read(Step, query))

    def step(self, name: str) -> Step:
        """Return a step.

        :param name: its identity
        :raises InputError: no such step
        """
        found = next((each for each in self.steps() if each.id == name), None)
        if found is None:
            shown = clean_line(cut(name, _LONGEST))
            raise InputError(f"{shown}: no such step; `schedperf history list --open` shows steps")
        return found

    def step_changes(self, step: str) -> tuple[StepChange, ...]:
        """Return the decisions about a step, in their order; () if there is none."""
        query = (
            select(*(STEP_CHANGE.c[name] for name in StepChange.__struct_fields__))
            .where(STEP_CHANGE.c.step_id == step)
            .order_by(STEP_CHANGE.c.number)
        )
        return tuple(self._read(StepChange, query))

    def frame(self, series: Series | None = None) -> "pd.DataFrame":
        """Return the nights, of one series or of all, one row per series and night.

        Columns: ``key, machine_class, tree, workload, point, metric, unit, better, family`` (text)
        of the series; those of :class:`Night`: ``position`` (int), ``night, revision, scale``
        (text), ``new, reference`` (float, in ``unit``), ``new_sd, reference_sd`` (float, of
        logarithms where ``scale`` is "log"), numbers of boots and runs (float), hashes (text).
        Missing values are NaN or None.

        :raises InputError: the database cannot be read
        """
        import pandas as pd  # noqa: PLC0415 # slow to import

        of_series = Series.__struct_fields__
        names = [*of_series, *Night.__struct_fields__]
        chosen = self.series() if series is None else (series,)
        nights = self.all_nights() if series is None else {series.key: self.nights(series)}
        rows = [
            [
                *(getattr(each, name) for name in of_series),
                *(getattr(night, name) for name in Night.__struct_fields__),
            ]
            for each in chosen
            for night in nights.get(each.key, ())
        ]
        return pd.DataFrame(rows, columns=names)

    def _read(self, kind: type[Record], query: Select[Any]) -> list[Record]:
        with self.database.transaction() as connection:
            return [_record(kind, row) for row in _rows(connection, query)]


def open_history(store: Path | str) -> History:
    """Open a history.

    :param store: directory of the store, or URL of its database
    :raises InputError: no store, or its database is missing, foreign, damaged or of a
        newer version
    """
    if is_url(store):
        directory, database = None, Database(parse_url(str(store), Path()), is_read_only=True)
        applied = database.check(None)
    else:
        directory = open_directory(Path(store))
        database = directory.database(is_read_only=True)
        applied = database.check(directory.id)
    if applied is None:
        raise InputError(
            f"{database.name}: no database; add something by `schedperf history add`, or make it "
            "again by `schedperf history rebuild`"
        )
    if directory is not None:
        directory.check_applied(applied, database)
    return History(database, directory)


_SERIES_COLUMNS = {**dict(RESULT.c), "key": SERIES.c.key, "tree": SERIES.c.tree}
_SERIES = select(*(_SERIES_COLUMNS[name] for name in Series.__struct_fields__)).join(
    RESULT, RESULT.c.id == SERIES.c.result_id
)
_STEP_COLUMNS = {**dict(STEP.c), "series": SERIES.c.key}
_NIGHTS = select(*(NIGHT.c[name] for name in Night.__struct_fields__))


def _rows(connection: Connection, query: Select[Any]) -> Sequence[Row[Any]]:
    return connection.execute(query).all()


def _record(kind: type[Record], row: Row[Any]) -> Record:
    """Return a record of a row, whose first columns are its fields."""
    # Attributes of rows are slow, and a history has millions of nights.
    return kind(**dict(zip(kind.__struct_fields__, row, strict=False)))
