# SPDX-License-Identifier: GPL-2.0-or-later
"""What a workload leaves running is ended with its run, and the run says so."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

# Ends at once; "gone" holds the numbers of processes in sessions of their own, one with a child,
# which has another name until it executes its program.
LEAVE = (
    "setsid sh -c 'sleep 7531 & until grep -qs sleep /proc/$!/comm; do :; done; "
    "echo $$ $! >gone; wait' & while ! test -s gone; do :; done"
)
# With an older child of its own, as collectors are; it is to stay.
PROGRAM = """
import subprocess, sys
from pathlib import Path
from schedperf_collectors.machine.orphans import adopt_orphans
from schedperf_collectors.machine.process import finish, start
from schedperf_collectors.machine.signals import signals
adopt_orphans()
older = subprocess.Popen(["sleep", "7532"], start_new_session=True)
with signals:
    ended = finish(start(["sh", "-c", sys.argv[1]], Path("out"), Path("err")))
still_runs = older.poll() is None
older.kill()
assert still_runs
print(*ended.left_behind)
"""


def run(script: str, folder: Path) -> list[str]:
    command = [sys.executable, "-c", PROGRAM, script]
    ended = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    return ended.stdout.split()


def test_processes_in_other_sessions_are_ended_and_named(tmp_path: Path) -> None:
    names = run(LEAVE, tmp_path)
    assert sorted(names) == ["sh", "sleep"]
    for pid in (tmp_path / "gone").read_text().split():
        assert not Path("/proc", pid).exists()


def test_a_command_that_waits_for_its_children_leaves_none(tmp_path: Path) -> None:
    assert run("setsid true & wait", tmp_path) == []


def test_the_run_says_what_it_left(recorder: Any) -> None:
    ended = recorder(
        "record", "-o", "b.tar", "-n", "2", "--warmup", "0", "--with", "none", "--",
        "sh", "-c", f"rm -f gone; {LEAVE}",
    )  # fmt: skip
    # Both runs do; one warning is enough.
    assert ended.stderr.count("left 2 process(es) running") == 1


def test_one_warning_is_enough_if_the_runs_leave_different_ones(recorder: Any) -> None:
    # The first run leaves one, the second two.
    leave_one = "setsid sh -c 'echo $$ >gone; exec sleep 7533' & while ! test -s gone; do :; done"
    ended = recorder(
        "record", "-o", "b.tar", "-n", "2", "--warmup", "0", "--with", "none", "--",
        "sh", "-c", f"rm -f gone; if test -e once; then {LEAVE}; else echo >once; {leave_one}; fi",
    )  # fmt: skip
    assert ended.stderr.count("the workload left 1 process(es) running") == 1
    assert ended.stderr.count("the workload left") == 1
