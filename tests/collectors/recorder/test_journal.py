# SPDX-License-Identifier: GPL-2.0-or-later
"""The journal of ``ab``: what a killed recording left is said, and nothing else is."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from schedperf_collectors.recorder.journal import Journal, say_left_over


def leave(
    folder: Path, value: Path, group: Path | None = None, settings: Sequence[str] = ()
) -> None:
    """Write the journal of a recording that is killed after its setup.

    :param settings: teardown of each setting that began; all but the last have ended
    """
    child = os.fork()
    if child == 0:
        with Journal({value: "1"}, folder) as journal:
            if group is not None:
                journal.note_group(group)
            for number, teardown in enumerate(settings):
                if number:
                    journal.end_setting()
                journal.begin_setting("new", teardown)
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.fixture
def value(tmp_path: Path) -> Path:
    """A tunable, changed by a setup."""
    path = tmp_path / "value"
    path.write_text("2\n")
    return path


def test_a_killed_recording_is_told_until_it_is_undone(tmp_path: Path, value: Path) -> None:
    folder = tmp_path / "journals"
    leave(folder, value)
    [line] = say_left_over(folder)
    assert line.startswith(f"a killed recording left {value} changed; undo this with: echo ")
    [journal] = folder.iterdir()
    assert line.endswith(f"(or remove {journal} to leave everything as it is)")
    assert say_left_over(folder) == [line]
    command = line.partition("undo this with: ")[2].partition(" (or")[0]
    subprocess.run(["sh", "-c", command], check=True)
    assert say_left_over(folder) == []
    assert list(folder.iterdir()) == []


def test_control_groups_that_are_left_are_told_the_deepest_first(
    tmp_path: Path, value: Path
) -> None:
    value.write_text("1\n")
    inner = tmp_path / "a b" / "c"
    inner.mkdir(parents=True)
    folder = tmp_path / "journals"
    leave(folder, value, inner)
    [line] = say_left_over(folder)
    assert f"undo this with: rmdir '{inner}' (or" in line
    inner.rmdir()
    assert say_left_over(folder) == []


@pytest.mark.parametrize(
    ("settings", "undo"),
    [
        (["true"], ["true"]),
        (["true", "kill $(cat pid)"], ["kill $(cat pid)"]),
        (["true", ""], []),
        (["a\nb"], ["run the teardown script of new"]),
    ],
)
def test_a_teardown_that_did_not_run_is_told(
    tmp_path: Path, value: Path, settings: list[str], undo: list[str]
) -> None:
    value.write_text("1\n")
    folder = tmp_path / "journals"
    leave(folder, value, settings=settings)
    lines = say_left_over(folder)
    commands = [line.partition("undo this with: ")[2].partition(" (or")[0] for line in lines]
    # The next command cannot see that a teardown ran, so the journal goes with it.
    assert commands == [f"{each}; rm {journal}" for each in undo for journal in folder.iterdir()]
    assert all("left the setting of new, whose teardown did not finish; " in line for line in lines)


def test_empty_control_groups_of_a_setup_that_was_killed_are_told(
    tmp_path: Path, value: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    value.write_text("1\n")
    before, empty, used = (tmp_path / name for name in ("before", "empty", "used"))
    groups = {before}
    monkeypatch.setattr("schedperf_collectors.recorder.journal.all_cgroups", lambda: groups)
    folder = tmp_path / "journals"
    leave(folder, value, settings=["", ""])
    for group, processes in ((before, ""), (empty, ""), (used, "1\n")):
        group.mkdir()
        (group / "cgroup.procs").write_text(processes)
        groups.add(group)
    [line] = say_left_over(folder)
    assert f"left the cgroup {empty}; undo this with: rmdir {empty} (or" in line


def test_a_recording_that_runs_is_not_told_and_leaves_no_journal(
    tmp_path: Path, value: Path
) -> None:
    folder = tmp_path / "journals"
    with Journal({value: "1"}, folder):
        assert say_left_over(folder) == []
        [journal] = folder.iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert journal.stat().st_size > 0
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "content", [b"\xff\n", b"[1]\n", b'{"tunables": 5}\n', b'{"cgroup": 7}\n', b"{\n", b"null\n"]
)
def test_a_damaged_journal_is_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ab-1.jsonl"
    path.write_bytes(content)
    assert say_left_over(tmp_path) == [
        f"{path}: invalid journal (expected JSON lines written by a recording); remove it"
    ]


def test_without_a_folder_nothing_is_remembered(tmp_path: Path, value: Path) -> None:
    with Journal({value: "1"}, None) as journal:
        journal.note_group(tmp_path)
    (tmp_path / "file").touch()
    with Journal({value: "1"}, tmp_path / "file"):
        pass
    assert say_left_over(None) == say_left_over(tmp_path / "no") == []
