# SPDX-License-Identifier: GPL-2.0-or-later
"""Run a second workload beside the first: ``--with-load CMD``.

The load starts after the setup, :data:`LEAD_S` before the other collectors and the workload. It is
stopped after both, by SIGINT (as by Ctrl-C), on which benchmarks print their results; if it does
not end, by SIGTERM and then SIGKILL. A load that ends earlier makes the run invalid. Its output is
stored like that of the workload::

    stdout  stderr
    load.json  {"schema": "schedperf/load/1", "command": ["stress-ng", "--cpu", "2"],
                "wall_s": 10.7, "ended_by": "SIGINT", "exit_status": 0, "signal": null,
                "killed": [], "output_left_out": {}}

``killed`` names the processes that the load left running in other process groups and that this
collector then killed. It finds them because it is their subreaper. ``output_left_out`` has the
number of bytes that were removed from the middle of a long output.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from schedperf_collectors.machine.orphans import adopt_orphans
from schedperf_collectors.machine.process import (
    Running,
    describe_status,
    has_ended,
    last_words,
    reap,
    start,
)
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, InvalidRun, Skipped, collector
from schedperf_collectors.recorder.output import shorten_output

SCHEMA = "schedperf/load/1"
# Time for a load to start its tasks, or to exit if it does not work.
LEAD_S = 0.5
# Benchmarks need milliseconds to print their results.
ENDINGS = ((signal.SIGINT, 5.0), (signal.SIGTERM, 2.0), (signal.SIGKILL, 2.0))
POLL_S = 0.01
KEEP_RUNNING = (
    "give a command that runs until it is interrupted, e.g. sh -c 'while hackbench -l 500; do :; "
    "done'"
)


@collector(
    scope="run",
    default=False,
    outermost=True,
    cost="a second workload, and 0.5 s before each run",
    options=("command",),
)
def load(capture: Capture) -> Iterator[str]:
    """Run a second workload beside the first (--with-load)."""
    command = shlex.split(capture.options.get("command", ""))
    if not command:
        raise Skipped("no command given", "use e.g. --with-load 'stress-ng --cpu 2'")
    adopt_orphans()
    yield PREPARED
    running = _start(command, capture.folder)
    time.sleep(LEAD_S)
    _check(running, capture.folder)
    yield BEGUN
    _check(running, capture.folder)
    record = {"schema": SCHEMA, "command": command, **_end(running)}
    record["output_left_out"] = shorten_output(capture.folder)
    (capture.folder / "load.json").write_text(json.dumps(record, indent=1) + "\n")


def _start(command: list[str], folder: Path) -> Running:
    try:
        return start(command, folder / "stdout", folder / "stderr")
    except OSError as error:
        reason = f"the load did not start: {command[0]}: {(error.strerror or str(error)).lower()}"
        raise InvalidRun(reason, "install it or give its path") from error


def _check(running: Running, folder: Path) -> None:
    """Reject a load that has ended; kill its remaining processes.

    :raises InvalidRun: the load has ended
    """
    if has_ended(running.pid):
        ended = reap(running)
        how = describe_status(ended.status) + last_words(folder / "stderr")
        raise InvalidRun(f"the load ended before the run ({how})", KEEP_RUNNING)


def _end(running: Running) -> dict[str, object]:
    for signum, limit_s in ENDINGS:
        os.killpg(running.pid, signum)
        deadline_s = time.monotonic() + limit_s
        while not has_ended(running.pid) and time.monotonic() < deadline_s:
            time.sleep(POLL_S)
        if has_ended(running.pid):
            break
    ended = reap(running)
    code = os.waitstatus_to_exitcode(ended.status)
    return {
        "wall_s": ended.wall_s,
        "ended_by": signum.name,
        "exit_status": code if code >= 0 else None,
        "signal": -code if code < 0 else None,
        "killed": ended.left_behind,
    }
