# SPDX-License-Identifier: GPL-2.0-or-later
"""Run the workload, around which everything else is captured.

This module keeps the output unchanged; the recorder then removes the middle of a long one
(:mod:`schedperf_collectors.recorder.output`). The benchmark parsers of the analysis read the output
when bundles are compared.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

from schedperf_collectors.machine.process import Begin, Ended, Notice, Running, Usage, finish, start
from schedperf_collectors.plugin import Capture, collector


@dataclass(frozen=True)
class Outcome:
    """The result of one run; the keys of run.json have the same names.

    :param start: time before the setup, as :func:`utc_now` returns it
    :param start_monotonic_s: start of the command after the setup, on the monotonic clock
    :param exit_status: exit status; None if a signal killed it or it never started
    :param signal: number of the signal that killed it, else None
    :param failure: one line if it never started or timed out, else None
    :param wall_s: elapsed time in s without the setup; None if it never started
    :param rusage: of the command, the children that were waited for, and orphans, in s, B and
        counts, without the setup (except in maxrss and context switches); None if it never
        started
    :param cgroup: lines of /proc/PID/cgroup at its start; None if unknown or it never started
    :param left_behind: names of processes that it left running in other process groups; they were
        killed, except those marked "(still running)"
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
        """Return whether the command ended with status 0 and within its time limit."""
        return self.exit_status == 0 and self.failure is None


@collector(scope="workload", cost="one fork and exec", place="", options=("timeout_s",))
def workload(capture: Capture) -> Outcome:
    """Run the command and record its output, exit status, wall time, resource usage and cgroup."""
    return run_workload(capture)


def run_workload(
    capture: Capture, on_start: Notice = lambda _: None, begin: Begin = lambda: None
) -> Outcome:
    """Run the command of the option ``command``, which is split into words as a shell does.

    Other options: ``setup`` (a shell command that runs first, in the process
    that becomes the command) and ``timeout_s``.

    :param on_start: called once with the lines of the workload's /proc/PID/cgroup, after the setup
        or, without one, after the start of the command
    :param begin: called after the setup, right before the command runs
    :return: the outcome; its ``failure`` says why a command without setup cannot be executed
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


def _rusage(usage: Usage) -> dict[str, float]:
    return {
        "utime_s": usage.user_s,
        "stime_s": usage.system_s,
        "maxrss_bytes": usage.largest_bytes,
        "minflt": usage.minor_faults,
        "majflt": usage.major_faults,
        "nvcsw": usage.voluntary_switches,
        "nivcsw": usage.involuntary_switches,
    }
