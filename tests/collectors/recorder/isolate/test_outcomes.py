# SPDX-License-Identifier: GPL-2.0-or-later
"""Collectors that raise, crash, fork and print cost their own capture and nothing else."""

import os
import signal
import subprocess
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from schedperf_collectors.plugin import ATTACHED, BEGUN, PREPARED, Capture, Skipped

Isolate = Callable[..., Any]


def test_a_boot_collector_writes_into_its_folder(isolated: Isolate, tmp_path: Path) -> None:
    def collect(capture: Capture) -> None:
        (capture.folder / "file").write_text(capture.options["name"])

    result = isolated(collect).run()
    assert (result.status, result.reason) == ("ok", None)
    assert result.seconds is not None
    assert (tmp_path / "capture" / "file").read_text() == "value"


def test_a_run_collector_works_before_and_after_the_workload(
    isolated: Isolate, tmp_path: Path
) -> None:
    def collect(capture: Capture) -> Iterator[None]:
        (capture.folder / "before").touch()
        yield
        (capture.folder / "after").touch()

    one = isolated(collect, "run")
    one.begin()
    assert one.result is None
    assert [path.name for path in (tmp_path / "capture").iterdir()] == ["before"]
    assert one.stop().status == "ok"
    assert (tmp_path / "capture" / "after").exists()


def test_a_collector_that_cannot_see_anything_is_skipped(isolated: Isolate) -> None:
    def collect(_capture: Capture) -> NoReturn:
        raise Skipped("no counters here", "modprobe counters")

    result = isolated(collect).run()
    assert (result.status, result.reason) == ("skipped", "no counters here")
    assert result.remedy == "modprobe counters"


def test_a_missing_program_is_named_with_its_package(isolated: Isolate) -> None:
    def collect(_capture: Capture) -> None:
        raise AssertionError("must not be tried")

    result = isolated(collect, needs=("sh", "no-such-program")).run()
    assert (result.status, result.reason) == ("skipped", "no-such-program is not on PATH")
    assert result.remedy == "run `apt-get install some-package`"
    assert result.seconds is None


def test_an_exception_is_a_failure_with_its_traceback(isolated: Isolate) -> None:
    def collect(_capture: Capture) -> None:
        raise KeyError("two\nlines")

    result = isolated(collect).run()
    assert result.status == "failed"
    assert result.reason == r"KeyError: 'two\nlines'"
    assert result.detail is not None
    assert "Traceback" in result.detail


def test_a_full_disk_is_told_apart(isolated: Isolate) -> None:
    def collect(_capture: Capture) -> None:
        Path("/dev/full").write_text("x")

    result = isolated(collect).run()
    assert (result.status, result.out_of_space) == ("failed", True)


def test_a_crash_names_the_signal(isolated: Isolate) -> None:
    def collect(_capture: Capture) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    result = isolated(collect).run()
    assert (result.status, result.reason) == ("failed", "the collector crashed: killed by SIGKILL")


def test_an_exit_tells_the_last_words(isolated: Isolate) -> None:
    def collect(_capture: Capture) -> None:
        subprocess.run(["sh", "-c", "echo last words >&2"], check=True)
        os._exit(3)

    result = isolated(collect).run()
    assert (result.status, result.reason) == (
        "failed",
        "the collector crashed: exit status 3: last words",
    )


def test_a_collector_that_forks_and_returns_twice_is_heard_once(
    isolated: Isolate,
) -> None:
    def collect(_capture: Capture) -> None:
        os.fork()

    assert isolated(collect).run().status == "ok"


def test_a_run_collector_that_never_yields_fails(isolated: Isolate) -> None:
    def collect(_capture: Capture) -> Iterator[None]:
        return iter(())

    assert (
        isolated(collect, "run").run().reason
        == "RuntimeError: the collector returned without a `yield`"
    )


def test_a_collector_that_takes_time_begins_when_it_is_told(
    isolated: Isolate, tmp_path: Path
) -> None:
    def collect(capture: Capture) -> Iterator[str]:
        yield PREPARED
        (capture.folder / "begun").touch()
        yield BEGUN
        (capture.folder / "over").touch()

    one = isolated(collect, "run")
    one.start()
    assert not list((tmp_path / "capture").iterdir())
    one.order()
    one.await_begun()
    assert [path.name for path in (tmp_path / "capture").iterdir()] == ["begun"]
    assert one.stop().status == "ok"
    assert (tmp_path / "capture" / "over").exists()


def test_what_a_run_collector_returns_is_its_hint(isolated: Isolate) -> None:
    def collect(_capture: Capture) -> Generator[None, None, str]:
        yield
        return "two\nlines"

    result = isolated(collect, "run").run()
    assert (result.status, result.remedy, result.hint) == ("ok", None, "two lines")


def test_a_collector_that_fills_its_pipe_is_killed(isolated: Isolate) -> None:
    def collect(_capture: Capture) -> Generator[None, None, str]:
        yield
        return "x" * (2 << 20)

    result = isolated(collect, "run").run()
    assert result.reason == "the collector's result exceeds 1048576 bytes"


def test_a_collector_that_is_prepared_and_never_begins_fails(
    isolated: Isolate,
) -> None:
    def collect(_capture: Capture) -> Iterator[str]:
        yield PREPARED

    reason = "RuntimeError: the collector returned before it started to capture"
    assert isolated(collect, "run").run().reason == reason


def test_a_run_collector_that_yields_twice_fails(isolated: Isolate) -> None:
    def collect(_capture: Capture) -> Iterator[None]:
        yield
        yield

    reason = "RuntimeError: the collector executed `yield` more than once"
    assert isolated(collect, "run").run().reason == reason


def test_what_a_collector_prints_disturbs_nobody(
    isolated: Isolate, capfd: pytest.CaptureFixture[str]
) -> None:
    def collect(_capture: Capture) -> None:
        os.write(1, b"to stdout")
        os.write(2, b"to stderr")

    assert isolated(collect).run().status == "ok"
    assert capfd.readouterr() == ("", "")


def test_a_collector_that_attaches_does_so_before_it_begins(
    isolated: Isolate, tmp_path: Path
) -> None:
    def collect(capture: Capture) -> Iterator[str]:
        yield PREPARED
        (capture.folder / "attached").touch()
        yield ATTACHED
        (capture.folder / "begun").touch()
        yield BEGUN

    one = isolated(collect, "run", attaches=True)
    one.start()
    for files in ([], ["attached"], ["attached", "begun"]):
        assert sorted(path.name for path in (tmp_path / "capture").iterdir()) == files
        one.order()
        if "begun" not in files:
            one.await_begun()
    assert one.await_end().status == "ok"


@pytest.mark.parametrize("steps", [(PREPARED, BEGUN), (ATTACHED, BEGUN), (PREPARED,)])
def test_a_collector_that_does_not_attach_as_it_says_fails(
    isolated: Isolate, steps: tuple[str, ...]
) -> None:
    def collect(_capture: Capture) -> Iterator[str]:
        yield from steps

    result = isolated(collect, "run", attaches=True).run()
    assert result.reason == "RuntimeError: the collector did not yield PREPARED and ATTACHED"
