# SPDX-License-Identifier: GPL-2.0-or-later
"""Read untrusted tar archives: check every header, never unpack.

:mod:`tarfile` decodes headers that are not plain; this module walks over them itself, because
``TarFile`` treats a damaged header as the end of the archive.
"""

import re
import shlex
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from schedperf.inputs.bundle.seekable import CHUNK, Source, open_source
from schedperf.model.errors import BundleError
from schedperf.model.text import clean

# Members, directories and extended headers. A run has about a dozen members, so the limit on JSON
# values is reached first; reading this many headers takes two seconds.
MAX_HEADERS = 200_000
# perf.data of one hour on a large machine at 1 kHz fits; each member must fit in memory.
MAX_MEMBER_BYTES = 2 << 30
# Limit on the total size; a compressed bundle takes this much space in the temporary directory.
MAX_TOTAL_BYTES = 8 << 30
# Linux's PATH_MAX: no file name is longer.
MAX_NAME_BYTES = 4096
# A pax header of one long name and a few attributes.
MAX_EXTENSION_BYTES = 64 << 10
# Bytes allowed after the end-of-archive marker: tar's padding and the compressor's checksums.
TRAILER_BYTES = 1 << 20

_BLOCK = tarfile.BLOCKSIZE
# A header of a regular file as our recorder writes it: mode, user, group, size, time and checksum,
# then its type, no link, and a user, a group and no device.
_PLAIN = re.compile(
    rb"(?:[0-7]{7}\0){3}([0-7]{11})\0[0-7]{11}\0([0-7]{6})\0 0\0{100}ustar\00000"
    rb".{64}(?:\0{8}|[0-7]{7}\0){2}",
    re.DOTALL,
)
_AFTER_NAME, _CHECKSUM, _PREFIX = 100, slice(148, 156), slice(345, 500)
# A name that needs no further check.
_PLAIN_NAME = re.compile(r"[\w-][\w.-]*(?:/[\w-][\w.-]*)*", re.ASCII)
# The output of `schedperf compare --json` starts with the name of its schema.
_RECORD = re.compile(rb'\s*\{\s*"schema":\s*"(schedperf/[a-z0-9/-]{1,40})"')
_REGULAR = {tarfile.REGTYPE, tarfile.AREGTYPE}
_REFUSED: Mapping[bytes, str] = {
    tarfile.LNKTYPE: "a hard link",
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a fifo",
    tarfile.GNUTYPE_SPARSE: "a sparse file",
}


class Member(Struct, frozen=True, kw_only=True):
    """One file inside the archive.

    :param offset: offset of its bytes in the (decompressed) tar
    :param bytes: size
    """

    name: str
    offset: int
    bytes: int


class _Header(NamedTuple):
    """What is used of a header.

    :param type: as in :mod:`tarfile`
    """

    name: str
    size: int
    type: bytes


class Archive:
    """The members of one tar file, plain or compressed.

    :param salvage: keep the members before the first damaged one instead of refusing the archive
    :raises BundleError: the file cannot be read, is not a tar, is damaged (without ``salvage``),
        exceeds a limit, or has a link, device, sparse file, unsafe name or duplicate name
    """

    def __init__(self, path: Path, *, salvage: bool) -> None:
        self.path = path
        # Why reading stopped early; None if the archive is complete.
        self.damage: str | None = None
        self.members: Mapping[str, Member] = {}
        self._source = open_source(path)
        self._index(salvage=salvage)

    @property
    def packed_bytes(self) -> int:
        """The size of the file, which may be compressed."""
        return self._source.packed_bytes

    def read(self, member: Member) -> bytes:
        """Return a member's bytes.

        :raises BundleError: the file was truncated after it was opened
        """
        return self._source.read(member.offset, member.bytes)

    def chunks(self, member: Member) -> Iterator[bytes]:
        """Yield a member's bytes, at most 1 MiB at a time; errors as in :meth:`read`."""
        end = member.offset + member.bytes
        for offset in range(member.offset, end, CHUNK):
            yield self._source.read(offset, min(CHUNK, end - offset))

    def _index(self, *, salvage: bool) -> None:
        members: dict[str, Member] = {}
        try:
            for member in _Walk(self._source):
                if member.name in members:
                    raise BundleError(
                        f"{self.path}: duplicate member {member.name}; record the bundle again"
                    )
                members[member.name] = member
        except _Damaged as damage:
            if not salvage:
                raise BundleError(
                    f"{self.path}: {damage}; copy it again, or see what is readable with "
                    f"`schedperf show {shlex.quote(str(self.path))}`"
                ) from None
            self.damage = str(damage)
        self.members = members


class _Damaged(Exception):
    """The archive is damaged from here on; salvage keeps the members before."""


class _Walk:
    """Iterates over the members of a tar.

    Extended headers (pax, GNU long names) describe the member that follows them.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._offset = 0
        # The last member, for messages.
        self._last = ""
        # Properties of the next member from extended headers.
        self._name: str | None = None
        self._size: int | None = None

    def __iter__(self) -> Iterator[Member]:
        for _ in range(MAX_HEADERS):
            header = self._read_header()
            if header is None:
                self._check_trailer()
                return
            if header.type in {tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XGLTYPE}:
                self._extend(header)
            elif (member := self._read_member(header)) is not None:
                yield member
        raise self._refuse(
            f"too many members in the archive (expected at most {MAX_HEADERS}); record fewer runs"
        )

    def _refuse(self, problem: str) -> BundleError:
        return BundleError(f"{self._source.path}: {problem}")

    def _not_a_tar(self, begin: bytes) -> BundleError:
        match = _RECORD.match(begin)
        if match is None:
            return self._refuse(
                "invalid tar archive (expected a bundle, e.g. base.tar); give a file "
                "that schedperf recorded"
            )
        schema = match[1].decode("ascii")
        return self._refuse(
            f"result of a comparison, {schema} (expected a bundle); "
            'compare the bundles listed in its "sides"'
        )

    def _read_header(self) -> _Header | None:
        """Decode the header at the current offset; return None at the end of the archive.

        :raises _Damaged: the header is damaged or truncated
        :raises BundleError: the file is empty or not a tar, a name is not UTF-8, or the archive is
            too large
        """
        after = f"after {self._last}" if self._last else "before the first member"
        block = self._take(_BLOCK, after)
        if not any(block):
            return None
        try:
            return _decode_plain(block) or _decode(block)
        except UnicodeDecodeError:
            raise self._refuse(
                f"invalid UTF-8 in the member name, {after}; copy or record the bundle again"
            ) from None
        except tarfile.HeaderError as error:
            if not self._last and self._offset == _BLOCK:
                raise self._not_a_tar(block) from None
            where = f"{self._source.unit} {self._offset - _BLOCK}"
            raise _Damaged(f"damaged at {where}, {after}: {error}") from None

    def _take(self, size: int, where: str) -> bytes:
        """Return the next bytes.

        :param where: position in the archive, for messages
        :raises _Damaged: the archive ends early
        :raises BundleError: the file is empty or not a tar, or the archive is too large
        """
        self._need(size, where)
        self._offset += size
        return self._source.read(self._offset - size, size)

    def _need(self, size: int, where: str) -> None:
        source = self._source
        if self._offset + size > MAX_TOTAL_BYTES:
            raise self._refuse(
                f"the members exceed {MAX_TOTAL_BYTES >> 30} GiB in total; record fewer or "
                "shorter runs"
            )
        if not source.reaches(self._offset + size):
            if not source.size and source.is_plain:
                raise self._refuse("empty file; record or copy it again")
            if self._offset + size == _BLOCK and source.is_plain:
                raise self._not_a_tar(source.read(0, source.size))
            problem = source.damage or "truncated"
            raise _Damaged(f"{problem} at {source.unit} {source.size}, {where}")

    def _extend(self, header: _Header) -> None:
        """Read an extended header, for the member that follows; ignore global pax headers.

        :raises _Damaged: the archive ends early
        :raises BundleError: the header is invalid or too large, or describes a sparse file
        """
        if not 0 <= header.size <= MAX_EXTENSION_BYTES:
            raise self._refuse(
                f"extended header of {header.size} bytes (expected at most "
                f"{MAX_EXTENSION_BYTES}); copy or record the bundle again"
            )
        content = self._take_padded(header.size, "inside an extended header")
        try:
            if header.type == tarfile.GNUTYPE_LONGNAME:
                self._name = content.removesuffix(b"\0").decode()
            elif header.type == tarfile.XHDTYPE:
                records = _parse_pax(content)
                if any(key.startswith("GNU.sparse") for key in records):
                    raise self._refuse(
                        "contains a sparse file; pack the bundle again without "
                        "tar's option --sparse"
                    )
                self._name = records.get("path", self._name)
                self._size = int(records["size"]) if "size" in records else None
        except ValueError:
            raise self._refuse(
                "unreadable extended header; copy or record the bundle again"
            ) from None

    def _take_padded(self, size: int, where: str) -> bytes:
        return self._take(-size % _BLOCK + size, where)[:size]

    def _read_member(self, header: _Header) -> Member | None:
        """Return the member of a header and skip its bytes; return None for a directory.

        :raises _Damaged: the archive ends early
        :raises BundleError: the member has an unsafe name, is too large, or is not a regular file
        """
        raw_name = header.name if self._name is None else self._name
        size = header.size if self._size is None else self._size
        self._name = self._size = None
        if header.type == tarfile.DIRTYPE:
            self._check_folder(raw_name, size)
            return None
        name = self._check_name(raw_name)
        if header.type not in _REGULAR:
            kind = _REFUSED.get(header.type, f"of type {header.type!r}")
            raise self._refuse(
                f"member {name} is {kind} (expected a regular file); pack the bundle again "
                "without this member"
            )
        if not 0 <= size <= MAX_MEMBER_BYTES:
            raise self._refuse(
                f"member {name} has {size} bytes (expected at most {MAX_MEMBER_BYTES}); record "
                "shorter runs"
            )
        self._last = name
        padded = -size % _BLOCK + size
        self._need(padded, f"inside {name}")
        self._offset += padded
        return Member(name=name, offset=self._offset - padded, bytes=size)

    def _check_folder(self, name: str, size: int) -> None:
        """Check a directory entry; the recorder writes none, but tar does when a user repacks.

        :raises BundleError: the name is unsafe, or the entry has a size
        """
        bare = name.rstrip("/")
        if bare != ".":
            self._check_name(bare)
        if size:
            raise self._refuse(
                f"directory entry {clean(name)} has size {size} (expected 0); copy or record the "
                "bundle again"
            )

    def _check_name(self, raw: str) -> str:
        """Return a member's name without a leading ``./``.

        :raises BundleError: the name leads out of the bundle, has an empty component, is too long,
            or contains control characters
        """
        if _PLAIN_NAME.fullmatch(raw) and len(raw) <= MAX_NAME_BYTES:
            return raw
        name = raw.removeprefix("./")
        parts = name.split("/")
        problem = None
        if clean(name) != name or "\n" in name or "\t" in name:
            problem = "contains control characters"
        elif name.startswith("/"):
            problem = "is an absolute path"
        elif ".." in parts or "\\" in name:
            problem = "points outside of the bundle"
        elif "" in parts or "." in parts:
            problem = "has an empty component"
        elif len(name.encode()) > MAX_NAME_BYTES:
            problem = f"is longer than {MAX_NAME_BYTES} bytes"
        if problem:
            raise self._refuse(
                f"member name {raw[:80]!r} {problem} (expected a relative path, "
                "e.g. boots/0/host.json); pack the bundle again"
            )
        return name

    def _check_trailer(self) -> None:
        """Decompress the rest of the file, at most 1 MiB, to verify the compressor's checksum.

        :raises _Damaged: the rest is damaged, or the checksum is wrong
        :raises BundleError: the rest is too large, or the temporary directory is full
        """
        self._source.reaches(self._offset + TRAILER_BYTES)
        if self._source.damage:
            raise _Damaged(f"{self._source.damage} after {self._last}")


def _decode_plain(block: bytes) -> _Header | None:
    """Decode the header of a regular file, ten times as fast as :mod:`tarfile`.

    Return None if it has another form, or a wrong checksum.

    :raises UnicodeDecodeError: the name is not UTF-8
    """
    fields = _PLAIN.match(block, _AFTER_NAME)
    if fields is None:
        return None
    # The checksum is that of a header with blanks in its place.
    expected = sum(block) - sum(block[_CHECKSUM]) + 8 * ord(" ")
    if int(fields[2], 8) != expected:
        return None
    name = block[:_AFTER_NAME].partition(b"\0")[0].decode()
    prefix = block[_PREFIX].partition(b"\0")[0].decode()
    return _Header(f"{prefix}/{name}" if prefix else name, int(fields[1], 8), tarfile.REGTYPE)


def _decode(block: bytes) -> _Header:
    """Decode any header.

    :raises UnicodeDecodeError: as :func:`_decode_plain`
    :raises tarfile.HeaderError: the header is damaged
    """
    header = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
    return _Header(header.name, header.size, header.type)


def _parse_pax(content: bytes) -> dict[str, str]:
    """Parse pax records, ``b"18 path=boots/0/x\\n"``.

    :raises ValueError: invalid record
    """
    records = {}
    start = 0
    while start < len(content):
        digits = content[start : start + 8].partition(b" ")[0]
        end = start + int(digits)
        key, equals, value = content[start + len(digits) + 1 : end - 1].partition(b"=")
        if not digits.isdigit() or not equals or content[end - 1 : end] != b"\n":
            raise ValueError("invalid pax record")
        records[key.decode()] = value.decode()
        start = end
    return records
