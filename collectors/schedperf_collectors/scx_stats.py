# SPDX-License-Identifier: GPL-2.0-or-later
"""Record the statistics that a sched_ext scheduler publishes, before, during and after each run.

Schedulers of the scx project serve them on a UNIX socket. Requests and answers are JSON, one per
line (crate scx_stats)::

    {"req": "stats_meta"}   {"errno": 0, "args": {"resp": {"Metrics": {"fields": {…}, …}}}}
    {"req": "stats"}        {"errno": 0, "args": {"resp": {"nr_cpus": 2, "nr_dispatches": 153}}}

Most counters of an answer count since the previous request of the same connection, so all requests
of a run use one connection. The metadata do not state which counters these are. To find out, the
collector asks twice without a pause during the run and after it: such a counter is then almost 0,
and another one is not.

``absent.json``, if no scheduler is loaded and no socket answers::

    {"schema": "schedperf/scx_stats/1", "reason": "/var/run/scx/root/stats: no such file …"}

``scx_stats.json`` otherwise::

    {"schema": "schedperf/scx_stats/1", "socket": "/var/run/scx/root/stats",
     "meta": {"Metrics": {…}},
     "samples": [{"ns": 5140900, "when": "before", "stats": {…}}, …],
     "left_out": 0, "failure": null}

``when`` is "before", "during" or "after"; "again" follows the sample before it without a pause.
``ns`` is CLOCK_MONOTONIC when the answer arrived. ``left_out`` is the number of samples during the
run that were not taken because of their size. ``failure`` is the reason if samples are missing;
``meta`` is null if the server does not describe its fields.
"""

from __future__ import annotations

import contextlib
import json
import socket
import stat
import time
from collections.abc import Generator
from pathlib import Path

from schedperf_collectors.contract import cut
from schedperf_collectors.machine.sampling import repeated
from schedperf_collectors.machine.system import System
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, collector
from schedperf_collectors.sched_ext import ENABLED, read_state

SCHEMA = "schedperf/scx_stats/1"
SOCKET = "/var/run/scx/root/stats"
# The first interval, which doubles, and the longest.
PAUSES_S = (0.25, 1.0)
# After this number of samples the interval is longer: 10 s is 360 samples in an hour.
MOST_FREQUENT, SLOW_S = 300, 10.0
LARGEST_SHARE = 0.001
# scx_layered answers with some 3 kB per layer.
MOST_ANSWER_BYTES = 4 << 20
# Samples during the run are left out beyond this; counters lose nothing, because the next answer
# covers the time since the previous one.
MOST_BYTES = 32 << 20
# A scheduler answers from its main loop, which waits up to 1 s.
ANSWER_LIMIT_S = 5.0
# A scheduler is enabled before it listens.
LISTEN_LIMIT_S = 3.0
LONGEST_REASON = 200

_POLL_S = 0.05
_NOT_LISTENING = (FileNotFoundError, ConnectionRefusedError)


def _refuse(constant: str) -> None:
    raise ValueError(f"invalid number {constant}")


class NoStats(Exception):
    """The scheduler does not answer; the message is the reason."""


class Client:
    """A connection to the statistics of a scheduler.

    :raises OSError: nothing listens on the socket, or this user may not connect
    """

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(ANSWER_LIMIT_S)
            self._socket.connect(path)
        except OSError:
            self._socket.close()
            raise
        self._left = b""

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def ask(self, request: str) -> tuple[object, int]:
        """Send a request; return the answer and its size in bytes.

        :raises NoStats: the server does not answer in time, or its answer is an error, too large or
            invalid
        """
        line = self._exchange(json.dumps({"req": request}).encode() + b"\n")
        try:
            answer = json.loads(line, parse_constant=_refuse)
        except (ValueError, RecursionError):
            raise NoStats(f"{request}: the answer is invalid JSON") from None
        arguments = answer.get("args") if isinstance(answer, dict) else None
        if not isinstance(arguments, dict) or "resp" not in arguments:
            raise NoStats(f"{request}: the answer has no args.resp")
        if answer.get("errno") != 0:
            reason = " ".join(str(arguments["resp"]).split())
            raise NoStats(cut(f"{request}: {reason}", LONGEST_REASON))
        return arguments["resp"], len(line)

    def _exchange(self, request: bytes) -> bytes:
        deadline_s = time.monotonic() + ANSWER_LIMIT_S
        content = bytearray(self._left)
        try:
            self._socket.sendall(request)
            while b"\n" not in content:
                if len(content) > MOST_ANSWER_BYTES:
                    raise NoStats(f"an answer is larger than {MOST_ANSWER_BYTES >> 20} MiB")
                if time.monotonic() > deadline_s:
                    raise NoStats(f"no answer within {ANSWER_LIMIT_S:.0f} s")
                chunk = self._socket.recv(1 << 16)
                if not chunk:
                    raise NoStats("the scheduler closed the connection")
                content += chunk
        except socket.timeout:
            raise NoStats(f"no answer within {ANSWER_LIMIT_S:.0f} s") from None
        except OSError as error:
            raise NoStats((error.strerror or str(error)).lower()) from error
        line, _, self._left = bytes(content).partition(b"\n")
        return line


class Samples:
    """The samples of one run; none are added after the first failure.

    :ivar failure: why the later samples are missing; None if there are all
    """

    def __init__(self, client: Client) -> None:
        self.rows: list[dict[str, object]] = []
        self.left_out = 0
        self.failure: str | None = None
        self._client = client
        self._bytes = 0
        self._due_s = 0.0
        self._asked_again = False

    def take(self, when: str) -> None:
        """Add a sample."""
        if self.failure is not None:
            return
        try:
            stats, size = self._client.ask("stats")
        except NoStats as error:
            self.failure = str(error)
            return
        self._bytes += size
        self.rows.append({"ns": time.monotonic_ns(), "when": when, "stats": stats})

    def take_during(self) -> None:
        """Add a sample during the run, if it is due; the first one twice."""
        now_s = time.monotonic()
        if now_s < self._due_s:
            return
        if self._bytes > MOST_BYTES:
            self.left_out += 1
            return
        if len(self.rows) >= MOST_FREQUENT:
            self._due_s = now_s + SLOW_S
        self.take("during")
        if not self._asked_again:
            self._asked_again = True
            self.take("again")


@collector(
    scope="run",
    cost="with a scheduler of scx only: a request to its statistics before and after each run and "
    "each second; at most 0.1% of a CPU here, and the scheduler's time to answer",
    options=("socket",),
)
def scx_stats(capture: Capture) -> Generator[str, None, str | None]:
    """Read the statistics of a sched_ext scheduler of the scx project from its socket."""
    return capture_scx_stats(System(), capture)


def capture_scx_stats(system: System, capture: Capture) -> Generator[str, None, str | None]:
    """Implement :func:`scx_stats` for any system.

    :return: a hint if no scheduler answers, else None
    """
    path = capture.options.get("socket", SOCKET)
    with contextlib.ExitStack() as stack:
        client, reason = _connect(system, path)
        if client is None:
            yield PREPARED
            yield BEGUN
            if _is_loaded(system):
                _write(capture.folder, path, None, None, reason)
            else:
                absent = {"schema": SCHEMA, "reason": reason}
                (capture.folder / "absent.json").write_text(json.dumps(absent) + "\n")
            return f"statistics of a sched_ext scheduler ({reason})"
        stack.callback(client.close)
        samples = Samples(client)
        meta, no_meta = _ask_meta(client)
        yield PREPARED
        samples.take("before")
        with repeated(samples.take_during, LARGEST_SHARE, pauses_s=PAUSES_S):
            yield BEGUN
        samples.take("after")
        samples.take("again")
    _write(capture.folder, path, meta, samples, samples.failure or no_meta)
    return samples.failure


def _connect(system: System, path: str) -> tuple[Client | None, str]:
    """Connect to the socket; wait for a scheduler that is loaded, but does not listen yet.

    :return: the connection and ""; or None and the reason
    """
    where = system.path(path)
    deadline_s = time.monotonic() + LISTEN_LIMIT_S
    while True:
        try:
            return _open(where), ""
        except _NOT_LISTENING as error:
            reason = (error.strerror or str(error)).lower()
            if not _is_loaded(system) or time.monotonic() > deadline_s:
                return None, f"{path}: {reason}; only schedulers of scx that are loaded have one"
        except OSError as error:
            return None, f"{path}: {(error.strerror or str(error)).lower()}; run as root"
        time.sleep(_POLL_S)


def _open(path: Path) -> Client:
    if not stat.S_ISSOCK(path.stat().st_mode):
        raise OSError(0, "not a socket")
    return Client(str(path))


def _is_loaded(system: System) -> bool:
    return read_state(system).state == ENABLED


def _ask_meta(client: Client) -> tuple[object, str | None]:
    try:
        return client.ask("stats_meta")[0], None
    except NoStats as error:
        return None, str(error)


def _write(
    folder: Path, path: str, meta: object, samples: Samples | None, failure: str | None
) -> None:
    record = {
        "schema": SCHEMA,
        "socket": path,
        "meta": meta,
        "samples": [] if samples is None else samples.rows,
        "left_out": 0 if samples is None else samples.left_out,
        "failure": failure,
    }
    (folder / "scx_stats.json").write_text(json.dumps(record) + "\n")
