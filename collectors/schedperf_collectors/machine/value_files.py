# SPDX-License-Identifier: GPL-2.0-or-later
"""Read many small files of /proc and /sys fast, and format them as a table.

A machine with 256 CPUs has some 8000 files of idle states. ``os.open`` and ``os.read`` take a
quarter of the time of a :class:`pathlib.Path` for each.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.system import System, unavailable

# The kernel limits a file of sysfs to one page.
VALUE_LIMIT_BYTES = 4096
# Printed for a missing value in a table.
ABSENT = "-"

Row = Sequence["str | None"]


class ValueFiles:
    """Reads the small files of one machine.

    :param system: the machine whose files are read
    """

    def __init__(self, system: System) -> None:
        self._prefix = str(system.root).rstrip("/")

    def text(self, name: str, limit: int = VALUE_LIMIT_BYTES) -> str:
        """Read a file with one value or a few lines; strip surrounding white space.

        :param limit: maximum number of bytes that are read; the rest of a larger file is ignored
        :raises Unavailable: it is missing, unreadable or empty
        """
        try:
            descriptor = os.open(self._prefix + name, os.O_RDONLY | os.O_NONBLOCK)
            try:
                content = _read(descriptor, limit)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise unavailable(name, error) from error
        text = content.decode("utf-8", "replace").strip("\0 \t\r\n")
        if not text:
            raise Unavailable(f"{name}: empty")
        return text

    def value(self, name: str, limit: int = VALUE_LIMIT_BYTES) -> str | None:
        """Read a file like :meth:`text`; return None if it is unavailable."""
        try:
            return self.text(name, limit)
        except Unavailable:
            return None

    def names(self, folder: str) -> list[str]:
        """List a directory in arbitrary order; return [] if it cannot be listed."""
        try:
            return os.listdir(self._prefix + folder)  # noqa: PTH208 # bare names are meant
        except OSError:
            return []

    def folders(self, top: str) -> Iterator[tuple[str, list[str]]]:
        """Yield a directory and all below, each with the names of its files."""
        for folder, _, names in os.walk(self._prefix + top):
            yield folder[len(self._prefix) :], names

    def target(self, name: str) -> str | None:
        """Return the last part of a link's target; None if the link cannot be read."""
        try:
            return os.path.basename(os.readlink(self._prefix + name))  # noqa: PTH115, PTH119 # fast
        except OSError:
            return None


def _read(descriptor: int, limit: int) -> bytes:
    """Return up to ``limit`` bytes of a file."""
    content = os.read(descriptor, limit)
    if limit <= VALUE_LIMIT_BYTES:
        return content
    # A file of /proc or of a cgroup returns at most one page per read (seq_file).
    parts = [content]
    while parts[-1]:
        limit -= len(parts[-1])
        parts.append(os.read(descriptor, limit))
    return b"".join(parts)


def format_table(columns: Sequence[str], rows: Iterable[Row]) -> bytes:
    """Format a table with tabs between the values; the first line has the names of the columns.

    White space in a value becomes one space. An empty or missing value is :data:`ABSENT`.

    >>> format_table(("cpu", "name"), [("0", None)])
    b'cpu\\tname\\n0\\t-\\n'
    """
    lines = ["\t".join(map(_cell, row)) for row in (columns, *rows)]
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _cell(value: str | None) -> str:
    return " ".join(value.split()) or ABSENT if value else ABSENT
