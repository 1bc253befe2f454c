# SPDX-License-Identifier: GPL-2.0-or-later
"""Store columns of equal length: the small part of ``pandas.DataFrame`` that a comparison needs.

Importing pandas takes longer than comparing two bundles. The public functions also accept pandas
tables.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd

Column = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.intp]

# Kinds of NumPy types for numbers; all other values are stored as objects.
_NUMERIC = "biuf"


class Frame:
    """Columns by name; a missing number is NaN, and any other missing value is None."""

    __slots__ = ("_columns",)

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = dict(columns)

    @classmethod
    def of(cls, table: "Frame | pd.DataFrame") -> "Frame":
        """Return a Frame unchanged, and a DataFrame as a Frame without its index."""
        if isinstance(table, Frame):
            return table
        return cls({str(name): _column_of(table[name]) for name in table})

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, object]], names: Sequence[str]) -> "Frame":
        """Return a table of these columns; each row must have all of them.

        :raises KeyError: a row lacks a column
        """
        return cls({name: column([row[name] for row in rows]) for name in names})

    @classmethod
    def joined(cls, frames: Sequence["Frame"]) -> "Frame":
        """Return the concatenated rows of one or more tables.

        Where a table lacks a column, its rows get NaN (a column of numbers) or None.
        """
        names = dict.fromkeys(name for each in frames for name in each)
        return cls({name: _joined(name, frames) for name in names})

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), ()))

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    def take(self, rows: npt.ArrayLike) -> "Frame":
        """Return some of the rows.

        :param rows: a flag for each row, or the numbers of the rows, from 0
        """
        index = np.asarray(rows)
        return Frame({name: values[index] for name, values in self._columns.items()})

    def select(self, names: Iterable[str]) -> "Frame":
        """Return a table of these columns, in this order.

        :raises KeyError: a column is unknown
        """
        return Frame({name: self._columns[name] for name in names})

    def assign(self, **columns: object) -> "Frame":
        """Return the table with added or replaced columns.

        :param columns: an array or list with one value per row; any other value (text, number or
            None) is repeated in all rows
        """
        length = len(self)
        return Frame({**self._columns, **{n: _filled(c, length) for n, c in columns.items()}})

    def rows(self, names: Iterable[str] | None = None) -> Iterator[tuple[Any, ...]]:
        """Yield the values of each row as Python objects, with None for missing values.

        :param names: columns, in this order [default: all columns]
        """
        chosen = self._columns if names is None else names
        return zip(*(plain(self._columns[name]) for name in chosen), strict=True)

    def records(self) -> list[dict[str, Any]]:
        """Return the rows as dicts, with None for missing values."""
        return [dict(zip(self._columns, row, strict=True)) for row in self.rows()]

    def data_frame(self) -> "pd.DataFrame":
        """Return the table as a pandas DataFrame."""
        import pandas as pd  # noqa: PLC0415 # takes longer than comparing two bundles

        return pd.DataFrame(self._columns)

    def number_rows(self, names: Iterable[str]) -> Integers:
        """Return for each row the number of its contents in some columns, shape (rows,).

        Distinct contents are numbered from 0, in order of first occurrence.
        """
        numbers: dict[tuple[object, ...], int] = {}
        each = [numbers.setdefault(row, len(numbers)) for row in self.rows(names)]
        return np.array(each, dtype=np.intp)


def _joined(name: str, frames: Sequence[Frame]) -> Column:
    are_numbers = all(each[name].dtype.kind in _NUMERIC for each in frames if name in each)
    missing = math.nan if are_numbers else None
    return np.concatenate(
        [each[name] if name in each else np.full(len(each), missing) for each in frames]
    )


def floats(values: Iterable[object]) -> Floats:
    """Return numbers as an array, with NaN for None."""
    return np.array([math.nan if value is None else value for value in values], np.float64)


def column(values: Sequence[object]) -> Column:
    """Return values as an array of shape (values,).

    If all are integers, floats or None, but not all None, it has numbers, with NaN for None. All
    other values, Booleans included, are stored as objects.
    """
    kinds = set(map(type, values))
    if kinds and kinds <= {int, float, type(None)} and kinds != {type(None)}:
        missing = math.nan
        return np.array([missing if value is None else value for value in values])
    return objects(values)


def plain(values: Column) -> list[Any]:
    """Return a column as Python objects, with None for NaN."""
    listed: list[Any] = values.tolist()
    if values.dtype.kind == "f" and np.isnan(values).any():
        return [None if value != value else value for value in listed]  # noqa: PLR0124 # NaN
    return listed


def numbers_of(values: Column) -> Floats:
    """Return a column as floats: parse texts, and replace what is not a number by NaN."""
    if values.dtype.kind in _NUMERIC:
        return values.astype(np.float64)
    return np.array([_number(value) for value in values.tolist()], dtype=np.float64)


def _number(value: Any) -> float:
    try:
        # Tables must not use Python's own separator of thousands.
        return math.nan if isinstance(value, str) and "_" in value else float(value)
    except (TypeError, ValueError):
        return math.nan


def objects(values: Sequence[object]) -> Column:
    """Return values of any kind, sequences included, as an array of objects, shape (values,)."""
    # np.array would make columns of values that are sequences themselves.
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made


def _filled(content: object, length: int) -> Column:
    if isinstance(content, np.ndarray):
        return content
    if isinstance(content, list):
        return column(content)
    return np.full(length, content, dtype=object if isinstance(content, str | None) else None)


def _column_of(series: "pd.Series[Any]") -> Column:
    values = series.to_numpy()
    if values.dtype.kind in _NUMERIC:
        return values
    made = values.astype(object)
    made[series.isna().to_numpy()] = None
    return made
