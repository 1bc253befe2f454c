# SPDX-License-Identifier: GPL-2.0-or-later
"""A setting that is changed for now is restored, however that ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from schedperf_collectors.machine.changed import changed_for_now

HOLD = """
import pathlib, sys, time
from schedperf_collectors.machine.changed import changed_for_now
with changed_for_now(pathlib.Path(sys.argv[1]), b"1"):
    print("changed", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def setting(tmp_path: Path) -> Path:
    path = tmp_path / "setting"
    path.write_text("0\n")
    return path


def test_it_is_changed_inside_and_restored_after(setting: Path) -> None:
    with changed_for_now(setting, b"1\n"):
        assert setting.read_text() == "1\n"
    assert setting.read_text() == "0\n"


def test_an_error_inside_restores_it(setting: Path) -> None:
    with pytest.raises(ZeroDivisionError), changed_for_now(setting, b"1\n"):
        _ = 1 / 0
    assert setting.read_text() == "0\n"


@pytest.mark.system
def test_killing_the_whole_group_restores_it(
    setting: Path, wait_for: Callable[[Callable[[], bool]], None]
) -> None:
    command = [sys.executable, "-c", HOLD, str(setting)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"changed\n"
        assert setting.read_text() == "1"
        os.killpg(holder.pid, signal.SIGKILL)
        # At end of file no process has the pipe open, including the guard.
        assert holder.stdout.read() == b""
    wait_for(lambda: setting.read_text() == "0\n")


def test_what_cannot_be_changed_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), changed_for_now(tmp_path / "absent", b"1"):
        pytest.fail("nothing was there to be changed")
