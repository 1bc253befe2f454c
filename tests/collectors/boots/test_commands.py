# SPDX-License-Identifier: GPL-2.0-or-later
"""``ab continue``, ``status`` and ``stop`` of recordings over several boots: options and files."""

from __future__ import annotations

import dataclasses
import fcntl
import io
import json
import os
import shlex
import tarfile
import threading
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from schedperf.commands import vm
from schedperf_collectors.boots import agent, commands, engine, shell, target, unit
from schedperf_collectors.boots.engine import AFTER_RUN, NOW
from schedperf_collectors.boots.state import (
    OVER,
    STATE_VERSION,
    JobState,
    KernelState,
    State,
    Store,
)
from schedperf_collectors.command_line.main import _request, _run
from schedperf_collectors.contract import BUNDLE_FORMAT
from schedperf_collectors.machine.errors import TRY_AGAIN, RecordError
from schedperf_collectors.machine.kernel_files import Identity
from schedperf_collectors.recorder.options import make_parser
from schedperf_collectors.recorder.request import Request

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
        jobs=[JobState("", [], ["true"])],
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


@pytest.mark.parametrize("fails", ["check", "claim", "install", "unit"])
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
    elif fails == "claim":
        (home / "recorder").mkdir(parents=True)
        (home / "claim.json").write_text('{"session": "of another controller"}')
    with pytest.raises(RecordError) as error:
        _run(["ab", "-o", f"{tmp_path}/x", *kernels, "--", "true"])
    said = {
        "check": "no entry; add one",
        "claim": "another recording uses this machine",
        "install": f"{home}/recorder",
        "unit": "no/unit",
    }
    assert said[fails] in str(error.value)
    left = {"claim": ["claim.json", "recorder"], "install": ["recorder"]}
    assert sorted(path.name for path in home.iterdir()) == left.get(fails, [])


def _write_bundle(
    path: Path, *kernels: tuple[str, str, str | None], **manifest: object
) -> tuple[State, Request]:
    """Write a bundle with one host.json per kernel; return a recording that adds boots to it."""
    members: dict[str, object] = {
        f"boots/{number}/host.json": {
            "kernel": {"release": release, "version": version, "build_id": build_id},
            "system": {"boot_id": f"{number}"},
        }
        for number, (release, version, build_id) in enumerate(kernels)
    }
    members["manifest.json"] = {
        "format": BUNDLE_FORMAT,
        "version": {"major": 1, "minor": 0},
        **{key: [] for key in ("points", "treatment", "metric", "captures")},
        "workload": ["true"],
        **manifest,
    }
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            data = json.dumps(content).encode()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    state = dataclasses.replace(
        _state(path.parent),
        kernels=[KernelState("new", "6.1.9")],
        output=f"{path.parent}/",
        is_append=True,
    )
    request = Request(("true",), ({},), 1, 1, None, 1, 0, (), (), {})
    return state, request


def test_boots_are_added_to_a_bundle_of_the_same_kernel(tmp_path: Path) -> None:
    state, request = _write_bundle(
        tmp_path / "new.tar",
        ("6.1.9", "#1 SMP", None),
        ("6.1.9", "#1 SMP", "ab12"),
        incomplete_reason="the recorder was killed",
    )
    commands._check_bundles(state, [request], force=False)  # noqa: SLF001 # starting needs a target
    kernel = state.kernels[0]
    assert kernel.identity == Identity("6.1.9", "#1 SMP", None)
    assert kernel.incomplete == ["the recorder was killed"]


@pytest.mark.parametrize(
    ("kernels", "manifest", "said"),
    [
        ([("6.1.8", "#1", None)], {}, "has boots of 6.1.8 (expected 6.1.9, as --kernel new); "),
        ([], {}, "has boots of an unknown kernel (expected 6.1.9"),
        ([("6.1.9", "#1", None), ("6.1.8", "#1", None)], {}, "has boots of 6.1.9, 6.1.8 (expected"),
        ([("6.1.9", "#1", None), ("6.1.9", "#2", None)], {}, "boots of several builds of 6.1.9 "),
        ([("6.1.9", "#1", "a"), ("6.1.9", "#1", "b")], {}, "boots of several builds of 6.1.9 "),
        ([("6.1.9", "#1\x1b[2J", None)], {}, "invalid version of its kernel; record a new bundle"),
        ([("6.1.9", "#1", None)], {"load": "stress"}, "recorded beside another load"),
        ([("6.1.9", "#1", None)], {"format": "x"}, "invalid manifest"),
    ],
)
def test_boots_are_not_added_to_other_bundles(
    tmp_path: Path,
    kernels: list[tuple[str, str, str | None]],
    manifest: dict[str, object],
    said: str,
) -> None:
    state, request = _write_bundle(tmp_path / "new.tar", *kernels, **manifest)
    with pytest.raises(RecordError) as refused:
        commands._check_bundles(state, [request], force=False)  # noqa: SLF001 # as above
    assert said in str(refused.value)
    assert refused.value.exit_status == 2


@pytest.mark.parametrize("damage", ["truncated", "empty", "bytes"])
def test_boots_are_not_added_to_a_damaged_bundle(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "new.tar"
    state, request = _write_bundle(path, ("6.1.9", "#1", None))
    whole = path.read_bytes()
    path.write_bytes({"truncated": whole[:700], "empty": b"", "bytes": b"\xff" * 4096}[damage])
    with pytest.raises(RecordError, match=r"new\.tar: (incomplete|.* damaged)"):
        commands._check_bundles(state, [request], force=False)  # noqa: SLF001 # as above


def test_one_kernel_is_enough_only_to_add_boots() -> None:
    said = _refuse("--kernel", "a=1", "--on", "ssh:lab", "--", "true")
    assert said == (
        "--kernel a: one kernel given (expected two or more); add another --kernel NAME=REL, or "
        "--append to add boots of one kernel to its bundle"
    )


def test_an_unfinished_recording_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target.There, "install", lambda *_: None)
    folder = tmp_path / "night.boots"
    folder.mkdir()
    before = _state(tmp_path)
    Store(folder / "state.json").write(before)
    kernels = ("--kernel", "base=1", "--kernel", "new=2", "--on", "ssh:lab")
    with pytest.raises(RecordError) as refused:
        _run(["ab", "-o", f"{tmp_path}/night", *kernels, "--", "true"])
    assert str(refused.value) == (
        f"{folder}: unfinished recording; go on with `schedperf ab continue -o {tmp_path}/night`, "
        f"or end it with `schedperf ab stop -o {tmp_path}/night`"
    )
    assert Store(folder / "state.json").read() == before


class _Deaf(target.There):
    """A target that answers only until its recording is claimed."""

    def __init__(self) -> None:
        super().__init__(shell.Ssh("lab"))
        self.claim: str | None = None
        self.answers = False

    def act(self, verb: str, *arguments: str, source: bytes = b"") -> Mapping[str, Any]:
        del source
        if verb == "claim":
            self.claim = arguments[0]
        if not self.answers and self.claim is not None:
            raise shell.Unreachable("no route to host")
        if verb == "release":
            self.claim = None
        return {"is_held": True}


def test_a_target_that_falls_silent_before_the_first_boot_stays_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    deaf = _Deaf()
    monkeypatch.setattr(commands, "There", lambda _: deaf)
    monkeypatch.setattr(deaf, "install", lambda *_: None)
    kernels = ("--kernel", "base=1", "--kernel", "new=2", "--on", "ssh:lab")
    output = f"{tmp_path}/night"
    with pytest.raises(RecordError) as silent:
        _run(["ab", "-o", output, *kernels, "--", "true"])
    assert silent.value.exit_status == TRY_AGAIN
    assert str(silent.value) == (
        f"lab: no route to host; start it, then run `schedperf ab continue -o {output}`"
    )
    stop = commands.parse_action("stop", ["-o", output])
    with pytest.raises(RecordError, match="not ended: lab: no route to host"):
        commands.act("stop", stop)
    assert deaf.claim == Store(tmp_path / "night.boots" / "state.json").read().session
    deaf.answers = True
    assert commands.act("stop", stop)
    assert capsys.readouterr().out == "ended; 0 of 8 boots recorded\n"
    assert deaf.claim is None
    assert list(tmp_path.iterdir()) == []


def test_a_start_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = _Deaf()
    machine.answers = True
    monkeypatch.setattr(commands, "There", lambda _: machine)
    monkeypatch.setattr(machine, "install", lambda *_: None)
    kernels = ("--kernel", "base=1", "--kernel", "new=2", "--on", "ssh:lab")
    with pytest.raises(RecordError, match="/etc/schedperf/hold exists on lab"):
        _run(["ab", "-o", f"{tmp_path}/night", *kernels, "--", "true"])
    assert machine.claim is None
    assert list(tmp_path.iterdir()) == []


COMMIT = "0123456789abcdef0123456789abcdef01234567"


def _new_state(tmp_path: Path, *sources: str) -> State:
    arguments = ["--kernel", "base=6.1", "--kernel", "new=6.2", "--on", "ssh:lab", "--machine", "x"]
    arguments += [word for source in sources for word in ("--source", source)]
    options = make_parser("ab", "schedperf").parse_args(["-o", f"{tmp_path}/n", *arguments])
    request = _request(options, ["true"])
    jobs = [commands.PlannedJob("", [], ["schedperf", "ab"], request)]
    return commands._new_state(options, arguments, jobs, [])  # noqa: SLF001 # starting needs a target


def test_each_kernel_keeps_its_commit_for_its_boots(tmp_path: Path) -> None:
    (tmp_path / "new.json").write_text(json.dumps({"commit": COMMIT}))
    state = _new_state(tmp_path, f"new={tmp_path}/new.json")
    assert [kernel.source for kernel in state.kernels] == [None, f'{{"commit": "{COMMIT}"}}']
    assert state.options == ["--machine", "x"]
    assert state.jobs[0].recorded_as == ["schedperf", "ab"]
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
