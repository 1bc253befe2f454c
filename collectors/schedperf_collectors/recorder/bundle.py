# SPDX-License-Identifier: GPL-2.0-or-later
"""Write bundles: a plain tar that grows with each run and is readable after each run.

Members are appended to ``NAME.partial`` and synced to disk after each run. The last
member is the manifest; then the file is renamed. ``NAME.reserve`` reserves the
space for the manifest, so that a full disk loses only the run that filled it. The contents of an
existing bundle are checked before runs are added.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import hashlib
import io
import json
import lzma
import os
import re
import shutil
import tarfile
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from schedperf_collectors.contract import BUNDLE_FORMAT, BUNDLE_SUFFIXES, BUNDLE_VERSION, MANIFEST
from schedperf_collectors.machine.errors import OUT_OF_SPACE, RecordError, explain
from schedperf_collectors.recorder.captures import Captured
from schedperf_collectors.recorder.isolate import OK, Result

# The manifest of about 300 runs with eight captures each; a longer one gets a larger reserve.
RESERVE_BYTES = 1 << 20
# An entry has about 300 bytes, twice as many if its reason is long.
_BYTES_PER_ENTRY = 400

# Large enough to compress kallsyms and BTF of a later boot against those of an earlier one.
_XZ_DICTIONARY_BYTES = 64 << 20

_COPY_BYTES = 1 << 20

Entry = dict[str, Any]
# 100,000 runs with eight captures each make a manifest of some 300 MB; host.json has some 20 kB.
_LONGEST_MANIFEST_BYTES = 512 << 20
_LONGEST_JSON_BYTES = 8 << 20

_MEMBER = re.compile(r"boots/(?P<boot>\d{1,6})/(?:host\.json|runs/(?P<run>\d{1,6})/run\.json)\Z")
_LISTS = ("workload", "points", "treatment", "metric", "captures")
# Bundles of older recorders do not have them.
_LATER_LISTS = ("rerun",)


@dataclass(frozen=True)
class Existing:
    """An existing bundle to add runs to.

    :param manifest: the manifest in the bundle, with the fields that are lists checked
    :param offset: offset of the manifest in the plain tar, in bytes
    :param boots: number of each boot, by boot id
    :param next_runs: first free run number, by number of the boot
    :param kernels: release and version of the kernel of each host.json, without duplicates
    """

    path: Path
    manifest: Mapping[str, Any]
    offset: int
    boots: Mapping[str, int]
    next_runs: Mapping[int, int]
    kernels: tuple[str, ...] = ()

    def place(self, boot_id: str) -> tuple[int, int]:
        """Return the number of the boot with this id, and of its next run."""
        boot = self.boots.get(boot_id, 1 + max(self.next_runs, default=-1))
        return boot, self.next_runs.get(boot, 0)


@dataclass(frozen=True)
class Names:
    """The files of one bundle while it is written."""

    path: Path

    @property
    def partial(self) -> Path:
        """Return the plain tar that grows."""
        return self.path.with_name(self.path.name + ".partial")

    @property
    def reserve(self) -> Path:
        """Return the file that reserves space for the manifest."""
        return self.path.with_name(self.path.name + ".reserve")

    @property
    def manifest(self) -> Path:
        """Return the file with the manifest as it would be now, for `recover`."""
        return self.path.with_name(self.path.name + ".manifest")

    @property
    def compressing(self) -> Path:
        """Return the compressed file before it is renamed."""
        return self.path.with_name(self.path.name + ".compressing")

    @property
    def is_compressed(self) -> bool:
        """Return whether the suffix asks for compression."""
        return not self.path.name.endswith(".tar")


def check_output(path: Path, *, force: bool) -> None:
    """Refuse a path where a new bundle cannot or should not be written; with force, replace
    files."""
    _check_suffix(path)
    if path.exists() and not force:
        raise RecordError(
            f"{path}: already exists; add --force to replace it, or add runs to it with `record "
            "--append FILE` (without -o)"
        )
    if not path.parent.is_dir():
        raise RecordError(f"{path.parent}: no such directory; create it first")
    if force:
        _remove_abandoned(Names(path).partial)
    check_no_partial(path)


def _remove_abandoned(partial: Path) -> None:
    """Remove the file of a killed recording; one that is being written is locked."""
    try:
        with partial.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            partial.unlink()
        partial.with_suffix(".manifest").unlink(missing_ok=True)
    except FileNotFoundError:
        pass
    except BlockingIOError as error:
        raise RecordError(
            f"{partial}: another recording is writing to this file; wait until it has finished, "
            "or give "
            "another -o"
        ) from error
    except OSError as error:
        raise RecordError(f"{partial}: {explain(error)}; choose a writable path") from error


def check_no_partial(path: Path) -> None:
    """Refuse a path that another recording is writing to."""
    partial = Names(path).partial
    if partial.exists():
        raise RecordError(
            f"{partial}: already exists; wait if another recording is running, or remove this "
            "file if the recording was killed"
        )


class BundleWriter:
    """A bundle being written.

    :meth:`rollback` discards what was added since the last :meth:`commit`; what was committed is
        synced to disk.

    :param existing: the bundle to add to; None for a new one
    :param is_partial: the bundle to add to is still named ``NAME.partial``
    :raises RecordError: the file cannot be created
    """

    def __init__(
        self, path: Path, existing: Existing | None = None, *, is_partial: bool = False
    ) -> None:
        self.names = Names(path)
        self._is_partial = is_partial
        self._existing = existing
        self.entries: list[Entry] = list(existing.manifest["captures"]) if existing else []
        self._committed = len(self.entries)
        self._reserved = 0
        try:
            self._grow_reserve()
            self._file = self._open(existing)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._end = self._file.seek(0, os.SEEK_END)
        except OSError as error:
            # A read-only file system refuses to remove even what is not there.
            # If the bundle is another recording's, so is the reserve.
            if not isinstance(error, FileExistsError):
                with contextlib.suppress(OSError):
                    self.names.reserve.unlink(missing_ok=True)
            text = (error.strerror or str(error)).lower()
            raise RecordError(
                f"{path}: {text}; choose a writable path with enough space"
            ) from error

    def add(
        self, name: str, source: Path | bytes, collector: str, seconds: float | None = None
    ) -> Entry:
        """Append one member; return its entry."""
        if isinstance(source, bytes):
            digest, size = self._append(name, io.BytesIO(source), len(source), time.time())
        else:
            with source.open("rb") as file:
                status = os.fstat(file.fileno())
                digest, size = self._append(name, file, status.st_size, status.st_mtime)
        entry = _entry(collector, name, OK, None, seconds)
        entry.update(sha256=digest, bytes=size)
        self.entries.append(entry)
        return entry

    def add_captured(self, folder: str, captured: Captured) -> list[Entry]:
        """Append a collector's files, below a boot's or run's directory; return the entries."""
        collector_folder = "/".join(part for part in (folder, captured.collector.place) if part)
        if captured.result.status != OK:
            return [self.note(captured.collector.name, collector_folder, captured.result)]
        # A capture's time is recorded with the first of its files.
        seconds = [captured.result.seconds] + [None] * len(captured.files)
        return [
            self.add(f"{collector_folder}/{name}", path, captured.collector.name, cost)
            for (name, path), cost in zip(captured.files, seconds)
        ]

    def note(self, collector: str, folder: str, result: Result) -> Entry:
        """Record a capture without files; return its entry."""
        reason = "; ".join(part for part in (result.reason, result.remedy) if part)
        entry = _entry(collector, folder, result.status, reason, result.seconds)
        if result.detail is not None:
            entry["detail"] = result.detail
        self.entries.append(entry)
        return entry

    def commit(self) -> None:
        """Sync everything added so far to disk."""
        os.fsync(self._file.fileno())
        self._grow_reserve()
        self._end = self._file.tell()
        self._committed = len(self.entries)

    def rollback(self) -> None:
        """Discard what was added since the last commit."""
        del self.entries[self._committed :]
        self._file.truncate(self._end)
        self._file.seek(self._end)

    def keep_manifest(self, manifest: Mapping[str, object]) -> None:
        """Write the manifest as it would be now to a file beside the bundle.

        If the recorder is killed, `recover` takes from it what no other member has.
        """
        write_durably(
            self.names.manifest, json.dumps({**manifest, "captures": self.entries}).encode()
        )

    def finish(self, manifest: Mapping[str, object]) -> Path:
        """Write the manifest with the captures, and rename the file to the bundle's name.

        :return: the file; uncompressed, without the suffix, if the disk has no space to compress it
        :raises OSError: the manifest could not be written; ``NAME.partial`` stays
        """
        self.names.reserve.unlink(missing_ok=True)
        text = json.dumps({**manifest, "captures": self.entries}, indent=1) + "\n"
        data = text.encode()
        try:
            self._append(MANIFEST, io.BytesIO(data), len(data), time.time())
            # Two empty blocks end a tar, and tar(1) expects full records.
            end = self._file.tell() + 2 * tarfile.BLOCKSIZE
            self._write(bytes(2 * tarfile.BLOCKSIZE + -end % tarfile.RECORDSIZE))
            os.fsync(self._file.fileno())
        except OSError:
            self.rollback()
            self._file.close()
            raise
        # The lock is kept while the file is compressed, which may take minutes: another recording
        # with --force would remove the file.
        try:
            return self._give_name()
        finally:
            self._file.close()

    def discard(self) -> None:
        """Remove a bundle that was started and has no runs; leave an existing one as it was.

        :raises OSError: the manifest of the existing one could not be written back
        """
        if self._existing is not None and not self.names.is_compressed:
            # Its file has been renamed, and its manifest has been cut off.
            self._end = self._existing.offset
            self._committed = len(self._existing.manifest["captures"])
            self.rollback()
            self.finish(self._existing.manifest)
            return
        self._file.close()
        self.names.partial.unlink(missing_ok=True)
        self.names.reserve.unlink(missing_ok=True)
        self.names.manifest.unlink(missing_ok=True)

    def _open(self, existing: Existing | None) -> BinaryIO:
        partial = self.names.partial
        if existing is not None:
            self.keep_manifest(existing.manifest)
        if existing is None:
            # Unbuffered, so that an error is raised by the write that causes it.
            return partial.open("xb", buffering=0)
        if self.names.is_compressed:
            _decompress(existing, partial)
        elif not self._is_partial:
            self.names.path.rename(partial)
        file = partial.open("r+b", buffering=0)
        file.truncate(existing.offset)
        return file

    def _append(self, name: str, source: IO[bytes], size: int, mtime: float) -> tuple[str, int]:
        info = tarfile.TarInfo(name)
        info.size = size
        info.mtime = max(0, int(mtime))
        info.mode = 0o644
        self._write(info.tobuf(tarfile.PAX_FORMAT))
        digest = hashlib.sha256()
        left = size
        while left:
            chunk = source.read(min(left, _COPY_BYTES))
            if not chunk:
                raise RecordError(f"{name}: truncated while it was copied; record again")
            digest.update(chunk)
            self._write(chunk)
            left -= len(chunk)
        self._write(bytes(-size % tarfile.BLOCKSIZE))
        return digest.hexdigest(), size

    def _write(self, data: bytes) -> None:
        # A raw write may write only a part, e.g. into the last free blocks of a disk.
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]

    def _grow_reserve(self) -> None:
        needed = RESERVE_BYTES + _BYTES_PER_ENTRY * len(self.entries)
        if needed > self._reserved:
            # Zeros, not fallocate(2): every file system allocates blocks for written data.
            with self.names.reserve.open("ab") as file:
                file.write(bytes(needed - self._reserved))
            self._reserved = needed

    def _give_name(self) -> Path:
        path, partial = self.names.path, self.names.partial
        if self.names.is_compressed:
            try:
                _compress(self.names)
            except OSError as error:
                self.names.compressing.unlink(missing_ok=True)
                if error.errno not in OUT_OF_SPACE:
                    raise
                path = path.with_name(path.name.rpartition(".")[0])
                partial.replace(path)
            else:
                self.names.compressing.replace(path)
                partial.unlink()
        else:
            partial.replace(path)
        _sync_folder(path.parent)
        self.names.manifest.unlink(missing_ok=True)
        return path


def _entry(
    collector: str, path: str, status: str, reason: str | None, seconds: float | None
) -> Entry:
    return {
        "collector": collector,
        "path": path,
        "sha256": None,
        "bytes": None,
        "seconds": None if seconds is None else round(seconds, 6),
        "status": status,
        "reason": reason,
    }


def _compress(names: Names) -> None:
    with names.compressing.open("wb") as raw, names.partial.open("rb") as plain:
        with _compressor(raw, names.path.name) as compressed:
            shutil.copyfileobj(plain, compressed, _COPY_BYTES)
        raw.flush()
        os.fsync(raw.fileno())


@contextlib.contextmanager
def _compressor(raw: BinaryIO, name: str) -> Iterator[IO[bytes]]:
    if name.endswith(".gz"):
        # Neither name nor time inside: equal tars give equal files.
        with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as compressed:
            yield cast("IO[bytes]", compressed)
    else:
        filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": _XZ_DICTIONARY_BYTES}]
        with lzma.open(raw, "wb", filters=filters) as compressed_xz:
            yield cast("IO[bytes]", compressed_xz)


def _decompress(existing: Existing, partial: Path) -> None:
    opened = gzip.open if existing.path.name.endswith(".gz") else lzma.open
    try:
        with opened(existing.path, "rb") as compressed, partial.open("xb") as plain:
            shutil.copyfileobj(cast("IO[bytes]", compressed), plain, _COPY_BYTES)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def write_durably(path: Path, data: bytes) -> None:
    """Replace a file; a power cut leaves the old or the new one.

    :raises OSError: it cannot be written; the old one is unchanged
    """
    new = path.with_name(f"{path.name}.new")
    try:
        with new.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            new.unlink()
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    # The rename is durable only after its directory is synced.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_suffix(path: Path) -> None:
    """Refuse a file name whose suffix names no writable format."""
    if not path.name.endswith(BUNDLE_SUFFIXES) or path.name in BUNDLE_SUFFIXES:
        raise RecordError(
            f"{path}: unknown format (expected .tar, .tar.gz or .tar.xz); change the suffix"
        )


def examine(path: Path) -> Existing:
    """Check a bundle before runs are added.

    :raises RecordError: it cannot be read, or this version cannot add runs to it
    """
    _check_suffix(path)
    try:
        with tarfile.open(path, "r:*") as tar:
            return _Examination(path, tar).run()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise RecordError(f"{path}: {reason}; pass a readable bundle") from error
    except (tarfile.TarError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise RecordError(
            f"{path}: incomplete or damaged tar archive; record a new bundle"
        ) from error


class _Examination:
    def __init__(self, path: Path, tar: tarfile.TarFile) -> None:
        self._path = path
        self._tar = tar
        self._boots: dict[str, int] = {}
        self._next_runs: dict[int, int] = {}
        self._kernels: list[str] = []

    def run(self) -> Existing:
        last: tarfile.TarInfo | None = None
        manifest: Mapping[str, Any] = {}
        # Read forward only: a compressed tar is read once.
        for last in self._tar:
            if last.name == MANIFEST:
                manifest = self._read(last, _LONGEST_MANIFEST_BYTES)
            match = _MEMBER.match(last.name)
            if match:
                self._note(last, int(match["boot"]), match["run"])
        if last is None or last.name != MANIFEST:
            raise RecordError(
                f"{self._path}: incomplete bundle (expected {MANIFEST} as the last member); "
                "record a new bundle"
            )
        self._check(manifest)
        kernels = tuple(dict.fromkeys(self._kernels))
        return Existing(self._path, manifest, last.offset, self._boots, self._next_runs, kernels)

    def _note(self, member: tarfile.TarInfo, boot: int, run: str | None) -> None:
        record = self._read(member, _LONGEST_JSON_BYTES)
        system = record if run is not None else record.get("system")
        boot_id = system.get("boot_id") if isinstance(system, dict) else None
        if isinstance(boot_id, str):
            self._boots.setdefault(boot_id, boot)
        kernel = None if run is not None else record.get("kernel")
        if isinstance(kernel, dict) and isinstance(kernel.get("release"), str):
            self._kernels.append(f"{kernel['release']} {kernel.get('version') or ''}".strip())
        following = 0 if run is None else int(run) + 1
        self._next_runs[boot] = max(self._next_runs.get(boot, 0), following)

    def _read(self, member: tarfile.TarInfo, longest: int) -> Mapping[str, Any]:
        where = f"{self._path}: {member.name}"
        file = self._tar.extractfile(member) if member.isreg() else None
        if file is None or member.size > longest:
            raise RecordError(
                f"{where}: invalid member (expected a regular file of at most {longest} bytes); "
                "record a new bundle"
            )
        try:
            record = json.loads(file.read())
        except (ValueError, RecursionError) as error:
            raise RecordError(f"{where}: invalid JSON; record a new bundle") from error
        if not isinstance(record, dict):
            raise RecordError(
                f"{where}: invalid JSON value (expected an object); record a new bundle"
            )
        return record

    def _check(self, manifest: Mapping[str, Any]) -> None:
        where = f"{self._path}: {MANIFEST}"
        version = manifest.get("version")
        numbers = version if isinstance(version, dict) else {}
        major, minor = numbers.get("major"), numbers.get("minor")
        if manifest.get("format") != BUNDLE_FORMAT or not isinstance(major, int):
            raise RecordError(
                f"{where}: invalid manifest (expected the manifest of a schedperf bundle); "
                "record a new bundle"
            )
        if major > BUNDLE_VERSION[0]:
            raise RecordError(
                f"{where}: has format {major}.{minor if isinstance(minor, int) else 0}, but this "
                f"schedperf reads format {BUNDLE_VERSION[0]}.{BUNDLE_VERSION[1]}; use a newer "
                "schedperf"
            )
        for key in (*_LISTS, *(key for key in _LATER_LISTS if key in manifest)):
            if not isinstance(manifest.get(key), list):
                raise RecordError(f"{where}: invalid {key} (expected a list); record a new bundle")
        if not all(isinstance(entry, dict) for entry in manifest["captures"]):
            raise RecordError(
                f"{where}: invalid capture (expected a JSON object); record a new bundle"
            )
