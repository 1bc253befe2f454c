# SPDX-License-Identifier: GPL-2.0-or-later
"""Match the entries of two layouts, including renamed ones."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cache
from importlib.resources import files

from msgspec import Struct
from msgspec.structs import replace

from schedperf.evidence.layout.model import Entry, Unit
from schedperf.evidence.layout.record import LayoutRename, LayoutResize
from schedperf.model.errors import InputError

# Largest number of entries of one unit; a distribution's kernel has about 60,000 globals.
MOST_ENTRIES = 500_000
# Largest offset or size in bytes, above that of any kernel section.
MOST_BYTES = 1 << 40
# Least similarity of names (difflib's ratio, 1 is equal) for an inferred rename; select_idle_mask
# and select_rq_mask have 0.87, overload and overloaded of root_domain 0.89.
ALIKE = 0.6
# Largest number of adjacent entries that one commit renames; more means that a struct was replaced.
MOST_RENAMED_TOGETHER = 64

_WORDS = re.compile(r"[._\[\]]+")


class Matching(Struct, frozen=True, kw_only=True):
    """Two layouts with base's names on both sides.

    :param base: by offset
    :param new: by offset; a renamed entry has its base name here
    :param common: names of entries that both have
    :param added: entries that only new has; empty unless ``is_coverage_equal``
    :param removed: entries that only base has; empty unless ``is_coverage_equal``
    :param renamed: empty unless ``is_coverage_equal``; other aliases of one address are not renames
    :param resized: entries whose two known sizes differ
    :param is_coverage_equal: True if the sources of both sides contain the same kinds of entries
    """

    base: tuple[Entry, ...]
    new: tuple[Entry, ...]
    common: frozenset[str]
    added: tuple[Entry, ...]
    removed: tuple[Entry, ...]
    renamed: tuple[LayoutRename, ...]
    resized: tuple[LayoutResize, ...]
    is_coverage_equal: bool


def match_entries(base: Unit, new: Unit) -> Matching:
    """Match the entries of base and new by name, alias, known rename, or inferred rename.

    Renames are only considered if the sources of both sides contain the same kinds of entries.

    :raises InputError: a unit has more or larger entries than any kernel
    """
    base_entries, new_entries = _in_order(base), _in_order(new)
    is_coverage_equal = sees_all(base) == sees_all(new)
    called = _aliased(base_entries, new_entries)
    renames: tuple[LayoutRename, ...] = ()
    if is_coverage_equal:
        renames = _renames(base, base_entries, _call(new_entries, called))
        called |= {rename.new_name: rename.base_name for rename in renames}
    new_entries = _call(new_entries, called)
    base_by_name = {entry.name: entry for entry in base_entries}
    common = base_by_name.keys() & {entry.name for entry in new_entries}
    return Matching(
        base=base_entries,
        new=new_entries,
        common=frozenset(common),
        added=_only(new_entries, common) if is_coverage_equal else (),
        removed=_only(base_entries, common) if is_coverage_equal else (),
        renamed=renames,
        resized=tuple(_resizes(base_by_name, new_entries)),
        is_coverage_equal=is_coverage_equal,
    )


def sees_all(unit: Unit) -> bool:
    """Return whether the sources of a unit contain every entry.

    Symbol tables do. BTF has all fields of a struct, but lacks variables that are static in a
    function.
    """
    return unit.kind == "struct" or unit.sources[:1] != ("BTF",)


def _in_order(unit: Unit) -> tuple[Entry, ...]:
    if len(unit.entries) > MOST_ENTRIES:
        raise InputError(
            f"{unit.name}: {len(unit.entries)} entries (expected at most {MOST_ENTRIES}); "
            "check that the kernel files are undamaged"
        )
    for entry in unit.entries:
        for what, number in (("offset", entry.offset), ("size", entry.size or 0)):
            if not 0 <= number <= MOST_BYTES:
                raise InputError(
                    f"{unit.name}: {entry.name} has {what} {number} (expected 0 to "
                    f"{MOST_BYTES} bytes); copy the kernel's symbol table or BTF again"
                )
    return tuple(_told_apart(sorted(unit.entries, key=_position)))


def _position(entry: Entry) -> tuple[int, int]:
    return entry.offset, 0 if entry.bits is None else entry.bits[0]


def _told_apart(entries: Iterable[Entry]) -> Iterator[Entry]:
    # Unnamed bit fields and static variables with the same name are distinguished by their order.
    seen: dict[str, int] = {}
    taken: set[str] = set()
    for entry in entries:
        name = entry.name
        while name in taken:
            seen[entry.name] = seen.get(entry.name, 1) + 1
            name = f"{entry.name}#{seen[entry.name]}"
        taken.add(name)
        yield entry if name == entry.name else replace(entry, name=name)


def _call(entries: tuple[Entry, ...], called: Mapping[str, str]) -> tuple[Entry, ...]:
    if not called:
        return entries
    return tuple(
        replace(entry, name=called[entry.name]) if entry.name in called else entry
        for entry in entries
    )


def _aliased(base: Sequence[Entry], new: Sequence[Entry]) -> dict[str, str]:
    # Maps new names to base names if the sources chose different aliases of one address.
    base_names, new_names = {entry.name for entry in base}, {entry.name for entry in new}
    called: dict[str, str] = {}
    alias_of = {alias: entry.name for entry in base for alias in entry.aliases}
    for entry in new:
        if entry.name in base_names:
            continue
        candidates = (alias_of.get(entry.name), *(name for name in entry.aliases))
        for name in candidates:
            if name in base_names - new_names and name not in called.values():
                called[entry.name] = name
                break
    return called


def _only(entries: Iterable[Entry], common: Iterable[str]) -> tuple[Entry, ...]:
    common_names = frozenset(common)
    return tuple(entry for entry in entries if entry.name not in common_names)


def _resizes(base: Mapping[str, Entry], new: Iterable[Entry]) -> Iterator[LayoutResize]:
    for entry in new:
        before = base.get(entry.name)
        if before is None or None in {before.size, entry.size} or before.size == entry.size:
            continue
        assert before.size is not None
        assert entry.size is not None
        yield LayoutResize(name=entry.name, base_bytes=before.size, new_bytes=entry.size)


@cache
def _known_renames() -> Mapping[str, Mapping[str, tuple[str, str]]]:
    text = (files("schedperf.evidence.layout") / "renames.toml").read_text(encoding="utf-8")
    return {
        unit: {old: (rename["new"], rename["commit"]) for old, rename in table.items()}
        for unit, table in tomllib.loads(text).items()
    }


def _renames(
    unit: Unit, base: tuple[Entry, ...], new: tuple[Entry, ...]
) -> tuple[LayoutRename, ...]:
    base_names, new_names = {entry.name for entry in base}, {entry.name for entry in new}
    gone = {entry.name: entry for entry in base if entry.name not in new_names}
    came = {entry.name: entry for entry in new if entry.name not in base_names}
    if not gone or not came:
        return ()
    recorded = list(_known(unit, gone, came))
    called = {rename.new_name: rename.base_name for rename in recorded}
    common = (base_names & new_names) | set(called.values())
    inferred = _inferred(base, _call(new, called), common)
    return (*recorded, *inferred)


def _known(
    unit: Unit, gone: Mapping[str, Entry], came: Mapping[str, Entry]
) -> Iterator[LayoutRename]:
    tables = _known_renames()
    pairs = [
        pair
        for name, table in tables.items()
        if name == unit.name or (unit.kind == "struct" and name.startswith("struct "))
        for pair in table.items()
    ]
    taken: set[str] = set()
    for old, (newer, commit) in pairs:
        for base_leaf, new_leaf in ((old, newer), (newer, old)):
            for name, entry in gone.items():
                path, dot, leaf = name.rpartition(".")
                renamed = came.get(f"{path}{dot}{new_leaf}")
                if leaf != base_leaf or renamed is None or {name, renamed.name} & taken:
                    continue
                if _is_known_rename(entry, renamed):
                    taken |= {name, renamed.name}
                    yield LayoutRename(base_name=name, new_name=renamed.name, commit=commit)


def _is_known_rename(base: Entry, new: Entry) -> bool:
    # task_struct.state became smaller when it was renamed, so sizes are not compared; a field that
    # became a struct is a different field.
    return (base.bits is None) == (new.bits is None)


def _inferred(
    base: tuple[Entry, ...], new: tuple[Entry, ...], common: set[str]
) -> Iterator[LayoutRename]:
    # Between the same two neighbours, as many entries were removed as added, pairwise with similar
    # names.
    new_runs = dict(_runs(new, common))
    for neighbours, run in _runs(base, common):
        new_run = new_runs.get(neighbours, ())
        if len(run) != len(new_run) or len(run) > MOST_RENAMED_TOGETHER:
            continue
        if all(
            _is_alike(entry, new_entry, room == new_room)
            for (entry, room), (new_entry, new_room) in zip(run, new_run, strict=True)
        ):
            for (entry, _), (new_entry, _) in zip(run, new_run, strict=True):
                yield LayoutRename(base_name=entry.name, new_name=new_entry.name, commit=None)


Run = tuple[tuple[Entry, int | None], ...]


def _runs(
    entries: tuple[Entry, ...], common: set[str]
) -> Iterator[tuple[tuple[str | None, str | None], Run]]:
    # Adjacent entries that only this side has, with the bytes up to the next entry, by the names
    # before and after.
    run: list[tuple[Entry, int | None]] = []
    before: str | None = None
    for index, entry in enumerate(entries):
        if entry.name in common:
            if run:
                yield (before, entry.name), tuple(run)
            before, run = entry.name, []
        else:
            room = entries[index + 1].offset - entry.offset if index + 1 < len(entries) else None
            run.append((entry, room))
    if run:
        yield (before, None), tuple(run)


def _is_alike(base: Entry, new: Entry, is_room_equal: bool) -> bool:  # noqa: FBT001 - private
    if base.size != new.size or (base.size is None and not is_room_equal):
        return False
    if None not in {base.type, new.type} and base.type != new.type:
        return False
    if (base.bits is None) != (new.bits is None) or (base.bits or (0, 0))[1] != (
        new.bits or (0, 0)
    )[1]:
        return False
    return _are_names_alike(base.name, new.name)


def _are_names_alike(base: str, new: str) -> bool:
    # A common prefix of the paths is ignored.
    base_path, new_path = base.split("."), new.split(".")
    while len(base_path) > 1 and len(new_path) > 1 and base_path[0] == new_path[0]:
        base_path, new_path = base_path[1:], new_path[1:]
    words, other_words = (
        set(_WORDS.split(".".join(path))) - {""} for path in (base_path, new_path)
    )
    if words <= other_words or other_words <= words:
        return bool(words & other_words)
    return SequenceMatcher(None, ".".join(base_path), ".".join(new_path)).ratio() >= ALIKE
