# SPDX-License-Identifier: GPL-2.0-or-later
"""Run ``doctor``: try which collectors work on this machine."""

from __future__ import annotations

import json
import os
import platform
import re
import tempfile
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from schedperf_collectors import __version__
from schedperf_collectors.machine.errors import LARGER_TMPDIR, NO_SPACE
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
from schedperf_collectors.recorder.isolate import FAILED, OK, SKIPPED, Result
from schedperf_collectors.recorder.progress import describe_outcome
from schedperf_collectors.workload import run_workload

SCHEMA = "schedperf/doctor/1"

# Maximum width of the text, and the widths of two of its columns.
LINE_LETTERS = 100
NAME_LETTERS = 15
STATUS_LETTERS = 7

# A placeholder for a blank at which no line may end; textwrap breaks only at ASCII blanks.
_NO_BREAK = "\N{NO-BREAK SPACE}"

# Green, yellow and red.
_COLOURS = {OK: 32, SKIPPED: 33, FAILED: 31}


@dataclass(frozen=True)
class Examined:
    """The result of trying one collector.

    :param size_bytes: size of its files, 0 for the workload; None unless ok
    """

    collector: Collector
    result: Result
    size_bytes: int | None


def examine_all(options: Options, names: Collection[str] | None = None) -> list[Examined]:
    """Try every collector; run collectors are tried around a short test workload.

    :param options: options of collectors, by name
    :param names: names of the collectors to try; None for all
    :return: the results, sorted by name of the collector
    :raises RecordError: the temporary directory cannot be created
    :raises Interrupted: a signal came
    """
    with signals, Staging() as staging:
        brought: list[Captured] = []
        # Those that read other captures come last.
        chosen = [
            collector
            for name, collector in all_collectors().items()
            if names is None or name in names
        ]
        in_order = sorted(chosen, key=lambda collector: collector.scope == "after")
        examined = [_examine(collector, staging, options, brought) for collector in in_order]
        if staging.is_full():
            examined = [_blame_space(entry) for entry in examined]
        return sorted(examined, key=lambda entry: entry.collector.name)


def _blame_space(entry: Examined) -> Examined:
    """Replace the reason of a failure by the likely cause: the file system is full.

    Not all programs report it.
    """
    if entry.result.status != FAILED:
        return entry
    reason = f"{tempfile.gettempdir()}: {NO_SPACE}"
    return replace(entry, result=replace(entry.result, reason=reason, remedy=LARGER_TMPDIR))


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
    return Examined(collector, Result(FAILED, describe_outcome(outcome)), None)


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
        "options": collector.options,
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


@dataclass(frozen=True)
class Paper:
    """The output device of the text.

    :param columns: width in characters; None to leave lines unwrapped (paragraphs are always
        wrapped)
    :param coloured: whether it shows ANSI colours
    """

    columns: int | None = None
    coloured: bool = False


def format_text(examined: Sequence[Examined], paper: Paper, *, verbose: bool) -> str:
    """Return the results as text: one line per collector, or with ``verbose`` one paragraph."""
    works = sum(entry.result.status == OK for entry in examined)
    versions = f"kernel {platform.release()}, Python {platform.python_version()}"
    lines = [f"{works} of {len(examined)} collectors work on this machine ({versions})"]
    for entry in examined:
        title = f"{entry.collector.name:<{NAME_LETTERS}} {entry.result.status:<{STATUS_LETTERS}} "
        if verbose:
            lines += _paragraph(entry, title, paper.columns)
        else:
            lines += _wrap(title, _line(entry), paper.columns)
    if not verbose:
        lines.append("reasons, fixes, requirements and cost: schedperf doctor -v")
    return "\n".join(_colour(line) if paper.coloured else line for line in lines) + "\n"


def _line(entry: Examined) -> str:
    collector, result = entry.collector, entry.result
    if result.status != OK:
        return "; fix: ".join(filter(None, (result.reason, result.remedy)))
    return f"limited: {result.hint}" if result.hint else collector.summary.rstrip(".")


def _paragraph(entry: Examined, title: str, columns: int | None) -> list[str]:
    collector, result = entry.collector, entry.result
    took = "" if result.seconds is None else f"; this test: {result.seconds:.2f} s"
    when = "; instrumented runs only" if collector.intrusive else ""
    by_default = "" if collector.default else "; only with --with"
    needs = ", ".join(collector.needs) or "no programs"
    facts = {
        "": collector.summary,
        "why: ": result.reason,
        "fix: ": result.remedy,
        "limited: ": result.hint,
        "options: ": ", ".join(collector.options),
        "needs: ": f"{needs}; cost: {collector.cost}{when}{by_default}{took}",
    }
    width = min(columns or LINE_LETTERS, LINE_LETTERS)
    lines: list[str] = []
    for words, text in facts.items():
        if text:
            lines += _wrap(" " * len(title) if lines else title, f"{words}{text}", width)
    return lines


def _wrap(title: str, text: str, columns: int | None) -> list[str]:
    if columns is None:
        return [title + text]
    # A command in backticks stays on one line, so that it can be copied.
    commands = re.sub("`[^`]*`", lambda command: command[0].replace(" ", _NO_BREAK), text)
    wrapped = textwrap.wrap(
        commands,
        columns,
        initial_indent=title,
        subsequent_indent=" " * len(title),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_NO_BREAK, " ") for line in wrapped]


def _colour(line: str) -> str:
    name, status = line[:NAME_LETTERS], line[NAME_LETTERS:].lstrip().partition(" ")[0]
    if status not in _COLOURS or name.startswith(" "):
        return line
    at = line.index(status, NAME_LETTERS)
    return f"{line[:at]}\x1b[{_COLOURS[status]}m{status}\x1b[0m{line[at + len(status) :]}"
