# SPDX-License-Identifier: GPL-2.0-or-later
"""Call functions in the workers of a Dask cluster, which the user has started.

Workers are trusted: Dask exchanges pickled objects with them.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from schedperf.inputs.many.extra import EXTRA, require
from schedperf.inputs.many.lost import WorkerLost
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line
from schedperf_collectors import __version__

# How long a scheduler may take to answer, and a cluster may be without workers.
ANSWER_S = 10.0
_NO_WORKERS_S = 60.0
_LOOK_AGAIN_S = 5.0
# Readers are not made for threads, and Python runs one thread at a time.
_ONE_AT_A_TIME = threading.Lock()
_PACKAGE = "schedperf"


class _Done(NamedTuple):
    """What a worker returns.

    :param version: of its schedperf
    :param error: that the function raised; None if there are results
    """

    version: str
    results: list[Any]
    error: Exception | None


class Cluster:
    """The workers of a scheduler.

    :param client: connected to it
    :param address: as the user gave it
    :ivar number: threads of all workers at the beginning
    """

    def __init__(self, client: Any, address: str, number: int) -> None:
        self.number = number
        self._client = client
        self._address = address

    def start(self, function: Callable[[Any], Any], items: Sequence[Any]) -> Any:
        """Begin to call a function for items."""
        with _explained(self._address):
            return self._client.submit(_call, function, items, pure=False)

    def take(self, started: Any) -> list[Any]:
        """Wait for the results.

        :raises WorkerLost: workers were killed while they worked on it
        :raises InputError: the scheduler was lost, no worker is left, or the worker has
            another version of schedperf
        :raises Exception: the function raised it
        """
        with _explained(self._address):
            done = self._wait(started)
        if done.version != __version__:
            raise _other_versions(self._address, {"a new worker": done.version})
        if done.error is not None:
            raise done.error
        return done.results

    def drop(self, started: Any) -> None:
        """Do not wait for the results any more.

        A client that has lost its scheduler is closed, and has nothing to cancel.
        """
        from distributed.client import ClosedClientError  # noqa: PLC0415 # an extra

        with suppress(ClosedClientError, OSError, RuntimeError):
            started.cancel()

    def _wait(self, started: Any) -> _Done:
        from distributed import TimeoutError as NotYet  # noqa: PLC0415 # an extra

        seen = time.monotonic()
        while True:
            try:
                done: _Done = started.result(timeout=_LOOK_AGAIN_S)
            except NotYet:
                now = time.monotonic()
                if self._client.nthreads():
                    seen = now
                elif now - seen > _NO_WORKERS_S:
                    raise _no_workers(self._address) from None
            else:
                return done


@contextmanager
def connect(address: str) -> Iterator[Cluster]:
    """Connect to a scheduler, for the block.

    :param address: e.g. "tcp://controller:8786"
    :raises InputError: Dask is not installed, the scheduler does not answer or has no workers, or a
        worker has another version of schedperf
    """
    require("distributed", "--scheduler")
    from distributed import Client  # noqa: PLC0415 # an extra

    # Its own messages repeat those of the errors that it raises.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with _explained(address):
        client = Client(  # type: ignore[no-untyped-call] # it is in part
            address, timeout=ANSWER_S, set_as_default=False
        )
    try:
        with _explained(address):
            threads = _workers_of(client, address)
        yield Cluster(client, address, sum(threads.values()))
    finally:
        client.close(timeout=ANSWER_S)  # type: ignore[no-untyped-call] # as above


def _workers_of(client: Any, address: str) -> Mapping[str, int]:
    """Return the threads of each worker.

    :raises InputError: there are none, or one has another version of schedperf
    """
    from distributed import TimeoutError as TooLate  # noqa: PLC0415 # an extra

    try:
        client.wait_for_workers(1, timeout=ANSWER_S)
    except TooLate:
        raise _no_workers(address) from None
    found = client.get_versions(packages=[_PACKAGE])
    # The scheduler reads the tasks, too.
    everyone = {f"worker {name}": each for name, each in found["workers"].items()}
    everyone["the scheduler"] = found["scheduler"]
    versions = {name: each["packages"].get(_PACKAGE) for name, each in everyone.items()}
    others = {name: each for name, each in versions.items() if each != __version__}
    if others:
        raise _other_versions(address, others)
    threads: Mapping[str, int] = client.nthreads()
    return threads


@contextmanager
def _explained(address: str) -> Iterator[None]:
    """Turn errors of Dask into one line.

    :raises WorkerLost: a task killed its workers
    :raises InputError: there is no connection
    """
    from distributed import CancelledError, KilledWorker  # noqa: PLC0415 # an extra

    try:
        yield
    except KilledWorker:
        raise WorkerLost from None
    except CancelledError:
        raise InputError(
            f"{clean_line(address)}: the connection to the scheduler was lost; start it again, and "
            "repeat the command"
        ) from None
    except RuntimeError:
        raise InputError(
            f"{clean_line(address)}: the scheduler cannot read the tasks; install "
            f"schedperf[{EXTRA}] {__version__} there"
        ) from None
    except (OSError, ValueError) as error:
        is_silent = isinstance(error, OSError)
        problem = f"no answer within {ANSWER_S:.0f} s" if is_silent else clean_line(str(error))
        raise InputError(
            f"{clean_line(address)}: no Dask scheduler: {problem} (expected e.g. "
            "tcp://controller:8786); start one by `dask scheduler`"
        ) from None


def _no_workers(address: str) -> InputError:
    return InputError(
        f"{clean_line(address)}: the scheduler has no workers; start some by `dask worker ADDRESS "
        "--nworkers N --nthreads 1`"
    )


def _other_versions(address: str, versions: Mapping[str, str | None]) -> InputError:
    name, version = next(iter(sorted(versions.items())))
    which = f"schedperf {version}" if version else "no schedperf"
    more = f" (and {len(versions) - 1} more)" if len(versions) > 1 else ""
    return InputError(
        f"{clean_line(address)}: {clean_line(name)}{more} has {clean_line(which)} (expected "
        f"{__version__}); install schedperf[{EXTRA}] of this version there"
    )


def _call(function: Callable[[Any], Any], items: Sequence[Any]) -> _Done:
    with _ONE_AT_A_TIME:
        try:
            return _Done(__version__, [function(item) for item in items], None)
        except Exception as error:  # noqa: BLE001 # the client raises it again
            return _Done(__version__, [], error)
