# SPDX-License-Identifier: GPL-2.0-or-later
"""Read ``heat.toml``, the table of the scheduler's hot variables and the code that accesses them.

::

    table = heat_table()
    table.find("percpu", "sd_llc_id").functions      # ("core.c:cpus_share_cache",)
    table.find("struct rq", "cfs.avg.load_avg").written     # "own"

The table is derived from the kernel's source: it lists possible accesses, not their rate on a
machine.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal, cast, get_args

from msgspec import Struct

from schedperf.evidence.layout.record import LayoutUse, Reader, Writer
from schedperf.inputs.kernel.renames import newest_function
from schedperf.model.errors import InputError

PathName = Literal["wakeup", "switch", "tick", "newidle", "fork", "idle", "balance"]

# Paths that every task takes many times per second; the others are taken when a CPU has no work.
HOT_PATHS = frozenset({"wakeup", "switch", "tick", "newidle", "fork"})
# Paths on which writes are frequent enough to affect other entries on the line; entering and
# leaving idle caused the contention of nohz.nr_cpus.
DISTURBING_PATHS = HOT_PATHS | {"idle"}

_VERSION = 1
_SPECIAL = frozenset({"version", "embedded", "inlined", "together", "apart"})
_KEYS = frozenset({"paths", "written", "read", "in", "since", "until", "only", "was"})
_NEEDED = frozenset({"paths", "written", "read", "in"})
_RELEASE = re.compile(r"\d+\.\d+")
_FUNCTION = re.compile(r"[\w./-]+\.[ch]:\w+")
# An array index, and the number that is appended to a second variable with the same name.
_INDEX = re.compile(r"\[\d*\]|#\d+")


class Use(Struct, frozen=True, kw_only=True):
    """How the scheduler uses one variable or field.

    :param unit: "percpu", "globals" or the struct that declares it
    :param paths: paths on which it is accessed
    :param written: which CPUs write it; "rarely" means read-mostly
    :param read: which CPUs read it
    :param functions: accessing functions, "FILE:FUNCTION"; in kernel/sched if FILE has no directory
    :param since: first release that has it, "6.7"; None if unknown
    :param until: last release that has it; None if unknown
    :param only: required kernel option or patch series; None if every kernel has it
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
        """Whether a path that every task takes accesses the entry."""
        return not HOT_PATHS.isdisjoint(self.paths)

    @property
    def is_read_mostly(self) -> bool:
        """Whether the entry is read-mostly, so that its line stays in the caches of all readers."""
        return self.written == "rarely"

    @property
    def is_disturbing(self) -> bool:
        """Whether other CPUs write the entry often, so that its line moves between CPUs.

        Often means on hot paths, or when a CPU enters or leaves idle.
        """
        return self.written == "remote" and not DISTURBING_PATHS.isdisjoint(self.paths)


class Together(Struct, frozen=True, kw_only=True):
    """Variables or fields that were measured to be faster on one line.

    :param unit: unit of all names
    :param effect: measured effect and machine
    :param reference: source of the measurement
    """

    unit: str
    names: tuple[str, ...]
    effect: str
    reference: str


class Apart(Struct, frozen=True, kw_only=True):
    """Variables or fields that were measured to be slower if they share a line with others.

    :param unit: unit of all names
    :param names: none of them should share a line with any of ``others``
    :param others: they may share a line with each other
    :param effect: measured effect and machine
    :param reference: source of the measurement
    """

    unit: str
    names: tuple[str, ...]
    others: tuple[str, ...]
    effect: str
    reference: str


class HeatTable(Struct, frozen=True, kw_only=True):
    """The whole table.

    :param uses: by unit and name, also by earlier names
    :param embedded: by unit, the variables or fields that are structs, with the struct's name
    :param inlined: by function that is inlined and so does not appear in profiles, its callers
    """

    uses: Mapping[tuple[str, str], Use]
    embedded: Mapping[str, Mapping[str, str]]
    inlined: Mapping[str, tuple[str, ...]]
    together: tuple[Together, ...]
    apart: tuple[Apart, ...]

    def find(self, unit: str, entry: str) -> Use | None:
        """Return the use of an entry of a unit; None if it is not in the table.

        A row for a field applies to all members of that field. A member of an embedded struct has
        the row of the struct's field if there is one.
        """
        parts = _INDEX.sub("", entry).split(".")
        for count in range(len(parts), 0, -1):
            head, rest = ".".join(parts[:count]), parts[count:]
            inner = self.embedded.get(unit, {}).get(head)
            use = self.find(inner, ".".join(rest)) if inner and rest else None
            if use := use or self.uses.get((unit, head)):
                return use
        return None

    def common_functions(self, first: Use, second: Use) -> tuple[str, ...]:
        """Return the newest names, sorted, of the functions that access both entries."""
        return tuple(sorted(self.function_names(first) & self.function_names(second)))

    def function_names(self, use: Use) -> frozenset[str]:
        """Return the accessing functions by their newest names, without files."""
        return frozenset(newest_function(each.rpartition(":")[2]) for each in use.functions)

    def sampled_names(self, use: Use) -> frozenset[str]:
        """Return the accessing functions by their newest names, and the callers of inlined ones.

        Samples of an inlined function are attributed to its caller.
        """
        own = self.function_names(use)
        return own.union(*(self.inlined.get(name, ()) for name in own))

    def is_together(self, first: Use, second: Use) -> bool:
        """Return whether both were measured to be faster on one line."""
        return any(_has(group, first) and _has(group, second) for group in self.together)

    def apart_of(self, first: Use, second: Use) -> Apart | None:
        """Return the measurement that both are faster on different lines; None without one."""
        for rule in self.apart:
            if first.unit == second.unit == rule.unit:
                pairs = ((first.name, second.name), (second.name, first.name))
                if any(a in rule.names and b in rule.others for a, b in pairs):
                    return rule
        return None


def _has(group: Together, use: Use) -> bool:
    return use.unit == group.unit and use.name in group.names


@cache
def heat_table() -> HeatTable:
    """Return the table of this package."""
    text = (files("schedperf.evidence.layout") / "heat.toml").read_text(encoding="utf-8")
    return parse_heat(text, "heat.toml")


def describe_use(name: str, use: Use | None) -> LayoutUse:
    """Return the record of how an entry is used.

    :param use: None if the entry is not in the table; the record then has no paths and functions
    """
    return LayoutUse(
        name=name,
        paths=use.paths if use else (),
        written=use.written if use else None,
        read=use.read if use else None,
        functions=use.functions if use else (),
    )


def known_uses(unit: str, names: Iterable[str]) -> tuple[LayoutUse, ...]:
    """Return how these entries of a unit are used; entries not in the table are left out."""
    uses = ((name, heat_table().find(unit, name)) for name in names)
    return tuple(describe_use(name, use) for name, use in uses if use is not None)


def parse_heat(text: str, label: str) -> HeatTable:
    """Parse a table.

    :param label: for messages
    :raises InputError: the text is invalid TOML or has another version; a row lacks a key, or has
        an unknown key or an invalid value; a name has two rows; or a measured set names a variable
        without a row
    """
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{label}: {error}; fix the line") from error
    if tree.get("version") != _VERSION:
        raise InputError(f"{label}: `version` is {tree.get('version')!r} (expected {_VERSION})")
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
            for alias in (name, *use.was):
                if (unit, alias) in taken:
                    raise InputError(f"{where}: {alias!r} is duplicated; keep one row")
                taken.add((unit, alias))
                yield (unit, alias), use


def _use(unit: str, name: str, row: Mapping[str, Any], where: str) -> Use:
    keys = {"unknown": row.keys() - _KEYS, "missing": _NEEDED - row.keys()}
    problems = [f"{kind} keys: {', '.join(sorted(names))}" for kind, names in keys.items() if names]
    if problems:
        raise InputError(f"{where}: {', '.join(problems)}; see the comment at the top of the file")
    paths, functions = _strings(row["paths"], where), _strings(row["in"], where)
    for path in paths:
        _word(path, get_args(PathName), where)
    for function in functions:
        if not _FUNCTION.fullmatch(function):
            raise InputError(
                f"{where}: invalid function {function[:60]!r} (expected FILE:FUNCTION)"
            )
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
    # A set with a name that has no row would never match a kernel.
    named = [(rule.unit, rule.names) for rule in table.together]
    named += [(rule.unit, (*rule.names, *rule.others)) for rule in table.apart]
    for unit, names in named:
        for name in names:
            use = table.uses.get((unit, name))
            if use is None or use.name != name:
                raise InputError(
                    f"{label}: {unit}: a `together` or `apart` rule names {name!r}, which has "
                    "no row; add the row"
                )


def _rows(tree: Mapping[str, Any], key: str, label: str) -> list[Mapping[str, Any]]:
    rows = tree.get(key, [])
    if not isinstance(rows, list):
        raise InputError(
            f"{label}: invalid value of `{key}` (expected an array of tables, [[{key}]])"
        )
    return [_table(row, f"{label}: {key}") for row in rows]


def _table(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InputError(
            f"{where}: invalid value {str(value)[:60]!r} (expected a table); "
            "see the comment at the top of the file"
        )
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise InputError(
            f"{where}: invalid value {str(value)[:60]!r} (expected a non-empty string)"
        )
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
            f"{where}: invalid value {str(value)[:60]!r} (expected a non-empty list of strings)"
        )
    return tuple(_text(item, where) for item in value)


def _word(value: object, allowed: tuple[str, ...], where: str) -> str:
    if value not in allowed:
        raise InputError(
            f"{where}: unknown value {str(value)[:60]!r} (expected {' or '.join(allowed)})"
        )
    return value


def _release(value: object, where: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not _RELEASE.fullmatch(value):
        raise InputError(
            f"{where}: invalid release {str(value)[:60]!r} (expected MAJOR.MINOR, e.g. '6.6')"
        )
    return value
