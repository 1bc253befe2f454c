# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf record``, ``ab`` and ``doctor``: the recorder runs as a program of its own."""

import contextlib
import errno
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from schedperf.cli import cli, main
from schedperf.commands._recorder import _describe_kept_runs, _wait
from schedperf.inputs.bundle.open import open_bundle
from schedperf_collectors.plugin import all_collectors
from schedperf_collectors.recorder.bundle import Names
from schedperf_collectors.recorder.options import COMMANDS, make_parser
from tests.programs import Program

pytestmark = pytest.mark.system

QUICK = ("-n", "2", "--with", "none")
# Only a limit: a machine that is busy with other things takes its time.
LONGEST_WAIT_S = 120


def start(folder: Path, *arguments: str, stderr: int) -> Program:
    return Program(
        [sys.executable, "-m", "schedperf", *arguments],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder), "TERM": "xterm", "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )


def wait_for(path: Path, text: str = "") -> None:
    deadline = time.monotonic() + LONGEST_WAIT_S
    while not path.exists() or text not in path.read_text():
        assert time.monotonic() < deadline, f"{path.name} never came"
        time.sleep(0.02)


def read_terminal(side: int) -> str:
    """Read all that was drawn, on a terminal (its end is an error) or a pipe."""
    drawn = b""
    with contextlib.suppress(OSError):
        while data := os.read(side, 65536):
            drawn += data
    return drawn.decode()


@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_every_option_of_the_recorder_and_has_examples(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, "--help"]) == 0
    text = capsys.readouterr().out
    hidden = {"--ask-fd", "--booted", "--events", "--factor", "--guest", "--stop-file", "--try"}
    hidden |= {"--recorded-as", "--retest-plan", "--turn"}
    for action in make_parser(name, "schedperf").options():
        for option in action.option_strings:
            assert (option in text) == (option not in hidden)
    assert f"    schedperf {name}" in text


def test_options_complete() -> None:
    context = click.Context(cli)
    command = cli.get_command(context, "record")
    assert command is not None
    completed = command.shell_complete(click.Context(command, parent=context), "--w")
    assert [item.value for item in completed] == [
        "--warmup", "--with", "--without", "--with-load", "--workload-pid", "--workload-unit",
        "--workload-cgroup",
    ]  # fmt: skip


def test_plain_lines_when_stderr_is_no_terminal(tmp_path: Path) -> None:
    with start(
        tmp_path, "record", "-o", "b.tar", *QUICK, "--", "echo", "--quiet", stderr=subprocess.PIPE
    ) as process:
        out, err = process.communicate(timeout=LONGEST_WAIT_S)
    assert (process.returncode, out) == (0, "")
    assert re.search(r"\nrun 3/3 clean \d\.\d\d s\n", err)
    assert "\x1b" not in err
    assert open_bundle(tmp_path / "b.tar").read("boots/0/runs/000/stdout") == b"--quiet\n"
    # Neither the program nor what it staged is left.
    assert [item.name for item in tmp_path.iterdir()] == ["b.tar"]


def test_a_terminal_shows_a_bar_that_goes_and_lines_that_stay(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    script = "sleep 0.2; test {x} = 1"
    arguments = (*QUICK, "--point", "x=1,2", "--", "sh", "-c", script)
    with start(tmp_path, "record", "-o", "b.tar", *arguments, stderr=theirs) as process:
        os.close(theirs)
        drawn = read_terminal(ours)
        process.communicate(timeout=LONGEST_WAIT_S)
    os.close(ours)
    assert process.returncode == 0
    assert "/6" in drawn
    assert "x=1 clean" in drawn
    assert " left" in drawn
    assert "failed: exit status 1" in drawn
    assert "b.tar: 4 runs (4 clean, 0 instrumented), 2 failed" in drawn


@pytest.mark.parametrize("terminal", [False, True])
def test_an_interrupt_is_passed_on_and_the_bundle_is_finished(
    tmp_path: Path,
    terminal: bool,  # noqa: FBT001 # a parameter of the test
) -> None:
    ours, theirs = pty.openpty() if terminal else os.pipe()
    script = "touch started; sleep 3600"
    with start(
        tmp_path, "record", "-o", "b.tar", *QUICK, "--", "sh", "-c", script, stderr=theirs
    ) as process:
        os.close(theirs)
        wait_for(tmp_path / "started")
        process.send_signal(signal.SIGINT)
        said = read_terminal(ours)
        process.communicate(timeout=LONGEST_WAIT_S)
    os.close(ours)
    assert process.returncode == 130
    # A line of its own, not the end of the bar.
    assert re.search(r"(?:^|[\n\r]|\x1b\[\w+)schedperf: interrupted after 0 of 2 runs", said)
    assert "Traceback" not in said
    assert open_bundle(tmp_path / "b.tar").complete is False
    assert sorted(item.name for item in tmp_path.iterdir()) == ["b.tar", "started"]


def test_an_interrupt_that_comes_while_the_recorder_is_started_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin = subprocess.Popen

    def interrupted(*arguments: Any, **options: Any) -> Any:
        process = begin(*arguments, **options)
        signal.raise_signal(signal.SIGINT)
        return process

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    assert _wait(["sleep", "60"]).status == -signal.SIGINT


def test_a_killed_recorder_is_named_with_what_is_left_and_its_workload_is_ended(
    tmp_path: Path,
) -> None:
    script = "setsid sleep 7534 & echo $$ $! >pid; mv pid started; sleep 7534"
    arguments = ("record", "-o", "b.tar", *QUICK, "--", "sh", "-c", script)
    with start(tmp_path, *arguments, stderr=subprocess.PIPE) as process:
        wait_for(tmp_path / "started")
        pids = (tmp_path / "started").read_text().split()
        # setsid is replaced by its program a moment later.
        wait_for(Path("/proc", pids[1], "comm"), "sleep")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        (recorder,) = children
        os.kill(int(recorder), signal.SIGKILL)
        _, err = process.communicate(timeout=LONGEST_WAIT_S)
    for pid in pids:
        assert not Path("/proc", pid).exists()
    assert process.returncode == 128 + signal.SIGKILL
    assert not [*Path(tempfile.gettempdir()).glob(f"schedperf-{recorder}-*")]
    # The shell may have got its signal before it is looked for.
    assert re.fullmatch(
        "schedperf: error: the recorder was killed by SIGKILL; no run was finished "
        r"\(remove b\.tar\.partial, b\.tar\.manifest\); processes that the "
        "recorder left running were killed: "
        "(sh, )?sleep"
        "(, sh)?",
        err.splitlines()[-1],
    )
    left = sorted(item.name for item in tmp_path.iterdir())
    assert left == ["b.tar.manifest", "b.tar.partial", "started"]


def test_the_manifest_of_finished_runs_is_not_said_to_be_useless(
    make_bundle: Callable[..., Path], tmp_path: Path
) -> None:
    one, two = (Names(tmp_path / f"s-{name}.tar") for name in "ab")
    make_bundle(one.path).rename(one.partial)
    for path in (one.manifest, two.partial, two.manifest):
        path.write_text("{}")
    # Nothing is read through a link.
    (tmp_path / "s-c.tar.partial").symlink_to(one.partial)
    setups = [word for name in "abc" for word in ("--setup", f"{name}=")]
    assert _describe_kept_runs(["ab", "-o", f"{tmp_path}/s", *setups, "--", "true"]) == (
        f"; finished runs are in {one.partial} "
        f"(remove {two.partial}, {two.manifest}, {tmp_path}/s-c.tar.partial)"
    )


def test_a_temporary_folder_without_space_is_one_clear_line(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(_: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("schedperf.commands._recorder.write_zipapp", write)
    assert main(["doctor"]) == 2
    assert capfd.readouterr().err == (
        f"schedperf: error: {tempfile.gettempdir()}: no space left on device; set TMPDIR to a "
        "larger file system\n"
    )


def test_a_slip_is_one_clear_line(capfd: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ["record", "--no-such-option"],
        ["record", "-o", "x.tar", "hackbench", "-g"],
        ["record", "-o", "x.tar"],
        ["ab", "-o", "x", "-n", "none", "--", "true"],
    ):
        assert main(arguments) == 2
        err = capfd.readouterr().err
        assert err.startswith("schedperf: error: ")
        assert err.count("\n") == 1


def test_doctor_prints_what_the_recorder_found(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    text = capfd.readouterr().out
    assert "\x1b" not in text
    first, *rows, _ = text.splitlines()
    statuses = {row.split()[0]: row.split()[1] for row in rows}
    assert list(statuses) == list(all_collectors())
    assert set(statuses.values()) <= {"ok", "skipped"}
    can = list(statuses.values()).count("ok")
    assert first.startswith(f"{can} of {len(statuses)} collectors work on this machine (kernel")


def test_doctor_passes_json_on(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json", "--set", "nobody.x=1"]) == 2
    assert capfd.readouterr().err.startswith("schedperf: error: --set: unknown collector")


def test_an_option_of_stop_reaches_the_recorder(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["ab", "stop", "--now", "-o", str(tmp_path / "none")]) == 2
    assert f"-o {tmp_path / 'none'}: no recording writes this output" in capfd.readouterr().err
