"""From a bundle to call stacks: each instrumented run's samples with their chains, by point."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from schedperf.evidence import Absent
from schedperf.evidence.profile.alignment import align
from schedperf.evidence.profile.loaded import LoadedRun
from schedperf.evidence.profile.sampled import Side as SampledSide
from schedperf.evidence.profile.sources import read_profiles
from schedperf.perf_data.recording import NO_CHAIN
from schedperf.runs.side import Side


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Point:
    """A workload and its parameters."""

    workload: str
    point: str


Runs = Sequence[LoadedRun]


def load_stacks(side: Side) -> Mapping[Point, Runs]:
    """Return the samples of every instrumented run that can be read, by point.

    The profile section says of the others why not.

    :raises Absent: no run has call chains
    """
    found: dict[Point, list[LoadedRun]] = {}
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
        found.setdefault(key, []).append(one.found.load(one.boot, one.run))
    if not found:
        why = "no call chains in its samples; record them with perf_profile"
        raise Absent(f"{side.name}: {why if has_samples else read.why_none}")
    return found


def align_runs(base: Runs, new: Runs) -> tuple[Runs, Runs]:
    """Return both with the same code under the same names."""
    alignment = align([one.names for one in base], [one.names for one in new])
    return [run.align(alignment) for run in base], [run.align(alignment) for run in new]


def side_of(label: str, runs: Runs) -> SampledSide:
    """Return runs as one side of a comparison."""
    return SampledSide(label=label, runs=tuple(run.samples for run in runs))
