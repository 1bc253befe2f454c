# SPDX-License-Identifier: GPL-2.0-or-later
"""Write bundles: a plain tar that grows with each run and is readable after each run.

Members are appended to ``NAME.partial`` and synced to disk after each run. The last member is the
manifest; then the file is renamed. An unnamed file reserves space for the manifest, so that a full
disk loses only the last run. The contents of an existing bundle are checked before runs are added.

Root's bundles contain kernel addresses, which other users must not see, so only root may read them,
unless ``--shareable`` leaves the addresses out.
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
import stat
import tarfile
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from schedperf_collectors.contract import BUNDLE_FORMAT, BUNDLE_SUFFIXES, BUNDLE_VERSION, MANIFEST
from schedperf_collectors.machine.errors import OUT_OF_SPACE, RecordError, explain
from schedperf_collectors.machine.kernel_files import Identity
from schedperf_collectors.machine.new_files import Folder, copy_all, write_all, write_durably
from schedperf_collectors.recorder.captures import Captured
from schedperf_collectors.recorder.isolate import OK, Result

# The manifest of about 300 runs with eight captures each; a longer one gets a larger reserve.
RESERVE_BYTES = 1 << 20
# An entry has about 300 bytes, twice as many if its reason is long.
_BYTES_PER_ENTRY = 400

# Large enough to compress kallsyms and BTF of a later boot against those of an earlier one.
_XZ_DICTIONARY_BYTES = 64 << 20

_COPY_BYTES = 1 << 20

PRIVATE_MODE = 0o600
SHAREABLE_MODE = 0o644

Entry = dict[str, Any]
# 100,000 runs with eight captures each make a manifest of about 300 MB; host.json has about 20 kB.
_LONGEST_MANIFEST_BYTES = 512 << 20
_LONGEST_JSON_BYTES = 8 << 20

_MEMBER = re.compile(r"boots/(?P<boot>\d{1,6})/(?:host\.json|runs/(?P<run>\d{1,6})/run\.json)\Z")
_LISTS = ("workload", "points", "treatment", "metric", "captures")


@dataclass(frozen=True)
class Existing:
    """An existing bundle to add runs to.

    :param manifest: the manifest in the bundle; its format and the types of its lists are checked,
        other fields are not
    :param offset: offset of the manifest in the plain tar, in bytes
    :param boots: number of each boot, by boot id
    :param next_runs: first free run number, by number of the boot
    :param kernels: the kernel of each host.json, without duplicates
    """

    path: Path
    manifest: Mapping[str, Any]
    offset: int
    boots: Mapping[str, int]
    next_runs: Mapping[int, int]
    kernels: tuple[Identity, ...] = ()

    def place(self, boot_id: str) -> tuple[int, int]:
        """Return the number of the boot with this id, and of its next run.

        A boot that is not in the bundle gets the next free number.
        """
        boot = self.boots.get(boot_id, 1 + max(self.next_runs, default=-1))
        return boot, self.next_runs.get(boot, 0)


@dataclass(frozen=True)
class Names:
    """The files of one bundle while it is written.

    :param path: path of the complete bundle
    """

    path: Path

    @property
    def partial(self) -> Path:
        """Return the path of the plain tar that grows."""
        return self.path.with_name(self.path.name + ".partial")

    @property
    def manifest(self) -> Path:
        """Return the path of the preliminary manifest, which `recover` reads."""
        return self.path.with_name(self.path.name + ".manifest")

    @property
    def compressing(self) -> Path:
        """Return the path of the compressed file before it is renamed."""
        return self.path.with_name(self.path.name + ".compressing")

    @property
    def is_compressed(self) -> bool:
        """Return whether the suffix requests compression."""
        return not self.path.name.endswith(".tar")


def check_output(path: Path, *, force: bool) -> None:
    """Check that a new bundle can be written to a path.

    :param force: accept an existing bundle, and remove ``NAME.partial`` and ``NAME.manifest`` of a
        killed recording
    :raises RecordError: the suffix or the directory is wrong, a bundle exists, another recording
        writes there, or (without ``force``) a killed recording left ``NAME.partial``
    """
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
    """Remove ``NAME.partial`` of a killed recording, and its preliminary manifest.

    :raises RecordError: a running recording has locked the file, or it cannot be removed
    """
    try:
        with Folder(partial.parent) as folder:
            with folder.open(partial.name) as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                folder.remove(partial.name)
            folder.remove(partial.with_suffix(".manifest").name)
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
    """Reject a path to which another recording writes, or wrote until it was killed.

    :raises RecordError: ``NAME.partial`` exists
    """
    partial = Names(path).partial
    if os.path.lexists(partial):
        raise RecordError(
            f"{partial}: already exists; wait if another recording is running, or remove this "
            "file if the recording was killed"
        )


def bundle_mode(*, shareable: bool = False) -> int:
    """Return the mode of a bundle before the umask is applied.

    :param shareable: it has no kernel addresses
    """
    if shareable:
        return SHAREABLE_MODE
    return PRIVATE_MODE if os.geteuid() == 0 else 0o666


class BundleWriter:
    """A bundle being written.

    :meth:`rollback` discards what was added since the last :meth:`commit`; what was committed is
    synced to disk.

    :param path: final path of the bundle
    :param existing: the bundle to add to; None for a new one
    :param is_partial: the bundle to add to is still named ``NAME.partial``
    :param mode: mode of the file; an existing file loses the permissions that this mode lacks. None
        for :func:`bundle_mode` of a new file, and the current mode of an existing one
    :ivar entries: entries of the members so far, for the manifest
    :raises RecordError: the file cannot be created, opened or locked
    """

    def __init__(
        self,
        path: Path,
        existing: Existing | None = None,
        *,
        is_partial: bool = False,
        mode: int | None = None,
    ) -> None:
        self.names = Names(path)
        self._is_partial = is_partial
        self._existing = existing
        self.entries: list[Entry] = list(existing.manifest["captures"]) if existing else []
        self._committed = len(self.entries)
        self._reserved = self._old_mode = 0
        try:
            with contextlib.ExitStack() as after_error:
                self._folder = after_error.enter_context(Folder(path.parent))
                self._reserve = after_error.enter_context(self._make_reserve())
                self._grow_reserve()
                self._file = self._open(existing, mode, after_error)
                self._end = self._file.seek(0, os.SEEK_END)
                after_error.pop_all()
        except OSError as error:
            text = (error.strerror or str(error)).lower()
            raise RecordError(
                f"{path}: {text}; choose a writable path with enough space"
            ) from error

    def add(
        self, name: str, source: Path | bytes, collector: str, seconds: float | None = None
    ) -> Entry:
        """Append one member; return its entry in the manifest.

        :param name: path in the bundle
        :param source: file with the content, or the content
        :param collector: name of the collector that made it
        :param seconds: time that its capture took, in s; None if unknown
        :raises OSError: it cannot be read or written
        :raises RecordError: the file was truncated while it was copied
        """
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
        """Append a collector's files; return their entries.

        A capture that was skipped or failed has no files, but one entry.

        :param folder: directory of the boot or run in the bundle
        :raises OSError: a file cannot be read or written
        :raises RecordError: a file was truncated while it was copied
        """
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
        """Add an entry for a capture without files; return the entry.

        :param collector: name of the collector
        :param folder: directory in the bundle in which its files would be
        """
        reason = "; ".join(part for part in (result.reason, result.remedy) if part)
        entry = _entry(collector, folder, result.status, reason, result.seconds)
        if result.detail is not None:
            entry["detail"] = result.detail
        self.entries.append(entry)
        return entry

    def commit(self) -> None:
        """Sync everything added so far to disk, and reserve space for a longer manifest.

        :raises OSError: it cannot be written, e.g. because the disk is full
        """
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
        """Write the preliminary manifest to a file beside the bundle.

        If the recorder is killed, `recover` reads from this file what no member contains.

        :raises OSError: it cannot be written
        """
        data = json.dumps({**manifest, "captures": self.entries}).encode()
        write_durably(self.names.manifest, data, bundle_mode())

    def finish(self, manifest: Mapping[str, object]) -> Path:
        """Write the manifest with the captures, and rename the file to the bundle's name.

        :return: path of the bundle; if the disk has no space to compress it, it is uncompressed and
            its name has no .gz or .xz
        :raises OSError: the manifest could not be written, or the file could not be compressed or
            renamed; ``NAME.partial`` stays
        """
        self._reserve.close()
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
            self._close()
            raise
        # The lock is kept while the file is compressed, which may take minutes: another recording
        # with --force would remove the file.
        try:
            return self._give_name()
        finally:
            self._close()

    def discard(self) -> None:
        """Remove a new bundle without runs; restore an existing one.

        :raises OSError: the manifest of the existing one could not be written back
        """
        if self._existing is not None and not self.names.is_compressed:
            # The file has been renamed, and its manifest has been truncated.
            self._end = self._existing.offset
            self._committed = len(self._existing.manifest["captures"])
            self.rollback()
            _set_mode(self._file, self._old_mode)
            self.finish(self._existing.manifest)
            return
        self._folder.remove(self.names.partial.name)
        self._folder.remove(self.names.manifest.name)
        self._close()

    def _close(self) -> None:
        self._file.close()
        self._reserve.close()
        self._folder.close()

    def _open(
        self, existing: Existing | None, mode: int | None, after_error: contextlib.ExitStack
    ) -> BinaryIO:
        """Return the locked file ``NAME.partial``, truncated after its last member.

        The caller seeks to its end.

        :param after_error: gets the steps that undo this: close the file, remove new files, and
            give an existing bundle its name again
        """
        if existing is None:
            file = self._folder.create(
                self.names.partial.name, bundle_mode() if mode is None else mode
            )
        else:
            self.keep_manifest(existing.manifest)
            file = self._open_existing(existing, after_error)
        after_error.enter_context(file)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if existing is not None:
            self._old_mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode is not None:
                _set_mode(file, self._old_mode & mode)
            file.truncate(existing.offset)
        return file

    def _open_existing(self, existing: Existing, after_error: contextlib.ExitStack) -> BinaryIO:
        name, partial = self.names.path.name, self.names.partial.name
        if self._is_partial:
            return self._folder.open(partial)
        after_error.callback(self._folder.remove, self.names.manifest.name)
        if self.names.is_compressed:
            file = _decompress(existing, self._folder, partial)
            after_error.callback(self._folder.remove, partial)
            return file
        self._folder.rename(name, partial)
        after_error.callback(self._folder.rename, partial, name)
        return self._folder.open(partial)

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
        write_all(self._file, data)

    def _make_reserve(self) -> BinaryIO:
        """Return an unnamed file, whose space is freed when it is closed."""
        name = f".{self.names.path.name}.{os.getpid()}.reserve"
        file = self._folder.replace_left_over(name, 0o600)
        self._folder.remove(name)
        return file

    def _grow_reserve(self) -> None:
        needed = RESERVE_BYTES + _BYTES_PER_ENTRY * len(self.entries)
        if needed > self._reserved:
            # Zeros, not fallocate(2): every file system allocates blocks for written data.
            write_all(self._reserve, bytes(needed - self._reserved))
            self._reserved = needed

    def _give_name(self) -> Path:
        path, names, folder = self.names.path, self.names, self._folder
        if names.is_compressed:
            try:
                self._compress()
            except OSError as error:
                folder.remove(names.compressing.name)
                if error.errno not in OUT_OF_SPACE:
                    raise
                path = path.with_name(path.name.rpartition(".")[0])
                folder.rename(names.partial.name, path.name)
            else:
                folder.rename(names.compressing.name, path.name)
                folder.remove(names.partial.name)
        else:
            folder.rename(names.partial.name, path.name)
        folder.sync()
        folder.remove(names.manifest.name)
        return path

    def _compress(self) -> None:
        # Use the open file, because another file may have its name by now.
        mode = stat.S_IMODE(os.fstat(self._file.fileno()).st_mode)
        self._file.seek(0)
        with self._folder.replace_left_over(self.names.compressing.name, 0o600) as raw:
            buffered = io.BufferedWriter(cast("io.RawIOBase", raw))
            with _compressor(buffered, self.names.path.name) as compressed:
                shutil.copyfileobj(self._file, compressed, _COPY_BYTES)
            buffered.flush()
            os.fchmod(raw.fileno(), mode)
            os.fsync(raw.fileno())


def _set_mode(file: BinaryIO, mode: int) -> None:
    # Only the owner may change the mode, though others may write the file.
    if stat.S_IMODE(os.fstat(file.fileno()).st_mode) != mode:
        os.fchmod(file.fileno(), mode)


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


@contextlib.contextmanager
def _compressor(raw: BinaryIO, name: str) -> Iterator[IO[bytes]]:
    if name.endswith(".gz"):
        # The compressed file stores neither name nor time, so that equal tars give equal files.
        with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as compressed:
            yield cast("IO[bytes]", compressed)
    else:
        filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": _XZ_DICTIONARY_BYTES}]
        with lzma.open(raw, "wb", filters=filters) as compressed_xz:
            yield cast("IO[bytes]", compressed_xz)


def _decompress(existing: Existing, folder: Folder, partial: str) -> BinaryIO:
    opened = gzip.open if existing.path.name.endswith(".gz") else lzma.open
    # Only this user can read it until it gets the mode of the compressed file.
    plain = folder.create(partial, 0o600)
    try:
        with folder.open(existing.path.name) as raw, opened(raw, "rb") as compressed:
            copy_all(cast("IO[bytes]", compressed), plain)
            os.fchmod(plain.fileno(), stat.S_IMODE(os.fstat(raw.fileno()).st_mode))
    except OSError:
        plain.close()
        folder.remove(partial)
        raise
    return plain


def _check_suffix(path: Path) -> None:
    """Reject a file name whose suffix is not that of a bundle.

    :raises RecordError: it is not
    """
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
        self._kernels: list[Identity] = []

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
            identity = kernel.get("build_id")
            self._kernels.append(
                Identity(
                    kernel["release"],
                    str(kernel.get("version") or ""),
                    identity if isinstance(identity, str) else None,
                )
            )
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
        for key in _LISTS:
            if not isinstance(manifest.get(key), list):
                raise RecordError(f"{where}: invalid {key} (expected a list); record a new bundle")
        if not all(isinstance(entry, dict) for entry in manifest["captures"]):
            raise RecordError(
                f"{where}: invalid capture (expected a JSON object); record a new bundle"
            )
