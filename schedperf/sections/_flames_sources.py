"""From a bundle to call stacks: each instrumented run's samples with their chains, by point."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from schedperf.captures.perf_data.recording import NO_CHAIN
from schedperf.profile.alignment import RunNames, align, align_places, names_of
from schedperf.profile.sampled import RunSamples
from schedperf.profile.sampled import Side as SampledSide
from schedperf.sections import Absent
from schedperf.sections._profile_sources import PlacedRun, read_profiles
from schedperf.sides import Side


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Point:
    """A workload and its parameters."""

    workload: str
    point: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StackedRun:
    """One run.

    :param folder: in its bundle
    :param names: what is known of the files that it was sampled in
    :param unit: what one operation is: "message"; None where they are not counted
    """

    folder: str
    samples: RunSamples
    names: RunNames
    unit: str | None


Runs = Sequence[StackedRun]


def load_stacks(side: Side) -> Mapping[Point, Runs]:
    """Return the samples of every instrumented run that can be read, by point.

    The profile section says of the others why not.

    :raises Absent: no run has call chains
    """
    found: dict[Point, list[StackedRun]] = {}
    read = read_profiles(side.bundle)
    has_samples = False
    for one in read.runs:
        if one.found is None:
            continue
        samples = one.found.recording.samples
        has_samples = has_samples or len(samples) > 0
        if np.all(samples.chain == NO_CHAIN):
            continue
        key = Point(workload=one.run.workload, point=one.run.point_key)
        found.setdefault(key, []).append(_stacked(one.run.folder, one.boot.number, one.found))
    if not found:
        why = "no call chains in its samples; record them with perf_profile"
        raise Absent(f"{side.name}: {why if has_samples else read.why_none}")
    return found


def align_runs(base: Runs, new: Runs) -> tuple[Runs, Runs]:
    """Return both with the same code under the same names."""
    alignment = align([one.names for one in base], [one.names for one in new])

    def aligned(run: StackedRun) -> StackedRun:
        placed = align_places(run.samples.placed, alignment)
        return replace(run, samples=replace(run.samples, placed=placed))

    return [aligned(run) for run in base], [aligned(run) for run in new]


def side_of(label: str, runs: Runs) -> SampledSide:
    """Return runs as one side of a comparison."""
    return SampledSide(label=label, runs=tuple(run.samples for run in runs))


def operation_of(runs: Iterable[StackedRun]) -> str | None:
    """Return what all runs counted: "message"; None: not known, or different things."""
    units = {run.unit for run in runs}
    return units.pop() if len(units) == 1 else None


def _stacked(folder: str, boot: int, read: PlacedRun) -> StackedRun:
    operations = read.operations
    samples = RunSamples(
        recording=read.recording,
        placed=read.placed,
        rows=np.ones(len(read.recording.samples), dtype=np.bool_),
        node_of_cpu=read.node_of_cpu,
        operations=None if operations is None else operations.count,
        boot=boot,
        seeing=frozenset(sight.event for sight in read.sights if sight.blind is False),
    )
    return StackedRun(
        folder=folder,
        samples=samples,
        names=names_of(read.recording, read.placed),
        unit=None if operations is None else operations.unit,
    )
