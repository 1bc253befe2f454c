# SPDX-License-Identifier: GPL-2.0-or-later
"""Who touches the scheduler's data on its hot paths, and how: the table ``heat.toml``.

::

    table = heat_table()
    table.find("percpu", "sd_llc_id").functions      # ("core.c:cpus_share_cache",)
    table.find("struct rq", "cfs.avg.load_avg").written     # "own"

What the table says was read from the kernel's source, so it knows what may happen on a line, never
how often it does on one machine.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, cast, get_args

from schedperf.evidence.layout.record import LayoutUse, Reader, Writer
from schedperf.kernel.renames import newest_function
from schedperf.model.errors import InputError

PathName = Literal["wakeup", "switch", "tick", "newidle", "fork", "idle", "balance"]

# The paths that every task takes many times a second; the others are taken when a CPU has no work.
HOT_PATHS = frozenset({"wakeup", "switch", "tick", "newidle", "fork"})
# Paths on which a write is frequent enough to disturb who else is on the line: into and out of idle
# is what nohz.nr_cpus was contended by.
DISTURBING_PATHS = HOT_PATHS | {"idle"}

_VERSION = 1
_SPECIAL = frozenset({"version", "embedded", "inlined", "together", "apart"})
_KEYS = frozenset({"paths", "written", "read", "in", "since", "until", "only", "was"})
_NEEDED = frozenset({"paths", "written", "read", "in"})
_RELEASE = re.compile(r"\d+\.\d+")
_FUNCTION = re.compile(r"[\w./-]+\.[ch]:\w+")
# An index into an array, and the number that a second variable of one name has.
_INDEX = re.compile(r"\[\d*\]|#\d+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    """How the scheduler uses one variable or field.

    :param unit: "percpu", "globals" or the struct that declares it
    :param paths: on which it is touched
    :param written: by whom; "rarely" is read-mostly
    :param read: by whom
    :param functions: who does it, "FILE:FUNCTION", of kernel/sched where the file has no folder
    :param since: first release that has it, ``until`` the last one; None where it is not known
    :param only: what the kernel must be built with; None where every kernel has it
    :param was: earlier names
    """

    unit: str
    name: str
    paths: tuple[PathName, ...]
    written: Writer
    read: Reader
    functions: tuple[str, ...]
    since: str | None
    until: str | None
    only: str | None
    was: tuple[str, ...]

    @property
    def is_hot(self) -> bool:
        """Whether a path touches it that every task takes."""
        return not HOT_PATHS.isdisjoint(self.paths)

    @property
    def is_read_mostly(self) -> bool:
        """Whether its line can stay in the caches of all who read it."""
        return self.written == "rarely"

    @property
    def is_disturbing(self) -> bool:
        """Whether other CPUs write it so often that they take the line from who else needs it."""
        return self.written == "remote" and not DISTURBING_PATHS.isdisjoint(self.paths)


@dataclass(frozen=True, kw_only=True, slots=True)
class Together:
    """Names that somebody measured to be better off on one line.

    :param effect: what was measured, and where
    :param reference: who measured it
    """

    unit: str
    names: tuple[str, ...]
    effect: str
    reference: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Apart:
    """Names that somebody measured to be worse off on a line with ``others``."""

    unit: str
    names: tuple[str, ...]
    others: tuple[str, ...]
    effect: str
    reference: str


@dataclass(frozen=True, kw_only=True, slots=True)
class HeatTable:
    """The whole table.

    :param uses: by unit and name
    :param embedded: by unit, field and the struct that it is
    :param inlined: the callers of functions that have no name of their own in a profile
    """

    uses: Mapping[tuple[str, str], Use]
    embedded: Mapping[str, Mapping[str, str]]
    inlined: Mapping[str, tuple[str, ...]]
    together: tuple[Together, ...]
    apart: tuple[Apart, ...]

    def find(self, unit: str, entry: str) -> Use | None:
        """Return what is known of an entry of a unit; None: its heat is unknown.

        What the table says of a field holds for all that is in it.
        """
        parts = _INDEX.sub("", entry).split(".")
        for count in range(len(parts), 0, -1):
            head, rest = ".".join(parts[:count]), parts[count:]
            inner = self.embedded.get(unit, {}).get(head)
            found = self.find(inner, ".".join(rest)) if inner and rest else None
            if found := found or self.uses.get((unit, head)):
                return found
        return None

    def common_functions(self, one: Use, other: Use) -> tuple[str, ...]:
        """Return who touches both, under the newest names, by name."""
        return tuple(sorted(self.function_names(one) & self.function_names(other)))

    def function_names(self, use: Use) -> frozenset[str]:
        """Return who touches it, under the newest names and without the files."""
        return frozenset(newest_function(each.rpartition(":")[2]) for each in use.functions)

    def sampled_names(self, use: Use) -> frozenset[str]:
        """Return the names under which samples of who touches it appear, the newest ones."""
        own = self.function_names(use)
        return own.union(*(self.inlined.get(name, ()) for name in own))

    def is_together(self, one: Use, other: Use) -> bool:
        """Whether somebody measured that both belong on one line."""
        return any(_has(group, one) and _has(group, other) for group in self.together)

    def apart_of(self, one: Use, other: Use) -> Apart | None:
        """Return the measurement that says that both belong on different lines."""
        for rule in self.apart:
            if one.unit == other.unit == rule.unit:
                pairs = ((one.name, other.name), (other.name, one.name))
                if any(a in rule.names and b in rule.others for a, b in pairs):
                    return rule
        return None


def _has(group: Together, use: Use) -> bool:
    return use.unit == group.unit and use.name in group.names


@cache
def heat_table() -> HeatTable:
    """Return the table that comes with this package."""
    text = (files("schedperf.evidence.layout") / "heat.toml").read_text(encoding="utf-8")
    return parse_heat(text, "heat.toml")


def describe_use(name: str, use: Use | None) -> LayoutUse:
    """Return who touches an entry; with None for ``use`` nothing of it is known."""
    return LayoutUse(
        name=name,
        paths=use.paths if use else (),
        written=use.written if use else None,
        read=use.read if use else None,
        functions=use.functions if use else (),
    )


def known_uses(unit: str, names: Iterable[str]) -> tuple[LayoutUse, ...]:
    """Return who touches these entries of a unit, of those that the table knows."""
    found = ((name, heat_table().find(unit, name)) for name in names)
    return tuple(describe_use(name, use) for name, use in found if use is not None)


def parse_heat(text: str, label: str) -> HeatTable:
    """Read a table.

    :param label: for messages
    :raises InputError: it is invalid TOML, of another version, or a row lacks something or has an
        unknown word
    """
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{label}: {error}; fix the line") from error
    if tree.get("version") != _VERSION:
        raise InputError(f"{label}: version is {tree.get('version')!r}; supported: {_VERSION}")
    uses = dict(_uses(tree, label))
    table = HeatTable(
        uses=uses,
        embedded=_texts_of_tables(tree.get("embedded", {}), f"{label}: embedded"),
        inlined=_strings_of_table(tree.get("inlined", {}), f"{label}: inlined"),
        together=tuple(_together(row, label) for row in _rows(tree, "together", label)),
        apart=tuple(_apart(row, label) for row in _rows(tree, "apart", label)),
    )
    _refuse_unknown_names(table, label)
    return table


def _uses(tree: Mapping[str, Any], label: str) -> Iterator[tuple[tuple[str, str], Use]]:
    taken: set[tuple[str, str]] = set()
    for unit, rows in tree.items():
        if unit in _SPECIAL:
            continue
        for name, row in _table(rows, f"{label}: {unit}").items():
            where = f"{label}: {unit}: {name}"
            use = _use(unit, name, _table(row, where), where)
            for known in (name, *use.was):
                if (unit, known) in taken:
                    raise InputError(f"{where}: {known!r} is duplicated; keep one row")
                taken.add((unit, known))
                yield (unit, known), use


def _use(unit: str, name: str, row: Mapping[str, Any], where: str) -> Use:
    if row.keys() - _KEYS or _NEEDED - row.keys():
        found = ", ".join(sorted((row.keys() - _KEYS) | (_NEEDED - row.keys())))
        raise InputError(f"{where}: unknown or missing: {found}; see the head of the table")
    paths, functions = _strings(row["paths"], where), _strings(row["in"], where)
    for path in paths:
        _word(path, get_args(PathName), where)
    for function in functions:
        if not _FUNCTION.fullmatch(function):
            raise InputError(f"{where}: {function[:60]!r} is invalid (expected FILE:FUNCTION)")
    return Use(
        unit=unit,
        name=name,
        paths=cast("tuple[PathName, ...]", paths),
        written=cast("Writer", _word(row["written"], get_args(Writer), where)),
        read=cast("Reader", _word(row["read"], get_args(Reader), where)),
        functions=functions,
        since=_release(row.get("since"), where),
        until=_release(row.get("until"), where),
        only=None if row.get("only") is None else _text(row["only"], where),
        was=_strings(row["was"], where) if "was" in row else (),
    )


def _together(row: Mapping[str, Any], label: str) -> Together:
    where = f"{label}: together"
    return Together(
        unit=_text(row.get("unit"), where),
        names=_strings(row.get("names"), where),
        effect=_text(row.get("effect"), where),
        reference=_text(row.get("reference"), where),
    )


def _apart(row: Mapping[str, Any], label: str) -> Apart:
    where = f"{label}: apart"
    return Apart(
        unit=_text(row.get("unit"), where),
        names=_strings(row.get("names"), where),
        others=_strings(row.get("from"), where),
        effect=_text(row.get("effect"), where),
        reference=_text(row.get("reference"), where),
    )


def _refuse_unknown_names(table: HeatTable, label: str) -> None:
    # A set of a name that no row explains would never be found in a kernel.
    named = [(rule.unit, rule.names) for rule in table.together]
    named += [(rule.unit, (*rule.names, *rule.others)) for rule in table.apart]
    for unit, names in named:
        for name in names:
            use = table.uses.get((unit, name))
            if use is None or use.name != name:
                raise InputError(f"{label}: {unit}: no row for {name!r}; add it")


def _rows(tree: Mapping[str, Any], key: str, label: str) -> list[Mapping[str, Any]]:
    rows = tree.get(key, [])
    if not isinstance(rows, list):
        raise InputError(f"{label}: {key} is not a list of tables (expected [[{key}]])")
    return [_table(row, f"{label}: {key}") for row in rows]


def _table(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{where}: not a table; see the head of the file")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise InputError(f"{where}: {str(value)[:60]!r} is not text (expected a non-empty string)")
    return value


def _texts(value: object, where: str) -> dict[str, str]:
    return {key: _text(text, where) for key, text in _table(value, where).items()}


def _texts_of_tables(value: object, where: str) -> dict[str, dict[str, str]]:
    return {key: _texts(inner, where) for key, inner in _table(value, where).items()}


def _strings_of_table(value: object, where: str) -> dict[str, tuple[str, ...]]:
    return {key: _strings(names, f"{where}: {key}") for key, names in _table(value, where).items()}


def _strings(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise InputError(
            f"{where}: {str(value)[:60]!r} is not a list of names (expected at least one)"
        )
    return tuple(_text(one, where) for one in value)


def _word(value: object, known: tuple[str, ...], where: str) -> str:
    if value not in known:
        raise InputError(
            f"{where}: {str(value)[:60]!r} is unknown (expected one of {', '.join(known)})"
        )
    return value


def _release(value: object, where: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not _RELEASE.fullmatch(value):
        raise InputError(f"{where}: {str(value)[:60]!r} is not a release (expected MAJOR.MINOR)")
    return value
