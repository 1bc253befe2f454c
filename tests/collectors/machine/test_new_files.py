# SPDX-License-Identifier: GPL-2.0-or-later
"""Files are written completely or not at all, and not through what another user planted."""

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf_collectors.machine.new_files import Folder, open_unplanted, write_all, write_durably

SOMEBODY = 65534
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes links of other users")


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Write a file that must not change, in a directory of its own."""
    folder = tmp_path / "private"
    folder.mkdir()
    path = folder / "victim"
    path.write_text("precious")
    return path


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for content in (b"old", b"", b"x" * 1_000_000):
        write_durably(path, content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    write_durably(path, b"old")

    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        write_durably(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_short_writes_are_continued() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    content = bytes(range(256)) * 1024
    got = []

    class Filled(io.FileIO):
        """A pipe, which takes a part of what is written, and is emptied before the next part."""

        def write(self, part: Any) -> int:
            taken = super().write(part)
            assert taken
            got.append(os.read(reading, taken))
            return taken

    with Filled(writing, "w") as file:
        write_all(file, content)
    os.close(reading)
    assert len(got) > 1
    assert b"".join(got) == content


@pytest.mark.parametrize("plant", [os.symlink, os.link])
def test_a_link_in_the_place_of_the_new_file_is_not_followed(
    tmp_path: Path, victim: Path, plant: Callable[[Path, Path], None]
) -> None:
    plant(victim, tmp_path / "a.json.new")
    write_durably(tmp_path / "a.json", b"new")
    assert victim.read_text() == "precious"
    assert (tmp_path / "a.json").read_bytes() == b"new"


def write(path: Path) -> None:
    with open(path, "a", opener=open_unplanted) as file:
        file.write("a report")


@ROOT_ONLY
@pytest.mark.parametrize("target", ["private/victim", "private/not-there"])
def test_a_link_of_another_user_is_not_followed(tmp_path: Path, victim: Path, target: str) -> None:
    link = tmp_path / "report"
    link.symlink_to(tmp_path / target)
    os.lchown(link, SOMEBODY, SOMEBODY)
    with pytest.raises(PermissionError, match="report is a link of another user"):
        write(link)
    assert victim.read_text() == "precious"
    assert [*victim.parent.iterdir()] == [victim]


@ROOT_ONLY
def test_no_directory_of_a_path_is_a_link_of_another_user(tmp_path: Path, victim: Path) -> None:
    link = tmp_path / "results"
    link.symlink_to(victim.parent)
    os.lchown(link, SOMEBODY, SOMEBODY)
    for inner in (link / "base.tar", link / ".." / "private" / "base.tar"):
        with pytest.raises(PermissionError, match="results is a link of another user"):
            write(inner)
        with pytest.raises(PermissionError, match="results is a link of another user"):
            write_durably(inner, b"")
    with pytest.raises(PermissionError, match="results is a link of another user"):
        Folder(link)
    assert [*victim.parent.iterdir()] == [victim]


@ROOT_ONLY
def test_a_fifo_of_another_user_does_not_block(tmp_path: Path) -> None:
    fifo = tmp_path / "report"
    os.mkfifo(fifo)
    os.chown(fifo, SOMEBODY, SOMEBODY)
    with pytest.raises(PermissionError, match="report is a FIFO of another user"):
        write(fifo)


@pytest.mark.parametrize(
    "owner", [None, pytest.param(SOMEBODY, marks=ROOT_ONLY, id="who called sudo")]
)
def test_links_of_this_user_and_of_who_called_sudo_are_followed(
    tmp_path: Path, victim: Path, owner: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, folder = tmp_path / "report", tmp_path / "results"
    link.symlink_to(victim)
    folder.symlink_to(victim.parent)
    if owner is not None:
        monkeypatch.setenv("SUDO_UID", str(owner))
        for each in (link, folder):
            os.lchown(each, owner, owner)
    write(link)
    assert victim.read_text() == "preciousa report"
    write_durably(folder / "new", b"kept")
    assert (victim.parent / "new").read_bytes() == b"kept"


def test_a_pipe_of_the_caller_is_written_to() -> None:
    reading, writing = os.pipe()
    write(Path(f"/dev/fd/{writing}"))
    assert os.read(reading, 100) == b"a report"
    os.close(reading)
    os.close(writing)
