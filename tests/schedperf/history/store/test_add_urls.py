# SPDX-License-Identifier: GPL-2.0-or-later
"""Bundles are added by URL, and read there again if the store keeps no copies."""

from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from schedperf.history.store.add import Counts, Options, add
from schedperf.history.store.check import check
from schedperf.history.store.decisions import Added
from schedperf.history.store.directory import Directory, open_or_create
from schedperf.history.store.inputs import find_sources
from schedperf.history.store.writer import rebuild
from schedperf.model.errors import InputError
from tests.histories import dump, make_recording, night_name
from tests.web_files import serve

SECRET = "swordfish"  # noqa: S105 # of no one


def add_urls(
    folder: Path, said: list[str], *urls: str, keep: bool = True
) -> tuple[Directory, Counts]:
    directory, _ = open_or_create(folder)
    return directory, add(directory, find_sources(urls), Options(keep=keep), said.append)


def paths_of(directory: Directory) -> list[str]:
    lines = (each.line.decided for each in directory.log.read())
    return [each.path for each in lines if isinstance(each, Added)]


@pytest.fixture
def bundle(tmp_path: Path) -> bytes:
    return make_recording(tmp_path / "new.tar", night_name(0), "new", [[0.6]]).read_bytes()


@pytest.fixture
def memory() -> Iterator[fsspec.AbstractFileSystem]:
    files = fsspec.filesystem("memory")
    yield files
    files.rm("/nights", recursive=True)


def test_a_directory_is_added_once(
    tmp_path: Path, bundle: bytes, memory: fsspec.AbstractFileSystem
) -> None:
    memory.pipe({"/nights/a.tar": bundle, "/nights/b.tar": b"no tar", "/nights/notes.txt": b""})
    memory.pipe("/nights/table.csv", b"series,order,value\nboot,1,1.5\n")
    said: list[str] = []
    urls = ("memory://nights/", "memory://nights/table.csv", "memory://nights/none.tar")
    directory, counts = add_urls(tmp_path / "store", said, *urls)
    assert (counts.added, counts.known, counts.failed) == (2, 0, 2)
    assert said[0].startswith("memory://nights/b.tar: invalid tar archive")
    assert said[1].startswith("memory://nights/none.tar: cannot be used: no such file")
    assert paths_of(directory) == ["memory://nights/a.tar", "memory://nights/table.csv"]
    _, counts = add_urls(tmp_path / "store", said, *urls)
    assert (counts.added, counts.known, counts.failed) == (0, 2, 2)
    assert list(check(directory, pytest.fail)) == []


def test_without_copies_the_url_is_read_again(tmp_path: Path, bundle: bytes) -> None:
    files = {"/new.tar": bundle}
    with serve(files) as address:
        directory, counts = add_urls(
            tmp_path / "store", [], f"http://{address}/new.tar", keep=False
        )
        assert counts.added == 1
        assert not directory.objects.folder.exists()
        before = dump(directory)
        assert rebuild(directory, pytest.fail) == 1
        assert dump(directory) == before
        assert list(check(directory, pytest.fail)) == []
        files["/new.tar"] = bundle.replace(b"6.18.0", b"6.19.0")
        [problem] = check(directory, lambda _: None)
        assert problem.startswith(f"http://{address}/new.tar: changed on disk")
    [problem] = check(directory, lambda _: None)
    assert "connection refused" in problem


def test_no_secret_of_a_url_is_stored(tmp_path: Path, bundle: bytes) -> None:
    with serve({"/new.tar": bundle}) as address:
        url = f"http://me:{SECRET}@{address}/new.tar?signature={SECRET}"
        with pytest.raises(InputError, match="--no-keep needs the URL again") as error:
            add_urls(tmp_path / "none", [], url, keep=False)
        assert SECRET not in str(error.value)
        directory, counts = add_urls(tmp_path / "store", [], url)
    assert counts.added == 1
    assert paths_of(directory) == [f"http://{address}/new.tar?..."]
    for path in (path for path in directory.folder.rglob("*") if path.is_file()):
        assert SECRET.encode() not in path.read_bytes()


def test_a_directory_without_bundles_is_one_line(memory: fsspec.AbstractFileSystem) -> None:
    memory.pipe("/nights/notes.txt", b"")
    with pytest.raises(InputError, match=r"memory://nights/: no bundles \(expected"):
        find_sources(["memory://nights/"])
