# SPDX-License-Identifier: GPL-2.0-or-later
"""A table of columns takes what a DataFrame holds, and gives plain Python values back."""

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from schedperf.model.frame import Frame, column, numbers_of, plain

EXAMPLE = Path(__file__).parents[3] / "examples" / "deep-cgroup"


def test_a_column_of_numbers_may_have_gaps() -> None:
    assert column([1, 2]).dtype.kind == "i"
    assert column([1, None, 2.5]).tolist()[::2] == [1.0, 2.5]
    assert plain(column([1, None, 2.5])) == [1.0, None, 2.5]
    assert column([None, None]).dtype == object
    assert column([]).dtype == object


def test_a_column_of_objects_keeps_them() -> None:
    mixed = [True, "a", None, (1, 2), [3]]
    assert column(mixed).tolist() == mixed
    assert column([(1, 2), (3, 4)]).tolist() == [(1, 2), (3, 4)]


@pytest.mark.parametrize("dtype", ["object", "string", "category", "str"])
def test_texts_of_a_data_frame_are_objects_and_gaps_none(dtype: Any) -> None:
    table = pd.DataFrame({"name": pd.Series(["a", None, "b"], dtype=dtype)})
    assert Frame.of(table)["name"].tolist() == ["a", None, "b"]


@pytest.mark.parametrize("dtype", ["float64", "float32", "Float64", "Int64", "object"])
def test_numbers_of_a_data_frame_are_numbers_and_gaps_nan(dtype: Any) -> None:
    table = pd.DataFrame({"n": pd.Series([1, None, 3]).astype(dtype)})
    assert plain(numbers_of(Frame.of(table)["n"])) == [1.0, None, 3.0]


def test_what_is_not_a_number_is_nan() -> None:
    given = ["1.5", " 2 ", "1_000", "much", None, (1,), True]
    assert plain(numbers_of(column(given))) == [1.5, 2.0, None, None, None, None, 1.0]


def test_rows_are_taken_by_flags_or_numbers() -> None:
    table = Frame({"a": column([1, 2, 3]), "b": column(["x", "y", "z"])})
    assert table.take(table["a"] > 1).records() == [{"a": 2, "b": "y"}, {"a": 3, "b": "z"}]
    assert list(table.take([2, 0]).rows(["b"])) == [("z",), ("x",)]
    assert len(table.take([False] * 3)) == 0


def test_columns_are_added_and_chosen() -> None:
    table = Frame({"a": column([1, 2])}).assign(b="x", c=[None, 3.0], d=None, e=0)
    assert table.records() == [
        {"a": 1, "b": "x", "c": None, "d": None, "e": 0},
        {"a": 2, "b": "x", "c": 3.0, "d": None, "e": 0},
    ]
    assert list(table.select(["c", "a"])) == ["c", "a"]
    assert "d" in table
    assert "f" not in table


def test_tables_are_joined() -> None:
    parts = [
        Frame({"a": column([1]), "b": column(["x"])}),
        Frame({"b": column(["y"]), "a": column([2.5])}),
    ]
    assert Frame.joined(parts).records() == [{"a": 1.0, "b": "x"}, {"a": 2.5, "b": "y"}]


def test_a_column_that_a_table_lacks_has_missing_values() -> None:
    parts = [
        Frame({"a": column([1, 2])}),
        Frame({"a": column([3]), "b": column([4]), "c": column(["x"])}),
    ]
    assert Frame.joined(parts).records() == [
        {"a": 1.0, "b": None, "c": None}, {"a": 2.0, "b": None, "c": None},
        {"a": 3.0, "b": 4.0, "c": "x"},
    ]  # fmt: skip


def test_contents_are_numbered_in_the_order_in_which_they_come() -> None:
    table = Frame({"a": column(["x", "y", "x", "y"]), "b": column([1.0, math.nan, 1.0, math.nan])})
    assert table.number_rows(["a", "b"]).tolist() == [0, 1, 0, 1]
    assert table.number_rows(["b", "a"]).dtype == np.intp


def write_tables(folder: Path) -> tuple[Path, Path]:
    base, new = folder / "base.csv", folder / "new.csv"
    for path, factor in ((base, 1.0), (new, 1.5)):
        values = (f"time,s,lower,{factor * (10.0 + run / 10.0)}\n" for run in range(6))
        path.write_text("metric,unit,better,value\n" + "".join(values))
    return base, new


@pytest.mark.parametrize("are_tables", [False, True], ids=["bundles", "tables"])
def test_nothing_that_is_compared_imports_pandas(tmp_path: Path, *, are_tables: bool) -> None:
    bundles = EXAMPLE / "base.tar.xz", EXAMPLE / "new.tar.xz"
    base, new = write_tables(tmp_path) if are_tables else bundles
    program = (
        "import sys; from schedperf.cli import main\n"
        f"main(['compare', {str(base)!r}, {str(new)!r}])\n"
        "print('pandas' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "False"
    assert "regression" in done.stdout
