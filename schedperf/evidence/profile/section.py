# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the CPU shares of functions in base and new.

Shares are in percent and changes in percentage points (pp). ``share`` is the sum of a function's
sample periods relative to that of all samples, idle time included, as in ``perf report
--no-children``, averaged over runs. ``cost`` is the sum of the function's sample periods per
operation of the benchmark. ``base_nodes`` and ``new_nodes`` are shares of the non-idle time of each
NUMA node; ``base_range`` and ``new_range`` are the smallest and largest of them.
Compiler-generated parts and copies, and former names of a function, are merged into the function.

Only runs with the same event, workload and point are compared. The point with the most samples
comes first; within a point, functions that changed come first, then hot or most-moved functions.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from schedperf.evidence import Absent, section
from schedperf.evidence.profile.blindness import EventSight
from schedperf.evidence.profile.independent import took_turns
from schedperf.evidence.profile.pairs import describe_unpaired
from schedperf.evidence.profile.point import Runs, compare_runs
from schedperf.evidence.profile.record import Profile, ProfileComparison, ProfileEvent, ProfilePoint
from schedperf.evidence.profile.samples import ProfileSamples, places_of
from schedperf.evidence.profile.sources import (
    FOLDER,
    EventProfile,
    notes_of_silent_runs,
    profiles_by_event,
    read_alike,
)
from schedperf.inputs.perf_data.event import EventIdentity
from schedperf.inputs.perf_data.recorded import why_not_recorded
from schedperf.inputs.side import Side
from schedperf.inputs.symbols.functions import SharedNames
from schedperf.model.base_new import FIRST_NEW, BaseNew
from schedperf.model.place import Place
from schedperf.model.run import SideOf
from schedperf.model.sections import MissingSide
from schedperf.runs.timeline import Moment, place_in_time

# Runs by workload and point.
_Points = Mapping[tuple[str, str], Runs]
_Moments = Mapping[tuple[str, str], Moment]


class _Profiles(NamedTuple):
    # Profiles by event, all their places, and notes on unreadable parts, one sentence each.
    events: Mapping[EventIdentity, SideOf[EventProfile]]
    places: frozenset[Place]
    notes: Sequence[str]


@section(Profile)
def profile(sides: Sequence[Side]) -> Profile:
    """Compare the profiles of each new side with base's.

    :raises Absent: base has no profile, or no new side has one
    """
    read = read_alike(sides)
    base = _load(sides[0], read)
    comparisons, missing = [], []
    for side in sides[1:]:
        try:
            new = _load(side, read)
        except Absent as absent:
            missing.append(MissingSide(side=side.name, reason=str(absent)))
        else:
            comparisons.append(_compare(side.name, base, new, place_in_time([sides[0], side])))
    if not comparisons:
        raise Absent("; ".join(absent_side.reason for absent_side in missing) or "no new side")
    return Profile(comparisons=tuple(comparisons), missing=tuple(missing))


def _load(side: Side, read_side: Callable[[Side], SideOf[ProfileSamples]]) -> _Profiles:
    """Return the profiles of a side.

    :raises Absent: the side has no profile
    """
    read = side.once(read_side)
    profiles = profiles_by_event(read)
    notes = [*read.notes, *notes_of_silent_runs(read, profiles.values())]
    if not profiles:
        raise Absent(f"{side.name}: {notes[0] if notes else why_not_recorded(side.bundle, FOLDER)}")
    return _Profiles(profiles, places_of(read), [f"{side.name}: {note}" for note in notes])


def _compare(side: str, base: _Profiles, new: _Profiles, moments: _Moments) -> ProfileComparison:
    of_base, of_new = base.events, new.events
    names = SharedNames(base.places, new.places)
    # Row ids of the first new side have no prefix.
    path = [] if side == FIRST_NEW else [side]
    notes = [*base.notes, *new.notes, *describe_unpaired(side, of_base, of_new)]
    events: list[ProfileEvent] = []
    for event in of_base:
        if event not in of_new:
            continue
        of_points = of_base[event].by_point(), of_new[event].by_point()
        notes += _describe_single_points(side, event.label, *of_points)
        # The same applies to the first event and its point with the most samples.
        in_event = [*path, event.label] if events else path
        points = tuple(_compare_points(in_event, *of_points, names, moments))
        if points:
            first = BaseNew(base=of_base[event], new=of_new[event])
            sights = first.map(lambda profiles: profiles.runs[0].content.sight)
            events.append(_describe_event(sights, points))
    return ProfileComparison(side=side, events=tuple(events), notes=tuple(notes))


def _describe_event(sights: BaseNew[EventSight], points: tuple[ProfilePoint, ...]) -> ProfileEvent:
    return ProfileEvent(
        event=sights.base.event,
        excluded=sights.map(lambda sight: sight.excluded),
        perf_event=sights.map(lambda sight: sight.perf_event),
        unit=sights.base.unit,
        clock=sights.map(lambda sight: sight.clock),
        nmi=sights.map(lambda sight: sight.nmi),
        precise=sights.map(lambda sight: sight.precise),
        emulated=sights.map(lambda sight: sight.emulated),
        blind=sights.map(lambda sight: sight.blind),
        blind_reason=sights.map(lambda sight: sight.reason),
        remedy=next((sight.remedy for sight in sights if sight.remedy is not None), None),
        caveats=tuple(dict.fromkeys(text for sight in sights for text in sight.caveats)),
        points=points,
    )


def _describe_single_points(side: str, event: str, base: _Points, new: _Points) -> Iterator[str]:
    for workload, point in sorted(base.keys() ^ new.keys()):
        where = "base" if (workload, point) in base else side
        at = f"{workload} at {point}" if point else workload
        yield f"{at} was profiled with {event} on {where} only, so it is not compared"


def _compare_points(
    path: Sequence[str], base: _Points, new: _Points, names: SharedNames, moments: _Moments
) -> Iterator[ProfilePoint]:
    samples = {
        key: sum(run.content.weights.samples for run in (*base[key], *new[key]))
        for key in base
        if key in new
    }
    for rank, key in enumerate(sorted(samples, key=lambda key: (-samples[key], key))):
        parts = [*path, *(key if rank else ())]
        yield compare_runs(
            base[key],
            new[key],
            "".join(f"{part}/" for part in parts),
            names,
            took_turns=took_turns(moments, base[key], new[key]),
        )
