# SPDX-License-Identifier: GPL-2.0-or-later
"""Small files are read whole, also those that the kernel returns in parts."""

import os
from collections.abc import Callable

import pytest

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.system import System
from schedperf_collectors.machine.value_files import VALUE_LIMIT_BYTES, ValueFiles

MakeSystem = Callable[..., System]
PIDS = "".join(f"{pid}\n" for pid in range(4_000_000, 4_002_000))


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Read at most one page at once, like the kernel's seq_file; return the size of each read."""
    read, sizes = os.read, []

    def read_page(descriptor: int, size: int) -> bytes:
        content = read(descriptor, min(size, 4096))
        sizes.append(len(content))
        return content

    monkeypatch.setattr(os, "read", read_page)
    return sizes


def test_a_file_of_several_pages_is_read_whole(make_system: MakeSystem, sizes: list[int]) -> None:
    files = ValueFiles(make_system({"sys/fs/cgroup/cgroup.procs": PIDS}))
    assert files.text("/sys/fs/cgroup/cgroup.procs", 1 << 20) == PIDS.strip()
    assert sizes == [4096, 4096, 4096, 3712, 0]


def test_no_more_is_read_than_allowed(make_system: MakeSystem, sizes: list[int]) -> None:
    files = ValueFiles(make_system({"proc/pids": PIDS}))
    assert files.text("/proc/pids", 8000) == PIDS[:8000].strip()
    assert sum(sizes) == 8000


def test_a_file_with_one_value_is_read_once(make_system: MakeSystem, sizes: list[int]) -> None:
    files = ValueFiles(make_system({"sys/value": "7\n", "sys/long": "x" * 5000}))
    assert files.value("/sys/value") == "7"
    assert files.value("/sys/long") == "x" * VALUE_LIMIT_BYTES
    assert sizes == [2, 4096]


def test_a_file_that_is_missing_or_empty_is_unavailable(make_system: MakeSystem) -> None:
    files = ValueFiles(make_system({"sys/empty": ""}))
    assert files.value("/sys/empty") is None
    with pytest.raises(Unavailable, match=r"^/sys/empty: empty$"):
        files.text("/sys/empty", 1 << 20)
    with pytest.raises(Unavailable, match=r"^/sys/none: no such file or directory$"):
        files.text("/sys/none")


def test_directories_are_those_of_the_system(make_system: MakeSystem) -> None:
    files = ValueFiles(make_system({"sys/a/x": "1", "sys/a/b/y": "2", "sys/c/z": "3"}))
    assert sorted(files.folders("/sys/a")) == [("/sys/a", ["x"]), ("/sys/a/b", ["y"])]
    assert list(files.folders("/sys/none")) == []
