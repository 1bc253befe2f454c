# SPDX-License-Identifier: GPL-2.0-or-later
"""What is the same code on both sides: unresolved addresses, and files that one side can name.

An unresolved offset is the same code only in the very same file; in any other the unresolved
addresses are one place. A file whose functions only some of the runs can name is one place as a
whole: its functions would else seem to be gone where nobody could name them.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from schedperf.perf_data.recording import Recording
from schedperf.symbols.place import KERNEL, Place
from schedperf.symbols.places import Placed


@dataclass(frozen=True, kw_only=True, slots=True)
class FileNames:
    """What is known of the files that the samples of one run are in.

    :param builds: build ids by the name of the file; those of several files of one name
    :param unnamed: names of the files for which there is no symbol table
    :param resolved: names of those of which a function has a name
    """

    builds: Mapping[str, frozenset[str | None]]
    unnamed: frozenset[str]
    resolved: frozenset[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Alignment:
    """How the places of all runs become those of one list.

    :param equal: names of files that have one build id in all runs
    :param whole: names of files of which some runs know functions and others no symbol table
    :param notes: what is therefore not compared, one sentence each
    """

    equal: Collection[str]
    whole: Collection[str]
    notes: tuple[str, ...] = ()

    def of(self, place: Place) -> Place:
        """Return the place under which this one is compared."""
        if place.dso in self.whole:
            return Place(f"{_bracketed(place.dso)} as a whole", place.dso)
        if place.dso in self.equal or not _is_offset(place):
            return place
        return Place(f"{_bracketed(place.dso)} unresolved", place.dso)


def names_of(recording: Recording, placed: Placed) -> FileNames:
    """Return what a run knows of its files; perf has build ids of those with samples only."""
    sampled = {place.dso for place in placed.places}
    builds: dict[str, set[str | None]] = {}
    for file in recording.files:
        name = file.path.rpartition("/")[2]
        if name in sampled:
            builds.setdefault(name, set()).add(file.build_id)
    return FileNames(
        builds={name: frozenset(ids) for name, ids in builds.items()},
        unnamed=placed.unnamed,
        resolved=frozenset(place.dso for place in placed.places if not _is_unresolved(place)),
    )


def align(base: Sequence[FileNames], new: Sequence[FileNames]) -> Alignment:
    """Find what the runs of both sides have in common."""
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
            name for name, found in ids.items() if len(found) == 1 and None not in found
        ),
        whole=frozenset(whole),
        notes=tuple(_describe_whole(sorted(whole), named, unnamed)),
    )


def align_places(placed: Placed, alignment: Alignment) -> Placed:
    """Return the same samples and stacks in the places under which they are compared."""
    names = [alignment.of(place) for place in placed.places]
    distinct = {place: number for number, place in enumerate(dict.fromkeys(names))}
    code = np.array([distinct[name] for name in names], dtype=np.int64)
    return replace(
        placed,
        places=tuple(distinct),
        of_row=code[placed.of_row],
        stack_places=code[placed.stack_places],
    )


def _describe_whole(
    whole: Sequence[str], named: Sequence[set[str]], unnamed: Sequence[set[str]]
) -> Iterator[str]:
    for dso in whole:
        holders = [side for side, some in enumerate(named) if dso in some]
        is_one_sided = len(holders) == 1 and dso not in unnamed[holders[0]]
        who = f"only {('base', 'new')[holders[0]]} has" if is_one_sided else "not all runs have"
        what = "kernel symbols" if dso == KERNEL else f"symbols of {dso}"
        idle = ", idle time included" if dso == KERNEL else ""
        yield f"{who} {what}: its functions cannot be compared and are one row{idle}"


def _is_offset(place: Place) -> bool:
    return place.symbol.startswith(f"{place.dso}+0x")


def _is_unresolved(place: Place) -> bool:
    return _is_offset(place) or place.symbol == f"{_bracketed(place.dso)} unresolved"


def _bracketed(dso: str) -> str:
    return dso if dso.startswith("[") else f"[{dso}]"
