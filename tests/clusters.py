# SPDX-License-Identifier: GPL-2.0-or-later
"""A Dask cluster on the loopback interface, and functions for its workers."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

_REPOSITORY = Path(__file__).parents[1]
_START_S = 60.0
_END_S = 30.0


@contextmanager
def cluster(folder: Path, workers: int, path: Sequence[Path] = ()) -> Iterator[str]:
    """Start a scheduler and workers of one thread each; yield the address of the scheduler.

    :param folder: for their files
    :param path: directories where the workers look for packages first
    """
    file = folder / "scheduler.json"
    with ExitStack() as stack:
        start: tuple[str, ...]
        start = ("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file))
        stack.enter_context(_running(folder, start, ()))
        address = _address(file)
        for number in range(workers):
            (folder / str(number)).mkdir()
            start = ("worker", address, "--nthreads", "1", "--host", "127.0.0.1")
            stack.enter_context(_running(folder / str(number), start, path))
        yield address


@contextmanager
def _running(folder: Path, words: Sequence[str], path: Sequence[Path]) -> Iterator[None]:
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, (*path, _REPOSITORY))),
        # A task that killed two workers is not tried again.
        "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
        "DASK_TEMPORARY_DIRECTORY": str(folder),
    }
    command = [sys.executable, "-m", "dask", *words, "--no-dashboard"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        yield
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


def double(number: int) -> int:
    """Return twice a number."""
    return 2 * number


def die_at_seven(number: int) -> int:
    """Return twice a number; kill the worker at 7."""
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number


def die_once(task: tuple[int, str]) -> int:
    """Return twice a number; kill the worker that has 7 first."""
    number, mark = task
    if number == 7 and not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number
