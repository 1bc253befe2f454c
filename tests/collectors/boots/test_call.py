# SPDX-License-Identifier: GPL-2.0-or-later
"""Hooks of the user are called with limits."""

from pathlib import Path

import pytest

from schedperf_collectors.boots.call import OUTPUT_BYTES, call_here, check_name
from schedperf_collectors.machine.errors import RecordError
from tests.programs import lives


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
    hook = program(tmp_path, "sleep 1000 & echo $!; sleep 1000")
    limit_s, child = 0.5, ""
    # A busy machine takes its time to start it.
    while not child.endswith("\n"):
        limit_s *= 2
        called = call_here(hook, ["check"], limit_s=limit_s)
        assert called.status is None
        child = called.stdout
    assert not lives(child.strip())


def test_a_child_that_holds_the_output_open_does_not_delay(tmp_path: Path) -> None:
    # Far longer than the time that a test may take.
    called = call_here(program(tmp_path, "sleep 6000 & echo done"), ["armed"], limit_s=6000.0)
    assert (called.status, called.stdout) == (0, "done\n")


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
