# SPDX-License-Identifier: GPL-2.0-or-later
"""Rows of the record as DataFrames."""

import pytest
from msgspec import Struct, field

from schedperf.model.data_frame import data_frame


class _Row(Struct, frozen=True, kw_only=True):
    value: float | None


class _Part(Struct, frozen=True, kw_only=True):
    side: str
    rows: tuple[_Row, ...]


class _Record(Struct, frozen=True, kw_only=True):
    name: str
    rows: tuple[_Row, ...]
    parts: tuple[_Part, ...]
    notes: tuple[str, ...] = ()


RECORD = _Record(
    name="name",
    rows=(_Row(value=1.5), _Row(value=None)),
    parts=(
        _Part(side="new", rows=(_Row(value=2.0),)),
        _Part(side="new2", rows=(_Row(value=3.0), _Row(value=4.0))),
    ),
)


def test_a_row_of_the_frame_is_a_row_of_the_record() -> None:
    frame = data_frame(RECORD, "rows")
    assert frame["value"].iloc[0] == 1.5
    assert frame["value"].isna().tolist() == [False, True]


def test_a_column_has_the_name_of_the_attribute() -> None:
    class Classed(Struct, frozen=True, kw_only=True):
        class_: str = field(name="class")

    class Classes(Struct, frozen=True, kw_only=True):
        rows: tuple[Classed, ...]

    frame = data_frame(Classes(rows=(Classed(class_="micro"),)), "rows")
    assert frame.to_dict("list") == {"class_": ["micro"]}


def test_inner_rows_have_the_side_of_the_outer_one() -> None:
    assert data_frame(RECORD, "parts.rows").to_numpy().tolist() == [
        ["new", 2.0],
        ["new2", 3.0],
        ["new2", 4.0],
    ]


@pytest.mark.parametrize(
    ("table", "columns"), [("rows", ["value"]), ("parts.rows", ["side", "value"])]
)
def test_an_empty_table_has_its_columns(table: str, columns: list[str]) -> None:
    frame = data_frame(_Record(name="name", rows=(), parts=()), table)
    assert (list(frame), len(frame)) == (columns, 0)


@pytest.mark.parametrize("record", [RECORD, _Record(name="name", rows=(), parts=())])
@pytest.mark.parametrize("table", ["lines", "name", "notes", "parts.lines", "rows.rows"])
def test_an_unknown_table_is_an_error_with_the_names_that_there_are(
    table: str, record: _Record
) -> None:
    with pytest.raises(KeyError, match=rf"has no table '{table}' .expected one of rows, parts\)"):
        data_frame(record, table)
