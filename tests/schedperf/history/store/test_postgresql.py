# SPDX-License-Identifier: GPL-2.0-or-later
"""A store in PostgreSQL has the rows of one in SQLite, and answers the same."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from bench.history.postgresql import server
from schedperf.history.questions.change import compare_times
from schedperf.history.questions.history import open_history
from schedperf.history.questions.sql import query
from schedperf.history.store.add import Options
from schedperf.history.store.check import check
from schedperf.history.store.directory import open_or_create
from schedperf.history.store.requests import Queue, make_request
from schedperf.history.store.writer import rebuild, writing
from schedperf.model.errors import InputError
from tests.histories import add_to, dump, make_night, night_name

pytestmark = [pytest.mark.system, pytest.mark.xdist_group("postgresql")]


def silent(_line: str) -> None:
    pass


@pytest.fixture(scope="module")
def server_url() -> Iterator[str]:
    """Start a server."""
    pytest.importorskip("psycopg")
    # The user postgres cannot enter the directories of the tests.
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        with server(Path(name) / "server") as url:
            if url is None:
                pytest.skip("PostgreSQL is not installed")
            yield url


@pytest.fixture
def url(server_url: str) -> str:
    """Return the URL of an empty database."""
    engine = create_engine(server_url)
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    engine.dispose()
    return server_url


@pytest.fixture
def inputs(tmp_path: Path) -> list[Path]:
    for number in range(4):
        make_night(tmp_path / "nights", number, new=0.6 if number < 2 else 0.7)
    table = tmp_path / "table.csv"
    table.write_text("series,order,value\nboot,1,1.5\nboot,2,0\n")
    return [tmp_path / "nights", table]


def store_in(folder: Path, url: str) -> Path:
    folder.mkdir()
    (folder / "store.toml").write_text(f'database = "{url}"\n')
    return folder


def test_the_rows_are_those_of_sqlite(url: str, inputs: list[Path], tmp_path: Path) -> None:
    options = Options(facts={"rack": "b12"})
    sqlite, _ = add_to(tmp_path / "sqlite", *inputs, options=options)
    store, counts = add_to(store_in(tmp_path / "store", url), *inputs, options=options)
    assert counts.added == 9
    rows = dump(sqlite)
    assert dump(store) == rows
    assert add_to(store.folder, *inputs, options=options)[1].added == 0
    rebuild(store, silent)
    assert dump(store) == rows
    assert list(check(store, pytest.fail)) == []


def test_questions_are_answered(url: str, inputs: list[Path], tmp_path: Path) -> None:
    store, _ = add_to(store_in(tmp_path / "store", url), *inputs)
    for name in (store.folder, url):
        with open_history(name) as history:
            assert len(history.frame()) == 6
            change = compare_times(history, night_name(1), night_name(3), 2).changes[0]
            assert change.change == pytest.approx(0.7 / 0.6 - 1.0, abs=0.005)
            assert history.find("hackbench").unit == "s"
            answer = query(history.database, "SELECT count(*) AS n FROM runs WHERE role LIKE 'n%'")
            assert list(answer.rows) == [(16,)]
            for statement in ("DELETE FROM night", "SELECT 1; DELETE FROM night", "SELECT x"):
                with pytest.raises(InputError, match="^query: "):
                    list(query(history.database, statement).rows)
            assert len(history.frame()) == 6


def test_a_request_is_taken_by_one_runner(url: str, tmp_path: Path) -> None:
    store, _ = open_or_create(store_in(tmp_path / "store", url))
    requests = [
        make_request(store, "retest", machine="m", job="j", boots=8, why="+5%", say=silent)
        for _ in range(2)
    ]
    first, second = Queue(store.database()), Queue(store.database())
    taken = [first.take("m", "one", 60.0), second.take("m", "two", 60.0)]
    assert [each.id for each in taken if each] == requests
    assert first.take("m", "one", 60.0) is None


def test_a_foreign_database_and_a_server_that_is_away_are_one_line(
    url: str, tmp_path: Path
) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE bookmarks (url TEXT)"))
    engine.dispose()
    store, _ = open_or_create(store_in(tmp_path / "store", url))
    with pytest.raises(InputError, match="a database of another program"), writing(store, silent):
        pytest.fail("opened")
    away = url.replace("postgres@", "postgres:secret@").replace("host=", "host=/nowhere")
    gone, _ = open_or_create(store_in(tmp_path / "away", away))
    with pytest.raises(InputError) as raised, writing(gone, silent):
        pytest.fail("opened")
    assert "\n" not in str(raised.value)
    assert "secret" not in str(raised.value)
