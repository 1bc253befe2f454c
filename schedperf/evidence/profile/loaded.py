"""A profile that was read and placed, as stacks and tables of functions see it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from schedperf.evidence.profile.alignment import Alignment, RunNames, align_places, names_of
from schedperf.evidence.profile.blindness import EventSight
from schedperf.evidence.profile.sampled import RunSamples
from schedperf.perf_data.recording import Recording
from schedperf.symbols.places import Placed


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedRun:
    """One run.

    :param folder: in its bundle; "" where there is none
    :param sights: what each event of the recording sees, in the order of its events
    :param unit: what one operation is: "message"; None where they are not counted
    :param names: what is known of the files that it was sampled in
    """

    folder: str
    samples: RunSamples
    sights: tuple[EventSight, ...]
    unit: str | None
    names: RunNames

    def align(self, alignment: Alignment) -> "LoadedRun":
        """Return it with the same code as in the other runs under the same names."""
        placed = align_places(self.samples.placed, alignment)
        return replace(self, samples=replace(self.samples, placed=placed))


def make_run(
    recording: Recording,
    placed: Placed,
    sights: tuple[EventSight, ...],
    *,
    node_of_cpu: Mapping[int, int],
    operations: float | None,
    unit: str | None,
    boot: int,
    folder: str,
) -> LoadedRun:
    """Return a run with all of its samples.

    :param operations: of the benchmark during the run, each called ``unit``; None: not known
    """
    samples = RunSamples(
        recording=recording,
        placed=placed,
        rows=np.ones(len(recording.samples), dtype=np.bool_),
        node_of_cpu=node_of_cpu,
        operations=operations,
        boot=boot,
        seeing=frozenset(sight.event for sight in sights if sight.blind is False),
    )
    return LoadedRun(
        folder=folder,
        samples=samples,
        sights=sights,
        unit=unit,
        names=names_of(recording, placed),
    )


def operation_of(runs: Iterable[LoadedRun]) -> str | None:
    """Return what all runs counted: "message"; None: not known, or different things."""
    units = {run.unit for run in runs}
    return units.pop() if len(units) == 1 else None
