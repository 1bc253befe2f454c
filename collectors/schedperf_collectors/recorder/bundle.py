"""Writes bundles: a plain tar that grows run by run and can be read after each.

Members are appended to ``NAME.partial`` and made durable run by run; the last
one is the manifest, then the file gets its name. ``NAME.reserve`` holds the
space that the manifest will need, so that a full disk costs the run that
filled it and nothing else.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import lzma
import os
import shutil
import tarfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from schedperf_collectors.contract import MANIFEST
from schedperf_collectors.machine.errors import OUT_OF_SPACE, RecordError
from schedperf_collectors.recorder.append import Existing, check_suffix
from schedperf_collectors.recorder.captures import Captured
from schedperf_collectors.recorder.isolate import OK, Result

# The manifest of some 300 runs with eight captures each; a longer one gets a larger reserve.
RESERVE_BYTES = 1 << 20
# An entry has some 300 bytes, and so much again if its reason is long.
_BYTES_PER_ENTRY = 400

# Large enough that the kallsyms and BTF of a later boot are found again and cost nothing.
_XZ_DICTIONARY_BYTES = 64 << 20

_COPY_BYTES = 1 << 20

Entry = dict[str, Any]


@dataclass(frozen=True)
class Names:
    """The files that belong to one bundle while it is written."""

    path: Path

    @property
    def partial(self) -> Path:
        """Return the plain tar that grows."""
        return self.path.with_name(self.path.name + ".partial")

    @property
    def reserve(self) -> Path:
        """Return the file that holds space for the manifest."""
        return self.path.with_name(self.path.name + ".reserve")

    @property
    def compressing(self) -> Path:
        """Return the compressed file before it gets its name."""
        return self.path.with_name(self.path.name + ".compressing")

    @property
    def is_compressed(self) -> bool:
        """Tell whether the suffix asks for compression."""
        return not self.path.name.endswith(".tar")


def check_output(path: Path, *, force: bool) -> None:
    """Refuse a place where a new bundle cannot or should not be written; force makes room."""
    check_suffix(path)
    if path.exists() and not force:
        raise RecordError(f"{path}: exists; add --force to replace it or --append to add to it")
    if not path.parent.is_dir():
        raise RecordError(f"{path.parent}: no such folder; make it first")
    if force:
        Names(path).partial.unlink(missing_ok=True)
    check_no_partial(path)


def check_no_partial(path: Path) -> None:
    """Refuse to write where another recording writes."""
    partial = Names(path).partial
    if partial.exists():
        raise RecordError(
            f"{partial}: another recording writes it or was killed; move it away or remove it"
        )


class BundleWriter:
    """One bundle being written.

    What was added since the last :meth:`commit` is lost with :meth:`rollback`;
    what was committed survives anything but the loss of the disk.

    :param existing: the bundle that gets more; None to begin a new one
    :raises RecordError: the file cannot be made
    """

    def __init__(self, path: Path, existing: Existing | None = None) -> None:
        self.names = Names(path)
        self.entries: list[Entry] = list(existing.manifest["captures"]) if existing else []
        self._committed = len(self.entries)
        self._reserved = 0
        try:
            self._grow_reserve()
            self._file = self._open(existing)
            self._end = self._file.seek(0, os.SEEK_END)
        except OSError as error:
            self.names.reserve.unlink(missing_ok=True)
            text = (error.strerror or str(error)).lower()
            raise RecordError(f"{path}: {text}; write it where there is room and right") from error

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
        """Append what a collector brought, below a boot's or run's folder; return the entries."""
        place = "/".join(part for part in (folder, captured.collector.place) if part)
        if captured.result.status != OK:
            return [self.note(captured.collector.name, place, captured.result)]
        # Several files of one capture cost its time once.
        seconds = [captured.result.seconds] + [None] * len(captured.files)
        return [
            self.add(f"{place}/{name}", path, captured.collector.name, cost)
            for (name, path), cost in zip(captured.files, seconds)
        ]

    def note(self, collector: str, place: str, result: Result) -> Entry:
        """Note a capture that brought nothing; return its entry."""
        reason = "; ".join(part for part in (result.reason, result.remedy) if part)
        entry = _entry(collector, place, result.status, reason, result.seconds)
        if result.detail is not None:
            entry["detail"] = result.detail
        self.entries.append(entry)
        return entry

    def commit(self) -> None:
        """Make all that was added durable."""
        os.fsync(self._file.fileno())
        self._grow_reserve()
        self._end = self._file.tell()
        self._committed = len(self.entries)

    def rollback(self) -> None:
        """Forget what was added since the last commit."""
        del self.entries[self._committed :]
        self._file.truncate(self._end)
        self._file.seek(self._end)

    def finish(self, manifest: Mapping[str, object]) -> Path:
        """Write the manifest, which gets the captures, and give the bundle its name.

        :return: the file: without the suffix of a compression for which there is no room
        :raises OSError: not even the manifest could be written; ``NAME.partial`` stays
        """
        self.names.reserve.unlink(missing_ok=True)
        text = json.dumps({**manifest, "captures": self.entries}, indent=1) + "\n"
        data = text.encode()
        try:
            self._append(MANIFEST, io.BytesIO(data), len(data), time.time())
            # Two empty blocks end a tar, and tar(1) expects whole records.
            end = self._file.tell() + 2 * tarfile.BLOCKSIZE
            self._write(bytes(2 * tarfile.BLOCKSIZE + -end % tarfile.RECORDSIZE))
            os.fsync(self._file.fileno())
        except OSError:
            self.rollback()
            self._file.close()
            raise
        self._file.close()
        return self._give_name()

    def discard(self) -> None:
        """Remove a bundle that was begun and holds nothing."""
        self._file.close()
        self.names.partial.unlink(missing_ok=True)
        self.names.reserve.unlink(missing_ok=True)

    def _open(self, existing: Existing | None) -> BinaryIO:
        partial = self.names.partial
        if existing is None:
            # Unbuffered, so that an error belongs to the write that meets it.
            return partial.open("xb", buffering=0)
        if self.names.is_compressed:
            _decompress(existing, partial)
        else:
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
                raise RecordError(f"{name}: became shorter while it was copied")
            digest.update(chunk)
            self._write(chunk)
            left -= len(chunk)
        self._write(bytes(-size % tarfile.BLOCKSIZE))
        return digest.hexdigest(), size

    def _write(self, data: bytes) -> None:
        # A raw write may take a part only, and the last free blocks of a disk are such a case.
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]

    def _grow_reserve(self) -> None:
        wanted = RESERVE_BYTES + _BYTES_PER_ENTRY * len(self.entries)
        if wanted > self._reserved:
            # Zeros, not fallocate(2): every file system gives blocks to what is written.
            with self.names.reserve.open("ab") as file:
                file.write(bytes(wanted - self._reserved))
            self._reserved = wanted

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
        # No name and no time inside: equal tars become equal files.
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


def _sync_folder(folder: Path) -> None:
    # The new name is durable only when its folder is.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
