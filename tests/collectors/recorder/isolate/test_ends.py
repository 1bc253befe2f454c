# SPDX-License-Identifier: GPL-2.0-or-later
"""Collectors that hang, and signals at any moment: all that was started ends."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from schedperf_collectors.machine.errors import Interrupted
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture
from tests.programs import lives

pytestmark = pytest.mark.system

Isolate = Callable[..., Any]


def test_a_crash_while_the_workload_runs_is_seen_in_the_end(
    isolated: Isolate, tmp_path: Path
) -> None:
    def collect(capture: Capture) -> Iterator[None]:
        (capture.folder / "pid").write_text(str(os.getpid()))
        yield
        time.sleep(300)

    one = isolated(collect, "run")
    one.begin()
    assert one.result is None
    os.kill(int((tmp_path / "capture" / "pid").read_text()), signal.SIGKILL)
    assert one.stop().reason == "the collector crashed: killed by SIGKILL"


def test_a_collector_that_hangs_is_killed_with_its_children(
    isolated: Isolate, tmp_path: Path
) -> None:
    def collect(capture: Capture) -> Iterator[None]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen(["sleep", "300"])
        (capture.folder / "pid").write_text(str(child.pid))
        yield
        time.sleep(300)

    # What it starts is there before its time is short.
    result = isolated(collect, "run", finish_limit_s=0.5).run()
    assert (result.status, result.timed_out) == ("failed", True)
    assert result.reason == "the collector hung and was killed"
    pid = (tmp_path / "capture" / "pid").read_text()
    assert not lives(pid)


def test_a_collector_of_a_boot_that_hangs_is_killed(isolated: Isolate) -> None:
    def collect(_capture: Capture) -> None:
        time.sleep(300)

    assert isolated(collect, finish_limit_s=0.5).run().timed_out


def test_a_forked_child_that_keeps_the_pipe_open_hides_no_crash(
    isolated: Isolate,
) -> None:
    def collect(_capture: Capture) -> None:
        if os.fork() == 0:
            time.sleep(300)
        os._exit(4)

    assert isolated(collect).run().reason == "the collector crashed: exit status 4"


def test_a_collector_that_dies_before_it_begins_is_a_failure(
    isolated: Isolate, tmp_path: Path
) -> None:
    def collect(capture: Capture) -> Iterator[str]:
        (capture.folder / "pid").write_text(str(os.getpid()))
        yield PREPARED

    one = isolated(collect, "run")
    one.start()
    os.kill(int((tmp_path / "capture" / "pid").read_text()), signal.SIGKILL)
    one.order()
    one.await_begun()
    assert one.result is not None
    assert one.result.reason == "the collector crashed: killed by SIGKILL"
    assert one.stop() is one.result


def test_a_collector_that_hangs_while_it_begins_is_killed(
    isolated: Isolate,
) -> None:
    def collect(_capture: Capture) -> Iterator[str]:
        yield PREPARED
        time.sleep(300)
        yield BEGUN

    assert isolated(collect, "run", startup_limit_s=0.5).run().timed_out


def test_a_signal_while_a_collector_begins_ends_it(isolated: Isolate, tmp_path: Path) -> None:
    def collect(capture: Capture) -> Iterator[str]:
        (capture.folder / "pid").write_text(str(os.getpid()))
        yield PREPARED
        os.kill(os.getppid(), signal.SIGINT)
        time.sleep(300)

    one = isolated(collect, "run")
    one.start()
    one.order()
    with pytest.raises(Interrupted):
        one.await_begun()
    assert not lives((tmp_path / "capture" / "pid").read_text())


def test_a_signal_right_after_the_start_ends_a_collector_that_has_no_group_yet(
    isolated: Isolate,
) -> None:
    def collect(_capture: Capture) -> Iterator[str]:
        yield PREPARED

    one = isolated(collect, "run")
    os.kill(os.getpid(), signal.SIGTERM)
    # One that is not killed waits for orders, and who kills it waits for it: without an end.
    for _ in range(50):
        with pytest.raises(Interrupted):
            one.start()


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_recorder_that_is_gone_lets_nothing_begin_and_what_began_end(
    isolated: Isolate,
    tmp_path: Path,
    has_begun: bool,  # noqa: FBT001 # a parameter of the test
) -> None:
    def collect(capture: Capture) -> Iterator[str]:
        (capture.folder / "pid").write_text(str(os.getpid()))
        try:
            yield PREPARED
            (capture.folder / "begun").touch()
            yield BEGUN
            (capture.folder / "over").touch()
        finally:
            (capture.folder / "cleaned").touch()

    one = isolated(collect, "run")
    recorder = os.fork()
    if recorder == 0:
        one.start()
        if has_begun:
            one.order()
            one.await_begun()
        os._exit(0)
    os.waitpid(recorder, 0)
    folder = tmp_path / "capture"
    assert not lives((folder / "pid").read_text())
    left = {path.name for path in folder.iterdir()}
    assert left == {"pid", "cleaned"} | ({"begun", "over"} if has_begun else set())


def test_a_signal_ends_the_wait_and_the_collector(isolated: Isolate, tmp_path: Path) -> None:
    def collect(capture: Capture) -> None:
        (capture.folder / "pid").write_text(str(os.getpid()))
        os.kill(os.getppid(), signal.SIGTERM)
        time.sleep(300)

    with pytest.raises(Interrupted) as caught:
        isolated(collect).run()
    assert caught.value.exit_status == 128 + signal.SIGTERM
    assert not lives((tmp_path / "capture" / "pid").read_text())


def test_a_killed_collector_takes_its_descendants_of_other_sessions_along(
    isolated: Isolate, tmp_path: Path
) -> None:
    def collect(capture: Capture) -> Iterator[None]:
        command = "setsid sh -c 'sleep 300 & echo $$ $!; wait'"
        child = subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        (capture.folder / "pids").write_text(child.stdout.readline())
        yield

    one = isolated(collect, "run")
    one.begin()
    one.kill()
    pids = (tmp_path / "capture" / "pids").read_text().split()
    assert len(pids) == 2
    assert not any(map(lives, pids))
