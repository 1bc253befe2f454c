# SPDX-License-Identifier: GPL-2.0-or-later
"""Tasks in several processes: the same results, whatever becomes of a worker."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from multiprocessing import Barrier
from pathlib import Path

import pytest

from schedperf.compare.bundles import compare_bundles
from schedperf.compare.workers import do_all
from schedperf.inputs.bundle.open import open_bundle
from tests import golden_evidence

workers = pytest.mark.parametrize("workers", [1, 2, 16])


@workers
def test_results_are_in_the_order_of_the_tasks(workers: int) -> None:
    # Results that no pipe holds.
    tasks = [partial(bytes, 100_000 + number) for number in range(9)]
    assert do_all(tasks, workers) == [task() for task in tasks]


@pytest.mark.parametrize(("workers", "processes"), [(1, 1), (2, 2), (16, 3)])
def test_there_are_as_many_processes_as_workers_and_tasks(workers: int, processes: int) -> None:
    met = Barrier(processes)

    def meet_the_others() -> int:
        # No process ends its task before each has begun one.
        met.wait(60.0)
        return os.getpid()

    assert len({*do_all([meet_the_others] * processes, workers)}) == processes


def test_tasks_of_a_killed_worker_are_done_again() -> None:
    here = os.getpid()

    def end_worker() -> str:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return "done"

    assert do_all([end_worker] * 6, 4) == ["done"] * 6


def test_a_result_that_cannot_be_sent_is_made_again() -> None:
    def iterate() -> Iterator[int]:
        yield 1

    assert [sum(numbers) for numbers in do_all([iterate, iterate, iterate], 3)] == [1, 1, 1]


def children() -> set[int]:
    """Return the processes that this one started and has not waited for."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        # A process may end while this reads.
        with contextlib.suppress(OSError):
            parent = path.read_text().rpartition(")")[2].split()[1]
            if int(parent) == os.getpid():
                found.add(int(path.parent.name))
    return found


def test_an_error_here_ends_the_workers() -> None:
    here = os.getpid()

    def fail() -> None:
        if os.getpid() == here:
            raise ValueError("here")
        signal.pause()

    # Programs that another test left running in this process do not count.
    before = children()
    with pytest.raises(ValueError, match="here"):
        do_all([fail] * 8, 3)
    assert children() <= before


@workers
def test_a_comparison_does_not_depend_on_the_number_of_workers(
    tmp_path: Path, workers: int
) -> None:
    golden_evidence.story(tmp_path)
    bundles = [open_bundle(path) for path in sorted(tmp_path.glob("*.tar*"))]
    alone = compare_bundles(bundles)
    assert sum(section.status == "ok" for section in alone.sections.values()) > 1
    assert compare_bundles(bundles, workers=workers) == alone


INTERRUPTED_IN_FORK = """
import os, signal
from schedperf.compare.workers import do_all
os.register_at_fork(before=lambda: os.kill(os.getpid(), signal.SIGINT))
try:
    do_all([os.getpid] * 3, 3)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_during_a_fork_is_not_lost() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IN_FORK], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("interrupted\n", "")
