# SPDX-License-Identifier: GPL-2.0-or-later
"""Make records whose texts all contain private strings, each with the word ``canary``."""

import base64
import gzip
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from random import Random
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from msgspec import Struct

from schedperf.evidence import all_sections
from schedperf.model.caveats import TEXTS, Caveat
from schedperf.model.comparison import Comparison
from schedperf.model.sections import Section, SectionData
from schedperf.model.sides import Difference, SideSummary
from schedperf.model.text import cut
from schedperf.publish.culprit.record import Culprit
from schedperf.publish.pages.allowed import read_allowed

HOST_NAME = "canary-lab17"
PARAMETER = "console=canary-tty9,115200"
ADDRESSES = (
    "10.99.88.77",
    "02:42:ac:99:88:77",
    "02-42-ac-99-88-77",
    "enx0242ac998877",
    "fd00::99:88:77",
    "c0ffee00-99aa-4bbb-8ccc-998877665544",
)
# What stands for one private string each.
FORMS = (
    "/home/canary{n}/bench/run",
    "~canary{n}/run",
    "./canary{n}/run",
    "../canary{n}/run",
    "/data/canary{n}/run",
    "-I/home/canary{n}/include/run.h",
    "--log=/srv/canary{n}/run.log",
    "canary{n}@corp.example.com",
    "root@canary{n}:/tmp",
    "ssh:canary{n}",
    "ssh:root@canary{n}.example.com",
    "https://canary{n}.example.com/run",
    "ssh://canary{n}@git.kernel.org/run",
    "https://canary{n}@git.kernel.org/run",
    "file:///srv/canary{n}/run",
    HOST_NAME,
    f"{HOST_NAME}.example.com",
    HOST_NAME.upper(),
    PARAMETER,
    "/home/canary{n}/",
    *ADDRESSES,
    *(f"/srv/{address}" for address in ADDRESSES),
)
# So much of a private string that was cut says what it is.
_START = 8
# So many of the texts are cut within a private string.
CUT_SHORT = 0.3
# Texts of real comparisons that can be longer: rows are not found by them.
SEEDED = {
    "Caveat": ("numbers",),
    "Comparison": ("command",),
    "Difference": ("base", "new", "reason"),
    "Finding": ("clause", "change", "details", "support", "attribution", "replication"),
    "NextStep": ("what", "why", "commands", "conditions"),
    "Overall": ("reason", "reason_short"),
    "Row": ("reason", "reason_plain", "reason_short", "definition"),
    "SideSummary": ("label", "path", "recorded_by", "machine_class"),
    "Source": ("member", "text"),
}
# So many of the collections have an item.
FILLED = 0.75
# Records hold other records; deeper ones are of the same types.
DEEPEST = 9


# What a page has compressed; and the hash of a script, as its policy names it.
_PACKED = re.compile(r'(<script type="application/gzip">)([^<]*)')
_HASH = re.compile(r"sha256-[\w+/]{43}=")


def has_canary(text: str) -> bool:
    """Return whether a text has one of the private strings, also where it is compressed."""
    plain = _HASH.sub("", _PACKED.sub(lambda found: found[1] + _unpack(found[2]), text))
    return "cana" in plain.lower() or any(address[:_START] in plain for address in ADDRESSES)


def _unpack(packed: str) -> str:
    return gzip.decompress(base64.b64decode(packed)).decode()


class Seeder:
    """Makes records with a private string in each of their texts."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)  # noqa: S311 # not for secrets
        self._names = [f"canary{self._random.getrandbits(40):010x}" for _ in range(4)]

    def comparison(self) -> Comparison:
        """Return a comparison with all sections."""
        comparison = self._record(Comparison)
        sections = {
            name: Section.of(self._record(plugin.record)) for name, plugin in all_sections().items()
        }
        sides = (self._record(SideSummary), self._record(SideSummary))
        return typing.cast(Comparison, replace_fields(comparison, sides=sides, sections=sections))

    def culprit(self) -> Culprit:
        """Return a culprit of a tree that may be published."""
        culprit = self._record(Culprit)
        tree = culprit.tree and replace_fields(culprit.tree, private=False)
        # The addresses in public commits and Message-IDs are public.
        return typing.cast(
            Culprit,
            replace_fields(
                culprit,
                tree=tree,
                merged=None,
                links=replace_fields(culprit.links, posted=None, report=None),
            ),
        )

    def seed(self, comparison: Comparison) -> Comparison:
        """Return a real comparison with a private string in each of its longer texts."""
        return typing.cast(Comparison, self._seed(comparison))

    def _seed(self, value: Any, *, is_seeded: bool = False) -> Any:
        if isinstance(value, SideSummary):
            host = {**value.host, **{group: self.host()[group] for group in ("kernel", "system")}}
            value = replace_fields(value, host=host)
        if isinstance(value, str) and is_seeded:
            return f"{value} {self.text()}"
        if isinstance(value, Struct):
            seeded = SEEDED.get(type(value).__name__, ())
            return type(value)(
                **{
                    name: self._seed(getattr(value, name), is_seeded=name in seeded)
                    for name in value.__struct_fields__
                }
            )
        if isinstance(value, Mapping):
            return {key: self._seed(item, is_seeded=is_seeded) for key, item in value.items()}
        if isinstance(value, tuple):
            return tuple(self._seed(item, is_seeded=is_seeded) for item in value)
        return value

    def host(self) -> dict[str, object]:
        """Return a host.json with a private string in every field, and unknown fields."""
        host: dict[str, Any] = {"system": {"hostname": HOST_NAME, "boot_id": ADDRESSES[-1]}}
        for path in read_allowed().host:
            group, *keys = path.replace("*", "some").split(".")
            inner = host.setdefault(group, {})
            for key in keys[:-1]:
                inner = inner.setdefault(key, {})
            if isinstance(inner, dict):
                inner.setdefault(keys[-1], self.text())
        for group in (*host, "new_group"):
            host.setdefault(group, {})["new_field"] = self._name()
        host["kernel"]["cmdline"] = (
            f"nohz=off secret={self._name()} {PARAMETER} -- --token {self._name()}"
        )
        host["missing"] = {f"system.{self._name()}": self._name(), "cpu.model": self.text()}
        return {**host, self._name(): self._name()}

    def text(self) -> str:
        """Return an ordinary text with a private string in it."""
        form = self._random.choice(FORMS).format(n=self._random.getrandbits(32))
        whole = self._random.choice(("{}", "run {} here", "({})", '"{}"', "x={}", "{}, and"))
        text = whole.format(form)
        if self._random.random() < CUT_SHORT:
            return cut(text, text.index(form) + self._random.randint(1, len(form)))
        return text

    def _name(self) -> str:
        return self._random.choice(self._names)

    def _record(self, kind: Any, depth: int = 0) -> Any:
        if kind is Caveat:
            return self._caveat()
        hints = hints_of(kind)
        listed = listed_texts(kind.__name__)
        fields = {
            name: self._value(hints[name], depth, is_listed=name in listed)
            for name in kind.__struct_fields__
        }
        if kind is SideSummary:
            fields["host"] = self.host()
        if kind is Difference:
            path = self._random.choice(("kernel.cmdline", "cpu.model", "setup", "system.hostname"))
            fields |= {"path": path, "base": self.text(), "new": self.text()}
        return kind(**fields)

    def _caveat(self) -> Caveat:
        code = self._random.choice(("bad-lines", "no-line-end", "import-note", "failed-finding"))
        names = ("label", "problem", "line", "path", "text", "note", "rule")
        listed = read_allowed().caveat_values
        numbers: dict[str, object] = {
            name: self.text() if name in listed else self._name() for name in names
        }
        assert code in TEXTS
        return Caveat(code=code, numbers={**numbers, "count": 3})

    def _value(self, hint: Any, depth: int, *, is_listed: bool) -> Any:  # noqa: PLR0911 # kinds
        origin, arguments = get_origin(hint), get_args(hint)
        if hint in (str, object):
            return self.text() if is_listed else self._name()
        if isinstance(hint, type) and issubclass(hint, SectionData):
            return None
        if isinstance(hint, type) and issubclass(hint, Struct):
            return self._record(hint, depth + 1)
        if origin is Literal:
            return self._random.choice(arguments)
        if origin in (typing.Union, UnionType):
            can_end = depth >= DEEPEST and type(None) in arguments
            return None if can_end else self._value(arguments[0], depth, is_listed=is_listed)
        if origin in (tuple, Sequence) or origin is Mapping or hint in (int, float, bool):
            return self._collection(hint, depth, is_listed=is_listed)
        if origin is not None:
            # A record of two sides, or another generic one.
            values = dict(zip(origin.__parameters__, arguments, strict=True))
            hints = hints_of(origin)
            return origin(
                **{
                    name: self._value(
                        values.get(hints[name], hints[name]), depth + 1, is_listed=is_listed
                    )
                    for name in origin.__struct_fields__
                }
            )
        assert not isinstance(hint, TypeVar)
        return None

    def _collection(self, hint: Any, depth: int, *, is_listed: bool) -> Any:
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is None:
            return hint(self._random.randint(0, 1))
        if origin is Mapping:
            return {
                self._value(arguments[0], depth, is_listed=is_listed): self._value(
                    arguments[1], depth, is_listed=is_listed
                )
            }
        kinds = [arguments[0]] * (self._random.random() < FILLED)
        if arguments[-1] is not Ellipsis and origin is tuple:
            kinds = list(arguments)
        return tuple(self._value(kind, depth, is_listed=is_listed) for kind in kinds)


@cache
def hints_of(kind: Any) -> dict[str, Any]:
    """Return the types of a record's fields."""
    return get_type_hints(kind)


@cache
def listed_texts(kind: str) -> frozenset[str]:
    """Return the texts of a record that are published after private strings are removed."""
    allowed = read_allowed()
    lists = (allowed.texts, allowed.commands, allowed.commit_texts, allowed.public_texts)
    return frozenset(name for each in lists for name in each.get(kind, ()))


def replace_fields(record: Any, **fields: Any) -> Any:
    """Return a record of the same type with other fields."""
    old = {name: getattr(record, name) for name in record.__struct_fields__}
    return type(record)(**{**old, **fields})


def free_texts() -> Iterator[tuple[str, str]]:
    """Yield record and field of each text of comparisons and culprits that can be any text."""
    seen: set[type] = set()
    waiting: list[type] = [Comparison, Culprit]
    waiting += [plugin.record for plugin in all_sections().values()]
    while waiting:
        kind = waiting.pop()
        if kind in seen:
            continue
        seen.add(kind)
        hints = hints_of(kind)
        for name in getattr(kind, "__struct_fields__", ()):
            waiting += records_in(hints[name])
            if is_text(hints[name]):
                yield kind.__name__, name


def records_in(hint: Any) -> Iterator[type]:
    """Yield the records in a type."""
    for kind in (hint, get_origin(hint)):
        if isinstance(kind, type) and issubclass(kind, Struct):
            yield kind
    for argument in get_args(hint):
        yield from records_in(argument)


def is_text(hint: Any) -> bool:
    """Return whether values of a type contain any text, not only words that the type lists."""
    return hint is str or (get_origin(hint) is not Literal and any(map(is_text, get_args(hint))))
