# SPDX-License-Identifier: GPL-2.0-or-later
"""Damaged, foreign and newer stores: one clear line, and nothing is lost."""

import fcntl
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from schedperf.history.questions.history import open_history
from schedperf.history.store.add import add
from schedperf.history.store.check import check
from schedperf.history.store.decisions import Serviced
from schedperf.history.store.directory import Directory, open_or_create
from schedperf.history.store.inputs import find_sources
from schedperf.history.store.writer import rebuild, writing
from schedperf.model.errors import InputError
from tests.histories import DEFAULTS, add_said, add_to, dump, make_night, make_recording

DATABASE = "history.db"


@pytest.fixture
def store(tmp_path: Path) -> Directory:
    """Return a store with two nights."""
    for number in range(2):
        make_night(tmp_path / "nights", number)
    return add_to(tmp_path / "store", tmp_path / "nights")[0]


def silent(_line: str) -> None:
    pass


def ask(store: Directory) -> None:
    """Read all that questions read."""
    with open_history(store.folder) as history:
        history.frame()
        history.steps()


def write_text(path: Path) -> None:
    path.write_text("no database\n")


def cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def remove_table(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE night")


def remove_identity(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM store")


def break_pages(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for page in range(8192, len(content), 4096):
        content[page : page + 16] = b"\xff" * 16
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage", [write_text, cut_in_half, remove_table, remove_identity, break_pages]
)
def test_a_damaged_database_is_made_again(damage: Callable[[Path], None], store: Directory) -> None:
    before = dump(store)
    damage(store.folder / DATABASE)
    with pytest.raises(InputError, match=r"schedperf history rebuild`$") as raised:
        ask(store)
    assert "\n" not in str(raised.value)
    rebuild(store, silent)
    assert dump(store) == before
    assert list(check(store, silent)) == []


def test_a_removed_database_is_made_again_by_the_next_addition(
    store: Directory, tmp_path: Path
) -> None:
    before = dump(store)
    (store.folder / DATABASE).unlink()
    with pytest.raises(InputError, match="no database"):
        open_history(store.folder)
    path = make_recording(tmp_path / "retest.tar", "2026-09-01", "new", [[0.6]])
    add_said(store.folder, silent, path)
    after = dump(store)
    assert after["input"][: len(before["input"])] == before["input"]
    assert after["night"][: len(before["night"])] == before["night"]
    assert list(check(store, silent)) == []


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    directory, _ = open_or_create(tmp_path / "store")
    path = directory.folder / DATABASE
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    content = path.read_bytes()
    message = r"a database of another program \(tables: bookmarks\)"
    with pytest.raises(InputError, match=message):
        open_history(directory.folder)
    with pytest.raises(InputError, match=message), writing(directory, silent):
        pass
    with pytest.raises(InputError, match=message):
        rebuild(directory, silent)
    assert path.read_bytes() == content


def test_a_newer_store_is_refused(store: Directory) -> None:
    with sqlite3.connect(store.folder / DATABASE) as connection:
        connection.execute("UPDATE store SET schema = 2")
    message = "the store has version 2, but this schedperf reads version 1; use a newer schedperf"
    with pytest.raises(InputError, match=message):
        open_history(store.folder)
    with pytest.raises(InputError, match=message):
        rebuild(store, silent)
    text = (store.folder / "store.toml").read_text()
    (store.folder / "store.toml").write_text(text.replace("history/1", "history/2"))
    with pytest.raises(InputError, match=r'expected "schedperf/history/1"'):
        open_history(store.folder)


def test_the_database_of_another_store_is_refused(store: Directory, tmp_path: Path) -> None:
    other, _ = open_or_create(tmp_path / "other")
    shutil.copy(store.folder / DATABASE, other.folder)
    with pytest.raises(InputError, match="the database of another store"):
        open_history(other.folder)


@pytest.mark.parametrize("kind", ["missing", "no store", "foreign files", "file"])
def test_a_directory_that_is_no_store_is_refused(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    if kind == "file":
        folder.touch()
    elif kind != "missing":
        folder.mkdir()
    if kind == "foreign files":
        (folder / "thesis.tex").touch()
    with pytest.raises(InputError, match=r"store: no store \(expected a directory"):
        open_history(folder)
    if kind in {"foreign files", "file"}:
        with pytest.raises(InputError, match="choose another --store"):
            open_or_create(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("database = ", "invalid TOML"),
        ('databse = "x"', "did you mean database"),
        ('id = "; DROP TABLE"', "id is"),
        ('id = "0123456789ab"\ndatabase = "mysql://h/d"', "mysql: invalid URL of a database"),
        ('id = "0123456789ab"\ndatabase = "sqlite://"', "sqlite: invalid URL of a database"),
        ('id = "0123456789ab"\ndatabase = "user:secret@host"', "user: invalid URL of a database"),
    ],
)
def test_an_invalid_store_toml_is_one_line(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "store.toml").write_text(text)
    with pytest.raises(InputError, match=message) as raised:
        open_history(tmp_path)
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_incomplete_last_decision_is_removed_and_said(store: Directory) -> None:
    before = dump(store)
    with store.log.path.open("ab") as file:
        file.write(b'{"at": "2026-06-03T00:00:00Z", "decided"')
    with open_history(store.folder) as history:
        assert history.series()
    said: list[str] = []
    with writing(store, said.append):
        pass
    [line] = said
    assert "removed an incomplete last line of 40 bytes" in line
    assert dump(store) == before


@pytest.mark.parametrize(
    "line", [b"", b"null", b"\xff", b'{"at": "x", "decided": {"decision": "no"}}', b"[" * 100]
)
def test_a_damaged_decision_is_named(line: bytes, store: Directory) -> None:
    with store.log.path.open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(InputError, match=r"the line that ends at byte \d+: .*backup"):
        rebuild(store, silent)


def test_a_log_that_lost_lines_is_noticed(store: Directory) -> None:
    before = dump(store)
    content = store.log.path.read_bytes()
    store.log.path.write_bytes(b"".join(content.splitlines(keepends=True)[:-1]))
    with pytest.raises(InputError, match="lines are missing or changed"):
        open_history(store.folder)
    with pytest.raises(InputError, match="lines are missing or changed"), writing(store, silent):
        pass
    store.log.path.write_bytes(content)
    assert dump(store) == before


def test_a_bundle_that_changed_on_disk_is_found(store: Directory) -> None:
    before = dump(store)
    path = next(store.objects.folder.glob("??/*"))
    content = path.read_bytes()
    path.write_bytes(content.replace(b"Time: 0.", b"Time: 9.", 1))
    [problem] = check(store, silent)
    assert f"{path}: changed on disk" in problem
    with pytest.raises(InputError, match=path.name):
        rebuild(store, silent)
    path.unlink()
    assert "cannot be read" in next(check(store, silent))
    with pytest.raises(InputError, match=path.name):
        rebuild(store, silent)
    assert dump(store) == before
    path.write_bytes(content)
    assert list(check(store, silent)) == []


def test_a_changed_row_is_found(store: Directory) -> None:
    with sqlite3.connect(store.folder / DATABASE) as connection:
        connection.execute("UPDATE value SET value = value + 1 WHERE run = 0")
    assert list(check(store, silent)) == [
        f"{store.folder / DATABASE}: 8 rows of table value differ; run `schedperf history rebuild`"
    ]


def test_left_over_copies_are_only_mentioned(store: Directory) -> None:
    (store.objects.folder / "ab").mkdir(exist_ok=True)
    (store.objects.folder / "ab" / "abcd.tar.17").write_bytes(b"killed")
    said: list[str] = []
    assert list(check(store, said.append)) == []
    assert "1 files that nothing uses" in said[0]


def test_a_second_writer_waits_and_then_says_why(store: Directory) -> None:
    said: list[str] = []
    with (store.folder / "lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with (
            pytest.raises(InputError, match="another process has been writing"),
            store.locked(said.append, wait_s=0.0),
        ):
            pass


def test_a_database_that_another_program_locks_is_one_line(
    store: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedperf.history.store.database._BUSY_S", 0.0)
    other = sqlite3.connect(store.folder / DATABASE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    decision = Serviced(machine="2x48", night="2026-06-02", reason="new DIMMs")
    with (
        pytest.raises(InputError, match="locked; another program uses it"),
        writing(store, silent),
    ):
        pytest.fail("written")
    other.close()
    with writing(store, silent) as writer:
        writer.commit([(decision, None)])
    assert dump(store)["service"] == [("2x48", "2026-06-02", "new DIMMs")]
    assert list(check(store, silent)) == []


def test_a_full_disk_loses_nothing(small_disk: Path, tmp_path: Path) -> None:
    for number in range(8):
        make_night(tmp_path / "nights", number)
    store, _ = open_or_create(small_disk / "store")
    found = find_sources([tmp_path / "nights"])
    filler = small_disk / "filler"
    problems: list[str] = []
    free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
    # From nothing left to a little more each time: the disk fills in another write.
    for left in range(0, free, max(1, free // 40)):
        filler.write_bytes(b"\0" * (free - left))
        try:
            counts = add(store, found, DEFAULTS, problems.append)
        except InputError as error:
            problems.append(str(error))
            counts = None
        filler.unlink()
        if counts is not None and not counts.failed:
            break
    assert any("space" in line or "full" in line for line in problems)
    assert not [line for line in problems if "\n" in line]
    add(store, found, DEFAULTS, problems.append)
    assert len(dump(store)["input"]) == 16
    assert list(check(store, silent)) == []
