# SPDX-License-Identifier: GPL-2.0-or-later
"""Find and replace private strings: names from a record, and texts that look like addresses.

::

    >>> rules = Rules((), frozenset(), ("/proc",), frozenset(), frozenset())
    >>> private = PrivateStrings(["lab-17.example.com"], rules)
    >>> private.remove("sent by bob@example.com from lab-17.example.com: /home/bob/bench")
    'sent by [private] from [private]: bench'

Shortened texts of records end with ``…``. A shortened name or address is not recognised, so the
word before the ``…`` is removed::

    >>> private.remove("root=UUID=c0ffee00-99aa-4b…")
    'root=UUID=…'
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Callable
from urllib.parse import urlsplit

from schedperf_collectors.redaction.rules import Rules

# Ends a text that the analysis has shortened.
CUT = "…"
REPLACEMENT = "[private]"

Replace = Callable[["re.Match[str]"], str]

# Minimum length of a name: shorter names are part of ordinary words.
SHORTEST_NAME = 3
# A name of this length with a digit is found within words, too: it is not part of one by chance.
SHORTEST_WITHIN = 6
# Minimum length of a private field's value: a shorter one may be any setting, e.g. "quiet".
SHORTEST_VALUE = 8
# The kernel truncates names of commands (TASK_COMM_LEN - 1).
_COMMAND_CHARACTERS = 15

_URL = r"[a-zA-Z][a-zA-Z0-9+.-]{0,30}://[^\s'\"<>]+"
_GROUP, _GROUP_START = r"[0-9a-fA-F]{1,4}", r"(?<!\w)(?<!::)"
_IPV4 = r"\d{1,3}(?:\.\d{1,3}){3}"
# An address of a private network, with other separators: 10_1_2_3
_PRIVATE_IPV4 = r"(?:10|192_168|172_(?:1[6-9]|2\d|3[01]))(?:_\d{1,3}){2,3}"
# Systemd writes a hyphen as \x2d in names of units.
_HYPHEN = r"(?:[-_]|\\x2d)"
# Word boundaries; an underscore separates words: run_10.1.2.3_1
_START, _END = r"(?<![^\W_])", r"(?![^\W_])"
# token=…, aws_secret_access_key=…
_NAMED = (
    r"\b[\w-]{0,40}(?:token|passwd|password|passphrase|secret|api[_-]?key)(?:[_-][a-z]{1,10}){0,2}"
)
# Plain digits may be any setting: token=128
_WORD_OR_QUOTED = r"(?:\\?'[^']+'|\\?\"[^\"]+\"|\\?['\"]?(?!\d+\b)[^\s'\"]+)"
_ADDRESS = re.compile(
    _URL
    # E-mail or login, also of a private account; not a versioned symbol: memcpy@@GLIBC_2.14
    + rf"|(?:{re.escape(REPLACEMENT)}|[\w.+-]){{1,64}}(?:@(?!plt\b|@|[A-Z]+_\d)|%40)"
    rf"(?:{re.escape(REPLACEMENT)}(?:\.[A-Za-z][\w-]*)*|[\w.-]*\w)"
    # Domain of a private host
    rf"|{re.escape(REPLACEMENT)}(?:\.[A-Za-z][\w-]*)+"
    # Target of --on
    r"|\bssh:[^\s'\"<>]+"
    # UUID, or at least its first two parts; not a date: 20261121-1000-2000
    rf"|{_START}(?=[\d_-]{{0,35}}[a-fA-F])[0-9a-fA-F]{{8}}(?:{_HYPHEN}[0-9a-fA-F]{{4}}){{1,3}}(?:{_HYPHEN}[0-9a-fA-F]{{1,12}})?{_END}"
    # A whole UUID in a word, and what is left of one
    rf"|[0-9a-fA-F]{{8}}(?:{_HYPHEN}[0-9a-fA-F]{{4}}){{3}}{_HYPHEN}[0-9a-fA-F]{{12}}"
    rf"|(?i:\bPARTUUID=)[0-9a-fA-F]{{8}}-[0-9a-fA-F]{{2}}\b"
    # Machine id, or a UUID without hyphens
    r"|(?<![0-9a-fA-F])(?=\d{0,31}[a-fA-F])[0-9a-fA-F]{32}(?![0-9a-fA-F])"
    # Passwords and tokens: by their names, and by the formats of well-known services
    rf"|(?i:{_NAMED}(?:\\?['\"])?\s?[=:]\s?{_WORD_OR_QUOTED})"
    rf"|\b(?=[A-Z\d_]{{5,60}}=\d)(?i:{_NAMED})=\d+"
    rf"|(?i:(?<![\w-])--{_NAMED}\s{{1,9}}(?!-){_WORD_OR_QUOTED})"
    r"|(?i:\bbearer\s{1,9}[\w.~+/-]{8,}=*)"
    rf"|{_START}(?:gh[a-z]_\w{{20,}}|glpat-[\w-]{{20,}}|AKIA[0-9A-Z]{{16}}|eyJ[\w-]+\.[\w-]+\.[\w-]+)"
    # Names of disks, which contain serial numbers
    r"|/dev/(?:disk/by-[a-z]+|mapper)/[^\s'\"<>]+|\b(?:wwn-0x|naa\.|eui\.)[0-9a-f]{16,}\b"
    # MAC with hyphens or dots, and in the name of an interface: enx0242ac112233
    r"|\b[0-9a-fA-F]{2}(?:[-_][0-9a-fA-F]{2}){5}\b|(?<![0-9a-fA-F:])[0-9a-fA-F]{2}(?:(?::|%3[Aa])[0-9a-fA-F]{2}){5}(?![0-9a-fA-F:])|(?<![\w.])[0-9a-fA-F]{4}(?:\.[0-9a-fA-F]{4}){2}(?![\w.])"
    r"|\b(?:en|wl|ww)x[0-9a-f]{12}\b"
    # IPv6 and MAC, also after a word: addr:fd00::1; not C++: std::add
    rf"|{_GROUP_START}(?:{_GROUP}:){{5,7}}{_GROUP}(?![\w:])"
    rf"|{_GROUP_START}(?:{_GROUP}:){{1,7}}:(?:{_GROUP}:){{0,6}}{_GROUP}:?(?![\w:])"
    rf"|{_GROUP_START}(?:{_GROUP}:){{2,6}}:(?:/\d+)?(?![\w:])"
    # IPv4, or a range, and names of hosts in clouds: ip-10-1-2-3
    rf"|(?<![^\W_])(?<![.-]){_IPV4}(?:-{_IPV4})?(?![^\W_]|-|\.\d)"
    rf"|(?<=[a-zA-Z]{{2}}){_IPV4}(?!\.?\d)|{_START}{_PRIVATE_IPV4}{_END}"
    rf"|{_START}ip(?:-\d{{1,3}}){{4}}{_END}"
    # IPv6 in the name of a host
    rf"|\b(?:{_GROUP}-){{7}}{_GROUP}(?:\.ipv6-literal\.net)?\b"
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
# The directories of a path in a command line.
_FOLDERS = re.compile(
    # Not after a replacement in the same word: a word is searched only from its start.
    rf"(?<![^{_BETWEEN}])(?<!{re.escape(REPLACEMENT)})(?:~|\.{{1,2}}/)?(?:{_PART}/+)+(?={_PART})"
)
_BREAK = re.compile(rf"[{_BETWEEN}]")
# A shortened text without the rest of its last word.
_WHOLE_WORDS = re.compile(rf"(?:.*[{_BETWEEN}])?", re.DOTALL)
_HOME = re.compile(
    r"/(?:home|Users)/+([\w.-]+)|~([a-z_][\w.-]*)/"
    r"|\b(?:SUDO_)?(?:USER|LOGNAME)=\\?['\"]?([\w.-]+)"
)


class PrivateStrings:
    """The private strings of one record.

    :param names: names of machines and accounts, identifiers, values of private fields; those of
        fewer than 3 characters are ignored
    :param rules: names, directories and servers that are public
    :param paths: published name by path of a file
    :param public: names that are not private, besides ``rules.common_names``
    """

    def __init__(
        self,
        names: Iterable[str],
        rules: Rules,
        paths: Mapping[str, str] | None = None,
        public: Iterable[str] = (),
    ) -> None:
        self.rules = rules
        self._public = frozenset(map(str.lower, public))
        shown = rules.common_names | self._public
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
        commands = (name[:_COMMAND_CHARACTERS] for name in self.names)
        self._names = _alternatives({*self.names, *commands}, flags=re.IGNORECASE)
        # Names of several words; shortening can leave whole words of them.
        self._phrases = tuple(name.lower() for name in self.names if _BREAK.search(name))

    def with_names(self, names: Iterable[str]) -> PrivateStrings:
        """Return private strings with further names and the same rules, without paths."""
        return PrivateStrings({*self.names, *names}, self.rules, public=self._public)

    def remove(self, text: str) -> str:
        """Return a text without private names and addresses; private paths become file names."""
        replace_address, replace_path = _replacements(self.rules)
        return _PATH.sub(replace_path, _ADDRESS.sub(replace_address, self.remove_names(text)))

    def remove_names(self, text: str) -> str:
        """Return a text without private names, and with the published names of input files.

        Words that were cut are removed, because they may be parts of a private name.
        """
        if self._paths is not None:
            text = self._paths.sub(lambda match: self._replaced[match[0]], text)
        text = self._remove_cut(text)
        return text if self._names is None else self._names.sub(REPLACEMENT, text)

    def _remove_cut(self, text: str) -> str:
        """Return a text without the words, and the parts of private names, that ``…`` cut."""
        *cut, end = text.split(CUT)
        kept = (_WHOLE_WORDS.match(self._without_start(part)) for part in cut)
        return CUT.join([*(match[0] for match in kept if match), end])

    def _without_start(self, text: str) -> str:
        """Remove the beginning of a private name from the end of a text that was cut within it.

        Only names of several words that were cut after their first word are found. Of all others,
        :meth:`_remove_cut` removes the last word.
        """
        lower = text.lower()
        for name in self._phrases:
            for size in range(len(name), 0, -1):
                if lower.endswith(name[:size]) and _BREAK.search(name, 0, size):
                    return text[: len(text) - size]
        return text

    def remove_folders(self, text: str) -> str:
        """Return a command-line word without private strings; reduce paths to file names."""
        if "://" in text:
            return self.remove(text)
        return _FOLDERS.sub("", self.remove(text))

    def find(self, text: str) -> str | None:
        """Return the first private name in a text, as the text spells it; None without one."""
        match = None if self._names is None else self._names.search(text)
        return None if match is None else match[0]


def find_places(text: str, rules: Rules) -> list[str]:
    """Return the addresses and paths of a text that must be replaced before publishing."""
    return [
        match[0]
        for pattern, replaced in zip((_ADDRESS, _PATH), _replacements(rules))
        for match in pattern.finditer(text)
        if replaced(match) != match[0]
    ]


def name_users(text: str) -> set[str]:
    """Return the accounts that a text names: by a home directory, or by ``USER`` or ``LOGNAME``."""
    return {name for match in _HOME.finditer(text) for name in match.groups() if name}


def _alternatives(names: Iterable[str], *, flags: int) -> re.Pattern[str] | None:
    ordered = sorted(names, key=lambda name: (-len(name), name))
    if not ordered:
        return None
    within = [name for name in ordered if len(name) >= SHORTEST_WITHIN and re.search(r"\d", name)]
    either, anywhere = ("|".join(map(re.escape, names)) for names in (ordered, within))
    words = rf"(?<![^\W_])(?:{either})(?![^\W_])"
    return re.compile(f"{words}|{anywhere}" if anywhere else words, flags)


def _replacements(rules: Rules) -> tuple[Replace, Replace]:
    """Return the functions that replace an address and a path."""
    return functools.partial(_replace_address, rules), functools.partial(_replace_path, rules)


def _replace_address(rules: Rules, match: re.Match[str]) -> str:
    text = match[0]
    if "://" not in text:
        return REPLACEMENT
    try:
        address = urlsplit(text)
        is_public = address.hostname in rules.public_servers
    except ValueError:
        return REPLACEMENT
    return text if is_public and "@" not in address.netloc else REPLACEMENT


def _replace_path(rules: Rules, match: re.Match[str]) -> str:
    path = match[0]
    if match["url"] or any(f"{path}/".startswith(f"{folder}/") for folder in rules.public_folders):
        return path
    name = path.rpartition("/")[2]
    # The last part of a directory may be the name of an account.
    return REPLACEMENT if name in ("", ".", "..") else name
