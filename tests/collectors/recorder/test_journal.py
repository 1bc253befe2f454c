# SPDX-License-Identifier: GPL-2.0-or-later
"""The journal of ``ab``: what a killed recording left is said, and nothing else is."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from schedperf_collectors.contract import read_boot_id
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.recorder.journal import Journal, Written, describe_left_over
from schedperf_collectors.recorder.stop import status_lines, stop


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
    [line] = describe_left_over(folder)
    assert line.startswith(f"a killed recording left {value} changed; undo this with: echo ")
    [journal] = folder.iterdir()
    assert line.endswith(f"(or remove {journal} to leave everything as it is)")
    assert describe_left_over(folder) == [line]
    command = line.partition("undo this with: ")[2].partition(" (or")[0]
    subprocess.run(["sh", "-c", command], check=True)
    assert describe_left_over(folder) == []
    assert list(folder.iterdir()) == []


def test_control_groups_that_are_left_are_told_the_deepest_first(
    tmp_path: Path, value: Path
) -> None:
    value.write_text("1\n")
    inner = tmp_path / "a b" / "c"
    inner.mkdir(parents=True)
    folder = tmp_path / "journals"
    leave(folder, value, inner)
    [line] = describe_left_over(folder)
    assert f"undo this with: rmdir '{inner}' (or" in line
    inner.rmdir()
    assert describe_left_over(folder) == []


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
    tmp_path: Path,
    value: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: list[str],
    undo: list[str],
) -> None:
    # Other tests create cgroups.
    monkeypatch.setattr("schedperf_collectors.recorder.journal.all_cgroups", set)
    value.write_text("1\n")
    folder = tmp_path / "journals"
    leave(folder, value, settings=settings)
    lines = describe_left_over(folder)
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
    [line] = describe_left_over(folder)
    assert f"left the cgroup {empty}; undo this with: rmdir {empty} (or" in line


def test_a_recording_that_runs_is_not_told_and_leaves_no_journal(
    tmp_path: Path, value: Path
) -> None:
    folder = tmp_path / "journals"
    with Journal({value: "1"}, folder):
        assert describe_left_over(folder) == []
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
    assert describe_left_over(tmp_path) == [
        f"{path}: invalid journal (expected JSON lines written by a recording); remove it"
    ]


def test_without_a_folder_nothing_is_remembered(tmp_path: Path, value: Path) -> None:
    with Journal({value: "1"}, None) as journal:
        journal.note_group(tmp_path)
    (tmp_path / "file").touch()
    with Journal({value: "1"}, tmp_path / "file"):
        pass
    assert describe_left_over(None) == describe_left_over(tmp_path / "no") == []


def fill_up(folder: Path) -> None:
    with contextlib.suppress(OSError), (folder / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


@pytest.mark.parametrize("is_full_at_first", [True, False])
def test_a_full_run_keeps_the_journal_beside_the_output(
    tmp_path: Path,
    value: Path,
    small_disk: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_full_at_first: bool,
) -> None:
    folder, beside = small_disk / "schedperf", tmp_path / "out"
    beside.mkdir()
    monkeypatch.chdir(beside)
    warnings: list[str] = []
    child = os.fork()
    if child == 0:
        if is_full_at_first:
            fill_up(small_disk)
        bundles = [Written(beside / "s-a.tar", beside / "s"), Written(beside / "s-b.tar")]
        with Journal({value: "1"}, folder, bundles, warnings.append) as journal:
            if not is_full_at_first:
                fill_up(small_disk)
            for _ in range(500):
                journal.begin_setting("new", "true")
            Path("warnings").write_text("\n".join(warnings))
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    [kept] = beside.glob("schedperf-ab-*.jsonl")
    assert Path("warnings").read_text() == (
        f"{folder}: no space left on device; what to restore after a kill is kept in {kept} "
        f"instead; then run `schedperf ab stop -o {beside}/s-a.tar`"
    )
    assert list(folder.glob("ab-*")) == []
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    told = describe_left_over(folder)
    assert f"{value} changed; undo this with: echo " in told[0]
    assert "left the setting of new, whose teardown did not finish; undo this with: true" in told[1]
    # It may have come with unpacked files, so its commands do not run unless it is meant.
    [status] = status_lines(folder)
    assert status.startswith(f"{kept.name}: a killed recording left {value} changed, the setting ")
    assert status.endswith(f"; undo this with: schedperf ab stop -o {beside}/s-a.tar")
    with pytest.raises(RecordError) as error:
        list(stop(folder))
    assert str(error.value) == status
    monkeypatch.chdir(tmp_path)
    lines = list(stop(folder, "out/s"))
    assert lines[:2] == ["running the teardown of new: true", "ran the teardown of new"]
    assert lines[-1] == "nothing more is left of the killed recording"
    assert value.read_text() == "1\n"
    assert not kept.exists()


def test_without_space_anywhere_one_line_says_so(value: Path, small_disk: Path) -> None:
    warnings: list[str] = []
    fill_up(small_disk)
    bundles = [Written(small_disk / "a.tar")]
    with Journal({value: "1"}, small_disk / "a", bundles, warnings.append) as journal:
        journal.begin_setting("new", "true")
    assert len(warnings) == 1
    assert warnings[0].endswith("; nothing can be restored if this recording is killed; free space")
    assert [each.name for each in small_disk.iterdir() if each.is_file()] == ["filler"]


@pytest.mark.parametrize("fault", ["link", "hard link", "writable", "owner", "no boot"])
def test_a_planted_journal_restores_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("schedperf-ab-1.jsonl")
    elsewhere = tmp_path / "elsewhere"
    boot = f'{{"boot": "{read_boot_id()}"}}\n' if fault != "no boot" else ""
    elsewhere.write_text(
        f'{boot}{{"bundle": "{tmp_path}/a.tar"}}\n{{"tunables": {{}}}}\n'
        '{"setting": "new", "teardown": "touch run"}\n'
    )
    if fault == "link":
        path.symlink_to(elsewhere)
    elif fault == "hard link":
        path.hardlink_to(elsewhere)
    else:
        elsewhere.rename(path)
    if fault == "writable":
        path.chmod(0o666)
    elif fault == "owner" and os.geteuid() == 0:
        os.chown(path, 65534, 65534)
    elif fault == "owner":
        pytest.skip("needs root to give a file to somebody else")
    if fault == "no boot":
        # As unpacked files are, it is this user's own.
        assert list(stop(None, "a.tar")) == ["nothing more is left of the killed recording"]
    else:
        assert list(status_lines(None)) == []
        with pytest.raises(RecordError, match="no recording writes this output"):
            list(stop(None, "a.tar"))
    assert describe_left_over(None) == []
    assert list(stop(None)) == []
    assert not Path("run").exists()


def test_a_journal_of_an_earlier_boot_restores_nothing(
    tmp_path: Path, value: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "journals"
    leave(folder, value, settings=["touch run"])
    [kept] = folder.iterdir()
    lines = kept.read_text().splitlines()
    assert '"boot"' in lines[0]
    kept.write_text("\n".join(['{"boot": "of yesterday"}', *lines[1:]]))
    monkeypatch.chdir(tmp_path)
    assert describe_left_over(folder) == []
    assert value.read_text() == "2\n"
