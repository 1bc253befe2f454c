# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the files that decisions name, several at a time, in processes of their own."""

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from schedperf.history.store.apply import Content
from schedperf.history.store.foreign import LARGEST_BYTES, parse_foreign
from schedperf.history.store.reading import read_rows
from schedperf.inputs.bundle.files import read_regular
from schedperf.inputs.importers.open import Opener
from schedperf.model.workers import count_workers

Item = TypeVar("Item")
Result = TypeVar("Result")

# Fewer files are read by this process: a worker takes a second to start.
FEWEST_FOR_WORKERS = 16
# Results that wait for this process, per worker.
_AHEAD = 8


def read_content(path: Path, kind: str, label: str | None = None) -> Content:
    """Read a bundle or a table.

    :param path: a file, or FORMAT:PATH
    :param kind: "bundle" or "table"
    :param label: of a table; None for the name of the file
    :raises InputError: it cannot be read
    """
    if kind == "bundle":
        with Opener() as opener:
            return read_rows(opener.open(path))
    content = read_regular(path, LARGEST_BYTES, "a table of a history")
    return parse_foreign(content, path, label)


class Workers:
    """Calls a function for items, in their order; up to a limit ahead of what is used.

    :param pool: processes; None to call it in this process
    """

    def __init__(self, pool: ProcessPoolExecutor | None, ahead: int) -> None:
        self._pool = pool
        self._ahead = ahead

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[tuple[Item, Result]]:
        """Yield each item with its result.

        :param function: of a module, for other processes
        """
        if self._pool is None:
            for item in items:
                yield item, function(item)
            return
        waiting: deque[tuple[Item, Future[Result]]] = deque()
        try:
            for item in items:
                waiting.append((item, self._pool.submit(function, item)))
                if len(waiting) >= self._ahead:
                    first, future = waiting.popleft()
                    yield first, future.result()
            for item, future in waiting:
                yield item, future.result()
        finally:
            for _, future in waiting:
                future.cancel()


@contextmanager
def workers(items: int) -> Iterator[Workers]:
    """Yield what reads files; processes are started only for many.

    :param items: how many files there are
    """
    number = count_workers()
    if items < FEWEST_FOR_WORKERS or number == 1:
        yield Workers(None, 0)
        return
    context = multiprocessing.get_context("fork")
    with warnings.catch_warnings():
        # The other threads belong to OpenBLAS, which supports forks.
        warnings.simplefilter("ignore", DeprecationWarning)
        with ProcessPoolExecutor(number, context, _begin_worker) as pool:
            yield Workers(pool, _AHEAD * number)


def _begin_worker() -> None:
    """Leave interrupts to the parent, and end with it even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)
