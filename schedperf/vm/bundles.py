"""The bundles of a session while it lasts: kept after each boot, and marked where boots lack."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from schedperf.model.errors import InputError
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.recorder.append import examine
from schedperf_collectors.recorder.bundle import BundleWriter, check_no_partial


def check_bundles(paths: Sequence[Path], *, may_exist: bool) -> None:
    """Refuse to begin where bundles would be lost, or where those that get more cannot.

    :param may_exist: boots are added to bundles that exist
    :raises InputError: one cannot be written
    """
    for path in paths:
        if path.exists() and not may_exist:
            raise InputError(
                f"{path}: exists; add --add-boots for more boots of it, or name another --output"
            )
        try:
            check_no_partial(path)
            if path.exists():
                examine(path)
        except RecordError as error:
            raise InputError(str(error)) from error


def keep(made: Path, path: Path) -> None:
    """Copy a bundle to its place, where it is whole or not there at all."""
    copy = path.with_name(f"{path.name}.copy")
    try:
        shutil.copyfile(made, copy)
        with copy.open("rb") as file:
            os.fsync(file.fileno())
        copy.replace(path)
    except BaseException:
        copy.unlink(missing_ok=True)
        raise


def mark_incomplete(path: Path, reason: str, missing: int) -> None:
    """Let a bundle say that boots of it are missing.

    :param missing: how many
    :raises InputError: it cannot be changed
    :raises OSError: there is no room
    """
    try:
        existing = examine(path)
        manifest, boots = existing.manifest, len(existing.boots)
        runs = manifest.get("planned_runs")
        expected = runs + runs * missing // boots if isinstance(runs, int) and boots else None
        BundleWriter(path, existing).finish(
            {
                **manifest,
                "complete": False,
                "incomplete_reason": reason,
                "planned_runs": expected,
            }
        )
    except RecordError as error:
        raise InputError(str(error)) from error
