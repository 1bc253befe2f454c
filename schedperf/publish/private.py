# SPDX-License-Identifier: GPL-2.0-or-later
"""Find and replace private strings: those that a record names, and what looks like an address.

::

    >>> private = PrivateStrings(["lab-17.example.com"])
    >>> private.remove("sent by bob@example.com from lab-17.example.com: /home/bob/bench")
    'sent by [private] from [private]: bench'
"""

import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from schedperf.publish.allowed import read_allowed

REPLACEMENT = "[private]"

# Shorter names are part of ordinary words.
SHORTEST_NAME = 3
# A value of a private field that is shorter may be any setting: "quiet".
SHORTEST_VALUE = 8

_URL = r"[a-zA-Z][a-zA-Z0-9+.-]*://[^\s'\"<>]+"
_ADDRESS = re.compile(
    _URL
    # E-mail or login, of a private account, too; not a versioned symbol: memcpy@@GLIBC_2.14
    + rf"|(?:{re.escape(REPLACEMENT)}|[\w.+-])+@(?!plt\b|@|[A-Z]+_\d)[\w.-]*\w"
    # Domain of a private host
    rf"|{re.escape(REPLACEMENT)}(?:\.[A-Za-z][\w-]*)+"
    # Target of --on
    r"|\bssh:[^\s'\"<>]+"
    # UUID
    r"|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
    # Names of disks, which contain serial numbers
    r"|/dev/(?:disk/by-[a-z]+|mapper)/[^\s'\"<>]+"
    # MAC with hyphens, and in the name of an interface: enx0242ac112233
    r"|\b[0-9a-fA-F]{2}(?:-[0-9a-fA-F]{2}){5}\b|\b(?:en|wl|ww)x[0-9a-f]{12}\b"
    # IPv6 and MAC
    r"|(?<![\w:])(?:[0-9a-fA-F]{1,4}:){5,7}[0-9a-fA-F]{1,4}(?![\w:])"
    r"|(?<![\w:])(?:[0-9a-fA-F]{1,4}:)+:(?:[0-9a-fA-F]{1,4}:?)+(?![\w:])"
    # IPv4
    r"|(?<![\w.-])\d{1,3}(?:\.\d{1,3}){3}(?![\w-]|\.\d)"
)
_BETWEEN = r"\s'\"`;,|&<>(){}\[\]="
_PART = rf"(?:{re.escape(REPLACEMENT)}|[^{_BETWEEN}:/])+"
_HOME_FOLDER = rf"~(?:{re.escape(REPLACEMENT)}|[\w.-]*)"
# An absolute path, or one from a home or the current directory; not the fraction of "1/s".
_PATH = re.compile(
    rf"(?P<url>{_URL})"
    rf"|(?:(?<![\w/.)\]}}])(?:{_HOME_FOLDER}|\.{{1,2}})?(?=/)"
    r"|(?=/(?:home|root|Users|mnt|srv|tmp|var|opt)/))"
    rf"(?:/+{_PART})+/?|(?<![\w/.)\]}}])(?:{_HOME_FOLDER}|\.{{1,2}})/(?=\s|$)"
)
# The folders of a path in a command line.
_FOLDERS = re.compile(rf"(?<![^{_BETWEEN}])(?:~|\.{{1,2}}/)?(?:{_PART}/+)+(?={_PART})")
_HOME = re.compile(r"/(?:home|Users)/+([\w.-]+)|~([a-z_][\w.-]*)/")


class PrivateStrings:
    """The private strings of one record.

    :param names: names of machines and accounts, identifiers, values of private fields
    :param paths: by path of a file, the name that is published
    :param public: names that are not private
    """

    def __init__(
        self,
        names: Iterable[str],
        paths: Mapping[str, str] | None = None,
        public: Iterable[str] = (),
    ) -> None:
        self._public = frozenset(map(str.lower, public))
        shown = read_allowed().common_names | self._public
        self.names = tuple(
            sorted(
                {
                    name
                    for name in map(str.strip, names)
                    if len(name) >= SHORTEST_NAME and name.lower() not in shown
                },
                key=lambda name: (-len(name), name),
            )
        )
        self._paths = _alternatives(paths or {}, flags=0)
        self._replaced = dict(paths or {})
        self._names = _alternatives(self.names, flags=re.IGNORECASE)

    def with_names(self, names: Iterable[str]) -> "PrivateStrings":
        """Return the names with further ones, but for public ones, and without paths."""
        return PrivateStrings({*self.names, *names}, public=self._public)

    def remove(self, text: str) -> str:
        """Return a text without private names, addresses and folders."""
        named = _ADDRESS.sub(_replace_address, self.remove_names(text))
        return _PATH.sub(_replace_path, named)

    def remove_names(self, text: str) -> str:
        """Return a text without private names and the paths of input files."""
        if self._paths is not None:
            text = self._paths.sub(lambda match: self._replaced[match[0]], text)
        return text if self._names is None else self._names.sub(REPLACEMENT, text)

    def remove_folders(self, text: str) -> str:
        """Return a word of a command line without private strings, and paths as file names."""
        if "://" in text:
            return self.remove(text)
        return _FOLDERS.sub("", self.remove(text))

    def find(self, text: str) -> str | None:
        """Return the first private name in a text; None if there is none."""
        match = None if self._names is None else self._names.search(text)
        return None if match is None else match[0]


def find_places(text: str) -> list[str]:
    """Return the addresses and paths of a text that are not published as they are."""
    rules = ((_ADDRESS, _replace_address), (_PATH, _replace_path))
    return [
        match[0]
        for pattern, replaced in rules
        for match in pattern.finditer(text)
        if replaced(match) != match[0]
    ]


def name_users(text: str) -> set[str]:
    """Return the accounts whose home directories a text names."""
    return {name for match in _HOME.finditer(text) for name in match.groups() if name}


def _alternatives(names: Iterable[str], *, flags: int) -> re.Pattern[str] | None:
    ordered = sorted(names, key=lambda name: (-len(name), name))
    if not ordered:
        return None
    either = "|".join(map(re.escape, ordered))
    return re.compile(rf"(?<![^\W_])(?:{either})(?![^\W_])", flags)


def _replace_address(match: re.Match[str]) -> str:
    text = match[0]
    if "://" not in text:
        return REPLACEMENT
    try:
        address = urlsplit(text)
        is_public = address.hostname in read_allowed().public_servers
    except ValueError:
        return REPLACEMENT
    return text if is_public and "@" not in address.netloc else REPLACEMENT


def _replace_path(match: re.Match[str]) -> str:
    path = match[0]
    if match["url"] or any(f"{path}/".startswith(f"{folder}/") for folder in _public_folders()):
        return path
    name = path.rpartition("/")[2]
    # The last part of a directory may be the name of an account.
    return REPLACEMENT if name in ("", ".", "..") else name


def _public_folders() -> tuple[str, ...]:
    return read_allowed().public_folders
