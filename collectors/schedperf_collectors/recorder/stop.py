# SPDX-License-Identifier: GPL-2.0-or-later
"""``ab status`` and ``ab stop``: list and end running recordings; undo what killed ones left."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.machine.process import run_shell
from schedperf_collectors.recorder.bundle import Names
from schedperf_collectors.recorder.control_groups import remove_cgroups
from schedperf_collectors.recorder.journal import Left, journals, read_left
from schedperf_collectors.recorder.recover import recover
from schedperf_collectors.recorder.settings import TEARDOWN_LIMIT_S
from schedperf_collectors.recorder.tunables import changed_tunables, restore_tunables, say_undo

# A recording ends the running workload, its collectors and the teardown.
_ENDS_WITHIN_S = 120.0
_LOOK_AGAIN_S = 0.05


def say_status(folder: Path | None) -> Iterator[str]:
    """Yield one line for each running recording, and for each thing that a killed one left."""
    for path in journals(folder):
        left = _read(path)
        if left is None:
            yield f"recording with process id {_pid(path)}; end it with: schedperf ab stop"
            continue
        if not path.exists():
            # The recording ended after the journals were listed.
            continue
        what = [each for each, _ in left.commands(path)] or ["nothing but its journal"]
        yield f"a killed recording left {', '.join(what)}; undo this with: schedperf ab stop"


def stop(folder: Path | None) -> Iterator[str]:
    """End running recordings, undo what killed ones left; yield one line for each thing done.

    :raises RecordError: something could not be ended or undone; everything else has been
    """
    problems: list[str] = []
    for path in journals(folder):
        if _read(path) is None:
            yield from _end(path, problems)
        # A recording that ended has removed its journal.
        if path.exists():
            yield from _undo(path, problems)
    if problems:
        raise RecordError("; ".join(problems))


def _read(path: Path) -> Left | None:
    """Return what a recording that ended left; None if it is running."""
    try:
        return read_left(path)
    except FileNotFoundError:
        # The recording removes its journal at any moment.
        return Left(tunables={}, groups=(), side=None, teardown="")
    except ValueError as error:
        raise RecordError(str(error)) from error


def _pid(path: Path) -> int:
    try:
        return int(path.stem.partition("-")[2])
    except ValueError as error:
        raise RecordError(f"{path}: invalid journal (expected ab-PID.jsonl); remove it") from error


def _end(path: Path, problems: list[str]) -> Iterator[str]:
    pid = _pid(path)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + _ENDS_WITHIN_S
    while path.exists() and _read(path) is None:
        if time.monotonic() > until:
            problems.append(
                f"process {pid}: the recording did not end within {_ENDS_WITHIN_S:.0f} s; "
                f"run `kill -KILL {pid}`, then `schedperf ab stop`"
            )
            return
        time.sleep(_LOOK_AGAIN_S)
    yield f"ended the recording with process id {pid}; its bundles hold the finished runs"


def _undo(path: Path, problems: list[str]) -> Iterator[str]:
    left = _read(path)
    if left is None:
        return
    before = len(problems)
    if left.side and left.teardown:
        problem = run_shell(left.teardown, TEARDOWN_LIMIT_S)
        if problem is None:
            yield f"ran the teardown of {left.side}"
        else:
            problems.append(f"the teardown of {left.side} failed ({problem}); undo it by hand")
    changed = changed_tunables(left.tunables)
    stuck = restore_tunables(left.tunables)
    for name in changed:
        if name in stuck:
            undo = say_undo(name, left.tunables[name], stuck[name])
            problems.append(f"{name}: could not be restored; run `{undo}`")
        else:
            yield f"restored {name} to {left.tunables[name]!r}"
    for group in left.groups:
        _kill_all(group)
        found = remove_cgroups([group])
        problems.extend(found)
        if not found:
            yield f"removed the cgroup {group}"
    yield from _recover(left.bundles, problems)
    if len(problems) == before:
        path.unlink(missing_ok=True)
        yield "nothing more is left of the killed recording"


def _recover(bundles: Sequence[Path], problems: list[str]) -> Iterator[str]:
    """Make bundles of the finished runs of a killed recording; remove its other files."""
    for bundle in bundles:
        try:
            runs = recover(bundle)
        except RecordError as error:
            problems.append(f"{error}, or remove {Names(bundle).partial}")
            continue
        if runs:
            yield f"{bundle}: has the finished runs ({runs})"
        elif runs is not None:
            yield f"{bundle}: removed, because no run was finished"


def _kill_all(group: Path) -> None:
    """Kill what a killed recording left in a cgroup that its setup created."""
    with contextlib.suppress(OSError):
        for word in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(word), signal.SIGKILL)
