"""Call stacks: the tree behind the differential flame graph of the report, base against new.

Frames, intervals and what counts as changed are those of ``schedperf profile --flamegraph``; only
frames of 0.2 % of all time and more are frames of their own here, so that the record stays small.
Of several points and events only those with the most samples have a tree; the rest is named. In the
first of them each node, each CPU of a small machine and each busy command has numbers of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from schedperf.evidence import Absent, section
from schedperf.evidence.profile.alignment import align
from schedperf.evidence.profile.flame_data import describe_stacks
from schedperf.evidence.profile.loaded import LoadedRun, operation_of
from schedperf.evidence.profile.order import may_be_drift
from schedperf.evidence.profile.record import (
    FlameComparison,
    FlameTree,
    FlameTrees,
)
from schedperf.evidence.profile.sampled import Side as SampledSide
from schedperf.evidence.profile.sampled import sampled_events
from schedperf.evidence.profile.sources import read_profiles
from schedperf.evidence.profile.stacks import collect_stacks
from schedperf.model.comparison import MissingSide
from schedperf.perf_data.recording import NO_CHAIN
from schedperf.runs.side import BASE, Side
from schedperf.runs.timeline import Moment, place_in_time

# Of all time: two pixels of a page. At 0.05 %, as in the file of --flamegraph, a record of one
# point is three times as large.
LEAST_SHARE = 0.002
# Trees of one comparison: one is a tenth of a megabyte of JSON, and the first, which has the most
# samples, five times that for its parts. Of any other point schedperf profile draws a graph.
MOST_TREES = 6


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class _Point:
    # A workload and its parameters.
    workload: str
    point: str


_Runs = Sequence[LoadedRun]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Wanted:
    # One tree: an event at a point.
    point: _Point
    event: str
    base: _Runs
    new: _Runs
    samples: int

    def __str__(self) -> str:
        point = f" at {self.point.point}" if self.point.point else ""
        return f"{self.event}, {self.point.workload}{point}"


@section(FlameTrees)
def flames(sides: Sequence[Side]) -> FlameTrees:
    """Compare the call stacks of each new side with base's."""
    base = _load_stacks(sides[0])
    comparisons, missing = [], []
    for side in sides[1:]:
        try:
            new = _load_stacks(side)
        except Absent as absent:
            missing.append(MissingSide(side=side.name, reason=str(absent)))
        else:
            comparisons.append(_compare(sides[0], side, base, new))
    if not any(compared.events for compared in comparisons):
        reasons = [one.reason for one in missing]
        raise Absent("; ".join(reasons) or "no point was sampled with one event on both sides")
    return FlameTrees(comparisons=tuple(comparisons), missing=tuple(missing))


def _compare(
    first: Side, side: Side, base: Mapping[_Point, _Runs], new: Mapping[_Point, _Runs]
) -> FlameComparison:
    moments = place_in_time([first, side])
    wanted = sorted(
        (one for point in base if point in new for one in _pair(point, base[point], new[point])),
        key=lambda one: (-one.samples, one.point, one.event),
    )
    describe = partial(_describe, first, side, moments, has_points=len(wanted) > 1)
    return FlameComparison(
        side=side.name,
        events=tuple(describe(one, has_parts=one is wanted[0]) for one in wanted[:MOST_TREES]),
        left_out=tuple(str(one) for one in wanted[MOST_TREES:]),
    )


def _pair(point: _Point, base: _Runs, new: _Runs) -> Iterator[_Wanted]:
    base, new = _align_runs(base, new)
    of_new = sampled_events([_side_of("", new)])
    for event in sampled_events([_side_of("", base)]):
        if event in of_new:
            samples = sum(int(run.samples.recording.samples.count.sum()) for run in (*base, *new))
            yield _Wanted(point=point, event=event, base=base, new=new, samples=samples)


def _describe(
    first: Side,
    side: Side,
    moments: Mapping[tuple[str, str], Moment],
    wanted: _Wanted,
    *,
    has_points: bool,
    has_parts: bool,
) -> FlameTree:
    runs = {BASE: wanted.base, side.name: wanted.new}
    orders = [[moments[name, run.folder].order for run in some] for name, some in runs.items()]
    drifts = may_be_drift(orders, [[run.samples.boot for run in some] for some in runs.values()])
    sampled = [
        _side_of(first.bundle.label, wanted.base),
        _side_of(side.bundle.label, wanted.new),
    ]
    return describe_stacks(
        collect_stacks(sampled, wanted.event),
        operation_of((*wanted.base, *wanted.new)),
        took_turns=not drifts,
        least_share=LEAST_SHARE,
        place=str(wanted) if has_points else "",
        has_parts=has_parts,
    )


def _load_stacks(side: Side) -> Mapping[_Point, _Runs]:
    """Return the samples of every instrumented run that can be read, by point.

    The profile section says of the others why not.

    :raises Absent: no run has call chains
    """
    found: dict[_Point, list[LoadedRun]] = {}
    read = side.once(read_profiles)
    has_samples = False
    for one in read.runs:
        if one.found is None:
            continue
        samples = one.found.recording.samples
        has_samples = has_samples or len(samples) > 0
        if np.all(samples.chain == NO_CHAIN):
            continue
        key = _Point(workload=one.run.workload, point=one.run.point_key)
        found.setdefault(key, []).append(one.found.load(one.boot, one.run))
    if not found:
        why = "no call chains in its samples; record them with perf_profile"
        raise Absent(f"{side.name}: {why if has_samples else read.why_none}")
    return found


def _align_runs(base: _Runs, new: _Runs) -> tuple[_Runs, _Runs]:
    """Return both with the same code under the same names."""
    alignment = align([one.names for one in base], [one.names for one in new])
    return [run.align(alignment) for run in base], [run.align(alignment) for run in new]


def _side_of(label: str, runs: _Runs) -> SampledSide:
    """Return runs as one side of a comparison."""
    return SampledSide(label=label, runs=tuple(run.samples for run in runs))
