# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs of a night that hang, or print anything, end in one line."""

import os
import signal
import time
from pathlib import Path

import pytest

from schedperf.lab.night.process import Commands, Interrupted
from schedperf.lab.night.state import NightError, is_running, locked
from schedperf.lab.night.steps import prepare
from tests.schedperf.lab.night.test_status import JOB
from tests.schedperf.lab.night.test_steps import make_context


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    return Commands(tmp_path, 0)


# A child that goes on when its parent ends, or when it is asked to end.
LEAVES_CHILDREN = (
    "sleep 600 & echo $! >child; wait",
    "trap '' TERM; sleep 600 & echo $! >child; trap - TERM; wait",
)


def wait_for_end_of_child(folder: Path) -> None:
    stat = Path("/proc", (folder / "child").read_text().strip(), "stat")
    # A loaded machine takes its time, and a zombie may wait for its parent.
    until = time.monotonic() + 60
    while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] not in "ZX":
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize("script", ["while :; do echo y; done", LEAVES_CHILDREN[1]])
def test_a_program_that_does_not_end_is_killed(
    script: str, commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedperf.lab.group.LIMIT_S", 0.1)
    with pytest.raises(NightError, match=r"^sh: did not end within 1 s and was killed; see .*log$"):
        commands.run("build", ["sh", "-c", script], limit_s=1)
    if script in LEAVES_CHILDREN:
        wait_for_end_of_child(tmp_path)


@pytest.mark.parametrize("script", LEAVES_CHILDREN)
def test_an_interrupted_night_ends_all_of_its_build(
    script: str, commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedperf.lab.group.LIMIT_S", 0.1)
    monkeypatch.setattr("schedperf.lab.night.process._LOOK_AGAIN_S", 0.1)

    def look() -> None:
        child = tmp_path / "child"
        if child.exists() and child.read_text():
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted):
        commands.run("build", ["sh", "-c", script], look=look, limit_s=60)
    wait_for_end_of_child(tmp_path)


def test_a_program_is_killed_when_the_disk_is_full(commands: Commands) -> None:
    def look() -> None:
        raise NightError("5% of the disk free")

    with pytest.raises(NightError, match="5% of the disk free"):
        commands.run("build", ["sh", "-c", "exec sleep 600"], look=look, limit_s=None)


def test_what_a_build_hook_leaves_behind_does_not_keep_the_next_night_waiting(
    tmp_path: Path,
) -> None:
    with locked(tmp_path) as lock:
        commands = Commands(tmp_path, lock)
        script = "setsid sleep 600 >/dev/null 2>&1 & echo $! >child"
        assert commands.run("build", ["sh", "-c", script], limit_s=None) == 0
    try:
        assert not is_running(tmp_path)
    finally:
        os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


@pytest.mark.parametrize(
    ("printed", "line"),
    [
        ("a\\033]0;title\\007\\033[31mb\\n", "a]0;title[31mb"),
        ("first\\n\\033\\007\\n\\0\\n", "first"),
        ("", "no output"),
        ("\\377\\376\\n", "\ufffd\ufffd"),
    ],
)
def test_the_last_line_of_a_log_is_clean(printed: str, line: str, commands: Commands) -> None:
    commands.run("build", ["printf", printed], limit_s=None)
    assert commands.last_error("build") == line


def test_the_last_line_of_a_log_is_short(commands: Commands) -> None:
    script = "head -c 1000000 /dev/zero | tr '\\0' x"
    assert commands.run("build", ["sh", "-c", script], limit_s=None) == 0
    assert commands.last_error("build") == "x" * 299 + "…"


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("exec sleep 600", "did not end within 1 s and was killed; see "),
        ("printf '\\033[2Jbad\\n'; exit 3", r"exit status 3 \(\[2Jbad\); see "),
        ("kill -9 $$", r"exit status -9 \(no output\); see "),
    ],
)
def test_a_build_hook_that_fails_is_one_line(
    script: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\n{script}\n")
    hook.chmod(0o755)
    words = 'build = ["./hook"]\nbuild_limit = 1\n'
    context = make_context(tmp_path, f"{JOB}[kernel]\n{words}")
    monkeypatch.setattr(context.target, "check_proof", lambda _hook: None)
    with pytest.raises(NightError, match=problem) as error:
        prepare(context)
    assert str(error.value).isprintable()
