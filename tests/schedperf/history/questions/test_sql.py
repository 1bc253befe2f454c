# SPDX-License-Identifier: GPL-2.0-or-later
"""Queries read, and do nothing else."""

from pathlib import Path

import pytest

from schedperf.history.questions.history import History, open_history
from schedperf.history.questions.sql import query
from schedperf.model.errors import InputError
from tests.histories import add_to, make_night

NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION SELECT i + 1 FROM n WHERE i < 3) SELECT i FROM n"


@pytest.fixture
def history(tmp_path: Path) -> History:
    make_night(tmp_path / "nights", 0)
    return open_history(add_to(tmp_path / "store", tmp_path / "nights")[0].folder)


def test_a_query_is_answered(history: History) -> None:
    answer = query(
        history.database,
        "SELECT role, count(*) AS n, max(NULL) AS none FROM runs GROUP BY role ORDER BY role",
    )
    assert answer.columns == ("role", "n", "none")
    assert list(answer.rows) == [("new", 4, None), ("reference", 4, None)]
    assert list(query(history.database, NUMBERS).rows) == [(1,), (2,), (3,)]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM night",
        "INSERT INTO fact VALUES (1, 'a', 'b')",
        "DROP TABLE night",
        "CREATE TABLE x (y)",
        "CREATE TEMP TABLE x (y)",
        "ATTACH DATABASE '/tmp/x.db' AS x",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA writable_schema = 1",
        "SELECT load_extension('x')",
        "VACUUM INTO '/tmp/x.db'",
        "BEGIN EXCLUSIVE",
        "SELECT 1; DELETE FROM night",
        "",
        "-- nothing",
    ],
)
def test_a_statement_that_does_not_only_read_is_refused(statement: str, history: History) -> None:
    with pytest.raises(InputError, match="expected one SELECT") as raised:
        list(query(history.database, statement).rows)
    assert "\n" not in str(raised.value)
    assert len(history.nights(history.series()[0])) == 1


@pytest.mark.parametrize("statement", ["SELEKT 1", "SELECT x FROM runs", "SELECT 1\0", "SELECT ("])
def test_an_invalid_query_is_one_line(statement: str, history: History) -> None:
    with pytest.raises(InputError, match="^query: ") as raised:
        list(query(history.database, statement).rows)
    assert "\n" not in str(raised.value)
