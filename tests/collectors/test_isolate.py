"""Collectors that raise, crash, hang, fork and print cost their own capture and nothing else."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from schedperf_collectors._base import BEGUN, PREPARED, Capture, Collector, Skipped
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


def begin(isolated: Isolated) -> None:
    isolated.start()
    isolated.order()
    isolated.await_begun()


def stop(isolated: Isolated) -> Result:
    isolated.order()
    return isolated.await_end()


def run(isolated: Isolated) -> Result:
    begin(isolated)
    return stop(isolated)


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
    begin(one)
    assert one.result is None
    assert [path.name for path in (tmp_path / "capture").iterdir()] == ["before"]
    assert stop(one).status == "ok"
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
    begin(one)
    time.sleep(0.3)
    assert stop(one).reason == "crashed: killed by SIGKILL"


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


def test_a_collector_that_takes_time_begins_when_it_is_told(
    isolated: Callable[..., Isolated], tmp_path: Path
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
    assert stop(one).status == "ok"
    assert (tmp_path / "capture" / "over").exists()


def test_what_a_run_collector_returns_is_its_hint(isolated: Callable[..., Isolated]) -> None:
    def collect(_capture: Capture) -> Generator[None, None, str]:
        yield
        return "two\nlines"

    result = run(isolated(collect, "run"))
    assert (result.status, result.remedy, result.hint) == ("ok", None, "two lines")


def test_a_collector_that_dies_before_it_begins_is_a_failure(
    isolated: Callable[..., Isolated], tmp_path: Path
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
    assert one.result.reason == "crashed: killed by SIGKILL"
    assert stop(one) is one.result


def test_a_collector_that_hangs_while_it_begins_is_killed(
    isolated: Callable[..., Isolated],
) -> None:
    def collect(_capture: Capture) -> Iterator[str]:
        yield PREPARED
        time.sleep(300)
        yield BEGUN

    assert run(isolated(collect, "run", limit_s=0.5)).timed_out


def test_a_collector_that_is_prepared_and_never_begins_fails(
    isolated: Callable[..., Isolated],
) -> None:
    def collect(_capture: Capture) -> Iterator[str]:
        yield PREPARED

    reason = "RuntimeError: the collector never says that it has begun"
    assert run(isolated(collect, "run")).reason == reason


def test_a_signal_while_a_collector_begins_ends_it(
    isolated: Callable[..., Isolated], tmp_path: Path
) -> None:
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
    assert not _lives((tmp_path / "capture" / "pid").read_text())


def test_a_signal_right_after_the_start_ends_a_collector_that_has_no_group_yet(
    isolated: Callable[..., Isolated],
) -> None:
    def collect(_capture: Capture) -> Iterator[str]:
        yield PREPARED

    one = isolated(collect, "run")
    os.kill(os.getpid(), signal.SIGTERM)
    began_s = time.monotonic()
    for _ in range(50):
        with pytest.raises(Interrupted):
            one.start()
    assert time.monotonic() - began_s < 10


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_recorder_that_is_gone_lets_nothing_begin_and_what_began_end(
    isolated: Callable[..., Isolated],
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
    assert not _lives((folder / "pid").read_text())
    left = {path.name for path in folder.iterdir()}
    assert left == {"pid", "cleaned"} | ({"begun", "over"} if has_begun else set())


def test_a_run_collector_that_yields_twice_fails(isolated: Callable[..., Isolated]) -> None:
    def collect(_capture: Capture) -> Iterator[None]:
        yield
        yield

    assert run(isolated(collect, "run")).reason == "RuntimeError: the collector yields too often"


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
