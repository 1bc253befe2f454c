# SPDX-License-Identifier: GPL-2.0-or-later
"""Pack the recorder, ``schedperf_collectors``, as one executable zip file.

``record``, ``ab`` and ``doctor`` run this file, and so do machines that have only Python, so that
recording behaves the same everywhere. It contains the sources of BPF programs, and the programs
compiled when the file is built, if that is possible here. Each module is also there as bytecode,
with which the recorder starts in half of the time; a Python of another version compiles the source.

The file is kept in the user's cache directory (``$XDG_CACHE_HOME/schedperf/recorder``,
``~/.cache/schedperf/recorder``), under a name that contains the digest of all that it is made of.
"""

import hashlib
import importlib.util
import io
import marshal
import sys
import zipfile
from collections.abc import Iterator, Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType

from msgspec import Struct

import schedperf_collectors
from schedperf_collectors.bpf.objects import PACKAGE as PROGRAMS
from schedperf_collectors.bpf.objects import compile_all
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.kept_files import cache_folder, keep, keep_newest, read_kept
from schedperf_collectors.machine.new_files import write_durably
from schedperf_collectors.request.ask import PACKAGE as REQUESTS
from schedperf_collectors.request.ask import PACKED

_SHEBANG = b"#!/usr/bin/env python3\n"
# The earliest date that a zip file can store, so that equal sources give identical files.
_EPOCH = (1980, 1, 1, 0, 0, 0)
# Machines without a cache make the file for each recording, so speed matters more than size.
_FAST = 1
# The file has 1.7 MB.
_LIMIT_BYTES = 64 << 20
# Files in the cache: of the versions in use, e.g. of two checkouts.
_KEPT = 4
# A regular file readable by all, in the upper half of the attributes, as on Unix.
_MODE = 0o100644 << 16
# Mode of the zipapp before the umask is applied.
_EXECUTABLE = 0o777


# Flags of a .pyc file that is used without comparing it with its source (PEP 552).
_UNCHECKED = (1).to_bytes(4, "little")
# The last version of marshal's format without references. References depend on what else has been
# loaded; without them, equal code gives equal bytes.
_WITHOUT_REFERENCES = 2

# Sources that other tools compile or run, e.g. bcc and sh, are packed unchanged.
_SOURCES = (".py", ".c", ".h", ".sh")


class Zipapp(Struct, frozen=True, kw_only=True):
    """The recorder's file.

    :param without_objects: why it has no compiled BPF programs, one line; None if it has
    """

    data: bytes
    without_objects: str | None


def build_zipapp() -> bytes:
    """Return the recorder's file; equal sources, compilers and Pythons give equal bytes."""
    return _build().data


def write_zipapp(path: Path, request: bytes | None = None) -> Zipapp:
    """Write the recorder as an executable file; return what was written.

    :param request: what a maintainer asks for, as the recorder reads it; None without a request
    :raises OSError: the file cannot be written
    """
    zipapp = _build(request)
    # If the disk is full, no partial file remains, and an older file stays unchanged.
    write_durably(path, zipapp.data, _EXECUTABLE)
    return zipapp


def _build(request: bytes | None = None) -> Zipapp:
    objects: Mapping[str, bytes] = {}
    without_objects = None
    try:
        objects = compile_all()
    except Unavailable as error:
        without_objects = error.reason
    packed = {**_sources(), **_packed_objects(objects)}
    if request is not None:
        # It is written once, and would replace a kept file that is used again.
        packed[f"{REQUESTS.replace('.', '/')}/{PACKED}"] = request
        return Zipapp(data=_pack(packed), without_objects=without_objects)
    kept = cache_folder("recorder") / f"{_digest(packed)}.pyz"
    data = read_kept(kept, _LIMIT_BYTES)
    if data is None:
        data = _pack(packed)
        keep(kept, data)
        keep_newest(kept.parent, _KEPT)
    return Zipapp(data=data, without_objects=without_objects)


def _folder() -> Path:
    return Path(schedperf_collectors.__file__).parent


def _sources() -> dict[str, bytes]:
    """Return the sources of the package by their names in the file."""
    folder = _folder()
    return {
        str(path.relative_to(folder.parent)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.suffix in _SOURCES
    }


def _packed_objects(objects: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{PROGRAMS.replace('.', '/')}/{name}": objects[name] for name in sorted(objects)}


def _digest(packed: Mapping[str, bytes]) -> str:
    """Return the digest of all that decides on the file: also of this Python and this module."""
    digest = hashlib.sha256()
    of_packing = {"python": sys.version.encode(), "module": Path(__file__).read_bytes()}
    for name, data in {**of_packing, **packed}.items():
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


def _pack(packed: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in _members(packed):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = _MODE
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data, compresslevel=_FAST)
    return _SHEBANG + buffer.getvalue()


def _members(packed: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    # Python runs the file of this name at the top of a zip.
    yield "__main__.py", packed[f"{schedperf_collectors.__name__}/__main__.py"]
    for name, data in packed.items():
        yield name, data
        if name.endswith(".py"):
            yield f"{name}c", _bytecode(_folder().parent / name, name, data)


def _bytecode(path: Path, name: str, source: bytes) -> bytes:
    """Return a module as a .pyc file for this version of Python (PEP 552).

    :param name: its path in the zip file
    """
    # Compiled once: from the cache of the installed package if that is up to date.
    code = SourceFileLoader(name, str(path)).get_code(name)
    assert code is not None
    check = importlib.util.source_hash(source)
    compiled = marshal.dumps(_renamed(code, name), _WITHOUT_REFERENCES)
    return importlib.util.MAGIC_NUMBER + _UNCHECKED + check + compiled


def _renamed(code: CodeType, name: str) -> CodeType:
    """Return code with another name of its file, also in its functions."""
    constants = (
        _renamed(one, name) if isinstance(one, CodeType) else one for one in code.co_consts
    )
    return code.replace(co_filename=name, co_consts=tuple(constants))
