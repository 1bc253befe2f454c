# SPDX-License-Identifier: GPL-2.0-or-later
"""Pack the recorder, ``schedperf_collectors``, as one executable zip file.

The same file runs on machines that have only Python and, here, behind ``record``, ``ab`` and
``doctor``, so that recording behaves the same everywhere. It contains BPF programs, compiled when
it is made, and their sources.
"""

import contextlib
import importlib.resources
import io
import zipfile
from collections.abc import Iterator
from importlib.resources.abc import Traversable
from pathlib import Path

from msgspec import Struct

import schedperf_collectors
from schedperf_collectors.bpf.objects import PACKAGE as PROGRAMS
from schedperf_collectors.bpf.objects import compile_all
from schedperf_collectors.contract import Unavailable

_PACKAGE = schedperf_collectors.__name__
_SHEBANG = b"#!/usr/bin/env python3\n"
# The earliest date that a zip can hold, so that equal sources make equal files.
_EPOCH = (1980, 1, 1, 0, 0, 0)
# A regular file readable by all, in the upper half of the attributes, as on Unix.
_MODE = 0o100644 << 16


# Sources that other tools compile or run, e.g. bcc and sh, are packed unchanged.
_SOURCES = (".py", ".c", ".h", ".sh")


class Zipapp(Struct, frozen=True, kw_only=True):
    """The recorder's file.

    :param without_objects: why it has no compiled BPF programs, one line; None if it has
    """

    data: bytes
    without_objects: str | None


def build_zipapp() -> bytes:
    """Return the recorder; the same sources and compiler give the same bytes."""
    return _build().data


def write_zipapp(path: Path) -> Zipapp:
    """Write the recorder as an executable file; return what was written."""
    zipapp = _build()
    # A full disk leaves no half of a file, and an older file as it was.
    new = path.with_name(f"{path.name}.new")
    try:
        new.write_bytes(zipapp.data)
        new.chmod(new.stat().st_mode | 0o111)
        new.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink()
        raise
    return zipapp


def _build() -> Zipapp:
    objects: dict[str, bytes] = {}
    without_objects = None
    try:
        objects = compile_all()
    except Unavailable as error:
        without_objects = error.reason
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in _members(objects):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = _MODE
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return Zipapp(data=_SHEBANG + buffer.getvalue(), without_objects=without_objects)


def _members(objects: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    folder = importlib.resources.files(_PACKAGE)
    # Python runs the file of this name at the top of a zip.
    yield "__main__.py", folder.joinpath("__main__.py").read_bytes()
    yield from _sources(folder, _PACKAGE)
    for name, data in sorted(objects.items()):
        yield f"{PROGRAMS.replace('.', '/')}/{name}", data


def _sources(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        if item.is_dir():
            yield from _sources(item, f"{path}/{item.name}")
        elif item.name.endswith(_SOURCES):
            yield f"{path}/{item.name}", item.read_bytes()
