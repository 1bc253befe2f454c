# SPDX-License-Identifier: GPL-2.0-or-later
"""Hooks of the user are called with limits."""

import time
from pathlib import Path

import pytest

from schedperf_collectors.boots.call import OUTPUT_BYTES, call_here, check_name
from schedperf_collectors.machine.errors import RecordError


def program(folder: Path, text: str) -> str:
    path = folder / "my hook"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return f"command:{path}"


def test_status_and_output(tmp_path: Path) -> None:
    hook = program(tmp_path, 'echo "$1:$2:$SCHEDPERF_TARGET"; cat; echo no >&2; exit 75')
    called = call_here(hook, ["check", "6.1; reboot"])
    assert (called.status, called.stdout, called.stderr) == (75, "check:6.1; reboot:\n", "no\n")


def test_a_hook_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    mark = tmp_path / "alive"
    hook = program(tmp_path, f"(sleep 3; touch '{mark}') & echo began; sleep 60")
    called = call_here(hook, ["check"], limit_s=1.0)
    assert (called.status, called.stdout) == (None, "began\n")
    time.sleep(3)
    assert not mark.exists()


def test_a_child_that_holds_the_output_open_does_not_delay(tmp_path: Path) -> None:
    began = time.monotonic()
    called = call_here(program(tmp_path, "sleep 600 & echo done"), ["armed"])
    assert (called.status, called.stdout) == (0, "done\n")
    assert time.monotonic() - began < 30


def test_output_without_end_is_cut(tmp_path: Path) -> None:
    hook = program(tmp_path, "head -c 300000000 /dev/zero | tr '\\0' 'x'; exit 1")
    called = call_here(hook, ["check"])
    assert called.status == 1
    assert called.stdout == "x" * OUTPUT_BYTES


def test_a_program_that_cannot_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name, reason in (("file", "permission denied"), ("none", "no such file or directory")):
        with pytest.raises(RecordError, match=f"{reason} .expected an executable file"):
            call_here(f"command:{tmp_path / name}", ["check"])


@pytest.mark.parametrize("name", ["", "auto", "grub", "command:", "common", "../x", "x" * 1000])
def test_names_of_no_hook(name: str) -> None:
    with pytest.raises(
        RecordError, match=r"^--boot: unknown hook .*; see docs/kernels.md$"
    ) as caught:
        check_name(name)
    assert len(str(caught.value)) < 300
