# SPDX-License-Identifier: GPL-2.0-or-later
"""``ab``: two settings of one machine, interleaved, and the machine given back as it was."""

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from schedperf.inputs.bundle.open import open_bundle
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.recorder.ab import differing_paths
from schedperf_collectors.recorder.journal import Journal
from schedperf_collectors.recorder.progress import Progress
from schedperf_collectors.recorder.settings import Machine, Setting

pytestmark = pytest.mark.system

QUICK = ("-n", "2", "--warmup", "0", "--with", "none")
# A value that no workload notices, and nothing but a person changes.
SYSCTL = Path("/proc/sys/vm/stat_interval")


@pytest.fixture
def sysctl() -> Iterator[int]:
    """The value of a harmless sysctl that a test may change when it is alone."""
    if not os.access(SYSCTL, os.W_OK):
        pytest.skip("needs root to write a sysctl")
    before = SYSCTL.read_text()
    yield int(before)
    changed = SYSCTL.read_text() != before
    SYSCTL.write_text(before)
    assert not changed


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A cgroup that does not exist yet."""
    for point in ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup"):
        folder = Path(point, f"schedperf-test-{os.getpid()}")
        try:
            folder.mkdir()
            procs = folder / "cgroup.procs"
            if procs.exists():
                folder.rmdir()
                yield folder
                break
            folder.rmdir()
        except OSError:
            continue
    else:
        pytest.skip("no cgroups that this user can make")


def test_both_bundles_hold_interleaved_runs_of_one_session(recorder: Any, read_bundle: Any) -> None:
    done = recorder(
        "ab", "-o", "s", *QUICK, "-n", "4", "--base-label", "plain", "--base-setup", "A=1",
        "--new-setup", "export A=2", "--", "sh", "-c", "echo $A",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "schedperf compare s-base.tar s-new.tar\n"
    base = read_bundle(recorder.folder / "s-base.tar")
    new = read_bundle(recorder.folder / "s-new.tar")
    sides = {run["order"]: (run["side"], run["round"]) for run in base.runs + new.runs}
    assert [sides[order] for order in range(8)] == [
        ("base", 0), ("new", 0), ("new", 1), ("base", 1),
        ("base", 2), ("new", 2), ("new", 3), ("base", 3),
    ]  # fmt: skip
    assert len({run["session"] for run in base.runs + new.runs}) == 1
    assert (base.manifest["label"], new.manifest["label"]) == ("plain", "s-new")
    assert (base.manifest["setup"], new.manifest["setup"]) == ("A=1", "export A=2")
    assert new.runs[0]["setup"] == "export A=2"
    # What a setup exports reaches the workload.
    assert base.members["boots/0/runs/000/stdout"] == b"\n"
    assert new.members["boots/0/runs/000/stdout"] == b"2\n"
    for name in ("s-base.tar", "s-new.tar"):
        bundle = open_bundle(recorder.folder / name)
        assert (bundle.complete, bundle.planned_runs, bundle.caveats) == (True, 4, ())
    assert recorder.temporary_files() == []


def test_points_warm_up_and_instrumented_runs_are_equal_on_both_sides(
    recorder_with: Callable[[str], Any], read_bundle: Any
) -> None:
    recorder = recorder_with(
        '''
@collector(scope="run", cost="nothing", intrusive=True)
def probe(capture):
    """Note that it ran."""
    (capture.folder / "ran").touch()
    yield


@collector(scope="boot", cost="nothing")
def shared(capture):
    """Note when it was captured."""
    (capture.folder / "when").write_text(str(time.monotonic()))
'''
    )
    arguments = ("-n", "2", "--point", "x=1,2", "--", "echo", "{x}")
    done = recorder("ab", "--base", "one.tar", "--new", "two.tar.gz", *arguments)
    assert done.returncode == 0, done.stderr
    bundles = [read_bundle(recorder.folder / name) for name in ("one.tar", "two.tar.gz")]
    cells = [
        sorted((run["point_key"], run["kind"], run["warmup"], run["block"]) for run in one.runs)
        for one in bundles
    ]
    assert cells[0] == cells[1]
    assert len(cells[0]) == 10
    # What belongs to the boot is captured once, for both.
    assert len({one.members["boots/0/shared/when"] for one in bundles}) == 1


@pytest.mark.alone
def test_sysctls_are_in_force_and_then_restored(
    recorder: Any, read_bundle: Any, sysctl: int
) -> None:
    setup = f"echo {sysctl ^ 2} > {SYSCTL}"
    done = recorder("ab", "-o", "s", *QUICK, "--new-setup", setup, "--", "cat", str(SYSCTL))
    assert done.returncode == 0, done.stderr
    assert int(SYSCTL.read_text()) == sysctl
    base = read_bundle(recorder.folder / "s-base.tar")
    new = read_bundle(recorder.folder / "s-new.tar")
    for number in (0, 1):
        assert int(base.members[f"boots/0/runs/00{number}/stdout"]) == sysctl
        assert int(new.members[f"boots/0/runs/00{number}/stdout"]) == sysctl ^ 2


@pytest.mark.alone
def test_transparent_huge_pages_are_restored_too(recorder: Any, read_bundle: Any) -> None:
    path = Path("/sys/kernel/mm/transparent_hugepage/defrag")
    if not os.access(path, os.W_OK):
        pytest.skip("needs root to change transparent huge pages")
    before = path.read_text()
    setup = f"for word in always never; do echo $word > {path}; done"
    done = recorder("ab", "-o", "s", *QUICK, "--new-setup", setup, "--", "cat", str(path))
    assert (done.returncode, "warning" in done.stderr) == (0, False), done.stderr
    assert path.read_text() == before
    new = read_bundle(recorder.folder / "s-new.tar")
    assert "[never]" in new.members["boots/0/runs/000/stdout"].decode()
    base = read_bundle(recorder.folder / "s-base.tar")
    assert base.members["boots/0/runs/001/stdout"].decode() == before


@pytest.mark.alone
def test_a_killed_recording_is_told_by_the_next_command(
    recorder: Any,
    sysctl: int,
    cgroup: Path,
    wait_for: Callable[[Callable[[], bool]], None],
) -> None:
    setup = f"mkdir -p {cgroup}; echo $$ > {cgroup}/cgroup.procs; echo {sysctl ^ 2} > {SYSCTL}"
    command = ("ab", "-o", "s", *QUICK, "--base-setup", setup)
    with recorder.start(*command, "--", "sh", "-c", "touch started; sleep 1414.21") as process:
        wait_for((recorder.folder / "started").exists)
        process.kill()
        process.communicate(timeout=240)
    done = recorder("record", "-o", "r.tar", *QUICK, "--", "true")
    assert done.returncode == 0
    told = [line for line in done.stderr.splitlines() if "a killed recording left" in line]
    commands = [line.partition("undo this with: ")[2].partition(" (or")[0] for line in told]
    assert commands[0] == f"echo {sysctl} > {SYSCTL}"
    assert re.fullmatch(rf"kill \d+( \d+)?; sleep 1; rmdir {cgroup}", commands[1])
    for line in commands:
        subprocess.run(["sh", "-c", line], check=True)
    assert "killed" not in recorder("record", "-o", "t.tar", *QUICK, "--", "true").stderr


def test_what_a_setup_leaves_running_ends_after_its_teardown_and_what_that_starts_stays(
    recorder: Any,
) -> None:
    setup = "setsid sleep 7535 & echo $! >>left"
    # The process of the setup still runs, so that a teardown can end it in its own way.
    teardown = "kill -0 $(tail -n1 left); setsid sleep 7536 >/dev/null 2>&1 & echo $! >>service"
    done = recorder(
        "ab", "-o", "s", *QUICK, "--new-setup", setup, "--new-teardown", teardown, "--", "true"
    )
    assert done.returncode == 0, done.stderr
    [line] = [line for line in done.stderr.splitlines() if "warning" in line]
    assert "the setup of new left 1 process(es) running (sleep), " in line
    for pid in (recorder.folder / "left").read_text().split():
        assert not Path("/proc", pid).exists()
    started = [int(pid) for pid in (recorder.folder / "service").read_text().split()]
    # Two runs and the capture of host.json.
    assert len(started) == 3
    for pid in started:
        os.kill(pid, signal.SIGKILL)


def test_a_setting_that_stays_ends_the_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    value = tmp_path / "value"
    value.write_text("1\n")
    side = Setting(name="new", path=tmp_path, label=None, setup="", teardown="")
    machine = Machine({value: "1"}, Progress(), Journal({}, None))
    with machine.with_setting(side):
        value.write_text("2\n")
    assert value.read_text() == "1\n"
    assert capsys.readouterr().err == ""
    with machine.with_setting(side):
        value.unlink()
        value.symlink_to("/proc/sys/kernel/ostype")
    undo = f"run `echo 1 > {value}`"
    assert undo in capsys.readouterr().err
    with pytest.raises(RecordError, match=undo), machine.with_setting(side):
        pass


def test_a_setting_that_something_else_changes_is_told_once_and_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    value = tmp_path / "value"
    value.write_text("1\n")
    machine = Machine({value: "1"}, Progress(), Journal({}, None))
    value.write_text("2\n")
    side = Setting(name="new", path=tmp_path, label=None, setup="", teardown="")
    for _ in range(2):
        with machine.with_setting(side):
            value.write_text("3\n")
        assert value.read_text() == "2\n"
    [line] = capsys.readouterr().err.splitlines()
    assert f"{value}: changed from '1' to '2' during the recording" in line


def test_what_differs_in_host_json_is_the_treatment(
    recorder: Any, read_bundle: Any, cgroup: Path
) -> None:
    setup = f"mkdir -p {cgroup}/a/b; echo $$ > {cgroup}/a/b/cgroup.procs"
    arguments = ("--vary", "cpu.smt", "--", "cat", "/proc/self/cgroup")
    done = recorder("ab", "-o", "s", *QUICK, "--new-setup", setup, *arguments)
    assert done.returncode == 0, done.stderr
    base = read_bundle(recorder.folder / "s-base.tar")
    new = read_bundle(recorder.folder / "s-new.tar")
    place = f"/{cgroup.name}/a/b"
    assert any(line.endswith(place) for line in new.runs[0]["cgroup"])
    assert place in new.members["boots/0/runs/000/stdout"].decode()
    assert place not in base.members["boots/0/runs/000/stdout"].decode()
    for one in (base, new):
        assert one.manifest["treatment"] == one.runs[0]["treatment"]
        assert set(one.manifest["treatment"]) == {"cpu.smt", "cgroup.path", "cgroup.depth"}
    # All three of its directories are gone.
    assert not cgroup.exists()


def test_control_groups_that_were_there_stay(recorder: Any, cgroup: Path) -> None:
    cgroup.mkdir()
    try:
        setup = f"mkdir -p {cgroup}/a; echo $$ > {cgroup}/a/cgroup.procs"
        done = recorder("ab", "-o", "s", *QUICK, "--new-setup", setup, "--", "true")
        assert done.returncode == 0, done.stderr
        assert cgroup.exists()
        assert not (cgroup / "a").exists()
    finally:
        cgroup.rmdir()


@pytest.mark.alone
def test_an_interrupt_restores_everything(
    recorder: Any,
    sysctl: int,
    cgroup: Path,
    is_running: Callable[[str], bool],
    wait_for: Callable[[Callable[[], bool]], None],
) -> None:
    setup = f"mkdir -p {cgroup}/a-$$; echo $$ > {cgroup}/a-$$/cgroup.procs"
    setup += f"; echo {sysctl ^ 2} > {SYSCTL}"
    command = ("ab", "-o", "s", *QUICK, "--base-setup", setup, "--base-teardown", "touch undone")
    with recorder.start(*command, "--", "sh", "-c", "touch started; sleep 1414.21") as process:
        wait_for((recorder.folder / "started").exists)
        (recorder.folder / "undone").unlink(missing_ok=True)
        assert int(SYSCTL.read_text()) == sysctl ^ 2
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "warning" not in err
    assert int(SYSCTL.read_text()) == sysctl
    assert not cgroup.exists()
    assert (recorder.folder / "undone").exists()
    assert not is_running("1414.21")
    assert not is_running("86400")
    for side in ("base", "new"):
        bundle = open_bundle(recorder.folder / f"s-{side}.tar")
        assert bundle.incomplete_reason == "interrupted after 0 of 2 runs"


@pytest.mark.alone
def test_a_full_disk_of_one_side_keeps_both_and_restores(
    recorder: Any, sysctl: int, small_disk: Path
) -> None:
    setup = f"echo {sysctl ^ 2} > {SYSCTL}"
    done = recorder(
        "ab", "--base", "base.tar", "--new", str(small_disk / "new.tar"), *QUICK, "-n", "30",
        "--new-setup", setup, "--", "head", "-c", "800000", "/dev/urandom",
    )  # fmt: skip
    assert done.returncode == 2
    assert "no space left on device after" in done.stderr
    assert int(SYSCTL.read_text()) == sysctl
    base = open_bundle(recorder.folder / "base.tar")
    new = open_bundle(small_disk / "new.tar")
    assert not base.complete
    assert not new.complete
    assert len(new.runs) >= 2
    assert 0 <= len(base.runs) - len(new.runs) <= 1


@pytest.mark.parametrize("setup", ["echo oh no >&2; false; echo never", "if then", "exit 0"])
@pytest.mark.alone
def test_a_setup_that_fails_at_once_is_named_and_leaves_nothing(
    recorder: Any, sysctl: int, setup: str
) -> None:
    first = f"echo {sysctl ^ 2} > {SYSCTL}\n"
    done = recorder("ab", "-o", "s", *QUICK, "--new-setup", first + setup, "--", "true")
    assert done.returncode == 2
    assert "error: setup of new failed: exit status" in done.stderr
    if "oh no" in setup:
        assert done.stderr.splitlines()[-1].endswith("exit status 1: oh no")
    assert int(SYSCTL.read_text()) == sysctl
    assert [item.name for item in recorder.folder.iterdir()] == ["tmp"]


def test_a_setup_that_fails_later_keeps_the_finished_runs(recorder: Any) -> None:
    setup = "test ! -e stop"
    script = "test -e second && touch stop; test -e first && touch second; touch first"
    command = ("--new-setup", setup, "--", "sh", "-c", script)
    done = recorder("ab", "-o", "s", *QUICK, "-n", "9", *command)
    assert done.returncode == 2
    assert "setup of new failed: exit status 1" in done.stderr
    bundle = open_bundle(recorder.folder / "s-base.tar")
    assert bundle.complete is False
    assert bundle.incomplete_reason is not None
    assert bundle.incomplete_reason.startswith("stopped after ")
    assert len(bundle.runs) >= 1


def test_what_a_setup_prints_is_no_output_of_the_workload(recorder: Any, read_bundle: Any) -> None:
    setup = "echo from the setup; read line || echo no input"
    recorder("ab", "-o", "s", *QUICK, "--new-setup", setup, "--", "echo", "from the workload")
    new = read_bundle(recorder.folder / "s-new.tar")
    assert new.members["boots/0/runs/000/stdout"] == b"from the workload\n"
    assert new.members["boots/0/runs/000/stderr"] == b"from the setup\nno input\n"


def test_the_time_of_a_setup_is_not_that_of_the_workload(recorder: Any, read_bundle: Any) -> None:
    recorder("ab", "-o", "s", *QUICK, "-n", "1", "--new-setup", "sleep 1.5", "--", "true")
    assert read_bundle(recorder.folder / "s-new.tar").runs[0]["wall_s"] < 1.4


def test_arguments_of_the_workload_reach_it_unharmed(recorder: Any, read_bundle: Any) -> None:
    arguments = ["a b", "$x", "'", '"', "*", "", "-e", "\\"]
    script = "import sys; print(sys.argv[1:])"
    recorder("ab", "-o", "s", *QUICK, "--", "python3", "-c", script, *arguments)
    new = read_bundle(recorder.folder / "s-new.tar")
    assert new.members["boots/0/runs/000/stdout"].decode() == f"{arguments}\n"


def test_a_teardown_runs_after_each_run_and_its_failure_is_told(recorder: Any) -> None:
    done = recorder(
        "ab", "-o", "s", *QUICK, "--base-teardown", "echo x >> undone", "--new-teardown", "exit 5",
        "--", "true",
    )  # fmt: skip
    assert done.returncode == 0
    # Once for host.json, twice for runs.
    assert (recorder.folder / "undone").read_text() == "x\nx\nx\n"
    warning = (
        "schedperf: warning: the teardown of new failed (exit status 5); undo the setup by hand"
    )
    assert done.stderr.count(warning) == 3


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "no output file"),
        (("--base", "a.tar"), "no output file"),
        (("-o", "s", "--base", "a.tar"), "both -o and --base given; give either -o PREFIX, or"),
        (
            ("--base", "a.tar", "--new", "./a.tar"),
            "given as the output of two sides; give different files",
        ),
        (("-o", "no/s"), "no such directory"),
        (("-o", "there/"), "there/base.tar: already exists"),
    ],
)
def test_a_slip_is_one_clear_line(
    recorder: Any, arguments: tuple[str, ...], complaint: str
) -> None:
    (recorder.folder / "there").mkdir()
    (recorder.folder / "there" / "base.tar").touch()
    done = recorder("ab", *arguments, *QUICK, "--", "true")
    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_folder_gets_base_and_new(recorder: Any) -> None:
    (recorder.folder / "there").mkdir()
    assert recorder("ab", "-o", "there", *QUICK, "--", "true").returncode == 0
    names = sorted(item.name for item in (recorder.folder / "there").iterdir())
    assert names == ["base.tar", "new.tar"]


def test_differences_are_dotted_paths() -> None:
    base = {"sched": {"hz": 250, "autogroup": 0}, "cgroup": {"path": "/"}, "tools": {"perf": None}}
    new = {"sched": {"hz": 250, "autogroup": 1}, "cgroup": {"path": "/a"}, "cpu": {"smt": 1}}
    assert differing_paths(base, new) == ["cgroup.path", "cpu", "sched.autogroup", "tools"]
    assert differing_paths(base, base) == []
