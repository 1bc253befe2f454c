# SPDX-License-Identifier: GPL-2.0-or-later
"""Files are written completely, or not at all."""

import os
from pathlib import Path

import pytest

from schedperf.bundle.durable import write_all, write_durably


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


def test_a_link_in_the_place_of_the_new_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / ".a.json.tmp").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic links"):
        write_durably(tmp_path / "a.json", b"new")
    assert not (tmp_path / "other").exists()


def test_short_writes_are_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []

    def write(_descriptor: int, content: bytes) -> int:
        written.append(content[:3])
        return len(content[:3])

    monkeypatch.setattr(os, "write", write)
    write_all(0, b"12345678")
    assert written == [b"123", b"456", b"78"]
