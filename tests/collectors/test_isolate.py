"""Collectors that raise, crash, hang, fork and print cost their own capture and nothing else."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from schedperf_collectors._base import Capture, Collector, Skipped
from schedperf_collectors._errors import Interrupted
from schedperf_collectors._isolate import Isolated, Result
from schedperf_collectors._signals import signals


@pytest.fixture(autouse=True)
def _caught_signals() -> Iterator[None]:
    with signals:
        yield


@pytest.fixture
def isolated(tmp_path: Path) -> Callable[..., Isolated]:
    """Make an isolated collector of a function."""

    def make(
        function: Callable[[Capture], object],
        scope: str = "boot",
        needs: tuple[str, ...] = (),
        limit_s: float = 20,
    ) -> Isolated:
        collector = Collector(
            name="tried",
            scope=scope,
            intrusive=False,
            default=True,
            needs=needs,
            package="some-package",
            cost="",
            place="tried",
            summary="",
            function=function,  # type: ignore[arg-type] # some are wrong on purpose
        )
        folder = tmp_path / "capture"
        folder.mkdir()
        return Isolated(
            collector,
            Capture(folder, os.getpid(), {"name": "value"}),
            tmp_path / "log",
            startup_limit_s=limit_s,
            finish_limit_s=limit_s,
        )

    return make


def run(isolated: Isolated) -> Result:
    isolated.start()
    return isolated.stop()


def test_a_boot_collector_writes_into_its_folder(
    isolated: Callable[..., Isolated], tmp_path: Path
) -> None:
    def collect(capture: Capture) -> None:
        (capture.folder / "file").write_text(capture.options["name"])

    result = run(isolated(collect))
    assert (result.status, result.reason) == ("ok", None)
    assert result.seconds is not None
    assert (tmp_path / "capture" / "file").read_text() == "value"


def test_a_run_collector_works_before_and_after_the_workload(
    isolated: Callable[..., Isolated], tmp_path: Path
) -> None:
    def collect(capture: Capture) -> Iterator[None]:
        (capture.folder / "before").touch()
        yield
        (capture.folder / "after").touch()

    one = isolated(collect, "run")
    one.start()
    assert one.result is None
    assert [path.name for path in (tmp_path / "capture").iterdir()] == ["before"]
    assert one.stop().status == "ok"
    assert (tmp_path / "capture" / "after").exists()


def test_a_collector_that_cannot_see_anything_is_skipped(isolated: Callable[..., Isolated]) -> None:
    def collect(_capture: Capture) -> NoReturn:
        raise Skipped("no counters here", "modprobe counters")

    result = run(isolated(collect))
    assert (result.status, result.reason) == ("skipped", "no counters here")
    assert result.remedy == "modprobe counters"


def test_a_missing_program_is_named_with_its_package(isolated: Callable[..., Isolated]) -> None:
    def collect(_capture: Capture) -> None:
        raise AssertionError("must not be tried")

    result = run(isolated(collect, needs=("sh", "no-such-program")))
    assert (result.status, result.reason) == ("skipped", "no-such-program not found on PATH")
    assert result.remedy == "apt-get install some-package"
    assert result.seconds is None


def test_an_exception_is_a_failure_with_its_traceback(isolated: Callable[..., Isolated]) -> None:
    def collect(_capture: Capture) -> None:
        raise KeyError("two\nlines")

    result = run(isolated(collect))
    assert result.status == "failed"
    assert result.reason == r"KeyError: 'two\nlines'"
    assert result.detail is not None
    assert "Traceback" in result.detail


def test_a_full_disk_is_told_apart(isolated: Callable[..., Isolated]) -> None:
    def collect(_capture: Capture) -> None:
        Path("/dev/full").write_text("x")

    result = run(isolated(collect))
    assert (result.status, result.out_of_space) == ("failed", True)


def test_a_crash_names_the_signal(isolated: Callable[..., Isolated]) -> None:
    def collect(_capture: Capture) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    result = run(isolated(collect))
    assert (result.status, result.reason) == ("failed", "crashed: killed by SIGKILL")


def test_an_exit_tells_the_last_words(isolated: Callable[..., Isolated]) -> None:
    def collect(_capture: Capture) -> None:
        subprocess.run(["sh", "-c", "echo last words >&2"], check=True)
        os._exit(3)

    result = run(isolated(collect))
    assert (result.status, result.reason) == ("failed", "crashed: exit status 3: last words")


def test_a_crash_while_the_workload_runs_is_seen_in_the_end(
    isolated: Callable[..., Isolated],
) -> None:
    def collect(_capture: Capture) -> Iterator[None]:
        if os.fork() == 0:
            time.sleep(0.1)
            os.kill(os.getppid(), signal.SIGKILL)
            os._exit(0)
        yield
        time.sleep(5)

    one = isolated(collect, "run")
    one.start()
    time.sleep(0.3)
    assert one.stop().reason == "crashed: killed by SIGKILL"


def test_a_collector_that_hangs_is_killed_with_its_children(
    isolated: Callable[..., Isolated], tmp_path: Path
) -> None:
    def collect(capture: Capture) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen(["sleep", "300"])
        (capture.folder / "pid").write_text(str(child.pid))
        time.sleep(300)

    result = run(isolated(collect, limit_s=2))
    assert (result.status, result.timed_out) == ("failed", True)
    assert result.reason == "hung and was killed"
    pid = (tmp_path / "capture" / "pid").read_text()
    assert not _lives(pid)


def test_a_collector_that_hangs_in_the_end_is_killed(isolated: Callable[..., Isolated]) -> None:
    def collect(_capture: Capture) -> Iterator[None]:
        yield
        time.sleep(300)

    assert run(isolated(collect, "run", limit_s=0.5)).timed_out


def test_a_forked_child_that_keeps_the_pipe_open_hides_no_crash(
    isolated: Callable[..., Isolated],
) -> None:
    def collect(_capture: Capture) -> None:
        if os.fork() == 0:
            time.sleep(300)
        os._exit(4)

    assert run(isolated(collect)).reason == "crashed: exit status 4"


def test_a_collector_that_forks_and_returns_twice_is_heard_once(
    isolated: Callable[..., Isolated],
) -> None:
    def collect(_capture: Capture) -> None:
        os.fork()

    assert run(isolated(collect)).status == "ok"


def test_a_run_collector_that_never_yields_fails(isolated: Callable[..., Isolated]) -> None:
    def collect(_capture: Capture) -> Iterator[None]:
        return iter(())

    assert run(isolated(collect, "run")).reason == "RuntimeError: the collector never yields"


def test_a_run_collector_that_yields_twice_fails(isolated: Callable[..., Isolated]) -> None:
    def collect(_capture: Capture) -> Iterator[None]:
        yield
        yield

    assert (
        run(isolated(collect, "run")).reason == "RuntimeError: the collector yields more than once"
    )


def test_what_a_collector_prints_disturbs_nobody(
    isolated: Callable[..., Isolated], capfd: pytest.CaptureFixture[str]
) -> None:
    def collect(_capture: Capture) -> None:
        os.write(1, b"to stdout")
        os.write(2, b"to stderr")

    assert run(isolated(collect)).status == "ok"
    assert capfd.readouterr() == ("", "")


def test_a_signal_ends_the_wait_and_the_collector(
    isolated: Callable[..., Isolated], tmp_path: Path
) -> None:
    def collect(capture: Capture) -> None:
        (capture.folder / "pid").write_text(str(os.getpid()))
        os.kill(os.getppid(), signal.SIGTERM)
        time.sleep(300)

    with pytest.raises(Interrupted) as caught:
        run(isolated(collect))
    assert caught.value.exit_status == 128 + signal.SIGTERM
    assert not _lives((tmp_path / "capture" / "pid").read_text())


def _lives(pid: str) -> bool:
    """Tell whether a process lives on; what was killed a moment ago takes a moment to go."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
        # An orphan may wait for init to reap it.
        if state == "Z":
            return False
        time.sleep(0.02)
    return True
