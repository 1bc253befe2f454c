# SPDX-License-Identifier: GPL-2.0-or-later
"""Statistics of a scheduler are asked for before, during and after a run, whatever it answers.

``SCHEDPERF_SCX_STATS_SERVER`` names a server of the crate scx_stats, built in
``tests/data/scx_stats/server`` with ``cargo build``; the other tests speak its protocol.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from schedperf.evidence.scx_stats.capture import parse_scx_stats
from schedperf_collectors import scx_stats as module
from schedperf_collectors.machine.system import System
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture
from schedperf_collectors.scx_stats import SOCKET, Client, NoStats, Samples, capture_scx_stats
from tests.schedperf.evidence.scx_stats.records import META

VARIABLE = "SCHEDPERF_SCX_STATS_SERVER"
LONGEST_WAIT_S = 60

Answer = Callable[[str], bytes]


@pytest.fixture
def root() -> Iterator[Path]:
    """Return the root of a machine; the path of a socket has at most 107 characters."""
    folder = Path(tempfile.mkdtemp(prefix="scx"))
    (folder / SOCKET[1:]).parent.mkdir(parents=True)
    yield folder
    shutil.rmtree(folder)


def load_scheduler(root: Path) -> None:
    state = root / "sys/kernel/sched_ext/state"
    state.parent.mkdir(parents=True)
    state.write_text("enabled\n")


@contextlib.contextmanager
def serving(root: Path, answer: Answer) -> Iterator[None]:
    """Serve one connection after the other; ``answer`` takes the request's name."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(root / SOCKET[1:]))
    listener.listen()
    ended = threading.Event()

    def serve() -> None:
        while True:
            connection = listener.accept()[0]
            if ended.is_set():
                connection.close()
                return
            with connection, contextlib.suppress(OSError), connection.makefile("rb") as lines:
                for line in lines:
                    content = answer(json.loads(line)["req"])
                    if not content:
                        break
                    connection.sendall(content)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as last:
            last.connect(str(root / SOCKET[1:]))
        thread.join(LONGEST_WAIT_S)
        listener.close()


def line(response: object, errno: int = 0) -> bytes:
    return json.dumps({"errno": errno, "args": {"resp": response}}).encode() + b"\n"


def counting() -> Answer:
    """Return answers whose counter has the number of the request."""
    numbers = iter(range(1000))
    return lambda request: line(
        META if request == "stats_meta" else {"nr_direct": next(numbers), "nr_cpus": 2}
    )


def record(
    root: Path, capture: Capture, during: Callable[[], None] = lambda: None
) -> tuple[Any, str | None]:
    """Run the collector around a function; return what it wrote and its hint."""
    running = capture_scx_stats(System(root), capture)
    assert [next(running), next(running)] == [PREPARED, BEGUN]
    during()
    with pytest.raises(StopIteration) as ended:
        next(running)
    [written] = capture.folder.iterdir()
    content = json.loads(written.read_text())
    return content, ended.value.value


def moments(content: Any) -> list[str]:
    return [sample["when"] for sample in content["samples"]]


def test_a_short_run_has_samples_before_and_after_it(root: Path, capture: Capture) -> None:
    with serving(root, counting()):
        content, hint = record(root, capture)
    assert moments(content) == ["before", "after", "again"]
    assert [sample["stats"]["nr_direct"] for sample in content["samples"]] == [0, 1, 2]
    assert (content["meta"], content["failure"], content["left_out"]) == (META, None, 0)
    assert (content["socket"], hint) == (SOCKET, None)
    assert len(parse_scx_stats(json.dumps(content).encode(), "run").samples) == 3


def test_samples_are_taken_during_the_run_the_first_one_twice(root: Path, capture: Capture) -> None:
    enough = threading.Event()
    answers = counting()

    def answer(request: str) -> bytes:
        content = answers(request)
        if b'"nr_direct": 4' in content:
            enough.set()
        return content

    with serving(root, answer):
        content, _ = record(root, capture, lambda: assert_in_time(enough))
    assert moments(content)[:4] == ["before", "during", "again", "during"]
    assert moments(content)[-2:] == ["after", "again"]
    times = [sample["ns"] for sample in content["samples"]]
    assert times == sorted(times)


def assert_in_time(event: threading.Event) -> None:
    assert event.wait(LONGEST_WAIT_S)


def test_without_a_scheduler_there_is_a_reason(root: Path, capture: Capture) -> None:
    content, hint = record(root, capture)
    reason = (
        "/var/run/scx/root/stats: no such file or directory; only schedulers of scx that are "
        "loaded have one"
    )
    assert content == {"schema": "schedperf/scx_stats/1", "reason": reason}
    assert hint == f"statistics of a sched_ext scheduler ({reason})"


def test_a_socket_without_a_scheduler_is_ignored(root: Path, capture: Capture) -> None:
    # Schedulers do not remove their socket.
    with serving(root, counting()):
        pass
    content, hint = record(root, capture)
    assert list(content) == ["schema", "reason"]
    assert "connection refused" in (hint or "")


def test_a_scheduler_without_statistics_has_a_reason(
    root: Path, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LISTEN_LIMIT_S", 0.1)
    load_scheduler(root)
    content, hint = record(root, capture)
    assert content["samples"] == []
    assert content["failure"].startswith("/var/run/scx/root/stats: no such file or directory")
    assert content["failure"] in (hint or "")


def test_a_scheduler_that_does_not_listen_yet_is_awaited(root: Path, capture: Capture) -> None:
    load_scheduler(root)
    with contextlib.ExitStack() as stack:
        timer = threading.Timer(0.2, lambda: stack.enter_context(serving(root, counting())))
        timer.start()
        content, _ = record(root, capture)
        timer.join()
    assert moments(content) == ["before", "after", "again"]


def test_a_file_in_the_place_of_the_socket_has_a_reason(root: Path, capture: Capture) -> None:
    (root / SOCKET[1:]).write_text("no socket")
    content, hint = record(root, capture)
    assert list(content) == ["schema", "reason"]
    assert "/var/run/scx/root/stats: not a socket" in (hint or "")


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (b"not json\n", "stats: the answer is invalid JSON"),
        (b"[" * 100_000 + b"\n", "stats: the answer is invalid JSON"),
        (b'{"errno": 0, "args": {"resp": {"x": NaN}}}\n', "stats: the answer is invalid JSON"),
        (b'{"errno": 0, "args": {"resp": 1' + b"0" * 5000 + b"}}\n", "the answer is invalid JSON"),
        (b"\xff\xfe\n", "stats: the answer is invalid JSON"),
        (b"[]\n", "stats: the answer has no args.resp"),
        (b'{"errno": 0, "args": []}\n', "stats: the answer has no args.resp"),
        (b'{"args": {"resp": 1}}\n', "stats: 1"),
        (line("preempted by\nanother sampler", 22), "stats: preempted by another sampler"),
        (b"", "the scheduler closed the connection"),
        (b'{"errno":', "no answer within"),
    ],
)
def test_bad_answers_end_the_samples_with_a_reason(
    root: Path,
    capture: Capture,
    monkeypatch: pytest.MonkeyPatch,
    answer: bytes,
    failure: str,
) -> None:
    monkeypatch.setattr(module, "ANSWER_LIMIT_S", 0.5)
    good = counting()
    with serving(root, lambda name: good(name) if name == "stats_meta" else answer):
        content, hint = record(root, capture)
    assert failure in content["failure"]
    assert content["samples"] == []
    assert hint == content["failure"]


def test_an_answer_without_end_is_cut(
    root: Path, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_ANSWER_BYTES", 1 << 20)
    with serving(root, lambda _: b"x" * (2 << 20)):
        content, _ = record(root, capture)
    assert content["failure"] == "an answer is larger than 1 MiB"


def test_a_server_without_metadata_has_samples(root: Path, capture: Capture) -> None:
    answers = counting()

    def answer(request: str) -> bytes:
        return line("unknown command", 22) if request == "stats_meta" else answers(request)

    with serving(root, answer):
        content, hint = record(root, capture)
    assert (content["meta"], len(content["samples"])) == (None, 3)
    assert content["failure"] == "stats_meta: unknown command"
    assert hint is None


def test_large_answers_are_left_out_during_the_run_only(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 0)
    with serving(root, counting()), contextlib.closing(Client(str(root / SOCKET[1:]))) as client:
        samples = Samples(client)
        samples.take("before")
        samples.take_during()
        samples.take_during()
        samples.take("after")
    assert (samples.left_out, len(samples.rows)) == (2, 2)


def test_long_runs_have_fewer_samples(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FREQUENT", 4)
    with serving(root, counting()), contextlib.closing(Client(str(root / SOCKET[1:]))) as client:
        samples = Samples(client)
        for _ in range(100):
            samples.take_during()
    # The first one twice, then three, of which the last one is slow.
    assert len(samples.rows) == 5


def test_the_client_says_what_it_cannot_reach(root: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        Client(str(root / "nothing"))
    with serving(root, lambda _: line("x", 1)):
        client = Client(str(root / SOCKET[1:]))
        with contextlib.closing(client), pytest.raises(NoStats, match="stats: x"):
            client.ask("stats")


def test_the_server_of_the_crate_is_read(root: Path, capture: Capture) -> None:
    server = os.environ.get(VARIABLE)
    if server is None:
        pytest.skip(f"needs a server of the crate scx_stats; set {VARIABLE} to its program")
    path = root / SOCKET[1:]
    with subprocess.Popen([server, str(path), "1000"]) as process:
        deadline_s = time.monotonic() + LONGEST_WAIT_S
        while not path.exists() and time.monotonic() < deadline_s:
            time.sleep(0.01)
        content, hint = record(root, capture, lambda: time.sleep(1.0))
        process.terminate()
    assert hint is None
    [*_, last, again] = parse_scx_stats(json.dumps(content).encode(), "run").samples
    assert (last.when, again.when) == ("after", "again")
    forms = {field.name: field.form for field in last.values}
    assert forms["nr_direct_dispatches"] == "integer"
    assert forms["layers.batch.l_runq_lat_hist"] == "histogram"
