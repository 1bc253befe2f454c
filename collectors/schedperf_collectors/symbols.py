# SPDX-License-Identifier: GPL-2.0-or-later
"""Record function symbols of the programs and libraries that samples hit.

Profilers resolve user addresses with the files of the machine that reads a profile, which may
differ from those of the recording machine. ``BUILD-ID.sym`` has the symbols of one file: one line
of JSON, then one line per function, ``OFFSET SIZE NAME``, sorted by offset. Offset (in the file)
and size (0 if unknown) are hexadecimal numbers of bytes::

    {"format": "schedperf-symbols/1", "build_id": "93ac61ec…", "path": "/usr/lib/…/libc.so.6",
     "table": ".dynsym", "functions": 2391, "reason": null}
    28490 1c5 __libc_start_main

For a file that could not be read, was replaced, or has too many symbols, there is only the first
line, with a ``reason``. A file is stored once per boot, after the first instrumented run in which
it was hit; at most :data:`MOST_FILES` files are stored per run.
"""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path

from schedperf_collectors.contract import MOST_SYMBOLS_BYTES, SYMBOLS_FORMAT, SYMBOLS_SUFFIX, VDSO
from schedperf_collectors.machine.elf_symbols import (
    BadElf,
    ElfFunctions,
    parse_functions,
    read_functions,
)
from schedperf_collectors.machine.system import run
from schedperf_collectors.plugin import AfterRun, collector

PERF_DATA = "perf.data"
VDSO_LIMIT_BYTES = 1 << 20

# A desktop hits 300 files in a minute.
MOST_FILES = 2000
MOST_BYTES_A_RUN = 256 << 20
# perf reads the whole profile once: 1 GB takes a second, longer on a slow disk.
BUILD_IDS_TIMEOUT_S = 60.0

# A build id is a hash of 20 bytes, of 8 with some linkers, or chosen by the user.
_HIT = re.compile(r"^((?:[0-9a-f]{2}){4,20}) (/.*|\[vdso\])$", re.MULTILINE)


@collector(
    scope="after",
    needs=("perf",),
    package="linux-perf",
    cost="0.1 s and 0.1 MB per sampled file, once per boot; perf reads each profile again",
    options=("perf",),
)
def symbols(capture: AfterRun) -> None:
    """Record function symbols of the programs and libraries that samples hit."""
    program = capture.options.get("perf", "perf")
    hit: dict[str, str] = {}
    for path in capture.files:
        if path.name == PERF_DATA:
            hit.update(files_hit(program, path))
    left_bytes = MOST_BYTES_A_RUN
    new = {
        key: name for key, name in hit.items() if f"{key}{SYMBOLS_SUFFIX}" not in capture.present
    }
    for build_id, name in sorted(new.items())[:MOST_FILES]:
        text = symbols_of(build_id, name, min(left_bytes, MOST_SYMBOLS_BYTES))
        left_bytes = max(0, left_bytes - len(text))
        (capture.folder / f"{build_id}{SYMBOLS_SUFFIX}").write_bytes(text)


def files_hit(program: str, path: Path) -> dict[str, str]:
    """Return the user files that samples of a profile hit: path by build id.

    :param program: the perf program
    :param path: the profile, a perf.data file
    :raises Unavailable: perf cannot read the profile, or cannot be executed
    """
    command = [program, "buildid-list", "--with-hits", "-i", str(path)]
    return dict(_HIT.findall(run(command, BUILD_IDS_TIMEOUT_S)))


def symbols_of(build_id: str, path: str, limit_bytes: int = MOST_SYMBOLS_BYTES) -> bytes:
    """Return the contents of a ``.sym`` file; an unreadable file gives the reason and no functions.

    :param limit_bytes: if the lines of all functions exceed this size, store the reason and no
        functions
    """
    try:
        symbols_file = read_file(path)
    except BadElf as error:
        return _header(build_id, path, reason=str(error))
    if symbols_file.build_id != build_id:
        reason = f"the file was replaced; its build id is now {symbols_file.build_id}"
        return _header(build_id, path, reason=reason)
    lines = [f"{start:x} {size:x} {name}\n" for start, size, name in symbols_file.functions]
    body = "".join(lines).encode()
    if len(body) > limit_bytes:
        reason = (
            f"{len(body)} bytes of symbols exceed the limit of {limit_bytes} bytes (limit per "
            "file, or the rest of the limit per run)"
        )
        return _header(build_id, path, reason=reason)
    return _header(build_id, path, table=symbols_file.table, functions=len(lines)) + body


def read_file(path: str) -> ElfFunctions:
    """Read the functions of a file, or of this process's vdso, which is the same in all processes.

    :param path: path of the file; ``VDSO`` for the vdso
    :raises BadElf: it cannot be read, or has no functions
    """
    return parse_functions(io.BytesIO(_vdso())) if path == VDSO else read_functions(Path(path))


def _header(
    build_id: str,
    path: str,
    *,
    table: str | None = None,
    functions: int = 0,
    reason: str | None = None,
) -> bytes:
    facts = {
        "format": SYMBOLS_FORMAT,
        "build_id": build_id,
        "path": path,
        "table": table,
        "functions": functions,
        "reason": reason,
    }
    return json.dumps(facts).encode() + b"\n"


def _vdso() -> bytes:
    maps = Path("/proc/self/maps").read_text()
    match = re.search(r"^([0-9a-f]+)-([0-9a-f]+) .* \[vdso\]$", maps, re.MULTILINE)
    if not match:
        raise BadElf("this process has no vdso")
    start, end = (int(bound, 16) for bound in match.groups())
    descriptor = os.open("/proc/self/mem", os.O_RDONLY)
    try:
        return os.pread(descriptor, min(end - start, VDSO_LIMIT_BYTES), start)
    except OSError as error:
        raise BadElf(f"vdso: {(error.strerror or str(error)).lower()}") from error
    finally:
        os.close(descriptor)
