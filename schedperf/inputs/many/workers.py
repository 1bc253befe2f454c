# SPDX-License-Identifier: GPL-2.0-or-later
"""Call one function for many items: in this process, in several, or by Dask workers.

::

    with start_workers(len(paths)) as workers:
        for path, result in workers.map(read, paths):
            ...
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Protocol, TypeVar

from schedperf.inputs.many.lost import Lost, WorkerLost
from schedperf.inputs.many.processes import Processes
from schedperf.model.workers import count_workers

Item = TypeVar("Item")
Result = TypeVar("Result")
Call = Callable[[Any], Any]

# Fewer items are processed by this process: a worker takes a second to start.
FEWEST_FOR_WORKERS = 16
_FEWEST_LONG = 2
# A task of Dask costs milliseconds, as much as a small bundle.
_LARGEST_BATCH = 50
# Batches per worker, so that none waits long for the last one.
_BATCHES = 4
# Batches that wait for this process, per worker.
_AHEAD = 3
# A worker that is lost may have been killed for another item, but not when it has this one alone.
_ATTEMPTS = 2


class Engine(Protocol):
    """Starts calls elsewhere."""

    number: int

    def start(self, function: Call, items: Sequence[Any]) -> Any:
        """Begin to call a function for items; return what :meth:`take` is given.

        :param function: of a module, for other processes
        """
        ...

    def take(self, started: Any) -> Sequence[Any]:
        """Wait for the results, in the order of the items.

        :raises WorkerLost: the worker ended before
        :raises InputError: no worker is left
        """
        ...

    def drop(self, started: Any) -> None:
        """Do not wait for results any more."""
        ...


class Workers:
    """Calls a function for items, in their order; up to a limit ahead of what is used.

    :ivar are_elsewhere: whether they are processes of other machines
    """

    def __init__(self, engine: Engine | None, batch: int, *, are_elsewhere: bool = False) -> None:
        self.are_elsewhere = are_elsewhere
        self._engine = engine
        self._batch = batch

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[tuple[Item, Result | Lost]]:
        """Yield each item with its result; an item that kills its worker does not stop the others.

        :param function: of a module, for other processes
        :raises InputError: no worker is left
        """
        if self._engine is None:
            for item in items:
                yield item, function(item)
            return
        waiting: deque[tuple[Sequence[Item], Any]] = deque()
        left = iter(items)
        try:
            while part := tuple(islice(left, self._batch)):
                waiting.append((part, self._engine.start(function, part)))
                if len(waiting) >= _AHEAD * self._engine.number:
                    yield from self._take(function, *waiting.popleft())
            while waiting:
                yield from self._take(function, *waiting.popleft())
        finally:
            for _, started in waiting:
                self._engine.drop(started)

    def _take(
        self, function: Call, items: Sequence[Item], started: Any
    ) -> Iterator[tuple[Item, Any]]:
        assert self._engine is not None
        try:
            yield from zip(items, self._engine.take(started), strict=True)
        except WorkerLost:
            for item in items:
                yield item, self._call_alone(function, item)

    def _call_alone(self, function: Call, item: object) -> Any:
        assert self._engine is not None
        for _ in range(_ATTEMPTS):
            try:
                [result] = self._engine.take(self._engine.start(function, [item]))
            except WorkerLost:
                continue
            return result
        return Lost("the process that read it was killed; it may need too much memory")


@contextmanager
def start_workers(
    items: int, scheduler: str | None = None, *, are_long: bool = False
) -> Iterator[Workers]:
    """Yield what calls functions; processes are started only for many items.

    :param items: how many items there are
    :param scheduler: address of a Dask scheduler; None for processes of this machine
    :param are_long: whether each item takes seconds, so that a batch has one
    :raises InputError: the scheduler does not answer or has no workers, or its workers have another
        version of schedperf
    """
    largest = 1 if are_long else _LARGEST_BATCH
    if scheduler is not None:
        from schedperf.inputs.many.dask import connect  # noqa: PLC0415 # an extra

        with connect(scheduler) as cluster:
            yield Workers(cluster, _batch(items, cluster, largest), are_elsewhere=True)
        return
    number = count_workers()
    if number == 1 or items < (_FEWEST_LONG if are_long else FEWEST_FOR_WORKERS):
        yield Workers(None, 1)
        return
    with Processes(number) as processes:
        yield Workers(processes, _batch(items, processes, largest))


def _batch(items: int, engine: Engine, largest: int) -> int:
    return max(1, min(largest, items // (_BATCHES * engine.number)))
