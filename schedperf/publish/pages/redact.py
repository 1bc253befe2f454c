# SPDX-License-Identifier: GPL-2.0-or-later
"""Redact records by the allow-list: ``Comparison`` to ``Comparison``, ``Culprit`` to ``Culprit``.

Pages, texts and JSON are rendered from redacted records. Texts that ``allowed.toml`` does not list
are left out; private names, addresses and folders are removed from the listed ones.
"""

import typing
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Generic, TypeVar, cast, get_type_hints

from msgspec import Struct
from msgspec.structs import replace

from schedperf.model.base_new import BaseNew
from schedperf.model.caveats import Caveat
from schedperf.model.comparison import Comparison
from schedperf.model.errors import InputError
from schedperf.model.sides import Comparability, Difference, SideSummary
from schedperf.model.text import CUT
from schedperf.publish.culprit.record import Culprit
from schedperf.publish.pages.allowed import read_allowed
from schedperf.publish.pages.host import private_values, redact_command_line, redact_host
from schedperf.publish.pages.private import PrivateStrings
from schedperf_collectors.redaction.private import REPLACEMENT, name_users
from schedperf_collectors.redaction.rules import COMMAND_LINE

Record = TypeVar("Record", bound=Struct)


class Redacted(Struct, Generic[Record], frozen=True, kw_only=True):
    """A record that can be published.

    :param left_out: number of omitted or replaced strings, by kind
    :param private: the private strings, for a check of the output
    """

    record: Record
    left_out: Mapping[str, int]
    private: PrivateStrings


def redact_comparison(
    comparison: Comparison, public: Collection[str] = (), people: Collection[str] = ()
) -> Redacted[Comparison]:
    """Return a comparison without private strings.

    :param public: names that are not private
    :param people: as :func:`people_of_public_commits` returns them
    """
    private = private_strings(comparison, public, people)
    return _redact(comparison, _Redactor(private))


def redact_culprit(culprit: Culprit, private: PrivateStrings) -> Redacted[Culprit]:
    """Return a culprit without private strings.

    :param private: the private strings of its comparisons
    :raises InputError: its tree is private
    """
    if culprit.tree is not None and culprit.tree.private:
        raise InputError(
            f"culprit {culprit.key}: tree {culprit.tree.name} is private (expected a tree that may "
            "be published); publish nothing about it"
        )
    known = private.with_names(_users_in(culprit, people_of_public_commits([culprit])))
    return _redact(culprit, _Redactor(known, has_public_commits=_is_public(culprit)))


def keep_whole(record: Record) -> Redacted[Record]:
    """Return a record as it is, for a private site."""
    return Redacted(record=record, left_out={}, private=PrivateStrings(()))


def people_of_public_commits(culprits: Iterable[Culprit]) -> list[str]:
    """Return author, committer and the values of all trailers of public commits.

    The accounts of the people in them are public.
    """
    return [
        person
        for culprit in culprits
        if _is_public(culprit)
        for commit in (culprit.good, culprit.bad, culprit.fixed_by)
        if commit is not None
        for person in (commit.author, commit.committer, *(each.value for each in commit.trailers))
        if person
    ]


def private_strings(
    comparison: Comparison, public: Collection[str] = (), people: Collection[str] = ()
) -> PrivateStrings:
    """Return the names of machines and accounts, and the private values, in a comparison.

    :param public: names that are not private
    :param people: as :func:`people_of_public_commits` returns them
    """
    paths = {
        side.path: side.path.rpartition("/")[2]
        for side in comparison.sides
        if "/" in side.path.rstrip("/")
    }
    names = {value for side in comparison.sides for value in private_values(side.host)}
    return PrivateStrings(names | _users_in(comparison, people), paths, public)


def _users_in(record: Struct, people: Collection[str]) -> set[str]:
    """Return the accounts that a record names, except those of people in public commits."""
    users = {user for text in {*_texts_of(record)} for user in name_users(text)}
    if not people:
        return users
    known = "\n".join(people)
    return {user for user in users if PrivateStrings([user]).find(known) is None}


def _texts_of(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            yield from _texts_of(getattr(value, name))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts_of(key)
            yield from _texts_of(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts_of(item)


def _is_public(culprit: Culprit) -> bool:
    """Return whether the culprit's commits are publicly readable.

    That is so if they are merged or posted, or if their tree has a URL on a public server.
    """
    url = None if culprit.tree is None else culprit.tree.url
    is_known = url is not None and PrivateStrings(()).remove(url) == url and "://" in url
    return bool(culprit.merged) or is_known or culprit.links.posted is not None


def _redact(record: Record, redactor: "_Redactor") -> Redacted[Record]:
    redacted = cast("Record", redactor.redact(record))
    counts = {what: count for what, count in redactor.left_out.items() if count}
    return Redacted(
        record=redacted, left_out=dict(sorted(counts.items())), private=redactor.private
    )


class _Redactor:
    """Redacts a record recursively, and counts what it leaves out.

    :param has_public_commits: whether addresses of people in commits are already public
    """

    def __init__(self, private: PrivateStrings, *, has_public_commits: bool = False) -> None:
        self.private = private
        self.left_out: Counter[str] = Counter()
        self._has_public_commits = has_public_commits
        self._removed: dict[str, str] = {}

    def redact(self, record: Struct) -> Struct:
        """Return a redacted record of the same type."""
        fields = {name: self._field(record, name) for name in record.__struct_fields__}
        made = type(record)(**fields)
        if isinstance(made, Comparability):
            return self._drop_private_fields(made)
        return made

    def _field(self, record: Struct, name: str) -> object:
        value = getattr(record, name)
        if isinstance(record, SideSummary) and name == "host":
            return redact_host(record.host, self._clean, self.left_out)
        if isinstance(record, Caveat) and name == "numbers":
            return {key: self._caveat_value(key, item) for key, item in value.items()}
        if isinstance(record, Difference) and name in ("path", "base", "new"):
            return self._difference_value(record, value)
        if isinstance(record, Comparability) and name == "equal":
            return value
        if not _holds_text(type(record), name):
            return self._without_text(value)
        return self._text(type(record).__name__, name, value)

    def _text(self, kind: str, name: str, value: object) -> object:
        allowed = read_allowed()
        if name in allowed.texts.get(kind, ()):
            return self._clean(value)
        if name in allowed.commands.get(kind, ()):
            return self._map(value, self._remove_folders)
        if name in allowed.public_texts.get(kind, ()):
            return self._map(value, self._remove_names)
        if name in allowed.commit_texts.get(kind, ()):
            use = self._remove_names if self._has_public_commits else self._remove
            return self._map(value, use)
        what = allowed.private_texts.get(f"{kind}.{name}", "texts of unlisted records")
        self.left_out[what] += sum(1 for _ in _texts_of(value))
        return _emptied(value)

    def _without_text(self, value: object) -> object:
        """Redact the records in a value; keep its own strings, which are words of schedperf."""
        return self._map(value, lambda text: text)

    def _clean(self, value: object) -> object:
        return self._map(value, self._remove)

    def _map(self, value: object, change: Callable[[str], str]) -> object:
        if isinstance(value, str):
            return change(value)
        if isinstance(value, BaseNew):
            return value.map(lambda item: self._map(item, change))
        if isinstance(value, Struct):
            return self.redact(value)
        if isinstance(value, Mapping):
            return {
                change(key) if isinstance(key, str) else key: self._map(item, change)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return type(value)(self._map(item, change) for item in value)
        return value

    def _remove(self, text: str) -> str:
        # Names of sides, points and functions are repeated in thousands of rows, so results are
        # cached.
        removed = self._removed.get(text)
        if removed is None:
            removed = self._removed[text] = self.private.remove(text)
        return self._counted(text, removed)

    def _remove_folders(self, text: str) -> str:
        return self._counted(text, self.private.remove_folders(text))

    def _remove_names(self, text: str) -> str:
        return self._counted(text, self.private.remove_names(text))

    def _counted(self, text: str, removed: str) -> str:
        if removed != text:
            self.left_out[_what_is_gone(removed)] += 1
        return removed

    def _caveat_value(self, key: str, value: object) -> object:
        if key in read_allowed().caveat_values or not isinstance(value, str):
            return self._clean(value)
        self.left_out["texts in caveats"] += 1
        return REPLACEMENT

    def _difference_value(self, difference: Difference, value: object) -> object:
        if difference.path == COMMAND_LINE and isinstance(value, str):
            return self._clean(redact_command_line(value, self.left_out))
        return self._clean(value)

    def _drop_private_fields(self, comparability: Comparability) -> Comparability:
        allowed = read_allowed()
        equal = tuple(path for path in comparability.equal if allowed.has_host_field(path))
        differences = tuple(
            each for each in comparability.differences if allowed.has_difference(each.path)
        )
        self.left_out["differences in private fields"] += len(comparability.differences) - len(
            differences
        )
        return replace(comparability, equal=equal, differences=differences)


def _what_is_gone(removed: str) -> str:
    if REPLACEMENT in removed:
        return "private names and addresses"
    return "words that had been cut" if CUT in removed else "folders of paths"


def _emptied(value: object) -> object:
    if isinstance(value, str):
        return REPLACEMENT
    if isinstance(value, BaseNew):
        return value.map(_emptied)
    if isinstance(value, Mapping):
        return {}
    if isinstance(value, list | tuple):
        return type(value)()
    return value if isinstance(value, bool | int | float) else None


@cache
def _holds_text(kind: type[Struct], name: str) -> bool:
    """Return whether a field can contain any text, not only words that its type lists."""
    return _is_text(get_type_hints(kind)[name])


def _is_text(hint: object) -> bool:
    if hint in (str, object) or isinstance(hint, TypeVar):
        return True
    if typing.get_origin(hint) is typing.Literal:
        return False
    return any(map(_is_text, typing.get_args(hint)))
