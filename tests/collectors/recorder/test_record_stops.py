# SPDX-License-Identifier: GPL-2.0-or-later
"""What ends a recording early costs the run that it hits, and no other."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf.inputs.bundle.open import open_bundle
from tests.programs import default_hangup

pytestmark = pytest.mark.system

ENDLESS = ("-n", "50", "--warmup", "0", "--with", "none")
# Only a limit: a machine that is busy with other things takes its time.
LONGEST_WAIT_S = 120

Wait = Callable[[Callable[[], object]], None]


def wait_for_run(process: "subprocess.Popen[str]", number: int) -> None:
    """Read the plain lines until this many runs are done."""
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(f"run {number}/"):
            return
    pytest.fail("the recorder ended before that")


@pytest.mark.parametrize(
    ("signum", "status"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
)
@pytest.mark.parametrize("name", ["b.tar", "b.tar.gz"])
def test_a_signal_keeps_every_finished_run(  # noqa: PLR0917 # fixtures and parameters
    recorder: Any,
    is_running: Callable[[str], bool],
    wait_for: Wait,
    signum: int,
    status: int,
    name: str,
) -> None:
    # The fourth run and no other one takes longer than the test.
    script = "mktemp -p ../made >/dev/null; test $(ls ../made | wc -l) -lt 4 || sleep 2718.28"
    arguments = ("record", "-o", name, *ENDLESS, "--", "sh", "-c", script)
    (recorder.folder / "work").mkdir()
    made_runs = recorder.folder / "made"
    made_runs.mkdir()

    def prepare() -> None:
        os.chdir("work")
        default_hangup()

    with recorder.start(*arguments, preexec_fn=prepare) as process:
        wait_for_run(process, 3)
        wait_for(lambda: len(list(made_runs.iterdir())) == 4)
        process.send_signal(signum)
        _, err = process.communicate(timeout=LONGEST_WAIT_S)
    assert process.returncode == status
    assert "Traceback" not in err
    last = err.splitlines()[-1]
    path = recorder.folder / "work" / name
    bundle = open_bundle(path)
    made = len(bundle.runs)
    assert made == 3
    assert bundle.complete is False
    assert bundle.incomplete_reason == f"interrupted after {made} of 50 runs"
    assert last == f"schedperf: {bundle.incomplete_reason}; finished runs are in {name}"
    assert bundle.caveats == () or all(item.code == "incomplete" for item in bundle.caveats)
    assert [item.name for item in path.parent.iterdir()] == [name]
    assert recorder.temporary_files() == []
    assert not is_running("2718.28")


def test_an_interrupt_in_the_first_run_leaves_a_bundle_too(
    recorder: Any, read_bundle: Any, wait_for: Wait
) -> None:
    command = ("sh", "-c", "touch started; sleep 3600")
    with recorder.start("record", "-o", "b.tar", *ENDLESS, "--", *command) as process:
        # Its workload runs when the bundle has begun.
        wait_for((recorder.folder / "started").exists)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LONGEST_WAIT_S)
    assert process.returncode == 130
    manifest = read_bundle(recorder.folder / "b.tar").manifest
    assert manifest["incomplete_reason"] == "interrupted after 0 of 50 runs"


def test_an_interrupt_stops_the_collectors(
    recorder_with: Callable[[str], Any], is_running: Callable[[str], bool], wait_for: Wait
) -> None:
    recorder = recorder_with(
        '''
@collector(scope="run", cost="nothing", intrusive=True)
def sleeper(capture):
    """Start a tool that sleeps and does not want to be told."""
    script = "trap '' TERM INT; touch tool; sleep 1618.03; sleep 1618.03"
    tool = subprocess.Popen(["sh", "-c", script])
    while not os.path.exists("tool"):
        time.sleep(0.01)
    yield
    os.remove("tool")
    tool.kill()
'''
    )
    # The first run in which the tool works takes longer than the test.
    script = "test -e tool || exit 0; touch started; sleep 3600"
    command = ("record", "-o", "b.tar", "-n", "3", "--warmup", "0", "--", "sh", "-c", script)
    with recorder.start(*command) as process:
        wait_for((recorder.folder / "started").exists)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LONGEST_WAIT_S)
    assert process.returncode == 130
    assert not is_running("1618.03")
    assert open_bundle(recorder.folder / "b.tar").complete is False


def test_a_recorder_that_is_killed_leaves_what_was_finished(
    recorder: Any, read_bundle: Any, wait_for: Wait
) -> None:
    # Nothing is written while the third run lasts, which the recorder does not outlive.
    third = "{ echo $$ >third.part; mv third.part third; sleep 60; }"
    script = f"mktemp -p made >/dev/null; test $(ls made | wc -l) -lt 3 || {third}"
    (recorder.folder / "made").mkdir()
    with recorder.start("record", "-o", "b.tar", *ENDLESS, "--", "sh", "-c", script) as process:
        wait_for((recorder.folder / "third").exists)
        process.kill()
        process.communicate(timeout=LONGEST_WAIT_S)
    os.killpg(int((recorder.folder / "third").read_text()), signal.SIGKILL)
    written = read_bundle(recorder.folder / "b.tar.partial")
    assert len(written.runs) == 2
    done = recorder("record", "-o", "b.tar", *ENDLESS, "--", "true")
    assert "already exists; wait if another recording is running, or remove" in done.stderr


def test_a_full_disk_keeps_every_finished_run(
    recorder: Any, small_disk: Path, read_bundle: Any
) -> None:
    script = "head -c 700000 /dev/urandom"
    path = small_disk / "b.tar"
    done = recorder("record", "-o", str(path), *ENDLESS, "--", "sh", "-c", script)
    assert done.returncode == 2
    made = len(read_bundle(path).runs)
    assert 3 <= made <= 8
    reason = f"no space left on device after {made} of 50 runs"
    expected = f"schedperf: error: {reason}; finished runs are in {path}"
    assert done.stderr.splitlines()[-1] == expected
    bundle = open_bundle(path)
    assert (bundle.complete, bundle.incomplete_reason) == (False, reason)
    for run in bundle.runs:
        assert len(bundle.read(f"{run.folder}/stdout")) == 700_000
    assert [item.name for item in small_disk.iterdir()] == ["b.tar"]


def test_a_full_temporary_folder_keeps_every_finished_run(
    recorder: Any, small_disk: Path, read_bundle: Any
) -> None:
    recorder.environment["TMPDIR"] = str(small_disk)
    script = "test $(ls .. | wc -l) -gt 9 && exec head -c 9000000 /dev/zero; mktemp -p ..; true"
    (recorder.folder / "work").mkdir()
    with recorder.start(
        "record", "-o", "b.tar", *ENDLESS, "--", "sh", "-c", script,
        preexec_fn=lambda: os.chdir("work"),
    ) as process:  # fmt: skip
        _, err = process.communicate(timeout=LONGEST_WAIT_S)
    assert process.returncode == 2
    made = len(read_bundle(recorder.folder / "work" / "b.tar").runs)
    assert err.splitlines()[-1] == (
        f"schedperf: error: {small_disk}: no space left on device after {made} of 50 runs; set "
        "TMPDIR to a larger file system; finished runs are in b.tar"
    )
    manifest = read_bundle(recorder.folder / "work" / "b.tar").manifest
    assert manifest["complete"] is False
    assert "no space left on device after " in manifest["incomplete_reason"]
    assert list(small_disk.iterdir()) == []


def test_force_does_not_replace_a_bundle_by_one_without_a_run(
    recorder: Any, small_disk: Path
) -> None:
    recorder("record", "-o", "b.tar", "-n", "2", "--warmup", "0", "--with", "none", "--", "true")
    before = (recorder.folder / "b.tar").read_bytes()
    recorder.environment["TMPDIR"] = str(small_disk)
    command = ("sh", "-c", "head -c 9000000 /dev/zero; true")
    done = recorder("record", "-o", "b.tar", "--force", *ENDLESS, "--", *command)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        f"schedperf: error: {small_disk}: no space left on device after 0 of 50 runs; set TMPDIR "
        "to a larger file system; no run was finished, so --force does not replace b.tar"
    )
    assert (recorder.folder / "b.tar").read_bytes() == before
    assert not list(recorder.folder.glob("b.tar.*"))


def test_a_full_disk_while_it_grows_keeps_the_old_runs(recorder: Any, small_disk: Path) -> None:
    path = str(small_disk / "b.tar")
    recorder("record", "-o", path, "-n", "2", "--warmup", "0", "--with", "none", "--", "true")
    before = len(open_bundle(Path(path)).runs)
    script = "head -c 900000 /dev/urandom"
    done = recorder("record", "--append", path, *ENDLESS, "--", "sh", "-c", script)
    assert done.returncode == 2
    bundle = open_bundle(Path(path))
    assert before == 2
    assert len(bundle.runs) > 2
    assert bundle.complete is False
    assert bundle.planned_runs == 52


def test_sighup_is_ignored_under_nohup(recorder: Any, read_bundle: Any) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    # From the third run on it waits for the signal.
    script = "mktemp -p made >/dev/null; test $(ls made | wc -l) -lt 3 || until test -e hung-up; "
    script += "do sleep 0.02; done"
    (recorder.folder / "made").mkdir()
    options = ("-o", "b.tar", "-n", "4", "--warmup", "0", "--with", "none")
    command = ("record", *options, "--", "sh", "-c", script)
    with recorder.start(*command, preexec_fn=ignore) as process:
        wait_for_run(process, 2)
        process.send_signal(signal.SIGHUP)
        (recorder.folder / "hung-up").touch()
        process.communicate(timeout=LONGEST_WAIT_S)
    assert process.returncode == 0
    assert read_bundle(recorder.folder / "b.tar").manifest["complete"] is True
