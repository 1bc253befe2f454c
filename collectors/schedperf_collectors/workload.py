# SPDX-License-Identifier: GPL-2.0-or-later
"""Run the workload, around which everything else is captured.

Its output is kept unchanged; the benchmark parsers of the analysis read it when bundles are
compared.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from schedperf_collectors.machine.process import Begin, Ended, Notice, Running, finish, start
from schedperf_collectors.plugin import Capture, collector


@dataclass(frozen=True)
class Outcome:
    """The result of one run; the keys of run.json have the same names.

    :param start: UTC, as in the bundle
    :param exit_status: None if a signal killed it or it never started
    :param failure: one line if it never started or timed out, else None
    :param wall_s: None when it never started
    :param rusage: of the command and its waited-for children, in s, B and counts; includes the
        setup, which runs in the same process
    :param cgroup: lines of /proc/PID/cgroup at its start
    :param left_behind: names of processes that it left running; they were killed
    """

    start: str
    start_monotonic_s: float
    exit_status: int | None
    signal: int | None
    failure: str | None
    wall_s: float | None
    rusage: Mapping[str, float] | None
    cgroup: tuple[str, ...] | None
    left_behind: tuple[str, ...] = ()

    @property
    def succeeded(self) -> bool:
        """Return whether its measurements are valid."""
        return self.exit_status == 0 and self.failure is None


@collector(scope="workload", cost="one fork and exec", place="", options=("timeout_s",))
def workload(capture: Capture) -> Outcome:
    """Run the command and record its output, exit status, wall time, resource usage and cgroup."""
    return run_workload(capture)


def run_workload(
    capture: Capture, on_start: Notice = lambda _: None, begin: Begin = lambda: None
) -> Outcome:
    """Run the command of the option ``command``, parsed as a shell would.

    Other options: ``setup`` (a shell command that runs first, in the process
    that becomes the command) and ``timeout_s``.

    :param on_start: called with the lines of the workload's /proc/PID/cgroup while it runs
    :param begin: called after the setup, right before the command runs
    :raises SetupFailed: the setup failed
    :raises Interrupted: a signal came; the command was killed
    """
    options = capture.options
    timeout_s = float(options["timeout_s"]) if "timeout_s" in options else None
    began, began_s = utc_now(), time.monotonic()
    command = shlex.split(options["command"])
    stdout, stderr = capture.folder / "stdout", capture.folder / "stderr"
    try:
        running = start(command, stdout, stderr, options.get("setup"), on_start, begin=begin)
    except OSError as error:
        failure = f"{command[0]}: {(error.strerror or str(error)).lower()}"
        return Outcome(began, began_s, None, None, failure, None, None, None)
    return _outcome(began, running, finish(running, timeout_s))


def utc_now() -> str:
    """Return the time as bundles write it: ``2026-11-21T01:27:51.123456Z``."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _outcome(began: str, running: Running, ended: Ended) -> Outcome:
    code = os.waitstatus_to_exitcode(ended.status)
    return Outcome(
        start=began,
        start_monotonic_s=running.began_s,
        exit_status=code if code >= 0 else None,
        signal=-code if code < 0 else None,
        failure=f"killed after {ended.wall_s:.1f} s (time limit)" if ended.timed_out else None,
        wall_s=ended.wall_s,
        rusage=_rusage(ended.usage),
        cgroup=running.cgroup,
        left_behind=ended.left_behind,
    )


def _rusage(usage: Any) -> dict[str, float]:
    return {
        "utime_s": usage.ru_utime,
        "stime_s": usage.ru_stime,
        # Linux reports it in KiB.
        "maxrss_bytes": usage.ru_maxrss * 1024,
        "minflt": usage.ru_minflt,
        "majflt": usage.ru_majflt,
        "nvcsw": usage.ru_nvcsw,
        "nivcsw": usage.ru_nivcsw,
    }
