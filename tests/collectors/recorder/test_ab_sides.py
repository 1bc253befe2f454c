# SPDX-License-Identifier: GPL-2.0-or-later
"""``ab`` with named sides: three or more settings, a scheduler feature, appended boots."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schedperf.compare.bundles import compare_bundles
from schedperf.inputs.bundle.open import open_bundle
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.recorder import sides, stop
from schedperf_collectors.recorder.control_groups import all_cgroups
from schedperf_collectors.recorder.journal import Journal, Left, Written
from schedperf_collectors.recorder.options import make_parser
from schedperf_collectors.recorder.sides import check_feature, read_settings
from schedperf_collectors.recorder.tunables import read_tunables

pytestmark = pytest.mark.system

QUICK = ("--warmup", "0", "--with", "none")
THREE = ("--setup", "n0=", "--setup", "n5=renice -n 5 -p $$ >/dev/null", "--setup", "one=")
SYSCTL = Path("/proc/sys/vm/stat_interval")


def write(command: str) -> str:
    return f"{command} > {SYSCTL}"


@pytest.fixture
def sysctl() -> int:
    """The value of a harmless sysctl."""
    if not os.access(SYSCTL, os.W_OK):
        pytest.skip("needs root to write a sysctl")
    return int(SYSCTL.read_text())


def test_three_settings_have_a_bundle_each_and_a_balanced_order(
    recorder: Any, read_bundle: Any
) -> None:
    done = recorder("ab", "-o", "s", *THREE, *QUICK, "--", "nice")
    assert done.returncode == 0, done.stderr
    assert "balanced" not in done.stderr
    written = {name: read_bundle(recorder.folder / f"s-{name}.tar") for name in ("n0", "n5", "one")}
    assert [bundle.manifest["label"] for bundle in written.values()] == list(written)
    runs = [run for bundle in written.values() for run in bundle.runs]
    # The smallest number of rounds from 5 on that is balanced.
    assert Counter(run["side"] for run in runs) == dict.fromkeys(written, 6)
    assert len({run["session"] for run in runs}) == 1
    runs.sort(key=lambda run: run["order"])
    orders = ["".join(run["side"][-1] for run in runs if run["round"] == n) for n in range(6)]
    assert orders == ["05e", "e50", "5e0", "0e5", "e05", "50e"]
    for name, nice in (("n0", "0"), ("n5", "5"), ("one", "0")):
        printed = [text for path, text in written[name].members.items() if path.endswith("/stdout")]
        assert printed == [f"{nice}\n".encode()] * 6


def test_an_unbalanced_number_of_rounds_is_said_by_the_recorder_and_the_comparison(
    recorder: Any,
) -> None:
    done = recorder("ab", "-o", "s", *THREE, *QUICK, "-n", "4", "--", "true")
    assert done.returncode == 0, done.stderr
    said = "-n 4: the order of 3 sides is not balanced (expected a multiple of 6); use -n 6"
    assert said in done.stderr
    bundles = [open_bundle(recorder.folder / f"s-{name}.tar") for name in ("n0", "n5", "one")]
    comparison = compare_bundles(bundles)
    (caveat,) = (each for each in comparison.caveats if each.code == "unbalanced")
    assert caveat.text.startswith(
        "the order of the 3 interleaved sides is not balanced over 4 rounds (a multiple of 6 is"
    )
    # Two of the sides are compared as pairs, whatever the third one was.
    pair = compare_bundles(bundles[:2])
    assert not any(each.code == "unbalanced" for each in pair.caveats)


def test_another_boot_can_be_appended(recorder: Any, read_bundle: Any) -> None:
    for _ in range(2):
        done = recorder("ab", "-o", "s", "--append", *THREE, *QUICK, "-n", "6", "--", "true")
        assert done.returncode == 0, done.stderr
    written = read_bundle(recorder.folder / "s-n5.tar")
    assert written.manifest["planned_runs"] == 12
    assert Counter(run["run"] for run in written.runs) == dict.fromkeys(range(12), 1)
    # Both recordings are of this boot, whose host.json is there once.
    assert sum(name.endswith("host.json") for name in written.members) == 1
    assert len({run["session"] for run in written.runs}) == 2


def test_a_setup_that_fails_leaves_the_bundle_that_was_appended_to(
    recorder: Any, read_bundle: Any
) -> None:
    done = recorder("ab", "-o", "s", *THREE, *QUICK, "-n", "6", "--", "true")
    assert done.returncode == 0, done.stderr
    paths = sorted(recorder.folder.glob("s-*.tar"))
    before = [read_bundle(path).members for path in paths]
    broken = ("--setup", "n0=", "--setup", "n5=false", "--setup", "one=")
    done = recorder("ab", "-o", "s", "--append", *broken, *QUICK, "-n", "6", "--", "true")
    assert done.returncode == 2
    assert "setup of n5 failed" in done.stderr
    assert sorted(recorder.folder.glob("s-*")) == paths
    assert [read_bundle(path).members for path in paths] == before


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("-o", "s", "--setup", "a="), "--setup a: one side given (expected two or more); add"),
        (("-o", "s", "--setup", "a=", "--setup", "a=x"), "--setup a: side given twice; use"),
        (("--setup", "a=", "--setup", "b="), "no output file; give -o PREFIX"),
        (("-o", "s", "--setup", "../a=", "--setup", "b="), "invalid side '../a=' (expected NAME="),
        (("-o", "s", "--setup", "a", "--setup", "b="), "invalid side 'a' (expected NAME=CMD"),
        (("-o", "s", *THREE, "--new-setup", "x"), "--setup: cannot be combined with --new-setup"),
        (("-o", "s", *THREE, "--base", "b.tar"), "--setup: cannot be combined with --base; omit"),
        (("-o", "s", *THREE, "--teardown", "c=x"), "--teardown c: no side of this name (expected"),
        (("-o", "s", "--teardown", "c=x"), "--teardown c: no side of this name; add --setup c=CMD"),
        (("-o", "s", "--feature", "NO_X"), "invalid scheduler feature 'NO_X' (expected its name"),
        (("-o", "s", "--feature", "A;rm"), "invalid scheduler feature 'A;rm' (expected its name"),
        (("-o", "s", "--feature", "X", *THREE), "--feature: cannot be combined with --setup; omit"),
        (("-o", "s", "--feature", "X", "--teardown", "X=y"), "cannot be combined with --teardown"),
    ],
)
def test_a_slip_is_one_clear_line(
    recorder: Any, arguments: tuple[str, ...], complaint: str
) -> None:
    done = recorder("ab", *arguments, *QUICK, "--", "true")
    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(recorder.folder.glob("*.tar*"))


def test_a_feature_is_switched_off_and_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    features = tmp_path / "features"
    features.write_text("PLACE_LAG NO_HRTICK TTWU_QUEUE\n")
    monkeypatch.setattr(sides, "FEATURES", (tmp_path / "none", features))
    options = make_parser("ab", "schedperf").parse_args(["-o", "s", "--feature", "HRTICK"])
    assert [(side.name, side.setup, str(side.path)) for side in read_settings(options)] == [
        ("NO_HRTICK", f"echo NO_HRTICK > {features}", "s-NO_HRTICK.tar"),
        ("HRTICK", f"echo HRTICK > {features}", "s-HRTICK.tar"),
    ]
    check_feature("HRTICK")
    with pytest.raises(RecordError, match=r"no such scheduler feature .* e\.g\. PLACE_LAG\)"):
        check_feature("PLACE_LAGG")


def test_a_feature_that_cannot_be_seen_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sides, "FEATURES", (tmp_path / "none",))
    with pytest.raises(RecordError, match="no such file or directory; run as root, with debugfs"):
        check_feature("PLACE_LAG")


def state() -> tuple[dict[Path, str], set[Path]]:
    return read_tunables(), set(all_cgroups())


@pytest.mark.alone
def test_everything_is_restored(recorder: Any, sysctl: int) -> None:
    before = state()
    setups = ("--setup", "a=", "--setup", write(f"b=echo {sysctl + 1}"))
    masks = ("--setup", "c=taskset -p 1 $$ >/dev/null")
    hackbench = ("hackbench", "-l", "20", "-g", "1")
    done = recorder("ab", "-o", "s", *setups, *masks, *QUICK, "-n", "6", "--", *hackbench)
    assert done.returncode == 0, done.stderr
    assert state() == before


@pytest.mark.alone
@pytest.mark.parametrize("how", [signal.SIGKILL, None])
def test_stop_ends_a_recording_and_undoes_what_a_killed_one_left(
    recorder: Any, read_bundle: Any, sysctl: int, how: signal.Signals | None
) -> None:
    """Kill the recorder in the middle of a run, or let `ab stop` end it."""
    before = state()
    setup = write(f"b=echo {sysctl + 1}")
    teardown = ("--teardown", f"b=touch {recorder.folder}/torn")
    arguments = ("-o", "s", "--setup", "a=", "--setup", setup, *teardown, *QUICK)
    command = [sys.executable, "-m", "schedperf_collectors", "ab", *arguments]
    running = recorder.folder / "running"
    # Until the recorder is gone.
    wait = "touch running; exec tail -s 0.05 --pid=$PPID -f /dev/null"
    workload = ["sh", "-c", f"! grep -qx {sysctl + 1} {SYSCTL} || {{ {wait}; }}"]
    with subprocess.Popen(
        [*command, "--", *workload],
        cwd=recorder.folder,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as recording:
        while not running.exists():
            assert recording.poll() is None, recording.stderr and recording.stderr.read()
            time.sleep(0.02)
        status = recorder("ab", "status")
        name = f"recording of {recorder.folder}/s-a.tar, {recorder.folder}/s-b.tar with process id"
        end = f"end it with: schedperf ab stop -o {recorder.folder}/s-a.tar\n"
        assert f"{name} {recording.pid}; {end}" in status.stdout
        if how is not None:
            recording.send_signal(how)
            recording.wait()
            assert int(SYSCTL.read_text()) == sysctl + 1
            status = recorder("ab", "status")
            assert f"a killed recording left {SYSCTL} changed" in status.stdout
        stopped = recorder("ab", "stop", "-o", "s")
    assert stopped.returncode == 0, stopped.stderr
    assert (recorder.folder / "torn").exists()
    assert state() == before
    if how is None:
        assert f"ended the {name} {recording.pid}; its bundles hold" in stopped.stdout
        assert len(read_bundle(recorder.folder / "s-a.tar").runs) == 1
    else:
        ran = f"running the teardown of b: touch {recorder.folder}/torn\nran the teardown of b\n"
        assert ran in stopped.stdout
        assert f"restored {SYSCTL} to '{sysctl}'\n" in stopped.stdout
        assert f"{recorder.folder}/s-a.tar: has the finished runs (1)\n" in stopped.stdout
        assert (
            f"{recorder.folder}/s-b.tar: removed, because no run was finished\n" in stopped.stdout
        )
        assert len(read_bundle(recorder.folder / "s-a.tar").runs) == 1
        assert not list(recorder.folder.glob("s-*.tar.*"))
    again = recorder("ab", "stop", "-o", "s")
    assert again.returncode == 2
    assert "-o s: no recording writes this output; see: schedperf ab status" in again.stderr


@pytest.fixture
def running(tmp_path: Path) -> Iterator[list[int]]:
    """Start two recordings that only have a journal, of one.tar, and of two/a.tar and two/b.tar."""
    journals = tmp_path / "journals"
    (tmp_path / "two").mkdir()
    pids = []
    for output, bundles in ((None, ["one.tar"]), ("two", ["two/a.tar", "two/b.tar"])):
        pid = os.fork()
        if pid == 0:
            named = None if output is None else tmp_path / output
            written = [Written(tmp_path / bundle, named) for bundle in bundles]
            with Journal({}, journals, written):
                (tmp_path / f"started-{len(bundles)}").touch()
                signal.pause()
        pids.append(pid)
        while not (tmp_path / f"started-{len(bundles)}").exists():
            time.sleep(0.01)
    yield pids
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def test_one_of_several_recordings_is_stopped_by_its_output(
    tmp_path: Path, running: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = running
    with pytest.raises(RecordError, match="2 recordings are running") as error:
        list(stop.stop(tmp_path / "journals"))
    assert f"recording of {tmp_path}/one.tar with process id {first}; recording of" in str(
        error.value
    )
    assert "give that to end: schedperf ab stop -o " in str(error.value)
    with pytest.raises(RecordError, match="-o none: no recording writes this output"):
        list(stop.stop(tmp_path / "journals", "none"))
    # SIGTERM ends these at once, without removing their journals.
    [line, *_] = stop.stop(tmp_path / "journals", "two/")
    assert line.startswith(f"ended the recording of {tmp_path}/two/a.tar, {tmp_path}/two/b.tar ")
    assert os.waitpid(second, 0)[1] == signal.SIGTERM
    assert os.waitpid(first, os.WNOHANG) == (0, 0)
    # Now it is the only one.
    [line, *_] = stop.stop(tmp_path / "journals")
    assert line.startswith(f"ended the recording of {tmp_path}/one.tar with process id {first};")
    assert os.waitpid(first, 0)[1] == signal.SIGTERM


@pytest.mark.parametrize(
    ("output", "is_meant"),
    [
        ("s", True), ("s-2-a.tar", True), ("./s", True), (".", True),
        ("s-", False), ("s-2", False), ("s-2-b.tar", False), ("t", False), ("..", False),
    ],
)  # fmt: skip
def test_an_output_is_a_prefix_a_bundle_or_a_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, *, is_meant: bool
) -> None:
    """The name of the side is 2-a: `-o s` does not end what was recorded with `-o s-2`."""
    monkeypatch.chdir(tmp_path)
    left = Left((Written(tmp_path / "s-2-a.tar", tmp_path / "s"),))
    assert stop.writes(left, output) is is_meant


def test_a_recording_that_ends_meanwhile_is_neither_listed_nor_undone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its journal was listed, and is gone when it is opened."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stop, "journals_in", lambda _: [tmp_path / "ab-1.jsonl"])
    assert list(stop.status_lines(tmp_path)) == []
    assert list(stop.stop(tmp_path)) == []
