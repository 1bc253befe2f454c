# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse ``.sym`` files: symbols of programs and libraries by file offset.

::

    {"format": "schedperf-symbols/1", "build_id": "93ac61ec…", "path": "/usr/lib/…/libc.so.6",
     "table": ".dynsym", "functions": 2391, "reason": null}
    28490 1c5 __libc_start_main
"""

import os
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from schedperf.inputs.bundle.files import read_regular
from schedperf.inputs.bundle.json import Count, decode
from schedperf.inputs.kernel.kallsyms import NO_SYMBOL
from schedperf.inputs.kernel.symbol_lines import LONGEST_NAME, split_lines
from schedperf.model.errors import InputError
from schedperf_collectors.contract import MOST_SYMBOLS_BYTES, SYMBOLS_FORMAT, Function

# Largest ``.sym`` file: its functions, and 64 KiB for its first line.
MOST_FILE_BYTES = MOST_SYMBOLS_BYTES + (1 << 16)
_LARGEST = 1 << 63
# Start, size and name; the start may have a prefix.
_GENERATED = re.compile(
    r"(?:0[xX])?([0-9A-Fa-f]{1,15})[ \t]+(?:0[xX])?([0-9A-Fa-f]{1,15})[ \t]+(.+)"
)


class FileSymbols(Struct, frozen=True):
    """The functions of one file.

    :param starts: file offsets, ascending; for generated code, addresses; shape (functions,)
    :param ends: offset after the last byte of each function; shape (functions,)
    :param names: name of each function
    """

    starts: NDArray[np.uint64]
    ends: NDArray[np.uint64]
    names: Sequence[str]

    def find(self, offsets: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the index of each offset's function, or ``NO_SYMBOL``; shape (offsets,)."""
        if not len(self.names):
            return np.full(len(offsets), NO_SYMBOL, np.int64)
        index = np.searchsorted(self.starts, offsets, side="right") - 1
        inside = (index >= 0) & (offsets < self.ends[index])
        return np.where(inside, index, NO_SYMBOL)


def file_symbols(functions: Sequence[Function]) -> FileSymbols:
    """Return a table of functions; a function without a size ends at the next, as in perf.

    The last function is empty if it has no size.

    :param functions: sorted by offset, one per offset
    """
    starts = np.array([function.offset for function in functions], np.uint64)
    sizes = np.array([function.size for function in functions], np.uint64)
    following = np.append(starts[1:], starts[-1:])
    ends = np.where(sizes == 0, following, starts + sizes)
    return FileSymbols(starts, ends, tuple(function.name for function in functions))


def read_generated_symbols(path: Path) -> FileSymbols:
    """Read the functions that a process generated, by address: ``/tmp/perf-PID.map``.

    Lines that do not describe a function are skipped, like in perf. If several functions had the
    same address, the last one counts.

    :raises InputError: the file cannot be read, is too large, or belongs to another user than root
        and this one
    :raises FileNotFoundError: there is no such file
    """
    if path.stat().st_uid not in (0, os.geteuid()):
        raise InputError(
            f"{path}: not used, because the file belongs to another user; copy the file as root"
        )
    content = read_regular(
        path, MOST_FILE_BYTES, "a perf map file", "end the process that writes the file"
    )
    functions: dict[int, Function] = {}
    for line in split_lines(content.decode("utf-8", "replace"), "\n", str(path)):
        match = _GENERATED.match(line)
        if match:
            start, size = int(match[1], 16), int(match[2], 16)
            functions[start] = Function(start, size, match[3][:LONGEST_NAME])
    return file_symbols([functions[start] for start in sorted(functions)])


class _Head(Struct, frozen=True, kw_only=True):
    """The first line of a ``.sym`` file.

    :param reason: why the symbols could not be read; None if they were
    :param functions: number of lines that follow; None if not recorded
    """

    format: str
    reason: str | None = None
    functions: Count | None = None


def parse_user_symbols(content: bytes, label: str) -> FileSymbols:
    """Parse a ``.sym`` file.

    :param label: name of the file in messages
    :raises InputError: the file is not a ``.sym`` file, is damaged, or has only a reason
    """
    head, _, body = content.partition(b"\n")
    facts = decode(head, _Head, label)
    if facts.format != SYMBOLS_FORMAT:
        raise InputError(
            f"{label}: unknown format {facts.format[:40]!r} (expected {SYMBOLS_FORMAT}); "
            "use a newer schedperf"
        )
    if facts.reason is not None:
        raise InputError(f"{label}: {facts.reason}")
    if body and not body.endswith(b"\n"):
        raise InputError(f"{label}: truncated last line; copy the file again")
    lines = split_lines(body.decode("utf-8", "replace"), "\n", label)
    functions = [_parse_line(line, f"{label}:{at}") for at, line in enumerate(lines, start=2)]
    if len(functions) != facts.functions:
        raise InputError(
            f"{label}: contains {len(functions)} functions (expected {facts.functions}, as in its "
            "first line); copy the file again"
        )
    if any(first.offset >= second.offset for first, second in pairwise(functions)):
        raise InputError(
            f"{label}: functions are not sorted (expected ascending offsets); copy the file again"
        )
    return file_symbols(functions)


def _parse_line(line: str, where: str) -> Function:
    offset, _, rest = line.partition(" ")
    size, _, name = rest.partition(" ")
    try:
        function = Function(int(offset, 16), int(size, 16), name)
    except ValueError:
        function = Function(-1, -1, "")
    is_bounded = 0 <= function.offset < _LARGEST and 0 <= function.size < _LARGEST
    if not is_bounded or not 0 < len(name) <= LONGEST_NAME:
        raise InputError(
            f"{where}: invalid line {line[:60]!r} (expected `OFFSET SIZE NAME`, e.g. "
            "`1f40 9c main`); copy the file again"
        )
    return function
