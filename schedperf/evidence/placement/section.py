"""Placement: where forks, wakeups and migrations went, what the balancer answered, and waits.

Rates a second and an operation of what BPF programs or perf saw in the runs, by cause, by node
and by level of the topology, with intervals over runs. They say what happened more often, never
whether it was worse, so they get no verdict.
"""

from collections.abc import Sequence

from schedperf.bundle.open import Bundle, Run
from schedperf.evidence import Absent, section
from schedperf.evidence.placement.analysis import analyse_sides
from schedperf.evidence.placement.capture import parse_placement
from schedperf.evidence.placement.model import PlacedRun, PlacedSide
from schedperf.evidence.placement.placement_records import PlacementCapture
from schedperf.evidence.placement.record import Placement
from schedperf.runs.captured import (
    CapturedRun,
    CapturedSide,
    load_captured,
    why_nothing,
)
from schedperf.runs.side import Side

FOLDER = "bpf_placement"
# A machine with 64 nodes has 4096 pairs of them, each of 100 bytes and for each event and cause.
LARGEST_BYTES = 16 << 20


@section(Placement)
def placement(sides: Sequence[Side]) -> Placement:
    """Compare where tasks went in the runs of one workload and point, side by side."""
    loaded = load_captured(sides, FOLDER, _read)
    for found in loaded:
        if not found.runs:
            raise Absent(found.notes[0] if found.notes else why_nothing(found.side, FOLDER))
    return analyse_sides([_placed(found) for found in loaded])


def _read(bundle: Bundle, run: Run) -> PlacementCapture:
    name = f"{run.folder}/{FOLDER}/placement.json"
    return parse_placement(bundle.read(name, LARGEST_BYTES), name)


def _placed(found: CapturedSide[PlacementCapture]) -> PlacedSide:
    return PlacedSide(
        name=found.side.name, runs=tuple(map(_placed_run, found.runs)), notes=found.notes
    )


def _placed_run(found: CapturedRun[PlacementCapture]) -> PlacedRun:
    operations = found.operations
    return PlacedRun(
        workload=found.run.workload,
        point=found.run.point_key,
        boot=found.run.boot,
        run=found.run.run,
        order=found.moment.order,
        round=found.moment.round,
        operations=None if operations is None else operations.count,
        operation=None if operations is None else operations.unit,
        placement=found.content,
    )
