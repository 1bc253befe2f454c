# SPDX-License-Identifier: GPL-2.0-or-later
"""Run independent tasks in several processes.

Workers are forks of this process, so no input is copied; their results come back through pipes. All
workers read task numbers from one pipe, so that a worker that finishes early takes the next task.
"""

import contextlib
import os
import pickle
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct

Content = TypeVar("Content")

# A number in the pipe is one byte.
MOST_TASKS = 256


class _Worker(Struct, frozen=True, kw_only=True):
    # A child process, and the end of the pipe that its results arrive at.
    pid: int
    results: int


def do_all(tasks: Sequence[Callable[[], Content]], workers: int) -> list[Content]:
    """Return the results of all tasks, in the order of the tasks.

    If a worker is killed, or a task in it raises an exception, this process repeats its tasks. An
    exception that a task raises in this process is raised.

    :param tasks: at most ``MOST_TASKS``; results from workers are pickled
    :param workers: processes that may run at the same time, this one included
    :raises ValueError: there are more than ``MOST_TASKS`` tasks for several workers
    """
    if min(workers, len(tasks)) <= 1:
        return [task() for task in tasks]
    queue, fill = os.pipe()
    os.write(fill, bytes(range(len(tasks))))
    os.close(fill)
    children: list[_Worker] = []
    try:
        with _interrupts_held_back():
            children.extend(_start(tasks, queue) for _ in range(min(workers, len(tasks)) - 1))
        results = dict(_take(tasks, queue))
        while children:
            results |= _collect(children.pop())
    finally:
        os.close(queue)
        for child in children:
            _stop(child)
    return [results[index] if index in results else task() for index, task in enumerate(tasks)]


@contextlib.contextmanager
def _interrupts_held_back() -> Iterator[None]:
    # Python drops a KeyboardInterrupt that is raised in a handler of os.fork. Workers keep the
    # signal blocked: their parent ends them.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _take(tasks: Sequence[Callable[[], Content]], queue: int) -> Iterator[tuple[int, Content]]:
    while number := os.read(queue, 1):
        yield number[0], tasks[number[0]]()


def _start(tasks: Sequence[Callable[[], Content]], queue: int) -> _Worker:
    results, send = os.pipe()
    with warnings.catch_warnings():
        # The other threads belong to OpenBLAS, which supports forks.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        os.close(send)
        return _Worker(pid=pid, results=results)
    # In the child: whatever happens, it must not return into the program of its parent.
    status = 1
    try:
        with os.fdopen(send, "wb") as pipe:
            pickle.dump(dict(_take(tasks, queue)), pipe, pickle.HIGHEST_PROTOCOL)
        status = 0
    finally:
        os._exit(status)


def _collect(child: _Worker) -> dict[int, Content]:
    with os.fdopen(child.results, "rb") as pipe:
        content = pipe.read()
    _, status = os.waitpid(child.pid, 0)
    results: dict[int, Content] = {} if status else pickle.loads(content)  # noqa: S301 # our own
    return results


def _stop(child: _Worker) -> None:
    os.close(child.results)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child.pid, signal.SIGKILL)
    os.waitpid(child.pid, 0)
