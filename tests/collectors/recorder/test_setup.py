# SPDX-License-Identifier: GPL-2.0-or-later
"""The setup of a side: over before collectors begin, and no workload without the word to go on."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf_collectors.machine.errors import Interrupted
from schedperf_collectors.machine.process import finish, run_shell, start
from schedperf_collectors.machine.signals import signals
from tests.programs import lives

# A collector that says at each step whether the setup had ended ("ready") and the workload ("ran").
WATCH = '''
from pathlib import Path
from schedperf_collectors.plugin import BEGUN, PREPARED

def look(capture, step):
    found = [name for name in ("ready", "ran") if Path(name).exists()]
    with (capture.folder / "steps").open("a") as file:
        file.write(f"{step}: {' '.join(found)}\\n")

@collector(scope="run", cost="nothing")
def watch(capture):
    """Note what there is at each step."""
    look(capture, "prepared")
    yield PREPARED
    look(capture, "begun")
    yield BEGUN
    look(capture, "stopped")

@collector(scope="run", cost="nothing", intrusive=True)
def probe(capture):
    """Make instrumented runs."""
    (capture.folder / "file").touch()
    yield
'''
# One that never begins after a setup while the recorder lives (it is tried without one), and says
# that it was told to.
SLOW = '''
from pathlib import Path
from schedperf_collectors.plugin import BEGUN, PREPARED

@collector(scope="run", cost="nothing")
def slow(capture):
    """Take all the time that there is."""
    yield PREPARED
    if Path("ready").exists():
        recorder = os.getppid()
        Path("beginning").touch()
        while os.getppid() == recorder:
            time.sleep(0.01)
    yield BEGUN
    (capture.folder / "file").touch()
'''
ONCE = ("-n", "1", "--warmup", "0")
# Far more forks than a machine makes by itself in the moment that the workload takes.
MANY_FORKS = 1500


def outputs(folder: Path) -> tuple[Path, Path]:
    return folder / "stdout", folder / "stderr"


def test_collectors_begin_when_the_setup_is_over(
    recorder_with: Callable[[str], Any], read_bundle: Any
) -> None:
    recorder = recorder_with(WATCH)
    setup = "sleep 0.3; touch ready"
    command = ("sh", "-c", "touch ran; rm ready")
    arguments = ("--instrumented", "1", "--base-setup", setup, "--new-setup", setup)
    teardown = ("--base-teardown", "rm ran", "--new-teardown", "rm -f ran ready")
    done = recorder("ab", "-o", "s", *ONCE, *arguments, *teardown, "--", *command)
    assert done.returncode == 0, done.stderr
    for side in ("base", "new"):
        written = read_bundle(recorder.folder / f"s-{side}.tar")
        steps = [one for name, one in sorted(written.members.items()) if name.endswith("/steps")]
        # One clean run and one instrumented run: both take the same way.
        assert sorted(run["kind"] for run in written.runs) == ["clean", "instrumented"]
        assert len(steps) == 2
        for of_run in steps:
            prepared, begun, stopped = of_run.decode().splitlines()
            assert begun == "begun: ready"
            assert prepared == "prepared: "
            assert stopped == "stopped: ran"


def test_a_run_without_a_setup_begins_its_collectors_too(
    recorder_with: Callable[[str], Any], read_bundle: Any
) -> None:
    recorder = recorder_with(WATCH)
    done = recorder("record", "-o", "b.tar", *ONCE, "--", "touch", "ran")
    assert done.returncode == 0, done.stderr
    written = read_bundle(recorder.folder / "b.tar")
    steps = written.members["boots/0/runs/000/watch/steps"].decode()
    assert steps == "prepared: \nbegun: \nstopped: ran\n"


@pytest.mark.usefixtures("needs_perf")
def test_perf_does_not_count_the_forks_of_a_setup(recorder: Any, read_bundle: Any) -> None:
    since_boot = "grep ^processes /proc/stat"
    forks = f"i=0; while [ $i -lt {MANY_FORKS} ]; do (:); i=$((i+1)); done; {since_boot} >&2"
    arguments = ("--instrumented", "1", "--with", "perf_stat", "--new-setup", forks)
    done = recorder("ab", "-o", "s", *ONCE, *arguments, "--", *since_boot.split())
    assert done.returncode == 0, done.stderr
    written = read_bundle(recorder.folder / "s-new.tar")
    (name,) = (one for one in written.members if one.endswith("/perf_stat.csv"))
    lines = written.members[name].decode().splitlines()
    run = name.partition("/perf_stat/")[0]
    first, last = (
        int(written.members[f"{run}/{stream}"].split()[1]) for stream in ("stderr", "stdout")
    )
    events = ("sched:sched_process_exit", "sched:sched_process_fork")
    counted = [line.split(",") for line in lines if any(event in line for event in events)]
    if not counted:
        pytest.skip("no tracepoints here")
    for words in counted:
        number = next(word for word in words if word.isdigit() and word != "1")
        # What else this machine does meanwhile may be much.
        assert int(number) < MANY_FORKS / 3 + (last - first), words


def test_the_workload_gets_nothing_of_the_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("setup", "mine")
    monkeypatch.setenv("go", "mine")
    begun: list[float] = []

    def begin() -> None:
        time.sleep(0.3)
        begun.append(time.monotonic())

    script = "echo $$; env; ls /proc/$$/fd"
    stdout, stderr = outputs(tmp_path)
    # What it exports from here on would be all that the shell sets.
    with signals:
        running = start(["sh", "-c", script], stdout, stderr, "set -a; set +e", begin=begin)
        ended = finish(running)
    pid, *lines = stdout.read_text().splitlines()
    # The very process that went through the setup, with its environment and three descriptors.
    assert (int(pid), ended.status) == (running.pid, 0)
    assert running.began_s >= begun[0]
    assert {"setup=mine", "go=mine"} <= set(lines)
    assert not any("schedperf_setup" in line for line in lines)
    assert [line for line in lines if line.isdigit()] == ["0", "1", "2"]
    # What began took is no part of the run's time.
    assert ended.wall_s <= time.monotonic() - begun[0]


@pytest.mark.parametrize("setup", [None, "true"])
def test_what_begin_raises_ends_the_command_before_it_has_begun(
    tmp_path: Path, is_running: Callable[[str], bool], setup: str | None
) -> None:
    def begin() -> None:
        raise Interrupted(signal.SIGINT)

    with signals, pytest.raises(Interrupted):
        start(["touch", str(tmp_path / "ran")], *outputs(tmp_path), setup, begin=begin)
    assert not (tmp_path / "ran").exists()
    assert not is_running(str(tmp_path / "ran"))


def test_collectors_do_not_begin_after_a_setup_that_failed(
    recorder_with: Callable[[str], Any],
) -> None:
    recorder = recorder_with(SLOW)
    # It holds for the host.json of both sides, which are captured first.
    setup = "touch ready; mkdir -p seen/$$; test $(ls seen | wc -l) -le 2"
    arguments = ("--base-setup", setup, "--new-setup", setup)
    done = recorder("ab", "-o", "s", *ONCE, *arguments, "--", "touch", "ran")
    assert done.returncode != 0
    assert " failed: exit status 1" in done.stderr
    assert "after 0 of" not in done.stderr
    assert len(list((recorder.folder / "seen").iterdir())) == 3
    assert not (recorder.folder / "beginning").exists()
    assert not (recorder.folder / "ran").exists()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("setup", ["touch ready", "touch ready; set +e; trap '' INT TERM HUP"])
def test_the_workload_never_runs_when_the_recorder_ends_before(
    recorder_with: Callable[[str], Any],
    is_running: Callable[[str], bool],
    wait_for: Callable[[Callable[[], bool]], None],
    signum: signal.Signals,
    setup: str,
) -> None:
    recorder = recorder_with(SLOW)
    arguments = ("--base-setup", setup, "--new-setup", setup)
    command = ("sh", "-c", "touch ran; sleep 1670.77")
    with recorder.start("ab", "-o", "s", *ONCE, *arguments, "--", *command) as process:
        wait_for((recorder.folder / "beginning").exists)
        process.send_signal(signum)
        process.communicate(timeout=120)
    assert process.returncode == (130 if signum == signal.SIGINT else -signal.SIGKILL)
    # The shell has the command's words in its own command line.
    assert not is_running("1670.77")
    assert not (recorder.folder / "ran").exists()


def test_a_setup_that_is_killed_is_said(recorder: Any) -> None:
    arguments = (*ONCE, "--with", "none", "--new-setup", "kill -KILL $$")
    done = recorder("ab", "-o", "s", *arguments, "--", "touch", "ran")
    assert "setup of new failed: killed by SIGKILL" in done.stderr
    assert done.returncode != 0


def test_the_resources_of_a_setup_are_not_those_of_the_run(recorder: Any, read_bundle: Any) -> None:
    # The kernel counts both in one process, so what the setup had used is subtracted.
    burn = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; times >&2"
    arguments = (*ONCE, "--with", "none", "--setup", burn)
    recorder("record", "-o", "a.tar", *arguments, "--", "true")
    bundle = read_bundle(recorder.folder / "a.tar")
    [run] = bundle.runs
    # The shell's time in user mode: 0m0.524s 0m0.010s.
    minutes, _, seconds = bundle.members["boots/0/runs/000/stderr"].decode().partition("m")
    used_s = 60.0 * int(minutes) + float(seconds.partition("s")[0])
    assert used_s > 0.2
    assert run["rusage"]["utime_s"] < used_s / 2.0


def test_a_teardown_that_hangs_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    problem = run_shell(f"sleep 600 & echo $! >{pid}; sleep 600", 1.0)
    assert problem == "the script did not finish within 1 s"
    assert not lives(pid.read_text().strip())


def test_a_teardown_that_fails_is_explained_by_its_last_line() -> None:
    assert run_shell("echo one >&2; echo two >&2; exit 3", 60) == "exit status 3: two"
    assert run_shell("true", 60) is None
