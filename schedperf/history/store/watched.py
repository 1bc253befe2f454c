# SPDX-License-Identifier: GPL-2.0-or-later
"""Keep what the watch has found in each series, so that it reads nothing but the nights since then.

All of it follows from the nights. It is removed where an earlier night changes, and when the
database is made again; the series is then watched from its beginning.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import DecodeError, msgpack
from sqlalchemy import ColumnElement, Connection, Select, bindparam, delete, func, insert, select

from schedperf.history.store.database import Damaged
from schedperf.history.store.reading import PARSER
from schedperf.history.store.tables import NIGHT, SERIES, WATCHED
from schedperf.history.watch.state import Update
from schedperf.model.text import clean_line

_ENCODER = msgpack.Encoder()
_DECODER = msgpack.Decoder(Update)
_NEVER = -1


def read_watched(connection: Connection) -> Mapping[int, Update]:
    """Return what this version of schedperf has found, by the id of the series.

    :raises Damaged: it is not what was written
    """
    query = select(WATCHED.c.series_id, WATCHED.c.found).where(WATCHED.c.version == PARSER)
    try:
        return {number: _DECODER.decode(data) for number, data in connection.execute(query)}
    except DecodeError as error:
        raise Damaged(
            f"table {WATCHED.name}: {clean_line(str(error))}; make the database again by "
            "`schedperf history rebuild`"
        ) from None


def keep_watched(connection: Connection, found: Mapping[int, Update]) -> None:
    """Keep what was found in some series, in place of what was kept of them.

    :param found: by the id of the series
    """
    rows = [
        {
            "series_id": number,
            "position": update.state.order,
            "version": PARSER,
            "found": _ENCODER.encode(update),
        }
        for number, update in found.items()
    ]
    if rows:
        one = delete(WATCHED).where(WATCHED.c.series_id == bindparam("number"))
        connection.execute(one, [{"number": number} for number in found])
        connection.execute(insert(WATCHED), rows)


def forget_watched(connection: Connection, series: Select[tuple[int]], since: int) -> None:
    """Remove what was found in some series with a night or later ones, because it changes.

    :param series: selects their ids
    :param since: position of the night
    """
    connection.execute(
        delete(WATCHED).where(WATCHED.c.position >= since, WATCHED.c.series_id.in_(series))
    )


def select_unwatched(*columns: ColumnElement[Any]) -> Select[Any]:
    """Select columns of the nights that were not watched, by series and position."""
    return (
        select(*columns)
        .select_from(SERIES)
        .outerjoin(WATCHED, (WATCHED.c.series_id == SERIES.c.id) & (WATCHED.c.version == PARSER))
        .join(
            NIGHT,
            (NIGHT.c.series_id == SERIES.c.id)
            & (NIGHT.c.position > func.coalesce(WATCHED.c.position, _NEVER)),
        )
        .order_by(SERIES.c.id, NIGHT.c.position, NIGHT.c.revision)
    )
