# SPDX-License-Identifier: GPL-2.0-or-later
"""Write folders of a static site atomically; published folders never change.

::

    with open_site(Path("site")) as site:
        site.add(Folder(entry=entry, files={"index.html": page}))
        site.write({"index.html": index, "atom.xml": feed})
"""

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from schedperf.inputs.bundle.durable import sync_folder
from schedperf.inputs.bundle.files import read_regular
from schedperf.inputs.bundle.json import convert, parse_json
from schedperf.model.errors import InputError
from schedperf.model.json_text import to_json

ENTRY = "entry.json"
KIND = "site.json"
# The first part of a URL: "r" is for culprits, "c" for comparisons.
GROUPS = ("r", "c")
# Temporary files; the next run removes those of a killed run.
TEMPORARY = ".publish-"
# Files rendered from a record: another version of schedperf may render them differently.
DRAWN = (".html", ".txt")
LARGEST_ENTRY = 1 << 20
# The largest report of the examples is 3 MB.
MOST_BYTES = 256 << 20

Address = Annotated[str, Meta(pattern=r"\A(?:r/[0-9a-f]{8}(?:/[0-9]{1,4})?|c/[0-9a-f]{16})/\Z")]
State = Literal["confirmed", "fixed", "unconfirmed"]


class Entry(Struct, frozen=True, kw_only=True):
    """The part of a published record that lists of the site show.

    :param date: date of the data, ISO 8601; None if not recorded
    :param published: when this version was published, ISO 8601
    :param state: state of a culprit; None for a comparison
    :param bundles: file names of the published bundles of a comparison
    :param steps: identities of the steps of a history that a culprit explains
    :param commit: first bad commit, or the range that it is in
    :param thread: Message-ID of the mail about a culprit; None if none was sent
    """

    schema: Literal["schedperf/published/1"] = "schedperf/published/1"
    address: Address
    title: str
    summary: str
    machine: str
    date: str | None
    published: str
    state: State | None = None
    bundles: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    commit: str | None = None
    thread: str | None = None

    @property
    def record(self) -> str:
        """Return the URL of the first version of the record: ``r/01234567/``."""
        group, name, *_ = self.address.split("/")
        return f"{group}/{name}/"

    @property
    def version(self) -> int:
        """Return the version number of the record, starting at 1."""
        return int(self.address.removeprefix(self.record).rstrip("/") or 1)


class Kind(Struct, frozen=True, kw_only=True):
    """Whether a site may be published, and whether it has the pages of a lab."""

    schema: Literal["schedperf/site/1"] = "schedperf/site/1"
    private: bool = False
    lab: bool = False


class Folder(Struct, frozen=True, kw_only=True):
    """One record to publish: its files by name, except the file of the entry."""

    entry: Entry
    files: Mapping[str, bytes]


class Site:
    """A locked site; use :func:`open_site` to open it.

    :param path: its directory
    :raises InputError: an entry is damaged or in another directory than its URL, or a directory is
        a symbolic link
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._new: list[Folder] = []
        self._entries = {entry.address: entry for entry in self._read_entries()}

    @property
    def entries(self) -> list[Entry]:
        """Return all published and planned records by URL."""
        return [self._entries[address] for address in sorted(self._entries)]

    def add(self, folder: Folder) -> bool:
        """Plan to publish a record; return False if it is already published.

        :raises InputError: different content is published at its URL
        """
        address = folder.entry.address
        if address not in self._entries:
            self._new.append(folder)
            self._entries[address] = folder.entry
            return True
        if (changed := self.find_change(folder)) is not None:
            raise InputError(
                f"{changed}: published with other content (addresses are permanent); leave a "
                "comparison out, or publish a changed culprit with --update"
            )
        return False

    def find_change(self, folder: Folder) -> Path | None:
        """Return the first file of a record that is missing or has other content on the site.

        HTML and text files must only exist, because another version of schedperf may draw them
        differently.

        :return: None if there is no such file
        :raises InputError: a published file cannot be read
        """
        for name, content in folder.files.items():
            path = self.path / folder.entry.address / name
            if path.exists() and name.endswith(DRAWN):
                continue
            if not path.exists() or read_regular(path, MOST_BYTES, "a published file") != content:
                return path
        return None

    def has(self, address: str) -> bool:
        """Return whether a record is published or planned at a URL."""
        return address in self._entries

    @property
    def has_lab(self) -> bool:
        """Return whether the site has the pages of a lab, whose first page lists the records."""
        return (self.path / KIND).is_file() and self._kind().lab

    @property
    def is_private(self) -> bool:
        """Return whether nothing is left out of its pages."""
        return self._kind().private

    def claim(self, *, is_private: bool, lab: bool = False) -> None:
        """Note whether the site is private; refuse one of the other kind.

        :param lab: whether it has the pages of a lab
        :raises InputError: it has pages of the other kind
        """
        self.refuse_other_kind(is_private=is_private)
        path, known = self.path / KIND, self._kind()
        made = Kind(private=is_private, lab=lab or known.lab)
        if not path.exists() or made != known:
            temporary = self._write_file(to_json(made).encode())
            temporary.rename(path)
            sync_folder(self.path)

    def refuse_other_kind(self, *, is_private: bool) -> None:
        """Check that the site is private, or is not.

        :raises InputError: it has pages of the other kind
        """
        known = self._kind()
        is_used = (
            (self.path / KIND).exists()
            or bool(self._entries)
            or (self.path / "index.html").exists()
        )
        if is_used and known.private != is_private:
            kinds = ("private", "public") if known.private else ("public", "private")
            raise InputError(
                f"{self.path}: a {kinds[0]} site (expected a {kinds[1]} one, or a new directory); "
                "choose another directory"
            )

    def _kind(self) -> "Kind":
        path = self.path / KIND
        if not path.exists():
            return Kind()
        content = read_regular(path, LARGEST_ENTRY, "the kind of a site")
        return convert(parse_json(content, str(path)), Kind, str(path))

    def new_temporary(self) -> Path:
        """Return a new path below the site; the next run removes what a kill left there."""
        return self._name_temporary()

    def write(self, files: Mapping[str, bytes]) -> None:
        """Publish the planned records, then replace the files at the top of the site.

        Everything is written before the first new name appears.

        :raises OSError: a file cannot be written; :func:`open_site` turns it into InputError
        """
        folders = [(self._write_folder(folder), folder.entry.address) for folder in self._new]
        written = [(self._write_file(content), name) for name, content in files.items()]
        for temporary, name in (*folders, *written):
            target = self.path / name
            target.parent.mkdir(exist_ok=True)
            temporary.rename(target)
            sync_folder(target.parent)

    def clean(self) -> None:
        """Remove the temporary files of a killed run.

        :raises OSError: a file cannot be removed; :func:`open_site` turns it into InputError
        """
        for path in sorted(self.path.glob(f"{TEMPORARY}*")):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def _write_folder(self, folder: Folder) -> Path:
        temporary = self._name_temporary()
        temporary.mkdir()
        entry = to_json(folder.entry).encode()
        for name, content in (*folder.files.items(), (ENTRY, entry)):
            _write(temporary / name, content)
        sync_folder(temporary)
        return temporary

    def _write_file(self, content: bytes) -> Path:
        temporary = self._name_temporary()
        _write(temporary, content)
        return temporary

    def _name_temporary(self) -> Path:
        return self.path / f"{TEMPORARY}{secrets.token_hex(8)}"

    def _read_entries(self) -> Iterator[Entry]:
        for group in GROUPS:
            folder = self.path / group
            if folder.is_symlink():
                raise InputError(f"{folder}: a symbolic link (expected a directory); remove it")
            for path in sorted([*folder.glob(f"*/{ENTRY}"), *folder.glob(f"*/*/{ENTRY}")]):
                content = read_regular(path, LARGEST_ENTRY, "an entry of a published record")
                entry = convert(parse_json(content, str(path)), Entry, str(path))
                if self.path / entry.address != path.parent:
                    raise InputError(
                        f"{path}: address is {entry.address} (expected that of its directory); "
                        "move it back"
                    )
                yield entry


def newest_versions(entries: Iterable[Entry]) -> list[Entry]:
    """Return the newest version of each record."""
    by_version = sorted(entries, key=lambda entry: entry.version)
    return [*{entry.record: entry for entry in by_version}.values()]


@contextmanager
def open_site(path: Path) -> Iterator[Site]:
    """Create or open a site and lock it; other publishers wait.

    If the block raises an error before :meth:`Site.write`, nothing changes.

    :raises InputError: it is not a directory or cannot be written, or as in :class:`Site`
    """
    try:
        with _locked(path):
            site = Site(path)
            site.clean()
            try:
                yield site
            finally:
                site.clean()
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise InputError(
            f"{path}: cannot be written ({problem}); choose another directory"
        ) from None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    if path.is_symlink():
        raise InputError(f"{path}: a symbolic link (expected a directory); pass its target")
    is_new = not path.exists()
    if not is_new and not path.is_dir():
        raise InputError(f"{path}: not a directory; pass the directory of the site")
    path.mkdir(exist_ok=True)
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        if is_new and not any(path.iterdir()):
            path.rmdir()
        os.close(folder)


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
