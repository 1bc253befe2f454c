# SPDX-License-Identifier: GPL-2.0-or-later
"""``ab continue``, ``status`` and ``stop`` of recordings over several boots: options and files."""

from __future__ import annotations

import dataclasses
import fcntl
import io
import json
import os
import shlex
import threading
import time
import zipfile
from pathlib import Path

import pytest

from schedperf.commands import vm
from schedperf_collectors.boots import agent, commands, engine, target, unit
from schedperf_collectors.boots.engine import AFTER_RUN, NOW
from schedperf_collectors.boots.state import OVER, STATE_VERSION, KernelState, State, Store
from schedperf_collectors.command_line.main import _run
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.recorder.options import make_parser

_LIMIT_S = 60


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    # Targets set it for the hooks of this process.
    monkeypatch.setenv("SCHEDPERF_TARGET", "")


def _state(tmp_path: Path) -> State:
    return State(
        version=STATE_VERSION,
        session="5e55",
        target="ssh:lab",
        hook="command:hook",
        kernels=[KernelState("base", "1"), KernelState("new", "2")],
        boots=1,
        options=[],
        command=["true"],
        is_design=False,
        settings=[],
        output=f"{tmp_path}/night",
        boot_limit_s=1,
        settle_s=0,
    )


@pytest.mark.parametrize(
    ("arguments", "was_asked", "expected"),
    [([], False, AFTER_RUN), (["--now"], False, NOW), ([], True, NOW)],
)
def test_stop_asks_the_driver_and_waits_for_it(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    expected: str,
    *,
    was_asked: bool,
) -> None:
    folder = tmp_path / "night.boots"
    folder.mkdir()
    store, stop = Store(folder / "state.json"), folder / "stop"
    store.write(_state(tmp_path))
    if was_asked:
        stop.write_text(AFTER_RUN)
    asked: list[str] = []
    with (folder / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        def drive() -> None:
            until = time.monotonic() + _LIMIT_S
            while time.monotonic() < until and not asked:
                if stop.exists() and stop.read_text() == expected:
                    asked.append(expected)
                    store.write(dataclasses.replace(store.read(), phase=OVER))
                    fcntl.flock(lock, fcntl.LOCK_UN)
                time.sleep(0.01)

        driver = threading.Thread(target=drive)
        driver.start()
        options = commands.parse_action("stop", ["-o", str(tmp_path / "night"), *arguments])
        assert commands.act("stop", options)
        driver.join()
    assert asked == [expected]
    assert capsys.readouterr().out == "ended; 0 of 2 boots recorded\n"


def test_stop_of_a_silent_target_says_why_and_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_REACH_S", 0.0)
    monkeypatch.setattr(engine, "_POLL_S", 0.0)
    monkeypatch.setenv("SCHEDPERF_SSH", "sh -c 'echo no route to host >&2; exit 255'")
    output = f"{tmp_path}/two words"
    folder = Path(f"{output}.boots")
    folder.mkdir()
    Store(folder / "state.json").write(dataclasses.replace(_state(tmp_path), output=output))
    options = commands.parse_action("stop", ["-o", output])
    with pytest.raises(RecordError) as error:
        commands.act("stop", options)
    assert str(error.value) == (
        "not ended: lab: not reachable for 0 s (no route to host); start it, then run `schedperf "
        f"ab stop -o '{output}'`"
    )
    said = capsys.readouterr().err
    assert "lab: no answer (no route to host); trying again for up to 0 s\n" in said
    # The command as it is said works, and the recording is still to stop.
    words = shlex.split(str(error.value).split("`")[1])
    assert commands.parse_action("stop", words[3:]).output == output
    assert (folder / "stop").exists()


@pytest.mark.parametrize(
    ("prefix", "name"),
    [("night", "night.boots"), ("a b/", "a b/ab.boots"), ("ab", "ab.boots"), ("1.2", "1.2.boots")],
)
def test_a_busy_recording_names_the_command_that_shows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], prefix: str, name: str
) -> None:
    output = f"{tmp_path}/{prefix}"
    folder = tmp_path / name
    folder.mkdir(parents=True)
    Store(folder / "state.json").write(dataclasses.replace(_state(tmp_path), output=output))
    (folder / "stop").write_text(AFTER_RUN)
    with (folder / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(RecordError, match="another schedperf drives") as error:
            commands.act("continue", commands.parse_action("continue", ["-o", output]))
    assert (folder / "stop").read_text() == AFTER_RUN
    words = shlex.split(str(error.value).partition("see: ")[2])
    assert words[:3] == ["schedperf", "ab", "status"]
    assert commands.act("status", commands.parse_action("status", words[3:]))
    expected = "ssh:lab: choose, 0 of 2 boots recorded, stopping\n"
    assert capsys.readouterr().out.startswith(expected)


@pytest.mark.parametrize(
    ("action", "arguments"),
    [("status", ["--now"]), ("continue", ["-o"]), ("stop", ["--now=1"]), ("stop", ["x", "y"])],
)
def test_unexpected_arguments_are_refused(action: str, arguments: list[str]) -> None:
    with pytest.raises(RecordError, match=f"^ab {action} .*: unexpected argument; use: ab "):
        commands.parse_action(action, arguments)


def _refuse(*arguments: str) -> str:
    with pytest.raises(RecordError) as error:
        _run(["ab", "-o", "night", *arguments])
    assert "\n" not in str(error.value)
    return str(error.value)


KERNELS = ("--kernel", "base=6.1.0-1-amd64", "--kernel", "new=../new/arch/x86/boot/bzImage")


def test_guests_are_left_to_the_command_that_boots_them() -> None:
    said = _refuse(
        *KERNELS, "--boot", "virtme-ng", "-n", "2", "--point", "g=1,2", "--", "hackbench", "-g{g}"
    )
    assert said == (
        "--boot virtme-ng: guests are booted by `schedperf vm`; run: schedperf vm --kernel "
        "base=/boot/vmlinuz-6.1.0-1-amd64 --kernel new=../new/arch/x86/boot/bzImage --boots 4 "
        "--output night -n 2 --point g=1,2 -- hackbench -g{g}"
    )
    # It is a command that exists.
    words = shlex.split(said.partition("run: schedperf vm ")[2])
    vm.command.make_context("schedperf vm", words)
    settings = _refuse(*KERNELS, "--boot=virtme-ng", "--feature", "LAG", "--", "true")
    assert settings.startswith("--feature: cannot be combined with --boot virtme-ng")


def test_images_are_not_installed_kernels() -> None:
    said = _refuse(*KERNELS, "--on", "ssh:lab", "--", "true")
    assert said.startswith("--kernel ../new/arch/x86/boot/bzImage: invalid release (expected ")


def test_guests_have_no_boot_loader_to_check() -> None:
    with pytest.raises(RecordError, match="check them with `schedperf vm --check`"):
        _run(["doctor", "--boot", "virtme-ng"])


_HOOK = """#!/bin/sh
case $1 in
    check) [ ! -e "$0.refuses" ] || { echo "no entry; add one" >&2; exit 1; } ;;
esac
"""


@pytest.mark.parametrize("fails", ["check", "install", "unit"])
def test_a_start_on_this_machine_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    home, hook = tmp_path / "home", tmp_path / "hook"
    hook.write_text(_HOOK)
    hook.chmod(0o755)
    for module in (agent, target):
        monkeypatch.setattr(module, "HOME", home)
        monkeypatch.setattr(module, "RECORDER", home / "recorder")
        monkeypatch.setattr(module, "BUNDLES", home / "bundles")
        monkeypatch.setattr(module, "CLAIM", home / "claim.json")
    monkeypatch.setattr(target, "_ARCHIVE", home / "recorder.zip")
    monkeypatch.setattr(agent, "HOLD", tmp_path / "hold")
    for name in ("JOB", "STATUS", "LOCK", "STOP", "LOG"):
        monkeypatch.setattr(agent, f"_{name}", home / name)
    monkeypatch.setattr(agent, "LEAST_FREE_BYTES", 0)
    monkeypatch.setattr(agent, "LEAST_BOOT_BYTES", 0)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("__main__.py", "")
    monkeypatch.setattr(commands, "own_archive", archive.getvalue)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "sync", lambda: None)
    monkeypatch.setattr(unit, "PATH", tmp_path / "no" / "unit")
    monkeypatch.setattr(unit, "check", lambda: None)
    kernels = ("--kernel", "a=1", "--kernel", "b=2", "--resume", "--boot", f"command:{hook}")
    if fails == "check":
        (tmp_path / "hook.refuses").touch()
    elif fails == "install":
        home.mkdir()
        (home / "recorder").write_text("not a directory")
    with pytest.raises(RecordError) as error:
        _run(["ab", "-o", f"{tmp_path}/x", *kernels, "--", "true"])
    said = {"check": "no entry; add one", "install": f"{home}/recorder", "unit": "no/unit"}
    assert said[fails] in str(error.value)
    left = [path.name for path in home.iterdir()]
    assert left == (["recorder"] if fails == "install" else [])


COMMIT = "0123456789abcdef0123456789abcdef01234567"


def _new_state(tmp_path: Path, *sources: str) -> State:
    arguments = ["--kernel", "base=6.1", "--kernel", "new=6.2", "--on", "ssh:lab", "--machine", "x"]
    arguments += [word for source in sources for word in ("--source", source)]
    options = make_parser("ab", "schedperf").parse_args(["-o", f"{tmp_path}/n", *arguments])
    options.recorded_as = ["schedperf", "ab"]
    return commands._new_state(options, arguments, ["true"], [])  # noqa: SLF001 # starting needs a target


def test_each_kernel_keeps_its_commit_for_its_boots(tmp_path: Path) -> None:
    (tmp_path / "new.json").write_text(json.dumps({"commit": COMMIT}))
    state = _new_state(tmp_path, f"new={tmp_path}/new.json")
    assert [kernel.source for kernel in state.kernels] == [None, f'{{"commit": "{COMMIT}"}}']
    assert state.options == ["--machine", "x"]
    assert state.recorded_as == ["schedperf", "ab"]
    # The target's hook is known before the state is written.
    state.hook = "grub-reboot"
    Store(tmp_path / "state").write(state)
    assert Store(tmp_path / "state").read() == state


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("old=", "--source: old: no --kernel of this name (expected NAME=FILE, NAME one of base, "),
        ("", "--source: name missing (expected NAME=FILE, NAME one of base, new)"),
    ],
)
def test_a_source_without_its_kernel_is_refused(tmp_path: Path, source: str, said: str) -> None:
    with pytest.raises(RecordError) as refused:
        _new_state(tmp_path, f'{source}{{"commit": "{COMMIT}"}}')
    assert said in str(refused.value)


def test_sources_without_kernels_to_boot_have_no_names(tmp_path: Path) -> None:
    arguments = [
        "ab",
        "-o",
        f"{tmp_path}/x",
        "--source",
        f'new={{"commit": "{COMMIT}"}}',
        "--",
        "true",
    ]
    with pytest.raises(RecordError, match="--source new=FILE: names are those of --kernel"):
        _run(arguments)
