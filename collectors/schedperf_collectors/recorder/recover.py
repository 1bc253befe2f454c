# SPDX-License-Identifier: GPL-2.0-or-later
"""Recover the finished runs of a recording that was killed or lost power.

``NAME.partial`` is a tar without a manifest. Each run ends with its run.json, which lists the
checksums of the run's files. Everything before the first incomplete or damaged run is kept, and
gets a manifest; the rest is cut off. Without a complete run, the file is removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from schedperf_collectors import __version__
from schedperf_collectors.contract import BUNDLE_FORMAT, BUNDLE_VERSION, MANIFEST
from schedperf_collectors.machine.errors import RecordError, explain
from schedperf_collectors.machine.new_files import Folder
from schedperf_collectors.plugin import all_collectors
from schedperf_collectors.recorder.bundle import BundleWriter, Entry, Existing, Names
from schedperf_collectors.recorder.isolate import OK
from schedperf_collectors.workload import utc_now

_RUN = re.compile(r"boots/\d{1,6}/runs/\d{1,6}/run\.json\Z")
_RUN_FILE = re.compile(r"boots/\d{1,6}/runs/\d{1,6}/")
_BOOT_FILE = re.compile(r"boots/\d{1,6}/(?P<name>[^/]+)")
_LONGEST_JSON_BYTES = 8 << 20
_LONGEST_MANIFEST_BYTES = 512 << 20
_COPY_BYTES = 1 << 20
_KILLED = "the recorder was killed"


@dataclass
class _Kept:
    """The complete part of a bundle.

    :param end: offset after the last complete run, in bytes
    :param entries: entries of the members up to there
    :param runs: run.json of each complete run
    :param is_whole: whether a manifest follows the complete runs, of which there is at least one
    """

    end: int = 0
    entries: list[Entry] = field(default_factory=list)
    runs: list[Mapping[str, Any]] = field(default_factory=list)
    is_whole: bool = False


def recover(path: Path) -> int | None:
    """Make a bundle from what a killed recording left; leave a complete bundle unchanged.

    :param path: the bundle's path
    :return: number of runs in the recovered bundle; 0 if no run was finished, so that the files
        were removed; None if there is nothing to recover
    :raises RecordError: the path does not end with .tar, a recording is writing the bundle, or the
        files cannot be read or written
    """
    names = Names(path)
    if not os.path.lexists(names.partial):
        _remove_left_over(names)
        return None
    if names.is_compressed:
        raise RecordError(f"{path}: cannot be recovered (expected a .tar file); record again")
    try:
        with Folder(path.parent) as folder, folder.open(names.partial.name) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return _recover(names, file)
    except BlockingIOError as error:
        raise RecordError(
            f"{names.partial}: another recording is writing to this file; wait until it has "
            "finished"
        ) from error
    except OSError as error:
        raise RecordError(f"{names.partial}: {explain(error)}; free space and try again") from error


def count_finished(path: Path) -> int:
    """Return the number of finished runs that a killed recording left in ``NAME.partial``.

    :param path: the bundle's path, without ``.partial``
    :return: 0 if that file does not exist or is unreadable
    """
    partial = Names(path).partial
    try:
        with Folder(partial.parent) as folder, folder.open(partial.name) as file:
            return len(_read_members(file).runs)
    except OSError:
        return 0


def _recover(names: Names, file: BinaryIO) -> int:
    kept = _read_members(file)
    if kept.is_whole:
        # The recording was killed between writing the manifest and renaming the file.
        names.partial.replace(names.path)
        _remove_left_over(names)
        return len(kept.runs)
    if not kept.runs:
        names.partial.unlink()
        _remove_left_over(names)
        return 0
    manifest = _manifest(names, kept)
    # The writer takes its own lock.
    fcntl.flock(file, fcntl.LOCK_UN)
    existing = Existing(names.path, {**manifest, "captures": kept.entries}, kept.end, {}, {})
    BundleWriter(names.path, existing, is_partial=True).finish(manifest)
    return len(kept.runs)


def _remove_left_over(names: Names) -> None:
    with contextlib.suppress(OSError):
        names.manifest.unlink()


def _read_members(file: BinaryIO) -> _Kept:
    """Read members up to the first incomplete or damaged one; return those of complete runs."""
    kept = _Kept()
    # Members after the last complete run, by name.
    pending: dict[str, Entry] = {}
    size = os.fstat(file.fileno()).st_size
    damages = (tarfile.TarError, EOFError, ValueError, RecursionError, OSError)
    with contextlib.suppress(*damages), tarfile.open(fileobj=file, mode="r:") as tar:
        for member in tar:
            end = member.offset_data + -(-member.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
            if not member.isreg() or member.offset_data + member.size > size:
                break
            if member.name == MANIFEST:
                _read_json(tar, member, _LONGEST_MANIFEST_BYTES)
                kept.is_whole = bool(kept.runs)
                break
            pending[member.name] = _entry(tar, member)
            if _RUN.match(member.name):
                run = _read_json(tar, member, _LONGEST_JSON_BYTES)
                if not _is_complete(run, pending):
                    break
                _keep(kept, run, pending, end)
                pending = {}
    return kept


def _keep(kept: _Kept, run: Mapping[str, Any], pending: Mapping[str, Entry], end: int) -> None:
    recorded = {entry["path"]: entry for entry in run["captures"]}
    # Captures without files are only in run.json.
    skipped = [entry for entry in run["captures"] if entry.get("status") != OK]
    kept.entries += [recorded.get(name, entry) for name, entry in pending.items()]
    kept.entries += skipped
    kept.runs.append(run)
    kept.end = end


def _is_complete(run: Mapping[str, Any], pending: Mapping[str, Entry]) -> bool:
    captures = run.get("captures")
    if not isinstance(captures, list) or not all(isinstance(each, dict) for each in captures):
        return False
    return all(
        each.get("path") in pending and pending[each["path"]]["sha256"] == each.get("sha256")
        for each in captures
        if each.get("status") == OK
    )


def _entry(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Entry:
    source = tar.extractfile(member)
    assert source is not None
    digest = hashlib.sha256()
    read = 0
    for chunk in iter(lambda: source.read(_COPY_BYTES), b""):
        digest.update(chunk)
        read += len(chunk)
    if read != member.size:
        raise EOFError(member.name)
    return {
        "collector": _collector(member.name),
        "path": member.name,
        "sha256": digest.hexdigest(),
        "bytes": member.size,
        "seconds": None,
        "status": OK,
        "reason": None,
    }


def _collector(name: str) -> str:
    """Return the collector that made a file of a boot; "record" for a file of a run: run.json."""
    match = _BOOT_FILE.match(name)
    if _RUN_FILE.match(name) or match is None:
        return "record"
    if match["name"] == "host.json":
        return "host"
    by_place = {each.place: each.name for each in all_collectors().values() if each.place}
    return by_place.get(match["name"], match["name"])


def _read_json(tar: tarfile.TarFile, member: tarfile.TarInfo, longest: int) -> Mapping[str, Any]:
    source = tar.extractfile(member)
    record = json.loads(source.read()) if source is not None and member.size <= longest else None
    if not isinstance(record, dict):
        raise ValueError(member.name)  # noqa: TRY004 # caught with the other damages
    return record


def _manifest(names: Names, kept: _Kept) -> Mapping[str, Any]:
    """Return the manifest of the kept runs, without captures.

    Entries and times that only the preliminary manifest has are added to ``kept.entries``.
    """
    manifest = {**_from_runs(kept.runs), **_read_kept_manifest(names)}
    noted = manifest.pop("captures", [])
    present = {entry["path"] for entry in kept.entries}
    # Boot captures without files, and costs, are not in any other member.
    costs = {entry.get("path"): entry.get("seconds") for entry in noted}
    for entry in kept.entries:
        if entry["seconds"] is None:
            entry["seconds"] = costs.get(entry["path"])
    kept.entries += [
        entry for entry in noted if entry.get("status") != OK and entry.get("path") not in present
    ]
    return {**manifest, "complete": False, "incomplete_reason": _KILLED}


def _read_kept_manifest(names: Names) -> dict[str, Any]:
    try:
        with Folder(names.path.parent) as folder:
            record = json.loads(folder.read(names.manifest.name, _LONGEST_MANIFEST_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(record, dict) or record.get("format") != BUNDLE_FORMAT:
        return {}
    lists = ("workload", "points", "treatment", "metric", "captures")
    if not all(isinstance(record.get(name), list) for name in lists):
        return {}
    return record if all(isinstance(entry, dict) for entry in record["captures"]) else {}


def _from_runs(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    last = runs[-1]
    return {
        "format": BUNDLE_FORMAT,
        "version": dict(zip(("major", "minor"), BUNDLE_VERSION)),
        "tool_version": __version__,
        "label": last.get("label"),
        "created": utc_now(),
        "workload": _unique(run.get("workload") for run in runs),
        "points": _unique(run.get("point_key") for run in runs),
        "treatment": _unique(path for run in runs for path in run.get("treatment") or ()),
        "factors": last.get("factors") or {},
        "setup": last.get("setup"),
        "load": last.get("load"),
        "server": last.get("server"),
        "metric": _unique(rule for run in runs for rule in run.get("metric") or ()),
        "sequential": None,
        "retest": last.get("retest"),
        "planned_runs": None,
    }


def _unique(values: Any) -> list[Any]:
    kept: list[Any] = []
    for value in values:
        if value is not None and value not in kept:
            kept.append(value)
    return kept
