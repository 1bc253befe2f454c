# SPDX-License-Identifier: GPL-2.0-or-later
import os
from pathlib import Path

import pytest

from schedperf.inputs.bundle.files import read_head, read_regular
from schedperf.model.errors import InputError


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "fifo")
    return tmp_path / "fifo"


def test_a_file_is_read_whole_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345678")

    assert read_regular(path, 8, "a note", "shorten it") == b"12345678"
    with pytest.raises(InputError, match="file: larger than 7 bytes; shorten it"):
        read_regular(path, 7, "a note", "shorten it")


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(
        InputError,
        match=r"cannot be read: no such file or directory \(expected a note\); check the path",
    ):
        read_regular(tmp_path / "absent", 8, "a note")


@pytest.mark.timeout(10)
def test_neither_a_fifo_nor_an_endless_device_is_waited_for(fifo: Path) -> None:
    for path in (fifo, Path("/dev/zero")):
        with pytest.raises(InputError, match="not a regular file; pass a note"):
            read_regular(path, 8, "a note")
        assert read_head(path, 8) == b""


def test_the_head_of_what_cannot_be_read_is_empty(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(b"12")

    assert read_head(tmp_path / "short", 8) == b"12"
    assert read_head(tmp_path / "absent", 8) == b""
    assert read_head(tmp_path, 8) == b""


def test_a_folder_is_said_and_leaves_nothing_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(
        InputError, match=r"cannot be read: is a directory \(expected a note\); check the path"
    ):
        read_regular(tmp_path, 8, "a note")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
