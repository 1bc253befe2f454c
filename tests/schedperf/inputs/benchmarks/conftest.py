# SPDX-License-Identifier: GPL-2.0-or-later
"""Shared by the tests of the parsers: recorded texts, a database server, two bundles compared."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from schedperf.inputs.benchmarks import BadLine, Measurement, all_parsers
from tests.shared_data import shared

REPOSITORY = Path(__file__).resolve().parents[4]
RECORDED = REPOSITORY / "tests" / "data" / "benchmarks"

# The server refuses to run as root, and Debian's packages come with this user.
SERVER_USER = "postgres"
DATABASE = "postgres"

Found = Measurement | BadLine


@pytest.fixture
def recorded_text() -> Callable[[str], str]:
    """Return a text that our own recorder captured; the README beside them says of what."""
    return lambda name: (RECORDED / name).read_text()


@pytest.fixture
def sample_text() -> Callable[[str], str]:
    """Return real output that others collected, or skip where it is not at hand."""

    return lambda name: shared(f"data/{name}").read_text()


@pytest.fixture
def parse_text() -> Callable[[str, str], list[Found]]:
    """Parse a text with the parser of that name, which must claim it."""

    def parse(name: str, text: str) -> list[Found]:
        parser = all_parsers()[name]
        assert parser.claims(text)
        return list(parser.read(text.splitlines(), "stdout"))

    return parse


@pytest.fixture
def parse_values(
    parse_text: Callable[[str, str], list[Found]],
) -> Callable[[str, str], dict[str, float]]:
    """Return the value of each metric, without its program's name, of a text without bad lines."""

    def parse(name: str, text: str) -> dict[str, float]:
        values: dict[str, float] = {}
        for item in parse_text(name, text):
            assert isinstance(item, Measurement), item
            assert item.metric.name not in values
            values[item.metric.name.removeprefix(f"{name} ")] = item.value
        return values

    return parse


@pytest.fixture
def run_program(tmp_path: Path) -> Callable[..., str]:
    """Run a real program in an empty directory, and return all that it printed; or skip."""

    def run(*command: str) -> str:
        need(command[0])
        done = subprocess.run(
            command,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "LC_ALL": "C"},
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    return run


@contextmanager
def started(*command: str, ready: str) -> Iterator[None]:
    """Run a server until the end of the block; the block begins when it prints ``ready``."""
    need(command[0])
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        try:
            assert server.stdout is not None
            assert any(ready in line for line in server.stdout)
            yield
        finally:
            server.terminate()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    assert isinstance(port, int)
    return port


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """A PostgreSQL server that only this test run can reach.

    :param socket: directory of its socket
    """

    socket: str

    def pgbench(self, *arguments: str) -> list[str]:
        return ["pgbench", "-h", self.socket, "-U", SERVER_USER, *arguments, DATABASE]

    def sysbench(self, test: str, *arguments: str) -> list[str]:
        options = ["--db-driver=pgsql", f"--pgsql-host={self.socket}"]
        options += [f"--pgsql-user={SERVER_USER}", f"--pgsql-db={DATABASE}"]
        return ["sysbench", test, *options, "--tables=1", "--table-size=1000", *arguments]


def need(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


def server_program(name: str) -> str:
    """Find a program of the server: Debian keeps those of each version in its own directory."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    found = shutil.which(name, path=os.pathsep.join([*map(str, folders), os.environ["PATH"]]))
    if found is None:
        pytest.skip(f"{name} is not installed: apt-get install postgresql")
    return found


def as_server_user(*command: str) -> None:
    """Run a command as the user that the server runs as."""
    prefix = ["runuser", "-u", SERVER_USER, "--"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*prefix, *command],
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Start a server with a socket and no port."""
    initdb, pg_ctl = server_program("initdb"), server_program("pg_ctl")
    # pytest's own directories are closed to other users, and a socket's path must be short.
    with tempfile.TemporaryDirectory(prefix="schedperf-") as folder:
        data, log = f"{folder}/data", f"{folder}/log"
        if os.geteuid() == 0:
            shutil.chown(folder, SERVER_USER)
        as_server_user(initdb, "-D", data, "-A", "trust", "-U", SERVER_USER, "--no-sync")
        options = f"-k {folder} -c listen_addresses= -c fsync=off"
        as_server_user(pg_ctl, "-D", data, "-l", log, "-w", "-o", options, "start")
        try:
            yield Server(socket=folder)
        finally:
            as_server_user(pg_ctl, "-D", data, "-w", "-m", "immediate", "stop")


@pytest.fixture
def compare_two_recordings(
    tmp_path: Path,
    run_cli: Callable[..., subprocess.CompletedProcess[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[Sequence[str]], dict[str, Any]]:
    """Record a command twice, two runs each, and return the comparison as JSON."""
    monkeypatch.chdir(tmp_path)

    def schedperf(*arguments: str) -> str:
        done = run_cli(*arguments)
        # 1 is a verdict: two recordings of a busy machine may well differ.
        assert done.returncode in {0, 1}, done.stderr
        return done.stdout

    def compare(command: Sequence[str]) -> dict[str, Any]:
        plan = ("-n", "2", "--warmup", "0", "--with", "none")
        for side in ("base", "new"):
            schedperf("record", "-q", "-o", f"{side}.tar", *plan, "--", *command)
        comparison = json.loads(schedperf("compare", "base.tar", "new.tar", "--json", "-"))
        assert isinstance(comparison, dict)
        return comparison

    return compare
