# SPDX-License-Identifier: GPL-2.0-or-later
"""Match code between sides: unresolved addresses, and files with symbols on one side only.

An unresolved offset is comparable only if the file has the same build id in all runs; otherwise all
unresolved addresses of the file are merged. A file with symbols in only some of the runs is merged
into one row, since its functions would otherwise seem to be missing in the other runs.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from schedperf.inputs.perf_data.recording import Recording
from schedperf.inputs.symbols.functions import SharedNames
from schedperf.inputs.symbols.places import Placed, dso_name
from schedperf.model.place import (
    JIT,
    KERNEL,
    Place,
    code_of,
    in_interrupts,
    is_in_interrupts,
    is_jit,
)


class FileNames(Struct, frozen=True, kw_only=True):
    """The sampled files of one run.

    :param builds: build ids by file name; several if files have the same name
    :param unnamed: files without a symbol table
    :param resolved: files with at least one resolved function
    """

    builds: Mapping[str, frozenset[str | None]]
    unnamed: frozenset[str]
    resolved: frozenset[str]


class Alignment(Struct, frozen=True, kw_only=True):
    """The mapping of each run's places to comparable places.

    :param equal: files with the same build id in all runs
    :param whole: files with symbols in some runs and no symbol table in others
    :param names: names under which functions are compared
    :param notes: what is not compared, and the reason, one sentence each
    """

    equal: Collection[str]
    whole: Collection[str]
    names: SharedNames = field(default_factory=SharedNames)
    notes: tuple[str, ...] = ()

    def of(self, location: Place) -> Place:
        """Return the place under which this one is compared."""
        if is_in_interrupts(location.dso):
            return in_interrupts(self.of(code_of(location)))
        if is_jit(location.dso):
            # Pids differ between runs.
            is_named = not _is_unresolved(location)
            return Place(location.symbol if is_named else f"{JIT} unresolved", JIT)
        if location.dso in self.whole:
            return Place(f"{_bracketed(location.dso)} as a whole", location.dso)
        if not _is_offset(location):
            return self.names.of(location)
        if location.dso in self.equal:
            return location
        return Place(f"{_bracketed(location.dso)} unresolved", location.dso)


def names_of(recording: Recording, placed: Placed) -> FileNames:
    """Return the sampled files of a run; perf records build ids only for files with samples."""
    places = [code_of(location) for location in placed.places]
    sampled = {location.dso for location in places}
    builds: dict[str, set[str | None]] = {}
    for file in recording.files:
        name = dso_name(file.path)
        if name in sampled:
            builds.setdefault(name, set()).add(file.build_id)
    return FileNames(
        builds={name: frozenset(ids) for name, ids in builds.items()},
        unnamed=placed.unnamed,
        resolved=frozenset(location.dso for location in places if not _is_unresolved(location)),
    )


def align(base: Sequence[FileNames], new: Sequence[FileNames], names: SharedNames) -> Alignment:
    """Return the mapping of the places of both sides."""
    sides = base, new
    ids: dict[str, set[str | None]] = {}
    for run in (*base, *new):
        for name, builds in run.builds.items():
            ids.setdefault(name, set()).update(builds)
    named = [{dso for run in side for dso in run.resolved - run.unnamed} for side in sides]
    unnamed = [{dso for run in side for dso in run.unnamed} for side in sides]
    whole = (named[0] | named[1]) & (unnamed[0] | unnamed[1])
    return Alignment(
        equal=frozenset(
            name for name, build_ids in ids.items() if len(build_ids) == 1 and None not in build_ids
        ),
        whole=frozenset(whole),
        names=names,
        notes=tuple(_describe_whole(sorted(whole), named, unnamed)),
    )


def align_places(placed: Placed, alignment: Alignment) -> Placed:
    """Return the same samples and stacks with the places under which they are compared."""
    names = [alignment.of(location) for location in placed.places]
    distinct = {location: number for number, location in enumerate(dict.fromkeys(names))}
    code = np.array([distinct[name] for name in names], dtype=np.int64)
    return replace(
        placed,
        places=tuple(distinct),
        of_row=code[placed.of_row],
        stack_places=code.astype(np.int32)[placed.stack_places],
    )


def _describe_whole(
    whole: Sequence[str], named: Sequence[set[str]], unnamed: Sequence[set[str]]
) -> Iterator[str]:
    for dso in whole:
        holders = [side for side, some in enumerate(named) if dso in some]
        is_one_sided = len(holders) == 1 and dso not in unnamed[holders[0]]
        who = f"only {('base', 'new')[holders[0]]} has" if is_one_sided else "not all runs have"
        what = "kernel symbols" if dso == KERNEL else f"symbols of {dso}"
        merged = "all kernel code, idle included," if dso == KERNEL else f"all code of {dso}"
        yield f"{who} {what}, so {merged} is in one row"


def _is_offset(location: Place) -> bool:
    return location.symbol.startswith(f"{location.dso}+0x")


def _is_unresolved(location: Place) -> bool:
    return _is_offset(location) or location.symbol == f"{_bracketed(location.dso)} unresolved"


def _bracketed(dso: str) -> str:
    return dso if dso.startswith("[") else f"[{dso}]"
