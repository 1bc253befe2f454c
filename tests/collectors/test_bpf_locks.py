# SPDX-License-Identifier: GPL-2.0-or-later
"""Waits for locks, counted in the kernel that runs here."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from schedperf.evidence.locks.capture import LocksCapture, parse_locks
from schedperf_collectors.bpf.workload import CONSTANTS, WorkloadPrograms
from schedperf_collectors.bpf_locks import IMAGE, TRACEPOINTS, Symbols, bpf_locks
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture

# Threads that read one open file: its position has a mutex. A read without the interpreter's lock.
READERS = """
import os, sys, tempfile, threading
file = tempfile.TemporaryFile()
file.truncate(1 << 40)
def read():
    buffer = bytearray(1 << 18)
    for _ in range(400):
        os.readv(file.fileno(), [buffer])
threads = [threading.Thread(target=read) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""

KALLSYMS = """\
ffffffff81000000 T _text
ffffffff82000000 D tasklist_lock
ffffffff82000040 b file_lock
ffffffff82100000 B _end
ffffffffc0000000 d other\t[module]
"""


@pytest.fixture(scope="module")
def _needs_bpf() -> None:
    try:
        WorkloadPrograms("locks", TRACEPOINTS, CONSTANTS.pack(os.getpid(), 0, 0, 0, 0)).close()
    except Unavailable as unavailable:
        pytest.skip(unavailable.reason)


@contextlib.contextmanager
def around(capture: Capture) -> Iterator[None]:
    running = bpf_locks(capture)
    assert [next(running), next(running)] == [PREPARED, BEGUN]
    yield
    assert list(running) == []


def found_in(capture: Capture) -> LocksCapture:
    content = (capture.folder / "locks.json").read_bytes()
    assert all(
        program["mechanism"] == "tp_btf" for program in json.loads(content)["programs"].values()
    )
    return parse_locks(content, "locks.json")


@pytest.mark.system
@pytest.mark.usefixtures("_needs_bpf")
def test_the_mutex_that_readers_contend_for_is_found(capture: Capture) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two CPUs")
    with around(capture):
        subprocess.run([sys.executable, "-c", READERS], check=True)
    waits = [wait for wait in found_in(capture).waits if wait.lock.type == "mutex"]
    assert any("ksys_read" in each or "do_readv" in each for each in (w.functions for w in waits))
    owners = {wait.owner for wait in waits}
    assert any(
        each is not None
        and each.command.startswith("python")
        and each.function in {"ksys_read", "do_readv", "fdget_pos", "fdput_pos", "__f_unlock_pos"}
        for each in owners
    ), owners
    for wait in waits:
        assert sum(wait.durations.bins.values()) == wait.durations.count
        assert wait.durations.max_ns <= wait.durations.ns


@pytest.mark.system
@pytest.mark.usefixtures("_needs_bpf")
def test_tasks_that_are_not_the_workloads_are_not_counted(capture: Capture) -> None:
    # A child that began before the counting, as the collectors do.
    other = subprocess.Popen([sys.executable, "-c", "input()\n" + READERS], stdin=subprocess.PIPE)
    with around(capture):
        other.communicate(b"\n")
    assert not [wait for wait in found_in(capture).waits if wait.lock.type == "mutex"]


def test_static_locks_have_the_names_of_their_variables() -> None:
    symbols = Symbols()
    symbols.read(KALLSYMS)
    assert (symbols.low, symbols.high) == (0xFFFFFFFF81000000, 0xFFFFFFFF82100000)
    assert symbols.name(0xFFFFFFFF82000010) == "tasklist_lock"
    assert symbols.name(0xFFFFFFFF82000040) == "file_lock"
    assert symbols.name(0xFFFFFFFF80000000) is None


@pytest.mark.parametrize("missing", IMAGE)
def test_a_kernel_that_does_not_list_its_variables_has_no_static_locks(missing: str) -> None:
    symbols = Symbols()
    symbols.read(
        "".join(line for line in KALLSYMS.splitlines(keepends=True) if missing not in line)
    )
    assert (symbols.low, symbols.high) == (0, 0)
