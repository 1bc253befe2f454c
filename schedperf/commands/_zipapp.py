"""The recorder as one file: ``schedperf_collectors`` in a zip that Python runs.

The same file travels to machines that have only Python and is run here by
``record``, ``ab`` and ``doctor``, so that capturing has one behaviour.
"""

import importlib.resources
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import schedperf_collectors

_PACKAGE = schedperf_collectors.__name__
_SHEBANG = b"#!/usr/bin/env python3\n"
# The first time that a zip can hold: equal sources make equal files.
_EPOCH = (1980, 1, 1, 0, 0, 0)
# A regular file that everyone can read, in the upper half of the attributes as Unix keeps it.
_MODE = 0o100644 << 16


def build_zipapp() -> bytes:
    """Return the recorder; equal sources give equal bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in _sources():
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = _MODE
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return _SHEBANG + buffer.getvalue()


def write_zipapp(path: Path) -> int:
    """Write the recorder as an executable file; return its size in bytes."""
    data = build_zipapp()
    path.write_bytes(data)
    path.chmod(path.stat().st_mode | 0o111)
    return len(data)


def _sources() -> Iterator[tuple[str, bytes]]:
    folder = importlib.resources.files(_PACKAGE)
    names = sorted(item.name for item in folder.iterdir() if item.name.endswith(".py"))
    # Python runs the file of this name at the top of a zip.
    yield "__main__.py", folder.joinpath("__main__.py").read_bytes()
    for name in names:
        yield f"{_PACKAGE}/{name}", folder.joinpath(name).read_bytes()
