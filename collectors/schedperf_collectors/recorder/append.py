"""Looks into a bundle that gets more runs: where they go, and what it is called so far.

The bundle is a file like any other: what is in it is checked before it is used.
"""

from __future__ import annotations

import json
import lzma
import re
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedperf_collectors.contract import BUNDLE_FORMAT, BUNDLE_SUFFIXES, BUNDLE_VERSION, MANIFEST
from schedperf_collectors.machine.errors import RecordError

# 100,000 runs with eight captures each make a manifest of some 300 MB; host.json has some 20 kB.
_LONGEST_MANIFEST_BYTES = 512 << 20
_LONGEST_JSON_BYTES = 8 << 20

_MEMBER = re.compile(r"boots/(?P<boot>\d{1,6})/(?:host\.json|runs/(?P<run>\d{1,6})/run\.json)\Z")
_LISTS = ("workload", "points", "treatment", "metric", "captures")


@dataclass(frozen=True)
class Existing:
    """A bundle that is to grow.

    :param manifest: as it stands in the bundle; its lists are lists
    :param offset: where the manifest begins in the plain tar, in bytes
    :param boots: number of each boot, by boot id
    :param next_runs: first free run number, by number of the boot
    """

    path: Path
    manifest: Mapping[str, Any]
    offset: int
    boots: Mapping[str, int]
    next_runs: Mapping[int, int]

    def place(self, boot_id: str) -> tuple[int, int]:
        """Return the number of the boot and of its next run, for runs under this boot id."""
        boot = self.boots.get(boot_id, 1 + max(self.next_runs, default=-1))
        return boot, self.next_runs.get(boot, 0)


def check_suffix(path: Path) -> None:
    """Refuse a name that says no format which can be written."""
    if not path.name.endswith(BUNDLE_SUFFIXES) or path.name in BUNDLE_SUFFIXES:
        raise RecordError(f"{path}: cannot write this format; name it .tar, .tar.gz or .tar.xz")


def examine(path: Path) -> Existing:
    """Look into a bundle that is to grow.

    :raises RecordError: it cannot be read, or not grown by this version
    """
    check_suffix(path)
    try:
        with tarfile.open(path, "r:*") as tar:
            return _Examination(path, tar).run()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise RecordError(f"{path}: {reason}; name a bundle that can be read") from error
    except (tarfile.TarError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise RecordError(f"{path}: not a whole tar; record a new bundle") from error


class _Examination:
    def __init__(self, path: Path, tar: tarfile.TarFile) -> None:
        self._path = path
        self._tar = tar
        self._boots: dict[str, int] = {}
        self._next_runs: dict[int, int] = {}

    def run(self) -> Existing:
        last: tarfile.TarInfo | None = None
        manifest: Mapping[str, Any] = {}
        # Strictly forward: a compressed tar is read once.
        for last in self._tar:
            if last.name == MANIFEST:
                manifest = self._read(last, _LONGEST_MANIFEST_BYTES)
            match = _MEMBER.match(last.name)
            if match:
                self._note(last, int(match["boot"]), match["run"])
        if last is None or last.name != MANIFEST:
            raise RecordError(f"{self._path}: does not end with {MANIFEST}; record a new bundle")
        self._check(manifest)
        return Existing(self._path, manifest, last.offset, self._boots, self._next_runs)

    def _note(self, member: tarfile.TarInfo, boot: int, run: str | None) -> None:
        record = self._read(member, _LONGEST_JSON_BYTES)
        system = record if run is not None else record.get("system")
        boot_id = system.get("boot_id") if isinstance(system, dict) else None
        if isinstance(boot_id, str):
            self._boots.setdefault(boot_id, boot)
        following = 0 if run is None else int(run) + 1
        self._next_runs[boot] = max(self._next_runs.get(boot, 0), following)

    def _read(self, member: tarfile.TarInfo, longest: int) -> Mapping[str, Any]:
        where = f"{self._path}: {member.name}"
        file = self._tar.extractfile(member) if member.isreg() else None
        if file is None or member.size > longest:
            raise RecordError(f"{where}: not a file of sane size; record a new bundle")
        try:
            record = json.loads(file.read())
        except (ValueError, RecursionError) as error:
            raise RecordError(f"{where}: not JSON; record a new bundle") from error
        if not isinstance(record, dict):
            raise RecordError(f"{where}: not a JSON object; record a new bundle")
        return record

    def _check(self, manifest: Mapping[str, Any]) -> None:
        where = f"{self._path}: {MANIFEST}"
        version = manifest.get("version")
        major = version.get("major") if isinstance(version, dict) else None
        if manifest.get("format") != BUNDLE_FORMAT or not isinstance(major, int):
            raise RecordError(f"{where}: not that of a bundle; record a new one")
        if major > BUNDLE_VERSION[0]:
            raise RecordError(
                f"{where}: version {major}, and this schedperf writes {BUNDLE_VERSION[0]}; "
                "use a newer schedperf"
            )
        for key in _LISTS:
            if not isinstance(manifest.get(key), list):
                raise RecordError(f"{where}: {key} is not a list; record a new bundle")
        if not all(isinstance(entry, dict) for entry in manifest["captures"]):
            raise RecordError(f"{where}: a capture is not an object; record a new bundle")
