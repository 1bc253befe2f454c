# SPDX-License-Identifier: GPL-2.0-or-later
"""Read a bundle's members and verify their checksums."""

import hashlib
from bisect import bisect_left
from collections.abc import Mapping
from itertools import islice, takewhile
from pathlib import Path

from schedperf.inputs.bundle.json import count_values
from schedperf.inputs.bundle.tar import Archive, Member
from schedperf.model.errors import BundleError

# File names have at most 255 bytes; a character takes up to four.
LONGEST_FILE_NAME = 60
# Limit on the number of JSON values of a bundle: a minimum, and values per byte of the file. A run
# has 1,500 values (80 kB) with every collector and 500 values (500 bytes) without; half of them are
# in the manifest.
MOST_BUNDLE_VALUES = 2_000_000
MOST_VALUES_PER_BYTE = 2
# Limit on the number of lines of all texts of collectors together: a minimum, and lines per byte of
# the file. Parsing a line takes up to 20 us. Recordings have 0.1 lines per byte.
MOST_LINES = 300_000
MOST_LINES_PER_BYTE = 1
# Limit on the size of all members together that are read, not only verified: a minimum, and bytes
# per byte of the file. Snapshots of counters before and after each run compress best: xz reduces
# those of 30 runs to a fiftieth. Members that are copied are perf.data, which has a record in 50
# bytes; each of their bytes counts COPIED_WEIGHT times.
MOST_BUNDLE_BYTES = 128 << 20
MOST_BYTES_PER_BYTE = 128
COPIED_WEIGHT = 4


class Members:
    """The archive's members, verified against the manifest when read.

    :ivar expected: SHA-256 of each member for which the manifest has one, in hexadecimal
    """

    def __init__(self, archive: Archive) -> None:
        self.expected: Mapping[str, str] = {}
        self._archive = archive
        self._names = sorted(archive.members)
        self._actual: dict[str, str] = {}
        # Number of JSON values, by file and in total.
        self._json_values: dict[str, int] = {}
        self._all_json_values = 0
        # Lines of the texts, and bytes of the members, that were read.
        self._lines: dict[str, int] = {}
        self._all_lines = 0
        self._read_bytes: dict[str, int] = {}
        self._all_read_bytes = 0

    @property
    def path(self) -> Path:
        """The bundle's path."""
        return self._archive.path

    @property
    def damage(self) -> str | None:
        """Why the archive could be read only in part; None if it is complete."""
        return self._archive.damage

    @property
    def packed_bytes(self) -> int:
        """The size of the bundle's file."""
        return self._archive.packed_bytes

    @property
    def most_json_values(self) -> int:
        """The largest number of values that all JSON of the bundle may have."""
        return max(MOST_BUNDLE_VALUES, MOST_VALUES_PER_BYTE * self.packed_bytes)

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

        :param limit: refuse a member with more bytes; None for no limit
        :raises BundleError: the member is missing, larger, or does not match its checksum; or the
            members read so far have too many bytes or JSON values together
        """
        member = self._member(name, limit)
        self._count_bytes(name, member.bytes)
        content = self._archive.read(member)
        if name not in self._actual:
            self._actual[name] = hashlib.sha256(content).hexdigest()
        self._check(name)
        if name.endswith(".json"):
            self._count_values(name, content)
        return content

    def extract(self, name: str, folder: Path, limit: int | None = None) -> Path:
        """Copy a member's bytes to a new file, a chunk at a time.

        :param folder: directory for the file; the member's directories are part of the file's name
        :param limit: as in :meth:`read`
        :return: the path of the file
        :raises BundleError: as :meth:`read`; or the file cannot be written
        """
        member = self._member(name, limit)
        self._count_bytes(name, COPIED_WEIGHT * member.bytes)
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
        """Return the SHA-256 of a member's actual bytes, whatever the manifest lists.

        :raises KeyError: there is no such member
        :raises BundleError: the file was truncated after it was opened
        """
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
        """Return whether a member matches its checksum, or has none.

        :raises KeyError: there is no such member
        :raises BundleError: the file was truncated after it was opened
        """
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

    def _count_bytes(self, name: str, size: int) -> None:
        self._all_read_bytes += size - self._read_bytes.get(name, 0)
        self._read_bytes[name] = size
        if self._all_read_bytes > max(MOST_BUNDLE_BYTES, MOST_BYTES_PER_BYTE * self.packed_bytes):
            raise BundleError(
                f"{self.path}: {name}: too much captured data for a bundle of this size; record "
                "fewer runs per bundle, or unpack the bundle to its plain tar"
            )

    def _count_values(self, name: str, content: bytes) -> None:
        if name not in self._json_values:
            self._json_values[name] = count_values(content)
            self._all_json_values += self._json_values[name]
        if self._all_json_values > self.most_json_values:
            raise BundleError(
                f"{self.path}: {name}: the JSON files read so far have {self._all_json_values} "
                f"values (expected at most {self.most_json_values} in this bundle); record fewer "
                "runs per bundle"
            )

    def count_lines(self, name: str, content: bytes) -> None:
        """Count the lines of a member towards the limit of the bundle.

        :raises BundleError: the members counted so far have too many lines together
        """
        lines = content.count(b"\n")
        self._all_lines += lines - self._lines.get(name, 0)
        self._lines[name] = lines
        most = max(MOST_LINES, MOST_LINES_PER_BYTE * self.packed_bytes)
        if self._all_lines > most:
            raise BundleError(
                f"{self.path}: {name}: too many lines in the texts of the collectors (expected at "
                f"most {most}); record fewer runs"
            )

    def _check(self, name: str) -> None:
        if not self.is_intact(name):
            raise BundleError(f"{self.path}: {name} does not match its checksum", "copy it again")
