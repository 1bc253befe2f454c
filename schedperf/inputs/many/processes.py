# SPDX-License-Identifier: GPL-2.0-or-later
"""Call functions in processes of this machine, which are replaced when one is killed.

They are forks of this process, which has no threads of Python then.
"""

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NamedTuple, Self

from schedperf.inputs.many.lost import WorkerLost


class _Started(NamedTuple):
    pool: ProcessPoolExecutor
    future: Future[list[Any]]


class Processes:
    """The processes.

    :param number: how many
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self._pool = self._make_pool()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def start(self, function: Callable[[Any], Any], items: Sequence[Any]) -> _Started:
        """Begin to call a function for items."""
        try:
            return self._submit(function, items)
        except BrokenProcessPool:
            self._replace(self._pool)
            return self._submit(function, items)

    def take(self, started: _Started) -> list[Any]:
        """Wait for the results.

        :raises WorkerLost: a process was killed
        """
        try:
            return started.future.result()
        except BrokenProcessPool:
            self._replace(started.pool)
            raise WorkerLost from None

    def drop(self, started: _Started) -> None:
        """Do not begin what has not begun."""
        started.future.cancel()

    def _submit(self, function: Callable[[Any], Any], items: Sequence[Any]) -> _Started:
        with warnings.catch_warnings():
            # The other threads belong to OpenBLAS, which supports forks.
            warnings.simplefilter("ignore", DeprecationWarning)
            return _Started(self._pool, self._pool.submit(_call, function, items))

    def _replace(self, broken: ProcessPoolExecutor) -> None:
        """Start other processes, unless those that a call had were replaced before."""
        if broken is self._pool:
            broken.shutdown()
            self._pool = self._make_pool()

    def _make_pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self.number, multiprocessing.get_context("fork"), _begin_worker)


def _call(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    return [function(item) for item in items]


def _begin_worker() -> None:
    """Leave interrupts to the parent, and end with it even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)
