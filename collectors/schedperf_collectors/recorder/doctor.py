# SPDX-License-Identifier: GPL-2.0-or-later
"""``doctor``: try which collectors work on this machine."""

from __future__ import annotations

import json
import os
import platform
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedperf_collectors import __version__
from schedperf_collectors.machine.signals import signals
from schedperf_collectors.plugin import Capture, Collector, all_collectors
from schedperf_collectors.recorder.captures import (
    TRIAL_COMMAND,
    Captured,
    Options,
    Staging,
    capture_after,
    capture_boot,
    try_run_collectors,
)
from schedperf_collectors.recorder.isolate import FAILED, OK, Result
from schedperf_collectors.recorder.progress import say_outcome
from schedperf_collectors.workload import run_workload

SCHEMA = "schedperf/doctor/1"

# Text width, and the longest hint in lines; JSON has the complete hint.
LINE_LETTERS = 100
HINT_LINES = 3


@dataclass(frozen=True)
class Examined:
    """The result of trying one collector.

    :param size_bytes: size of its files; None unless ok
    """

    collector: Collector
    result: Result
    size_bytes: int | None


def examine_all(options: Options) -> list[Examined]:
    """Try every collector; run collectors are tried around a short test workload.

    :raises Interrupted: a signal came
    """
    with signals, Staging() as staging:
        brought: list[Captured] = []
        # Those that read other captures come last.
        in_order = sorted(
            all_collectors().values(), key=lambda collector: collector.scope == "after"
        )
        examined = [_examine(collector, staging, options, brought) for collector in in_order]
        return sorted(examined, key=lambda entry: entry.collector.name)


def _examine(
    collector: Collector, staging: Staging, options: Options, brought: list[Captured]
) -> Examined:
    # ``brought`` grows by each run collector's capture.
    if collector.scope == "workload":
        return _examine_workload(collector, staging)
    if collector.scope == "boot":
        captured = capture_boot(collector, staging, os.getpid(), options)
    elif collector.scope == "after":
        captured = capture_after(collector, staging, options, brought, frozenset())
    else:
        captured = try_run_collectors([collector], staging, options)[0]
        brought.append(captured)
    return Examined(collector, captured.result, _size(captured))


def _examine_workload(collector: Collector, staging: Staging) -> Examined:
    capture = Capture(staging.folder(), os.getpid(), {"command": TRIAL_COMMAND})
    outcome = run_workload(capture)
    if outcome.succeeded:
        return Examined(collector, Result(OK, seconds=outcome.wall_s), 0)
    return Examined(collector, Result(FAILED, say_outcome(outcome)), None)


def _size(captured: Captured) -> int | None:
    if captured.result.status != OK:
        return None
    return sum(path.stat().st_size for _, path in captured.files)


def to_json(examined: Sequence[Examined]) -> str:
    """Return the results as JSON."""
    record = {
        "schema": SCHEMA,
        "tool_version": __version__,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "collectors": [_row(entry) for entry in examined],
    }
    return json.dumps(record, indent=1) + "\n"


def _row(entry: Examined) -> Mapping[str, Any]:
    collector, result = entry.collector, entry.result
    return {
        "name": collector.name,
        "summary": collector.summary,
        "scope": collector.scope,
        "intrusive": collector.intrusive,
        "default": collector.default,
        "needs": collector.needs,
        "package": collector.package or None,
        "cost": collector.cost,
        "status": result.status,
        "reason": result.reason,
        "remedy": result.remedy,
        "hint": result.hint,
        "seconds": result.seconds,
        "bytes": entry.size_bytes,
    }


def format_text(examined: Sequence[Examined]) -> str:
    """Return the results as text, one paragraph per collector."""
    lines = [f"schedperf {__version__}, Python {platform.python_version()}, {platform.release()}"]
    for entry in examined:
        collector, result = entry.collector, entry.result
        took = "" if result.seconds is None else f" ({result.seconds:.2f} s)"
        lines.append(f"{collector.name:<14} {result.status}{took}: {collector.summary}")
        if result.reason:
            lines.append(f"{'':<14} why: {result.reason}")
        if result.remedy:
            lines.append(f"{'':<14} fix: {result.remedy}")
        if result.hint:
            lines += _wrap(f"limited: {result.hint}")
        needs = ", ".join(collector.needs) or "no programs"
        intrusive = "; intrusive" if collector.intrusive else ""
        lines.append(f"{'':<14} needs: {needs}; cost: {collector.cost}{intrusive}")
    return "\n".join(lines) + "\n"


def _wrap(text: str) -> list[str]:
    margin = " " * 15
    return textwrap.wrap(
        text,
        LINE_LETTERS,
        initial_indent=margin,
        subsequent_indent=margin,
        max_lines=HINT_LINES,
        placeholder=" …",
    )
