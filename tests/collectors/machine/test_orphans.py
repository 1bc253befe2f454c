# SPDX-License-Identifier: GPL-2.0-or-later
"""Descendants of a command become children of the recorder one by one, and all are killed."""

import os
import signal
import subprocess
import sys
import time

import pytest

from schedperf_collectors.machine import orphans
from schedperf_collectors.machine.orphans import Moment, adopt_orphans, end_orphans
from schedperf_collectors.machine.processes import Process, all_processes

# Each process has the next one as its child; the last one prints.
CHAIN = """
import os, signal
for n in range({}):
    if os.fork():
        signal.pause()
print("ready", flush=True)
signal.pause()
"""
LENGTH = 6


def test_slow_looks_leave_no_descendant(monkeypatch: pytest.MonkeyPatch) -> None:
    # As on a busy machine: the limit has passed at each look.
    monkeypatch.setattr(orphans, "_END_LIMIT_S", 0.0)
    adopt_orphans()
    try:
        began = Moment.now()
        command = [sys.executable, "-c", CHAIN.format(LENGTH)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as first:
            assert first.stdout is not None
            assert first.stdout.readline() == b"ready\n"
            os.kill(first.pid, signal.SIGKILL)
            first.wait()
            assert len(end_orphans(began)) == LENGTH
    finally:
        adopt_orphans(adopts=False)
        while left_of(began):
            end_orphans(began)
            time.sleep(0.01)


def left_of(began: Moment) -> list[Process]:
    """Return the children of this process that began after a moment."""
    return [each for each in all_processes() if each.parent == os.getpid() and began.precedes(each)]
