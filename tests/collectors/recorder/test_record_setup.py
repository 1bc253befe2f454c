# SPDX-License-Identifier: GPL-2.0-or-later
"""``record --setup``: what runs in the process of each run, and what the bundle keeps of it."""

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

QUICK = ("-n", "1", "--with", "none", "-q")
SHELL = ("sh", "-c", "echo x=$X")


def test_a_setup_runs_in_the_process_of_each_run(
    recorder: Any, read_bundle: Any, tmp_path: Path
) -> None:
    done_file = tmp_path / "done"
    done = recorder(
        "record", "-o", "a.tar", *QUICK, "--setup", "export X=7", "--teardown",
        f"echo teardown >>{done_file}", "--", *SHELL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    bundle = read_bundle(recorder.folder / "a.tar")
    assert bundle.manifest["setup"] == "export X=7"
    assert [run["setup"] for run in bundle.runs] == ["export X=7"] * 2
    assert [bundle.members[f"boots/0/runs/{i:03d}/stdout"] for i in (0, 1)] == [b"x=7\n"] * 2
    # Once for host.json, which describes a process with the setup, and once for each run.
    assert done_file.read_text().split() == ["teardown"] * 3


def test_a_setup_that_fails_leaves_no_bundle(recorder: Any) -> None:
    done = recorder("record", "-o", "a.tar", *QUICK, "--setup", "exit 3", "--", "true")
    assert done.returncode == 2
    assert "setup failed: exit status 3" in done.stderr
    assert not (recorder.folder / "a.tar").exists()


def test_appended_runs_have_the_setup_that_is_given(recorder: Any, read_bundle: Any) -> None:
    for target, value in (("-o", "1"), ("--append", "2")):
        done = recorder("record", target, "a.tar", *QUICK, "--setup", f"X={value}", "--", *SHELL)
        assert done.returncode == 0, done.stderr
    runs = read_bundle(recorder.folder / "a.tar").runs
    assert [run["setup"] for run in runs] == ["X=1", "X=1", "X=2", "X=2"]
