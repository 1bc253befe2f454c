# SPDX-License-Identifier: GPL-2.0-or-later
"""End a session: close the bundles of all sides, and report how many planned runs they have."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import NoReturn

from schedperf_collectors.machine.errors import Interrupted, RecordError, Stopped, explain
from schedperf_collectors.recorder.documents import Documents
from schedperf_collectors.recorder.progress import Progress, count_of, format_size
from schedperf_collectors.recorder.request import Side


class Refused(RecordError):
    """An error of the operating system, e.g. a full disk.

    :param remedy: what to do; "" if the message about the finished runs is enough
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


def finish(
    sides: Collection[Side], documents: Documents, progress: Progress, stopped: RecordError | None
) -> None:
    """Write the manifest of each side and close its bundle.

    If the session ended early without a run, no bundle replaces one of an earlier recording: if one
    would, the bundles of all sides are discarded.

    :param stopped: why the session ended early; None if all runs were made
    :raises RecordError: the session ended early, or a bundle could not be written
    """
    paths: list[str] = []
    lost: OSError | None = None
    is_empty = not any(side.made for side in sides)
    if is_empty and stopped is not None and any(map(_would_replace, sides)):
        _keep_old(sides, stopped)
    for side in sides:
        try:
            paths.append(str(_close(side, documents, progress, stopped)))
        except OSError as error:  # noqa: PERF203 # one lost bundle leaves the other
            lost = error
            paths.append(f"{side.writer.names.partial} (without a manifest)")
    if stopped is not None or lost is not None:
        cause = stopped or Refused(explain(lost or OSError()))
        made = sum(side.made for side in sides)
        said = f"finished runs are in {', '.join(paths)}" if made else "no run was finished"
        raise _error(cause, sides, said)


def _would_replace(side: Side) -> bool:
    return side.existing is None and side.writer.names.path.exists()


def _keep_old(sides: Collection[Side], stopped: RecordError) -> NoReturn:
    """Discard bundles without runs, which would replace those of an earlier recording.

    :raises RecordError: always, with the reason of the early end
    """
    for side in sides:
        side.writer.discard()
    kept = ", ".join(str(side.writer.names.path) for side in sides)
    raise _error(stopped, sides, f"no run was finished, so --force does not replace {kept}")


def _close(
    side: Side, documents: Documents, progress: Progress, stopped: RecordError | None
) -> Path:
    side.writer.rollback()
    reason = None if stopped is None else _reason(stopped, side.made, side.planned)
    path = side.writer.finish(documents.manifest(side, reason))
    if path != side.writer.names.path:
        progress.warn(
            f"not enough space to compress {side.writer.names.path}; the uncompressed bundle "
            f"is {path}"
        )
    counts = f"{side.clean} clean, {side.instrumented} instrumented"
    failed = f", {side.failed} failed" if side.failed else ""
    failed += f", {side.discarded} discarded" if side.discarded else ""
    size = format_size(path.stat().st_size)
    progress.saved(f"{path}: {count_of(side.made, 'run')} ({counts}){failed}, {size}")
    return path


def _error(cause: RecordError, sides: Collection[Side], said: str) -> RecordError:
    made, planned = sum(side.made for side in sides), sum(side.planned for side in sides)
    remedy = cause.remedy if isinstance(cause, Refused) else ""
    text = "; ".join(filter(None, (_reason(cause, made, planned), remedy, said)))
    return RecordError(text, cause.exit_status)


def _reason(cause: RecordError, made: int, planned: int) -> str:
    if isinstance(cause, (Interrupted, Stopped, Refused)):
        return f"{cause} after {made} of {count_of(planned, 'run')}"
    return f"stopped after {made} of {count_of(planned, 'run')}: {cause}"
