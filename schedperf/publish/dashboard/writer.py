# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the files of a site under temporary names, and rename them when all are there."""

import os
from collections.abc import Collection
from pathlib import Path
from typing import Self

# What the dashboard writes; everything else in the directory stays.
_FOLDERS = ("a", "m", "n", "s")


class Writer:
    """Writes files below a site, each under a temporary name first; equal ones stay as they are.

    :param root: directory of the site; paths are texts, because objects take longer than the files
    :param temporary: directory for the files with temporary names
    :param prefix: of these names
    :ivar names: of all files, also of those that stay as they are
    :ivar renames: temporary and final paths of the others
    """

    def __init__(self, root: str, temporary: str, prefix: str = "") -> None:
        self._root, self._temporary, self._prefix = root, temporary, prefix
        self.names: set[str] = set()
        self.renames: list[tuple[str, str]] = []

    def make_folders(self) -> None:
        """Create the directories of the pages."""
        for path in (self._temporary, *(f"{self._root}/{name}" for name in _FOLDERS)):
            os.makedirs(path, exist_ok=True)  # noqa: PTH103

    def of_part(self, number: int) -> Self:
        """Return a writer for some pages, which this one takes."""
        return type(self)(self._root, self._temporary, f"{number}-")

    def take(self, other: Self) -> None:
        """Add what another writer has written."""
        self.names |= other.names
        self.renames += other.renames

    def read(self, name: str) -> bytes:
        """Return the content of a file of the site; b"" without one."""
        try:
            with open(f"{self._root}/{name}", "rb", buffering=0) as file:  # noqa: PTH123
                return file.read()
        except FileNotFoundError:
            return b""

    def write(self, name: str, content: bytes, before: bytes | None = None) -> None:
        """Plan to write a file; do nothing if it has this content.

        :param before: its content, if it is known
        """
        self.names.add(name)
        if content == (self.read(name) if before is None else before):
            return
        # A task that is repeated after its process was killed finds its file.
        temporary = f"{self._temporary}/{self._prefix}{len(self.renames)}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        with open(descriptor, "wb", buffering=0) as file:  # noqa: PTH123
            file.write(content)
        self.renames.append((temporary, f"{self._root}/{name}"))

    def finish(self, kept: Collection[str]) -> int:
        """Rename all files, and remove pages that are neither written nor kept."""
        for temporary, path in self.renames:
            os.rename(temporary, path)  # noqa: PTH104
        os.rmdir(self._temporary)  # noqa: PTH106
        stays = self.names | {*kept}
        for folder in _FOLDERS:
            for entry in os.scandir(f"{self._root}/{folder}"):
                if f"{folder}/{entry.name}" not in stays:
                    Path(entry.path).unlink()
        return len(self.renames)
