# SPDX-License-Identifier: GPL-2.0-or-later
"""``record --setup``, and what a bundle keeps of the options for recording it again."""

import json
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


def test_the_bundle_keeps_the_options_that_its_runs_do_not_show(
    recorder: Any, read_bundle: Any
) -> None:
    options = (
        *("--instrumented", "3", "--warmup", "2", "--set", "host.boot=cold"),
        *("--pelt-loader", "bcc", "--timeout", "2.5", "--teardown", "true"),
    )
    done = recorder("record", "-o", "a.tar", *QUICK, *options, "--seed", "1", "--", "true")
    assert done.returncode == 0, done.stderr
    first = {
        "workload": "true",
        "program": "record",
        "options": ["--with", "none", *options],
    }
    bundle = read_bundle(recorder.folder / "a.tar")
    assert bundle.manifest["rerun"] == [first]
    # The first recording of a workload counts.
    recorder("record", "--append", "a.tar", *QUICK, "--", "true")
    recorder("record", "--append", "a.tar", *QUICK, "--", "echo")
    other = {"workload": "echo", "program": "record", "options": ["--with", "none"]}
    assert read_bundle(recorder.folder / "a.tar").manifest["rerun"] == [first, other]


def test_default_options_are_not_kept(recorder: Any, read_bundle: Any) -> None:
    done = recorder("ab", "-o", "x", "-n", "1", "--with", "none", "-q", "--base-teardown", "true",
                    "--", "true")  # fmt: skip
    assert done.returncode == 0, done.stderr
    for side, options in (("base", ["--with", "none", "--teardown", "true"]),
                          ("new", ["--with", "none"])):  # fmt: skip
        rerun = read_bundle(recorder.folder / f"x-{side}.tar").manifest["rerun"]
        assert rerun == [{"workload": "true", "program": "ab", "options": options}]


def test_a_guest_keeps_the_options_of_the_program_that_booted_it(
    recorder: Any, read_bundle: Any
) -> None:
    guest = ["--cpus=2", "--kernel-args=nokaslr"]
    done = recorder("record", "-o", "a.tar", *QUICK, "--guest", json.dumps(guest), "--", "true")
    assert done.returncode == 0, done.stderr
    assert read_bundle(recorder.folder / "a.tar").manifest["rerun"] == [
        {"workload": "true", "program": "vm", "options": guest}
    ]
    for text in ("[1]", "{}", "x"):
        done = recorder("record", "-o", "b.tar", *QUICK, "--guest", text, "--", "true")
        assert done.returncode == 2
        assert "expected a list of strings" in done.stderr
