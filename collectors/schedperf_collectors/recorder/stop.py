# SPDX-License-Identifier: GPL-2.0-or-later
"""Run ``ab status`` and ``ab stop``: list and end recordings, and undo what killed ones left."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.machine.process import run_shell
from schedperf_collectors.recorder.bundle import Names
from schedperf_collectors.recorder.control_groups import remove_cgroups
from schedperf_collectors.recorder.journal import Left, Written, read_left
from schedperf_collectors.recorder.journal_folder import BESIDE, journals_beside, journals_in
from schedperf_collectors.recorder.recover import recover
from schedperf_collectors.recorder.settings import TEARDOWN_LIMIT_S
from schedperf_collectors.recorder.tunables import changed_tunables, restore_tunables, undo_command

# Time for a recording to end the running workload, its collectors and the teardown.
_ENDS_WITHIN_S = 120.0
_LOOK_AGAIN_S = 0.05


def status_lines(folder: Path | None) -> Iterator[str]:
    """Yield one line per recording that is running or was killed; of a killed one, all it left.

    The journals in ``folder`` and beside outputs in the current directory are read.

    :param folder: directory of this user's journals; None if the user has none
    :raises RecordError: a journal is damaged, after the lines of the others; or the name of a
        running recording's journal has no process id
    """
    problems: list[str] = []
    for path, left in _read_all([*journals_in(folder), *journals_beside(Path())], problems):
        yield _say(path, left)
    if problems:
        raise RecordError("; ".join(problems))


def _say(path: Path, left: Left) -> str:
    output = _output_option(left)
    if left.is_running:
        return f"{_name(path, left)}; end it with: schedperf ab stop{output}"
    what = [each for each, _ in left.commands(path)] or ["nothing but its journal"]
    is_beside = path.name.startswith(BESIDE)
    undo = "remove it" if is_beside and not output else "undo this with: schedperf ab stop"
    # Another user may have made a journal beside an output, so it is used only if it is named.
    where, undo = (f"{path}: ", undo + output) if is_beside else ("", undo)
    return f"{where}a killed recording left {', '.join(what)}; {undo}"


def stop(folder: Path | None, output: str | None = None) -> Iterator[str]:
    """End a running recording, and undo what killed ones left; yield one line per action.

    :param folder: directory of this user's journals; None if the user has none
    :param output: prefix of the recordings as given with -o, one of their bundles, or the directory
        of a bundle; None for all recordings in ``folder``
    :raises RecordError: before any action: several of them are running, or none writes this output;
        after all others: a part could not be ended or undone, a journal is damaged, or (without
        ``output``) a journal is beside outputs in the current directory
    """
    problems: list[str] = []
    for path, left in _choose(folder, output, problems):
        now: Left | None = left
        if left.is_running:
            yield from _end(path, left, problems)
            now = _read(path, problems)
        # A finished recording has removed its journal.
        if now is not None and not now.is_running:
            yield from _undo(path, now, problems)
    if output is None:
        problems += [_say(*each) for each in _read_all(journals_beside(Path()), problems)]
    if problems:
        raise RecordError("; ".join(problems))


def _choose(
    folder: Path | None, output: str | None, problems: list[str]
) -> Sequence[tuple[Path, Left]]:
    """Return the journals of the recording to end, and of killed ones.

    :param problems: gets one line for each damaged journal
    :raises RecordError: several recordings are running, or none writes this output
    """
    paths = journals_in(folder)
    if output is not None:
        given = Path(output).resolve()
        paths += journals_beside(given if given.is_dir() else given.parent)
    found = _read_all(paths, problems)
    if output is not None:
        found = [(path, left) for path, left in found if writes(left, output)]
        if not found:
            raise RecordError(
                f"-o {output}: no recording writes this output; see: schedperf ab status"
            )
    running = [(path, left) for path, left in found if left.is_running]
    if len(running) > 1:
        names = "; ".join(_name(path, left) for path, left in running)
        raise RecordError(
            f"{len(running)} recordings are running ({names}); give that to end: "
            f"schedperf ab stop{_output_option(running[0][1])}"
        )
    return found


def writes(left: Left, output: str) -> bool:
    """Return whether a recording writes this output.

    :param output: prefix as given with -o, one of the bundles, or the directory of one
    """
    given = Path(output).resolve()
    return any(
        given in {bundle.path.resolve(), bundle.path.resolve().parent}
        or (bundle.output is not None and given == bundle.output.resolve())
        for bundle in left.bundles
    )


def _name(path: Path, left: Left) -> str:
    """Return a text that names a running recording by its bundles and process id.

    :raises RecordError: the name of the journal has no process id
    """
    bundles = ", ".join(str(bundle.path) for bundle in left.bundles)
    return f"recording {f'of {bundles} ' if bundles else ''}with process id {_pid(path)}"


def _output_option(left: Left) -> str:
    return "".join(f" -o {shlex.quote(str(bundle.path))}" for bundle in left.bundles[:1])


def _read_all(paths: Sequence[Path], problems: list[str]) -> list[tuple[Path, Left]]:
    return [(path, left) for path in paths if (left := _read(path, problems))]


def _read(path: Path, problems: list[str]) -> Left | None:
    try:
        return read_left(path)
    except ValueError as error:
        problems.append(str(error))
        return None


def _pid(path: Path) -> int:
    try:
        return int(path.stem.rpartition("-")[2])
    except ValueError as error:
        raise RecordError(f"{path}: invalid journal (expected ab-PID.jsonl); remove it") from error


def _end(path: Path, left: Left, problems: list[str]) -> Iterator[str]:
    pid = _pid(path)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + _ENDS_WITHIN_S
    while (now := _read(path, problems)) is not None and now.is_running:
        if time.monotonic() > until:
            problems.append(
                f"process {pid}: the recording did not end within {_ENDS_WITHIN_S:.0f} s; "
                f"run `kill -KILL {pid}`, then `schedperf ab stop`"
            )
            return
        time.sleep(_LOOK_AGAIN_S)
    yield f"ended the {_name(path, left)}; its bundles hold the finished runs"


def _undo(path: Path, left: Left, problems: list[str]) -> Iterator[str]:
    before = len(problems)
    if left.side and left.teardown:
        yield f"running the teardown of {left.side}: {left.teardown}"
        problem = run_shell(left.teardown, TEARDOWN_LIMIT_S)
        if problem is None:
            yield f"ran the teardown of {left.side}"
        else:
            problems.append(f"the teardown of {left.side} failed ({problem}); undo it by hand")
    changed = changed_tunables(left.tunables)
    stuck = restore_tunables(left.tunables)
    for name in changed:
        if name in stuck:
            undo = undo_command(name, left.tunables[name], stuck[name])
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


def _recover(bundles: Sequence[Written], problems: list[str]) -> Iterator[str]:
    """Make bundles of the finished runs of a killed recording; remove its other files.

    Yield one line per bundle that was made or removed.
    """
    for bundle, _ in bundles:
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
