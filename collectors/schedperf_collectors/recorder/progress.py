# SPDX-License-Identifier: GPL-2.0-or-later
"""Report the progress of a recording: lines of text, or events for a program that draws them.

Text goes to stderr, one line per run. With a file descriptor for events, each is one line of JSON:
``{"event": "run", "done": 3, "total": 12, …}``; the parent process draws them.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence

from schedperf_collectors.contract import point_key
from schedperf_collectors.machine.process import signal_name
from schedperf_collectors.recorder.captures import Captured
from schedperf_collectors.recorder.isolate import OK
from schedperf_collectors.recorder.plan import PlannedRun
from schedperf_collectors.workload import Outcome


class Progress:
    """Prints the progress of a recording.

    :param events: file descriptor for JSON lines; None for text on stderr
    :param quiet: whether to report only warnings, and as events also the bundles that were written
    """

    def __init__(self, events: int | None = None, *, quiet: bool = False) -> None:
        self._events = events
        self._quiet = quiet
        self._plan: Sequence[PlannedRun] = ()
        self._is_budget = False
        self._began_s = 0.0
        self._costs: dict[tuple[str, str, str], list[float]] = {}

    def planned(self, plan: Sequence[PlannedRun], *, is_budget: bool = False) -> None:
        """Report the planned runs.

        :param is_budget: whether the recording may end before the last planned run
        """
        self._plan = plan
        self._is_budget = is_budget
        self._tell("plan", total=len(plan), budget=is_budget)

    def begin(self, index: int) -> None:
        """Report that a run begins.

        :param index: its index in the plan
        """
        self._began_s = time.monotonic()
        self._tell("begin", done=index, total=len(self._plan), title=_title(self._plan[index]))

    def end(self, index: int, outcome: Outcome, discarded: str | None = None) -> None:
        """Report the result of a run, and the remaining time.

        :param index: its index in the plan
        :param discarded: why it must not be used; None if it may be used
        """
        run = self._plan[index]
        self._costs.setdefault(_key(run), []).append(time.monotonic() - self._began_s)
        left_s = self._estimate(self._plan[index + 1 :])
        said = describe_outcome(outcome, discarded)
        total = len(self._plan)
        sure, of = ("at most", " of at most ") if self._is_budget else ("about", "/")
        left = f"{sure} {format_duration(left_s)} left"
        self._tell("run", done=index + 1, total=total, left=left, said=said)
        more = f", {left}" if index + 1 < total else ""
        self._line(f"run {index + 1}{of}{total} {_title(run)} {said}{more}")

    def note(self, text: str) -> None:
        """Report the current activity."""
        self._tell("note", text=text)
        self._line(text)

    def warn(self, text: str) -> None:
        """Report a warning, even with ``--quiet``."""
        self._tell("warning", text=text)
        if self._events is None:
            _write(f"schedperf: warning: {text}")

    def saved(self, text: str) -> None:
        """Report the bundle that was written."""
        self._tell("saved", text=text)
        self._line(text)

    def _estimate(self, runs: Sequence[PlannedRun]) -> float:
        """Estimate the time of these runs in s, from finished runs.

        Each run takes the mean time of finished runs of the same point, kind and side; if there are
        none, that of all finished runs.
        """
        everything = [cost for costs in self._costs.values() for cost in costs]
        return sum(_mean(self._costs.get(_key(run)) or everything) for run in runs)

    def _line(self, text: str) -> None:
        if self._events is None and not self._quiet:
            _write(text)

    def _tell(self, event: str, **values: object) -> None:
        if self._events is None or (self._quiet and event not in {"warning", "saved"}):
            return
        line: Mapping[str, object] = {"event": event, **values}
        try:
            os.write(self._events, json.dumps(line).encode() + b"\n")
        except BrokenPipeError:
            # The program that drew the events has ended, but the recording continues.
            self._events = None


def describe_outcome(outcome: Outcome, discarded: str | None = None) -> str:
    """Describe the result of one run: ``0.61 s``, ``failed: exit status 1`` or ``discarded: …``.

    :param discarded: why it must not be used; None if it may be used
    """
    if discarded is not None:
        return f"discarded: {discarded}"
    if outcome.failure is not None:
        return f"failed: {outcome.failure}"
    if outcome.signal is not None:
        return f"failed: killed by {signal_name(outcome.signal)}"
    if outcome.exit_status:
        return f"failed: exit status {outcome.exit_status}"
    return f"{outcome.wall_s:.2f} s"


def note_missing(captured: Captured, progress: Progress) -> None:
    """Report a capture that was skipped or failed, with reason and remedy; nothing if it is ok."""
    result = captured.result
    if result.status != OK:
        remedy = f"; {result.remedy}" if result.remedy else ""
        progress.note(f"{captured.collector.name} {result.status}: {result.reason}{remedy}")


def count_of(number: int, noun: str) -> str:
    """Format a number with its noun.

    >>> count_of(1, "run"), count_of(5, "run")
    ('1 run', '5 runs')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def format_duration(seconds: float) -> str:
    """Format a duration for people.

    >>> format_duration(8.2), format_duration(754), format_duration(7400)
    ('8 s', '12 min 34 s', '2 h 3 min')
    """
    whole = round(seconds)
    if whole < 60:  # noqa: PLR2004 # seconds in a minute
        return f"{whole} s"
    minutes, seconds_left = divmod(whole, 60)
    hours, minutes_left = divmod(minutes, 60)
    return f"{hours} h {minutes_left} min" if hours else f"{minutes} min {seconds_left} s"


def format_size(size_bytes: int) -> str:
    """Format a size for people.

    >>> format_size(12_500), format_size(19_000_000)
    ('12.5 kB', '19.0 MB')
    """
    kilobytes = size_bytes / 1e3
    return f"{kilobytes / 1e3:.1f} MB" if kilobytes >= 1e3 else f"{kilobytes:.1f} kB"  # noqa: PLR2004


def _key(run: PlannedRun) -> tuple[str, str, str]:
    return (point_key(dict(run.point)), run.kind, run.side or "")


def _title(run: PlannedRun) -> str:
    words = [run.side or "", point_key(dict(run.point)), "warm-up" if run.warmup else run.kind]
    return " ".join(word for word in words if word)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _write(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
