# SPDX-License-Identifier: GPL-2.0-or-later
"""Read a bundle's members and verify their checksums."""

import hashlib
from bisect import bisect_left
from collections.abc import Mapping
from itertools import islice, takewhile
from pathlib import Path

from msgspec.structs import replace

from schedperf.bundle.tar import Archive, Member
from schedperf.model.errors import BundleError

# File names have at most 255 bytes, up to four per character.
LONGEST_FILE_NAME = 60


class Members:
    """The archive's members, verified against the manifest when read.

    :ivar expected: SHA-256 of each member that the manifest lists, in hexadecimal
    """

    def __init__(self, archive: Archive) -> None:
        self.expected: Mapping[str, str] = {}
        self._archive = archive
        self._names = sorted(archive.members)
        self._actual: dict[str, str] = {}

    @property
    def path(self) -> Path:
        """The bundle's path."""
        return self._archive.path

    @property
    def damage(self) -> str | None:
        """Why the archive could be read only in part; None if it is complete."""
        return self._archive.damage

    def names(self, prefix: str = "") -> tuple[str, ...]:
        """Return the sorted names of all members that begin with a prefix."""
        first = bisect_left(self._names, prefix)
        return tuple(
            takewhile(lambda name: name.startswith(prefix), islice(self._names, first, None))
        )

    def bytes_of(self, name: str) -> int | None:
        """Return a member's size; None if there is no such member."""
        member = self._archive.members.get(name)
        return None if member is None else member.bytes

    def read(self, name: str, limit: int | None = None) -> bytes:
        """Return a member's bytes.

        :param limit: refuse a larger member
        :raises BundleError: the member is missing or does not match its checksum
        """
        content = self._archive.read(self._member(name, limit))
        if name not in self._actual:
            self._actual[name] = hashlib.sha256(content).hexdigest()
        self._check(name)
        return content

    def read_ends(self, name: str, head: int, tail: int) -> tuple[bytes, bytes]:
        """Return the first and the last bytes of a member that is longer than both together.

        :raises BundleError: as :meth:`read`
        """
        member = self._member(name, None)
        self.sha256(name)
        self._check(name)
        end = member.offset + member.bytes
        first = replace(member, bytes=head)
        last = replace(member, offset=end - tail, bytes=tail)
        return self._archive.read(first), self._archive.read(last)

    def extract(self, name: str, folder: Path, limit: int | None = None) -> Path:
        """Copy a member's bytes to a new file, a chunk at a time.

        :param folder: directory for the file; the member's path in the bundle is ignored
        :raises BundleError: as :meth:`read`; or the file cannot be written
        """
        member = self._member(name, limit)
        state = hashlib.sha256()
        path = folder / name.replace("/", "_")[-LONGEST_FILE_NAME:]
        try:
            with path.open("xb") as file:
                for chunk in self._archive.chunks(member):
                    state.update(chunk)
                    file.write(chunk)
        except OSError as error:
            raise BundleError(
                f"{self.path}: {name} cannot be copied to {folder}: "
                f"{str(error.strerror).lower()}; set TMPDIR to a larger file system"
            ) from error
        self._actual[name] = state.hexdigest()
        self._check(name)
        return path

    def sha256(self, name: str) -> str:
        """Return the SHA-256 of a member's actual bytes, whatever the manifest lists."""
        if name not in self._actual:
            state = hashlib.sha256()
            for chunk in self._archive.chunks(self._archive.members[name]):
                state.update(chunk)
            self._actual[name] = state.hexdigest()
        return self._actual[name]

    def checked_sha256(self, name: str) -> str:
        """Return the SHA-256 of a member.

        :raises BundleError: the member is missing or does not match its checksum
        """
        self._member(name, None)
        self._check(name)
        return self.sha256(name)

    def is_intact(self, name: str) -> bool:
        """Return whether a member matches its checksum, or has none."""
        return self.expected.get(name) in {None, self.sha256(name)}

    def digest(self, without: str) -> str:
        """Return one SHA-256 over the names and SHA-256 of all members except one.

        :raises BundleError: a member does not match its checksum
        """
        state = hashlib.sha256()
        for name in self.names():
            if name != without:
                sha256 = self.checked_sha256(name)
                state.update(f"{name}\0{sha256}\n".encode())
        return state.hexdigest()

    def _member(self, name: str, limit: int | None) -> Member:
        member = self._archive.members.get(name)
        if member is None:
            raise BundleError(f"{self.path}: no member {name}; `tar tf` lists the members")
        if limit is not None and member.bytes > limit:
            raise BundleError(
                f"{self.path}: {name} has {member.bytes} bytes (expected at most {limit})"
            )
        return member

    def _check(self, name: str) -> None:
        if not self.is_intact(name):
            raise BundleError(f"{self.path}: {name} does not match its checksum", "copy it again")
