"""Hot symbols: which functions took a larger or smaller share of the CPUs in new than in base.

Shares are in per cent and changes in percentage points (pp). ``share`` is of all CPUs
with idle time, as ``perf report --no-children`` prints it, averaged over runs; ``cost``
is the same weight per operation of the benchmark. ``base_nodes`` and ``new_nodes`` are
shares of what each NUMA node did while not idle, and the ranges go over the nodes. The
compiler's parts and copies of a function count as the function, and a function that was
renamed as one.

Only equal things are compared: runs of one event, one workload and one point.
Of several points the one with the most samples comes first; in a point the
functions that changed, then what is hot or moved most.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from schedperf.evidence import Absent, section
from schedperf.evidence.profile.order import may_be_drift
from schedperf.evidence.profile.point import compare_runs
from schedperf.evidence.profile.record import (
    Profile,
    ProfileComparison,
    ProfileEvent,
    ProfilePoint,
)
from schedperf.evidence.profile.sources import RunProfile, SideProfiles, load_profiles
from schedperf.model.comparison import BaseNew, MissingSide
from schedperf.runs.side import BASE, FIRST_NEW, Side
from schedperf.runs.timeline import Moment, place_in_time


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class _Key:
    # What makes two profiles the same question.
    workload: str
    point: str


_Points = Mapping[_Key, Sequence[RunProfile]]
_Moments = Mapping[tuple[str, str], Moment]


@section(Profile)
def profile(sides: Sequence[Side]) -> Profile:
    """Compare the profiles of each new side with base's."""
    base = load_profiles(sides[0])
    comparisons, missing = [], []
    for side in sides[1:]:
        # The first new side's rows have plain names.
        path = [] if side.name == FIRST_NEW else [side.name]
        try:
            new = load_profiles(side)
        except Absent as absent:
            missing.append(MissingSide(side=side.name, reason=str(absent)))
        else:
            moments = place_in_time([sides[0], side])
            comparisons.append(_compare(side.name, path, base, new, moments))
    if not comparisons:
        raise Absent("; ".join(one.reason for one in missing) or "there is no new side")
    return Profile(comparisons=tuple(comparisons), missing=tuple(missing))


def _compare(
    side: str,
    path: Sequence[str],
    base: SideProfiles,
    new: SideProfiles,
    moments: _Moments,
) -> ProfileComparison:
    def took_turns(*runs: Sequence[RunProfile]) -> bool:
        orders = [
            [moments[name, one.folder].order for one in of_side]
            for name, of_side in zip((BASE, side), runs, strict=True)
        ]
        return not may_be_drift(orders, [[one.run.boot for one in of_side] for of_side in runs])

    of_base, of_new = _by_event(base.runs), _by_event(new.runs)
    notes = [*base.notes, *new.notes]
    events: list[ProfileEvent] = []
    for event in dict.fromkeys((*of_base, *of_new)):
        if event not in of_base or event not in of_new:
            where = "base" if event in of_base else side
            notes.append(f"{event} was sampled on {where} only, so it is compared with nothing")
            continue
        of_points = _by_point(of_base[event]), _by_point(of_new[event])
        notes += _describe_single_points(side, event, *of_points)
        # So have those of the first event and, of its points, of the heaviest one.
        in_event = [*path, event] if events else path
        points = tuple(_compare_points(in_event, *of_points, took_turns))
        if points:
            events.append(_describe_event(of_base[event][0], of_new[event][0], points))
    return ProfileComparison(side=side, events=tuple(events), notes=tuple(notes))


def _describe_event(
    base: RunProfile, new: RunProfile, points: tuple[ProfilePoint, ...]
) -> ProfileEvent:
    sights = BaseNew(base=base.sight, new=new.sight)
    return ProfileEvent(
        event=base.sight.event,
        unit=base.sight.unit,
        clock=sights.map(lambda sight: sight.clock),
        nmi=sights.map(lambda sight: sight.nmi),
        precise=sights.map(lambda sight: sight.precise),
        emulated=sights.map(lambda sight: sight.emulated),
        blind=sights.map(lambda sight: sight.blind),
        blind_reason=sights.map(lambda sight: sight.reason),
        remedy=next((one.remedy for one in sights if one.remedy is not None), None),
        caveats=tuple(dict.fromkeys(text for one in sights for text in one.caveats)),
        points=points,
    )


def _by_event(runs: Iterable[RunProfile]) -> dict[str, list[RunProfile]]:
    found: dict[str, list[RunProfile]] = {}
    for run in runs:
        found.setdefault(run.sight.event, []).append(run)
    return found


def _by_point(runs: Iterable[RunProfile]) -> dict[_Key, list[RunProfile]]:
    found: dict[_Key, list[RunProfile]] = {}
    for run in runs:
        found.setdefault(_Key(workload=run.workload, point=run.point), []).append(run)
    return found


def _describe_single_points(side: str, event: str, base: _Points, new: _Points) -> Iterator[str]:
    for key in sorted(base.keys() ^ new.keys()):
        where = "base" if key in base else side
        point = f"{key.workload} at {key.point}" if key.point else key.workload
        yield f"{point} was profiled with {event} on {where} only"


def _compare_points(
    path: Sequence[str], base: _Points, new: _Points, took_turns: Callable[..., bool]
) -> Iterator[ProfilePoint]:
    samples = {
        key: sum(one.run.weights.samples for one in (*base[key], *new[key]))
        for key in base
        if key in new
    }
    for place, key in enumerate(sorted(samples, key=lambda key: (-samples[key], key))):
        names = [*path, *([key.workload, key.point] if place else [])]
        yield compare_runs(
            base[key],
            new[key],
            "".join(f"{name}/" for name in names),
            took_turns=took_turns(base[key], new[key]),
        )
