# SPDX-License-Identifier: GPL-2.0-or-later
"""Convert rows of the record to pandas DataFrames."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from msgspec import Struct, to_builtins

if TYPE_CHECKING:
    import pandas as pd


def data_frame(record: Struct, table: str) -> "pd.DataFrame":
    """Return a table of a record, one column per field; missing values are None or NaN.

    :param table: field with the rows, or fields joined by dots: "comparisons.units" selects the
        units of all comparisons. If the rows have no ``side`` but their comparisons have, it
        becomes the first column
    :raises KeyError: the table is unknown; the message lists the tables of the record
    """
    import pandas as pd  # noqa: PLC0415 # takes longer than comparing two bundles

    path = table.split(".")
    kinds = [type(record)]
    for name in path:
        kind = tables_of(kinds[-1]).get(name)
        if kind is None:
            names = ", ".join(tables_of(kinds[0]))
            message = f"{kinds[0].__name__} has no table {table!r} (expected one of {names})"
            raise KeyError(message)
        kinds.append(kind)
    has_side = any("side" in kind.__struct_fields__ for kind in kinds[1:])
    # An empty table has its columns, too.
    columns = dict.fromkeys((*(["side"] if has_side else []), *kinds[-1].__struct_fields__))
    return pd.DataFrame(list(_rows(record, path, {})), columns=list(columns))


def tables_of(kind: type[Struct]) -> dict[str, type[Struct]]:
    """Return the fields of a record type that hold rows, with the type of their rows."""
    hints = get_type_hints(kind)
    return {
        name: get_args(hints[name])[0]
        for name in kind.__struct_fields__
        if get_origin(hints[name]) is tuple and _is_record(get_args(hints[name])[0])
    }


def _rows(
    record: Struct, path: Sequence[str], outer: Mapping[str, object]
) -> Iterator[dict[str, Any]]:
    name, *rest = path
    for row in getattr(record, name):
        side = {"side": row.side} if hasattr(row, "side") else outer
        if rest:
            yield from _rows(row, rest, side)
        else:
            # The columns have the names of the attributes; JSON has `class` for `class_`.
            cells = {name: getattr(row, name) for name in row.__struct_fields__}
            yield {**side, **to_builtins(cells)}


def _is_record(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)
