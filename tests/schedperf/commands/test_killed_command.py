# SPDX-License-Identifier: GPL-2.0-or-later
"""A killed ``schedperf record`` takes its recorder with it, which finishes its bundle."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

# Only a limit: far shorter than the workload.
LONGEST_WAIT_S = 120


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONGEST_WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_recorder_ends_with_the_command(tmp_path: Path) -> None:
    script = "echo $$ >pid.new; mv pid.new pid; exec sleep 7533"
    command = [
        sys.executable, "-c", "from schedperf.cli import main; main()", "record",
        "-o", "k.tar", "-n", "1", "--warmup", "0", "--with", "none", "--", "sh", "-c", script,
    ]  # fmt: skip
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, cwd=tmp_path, env=environment) as process:
        wait_for((tmp_path / "pid").exists)
        process.kill()
    workload = Path("/proc", (tmp_path / "pid").read_text().strip())
    wait_for(lambda: not workload.exists())
    wait_for((tmp_path / "k.tar").exists)
    assert not (tmp_path / "k.tar.partial").exists()
