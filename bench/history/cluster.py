# SPDX-License-Identifier: GPL-2.0-or-later
"""Start a Dask cluster for a measurement or a test, on the loopback interface."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from distributed import Client

_REPOSITORY = Path(__file__).parents[2]
_START_S = 120.0
_END_S = 30.0


class Cluster(NamedTuple):
    """A scheduler and its workers.

    :param address: of the scheduler
    :param pids: their processes, which may have children
    """

    address: str
    pids: Sequence[int]


@contextmanager
def cluster(folder: Path, workers: int, path: Sequence[Path] = ()) -> Iterator[Cluster]:
    """Start a scheduler and workers of one thread each.

    :param folder: for their files
    :param path: directories where the workers look for packages first
    """
    file = folder / "scheduler.json"
    with ExitStack() as stack:
        start: tuple[str, ...]
        start = ("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file))
        pids = [stack.enter_context(_running(folder, start, ()))]
        address = _address(file)
        for number in range(workers):
            (folder / str(number)).mkdir()
            start = ("worker", address, "--nthreads", "1", "--host", "127.0.0.1")
            pids.append(stack.enter_context(_running(folder / str(number), start, path)))
        if workers:
            with Client(address, timeout=_START_S, set_as_default=False) as client:  # type: ignore[no-untyped-call] # it is in part
                client.wait_for_workers(workers, timeout=_START_S)
        yield Cluster(address, pids)


@contextmanager
def _running(folder: Path, words: Sequence[str], path: Sequence[Path]) -> Iterator[int]:
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, (*path, _REPOSITORY))),
        # A task that killed two workers is not tried again.
        "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
        # A hundred samples of stacks, and fifty wake-ups per second.
        "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
        "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "1s",
        "DASK_TEMPORARY_DIRECTORY": str(folder),
    }
    command = [sys.executable, "-m", "dask", *words, "--no-dashboard"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address(file: Path) -> str:
    end = time.monotonic() + _START_S
    while time.monotonic() < end:
        if file.exists() and (content := file.read_text()):
            return str(json.loads(content)["address"])
        time.sleep(0.1)
    raise AssertionError("the scheduler did not start")
