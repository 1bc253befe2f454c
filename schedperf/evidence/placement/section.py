"""Placement: where forks, wakeups and migrations went, what the balancer answered, and waits.

Rates a second and an operation of what BPF programs or perf saw in the runs, by cause, by node
and by level of the topology, with intervals over runs. They say what happened more often, never
whether it was worse, so they get no verdict.
"""

from collections.abc import Sequence

from schedperf.bundle.open import Bundle, Run
from schedperf.evidence import Absent, Dicts, dict_section
from schedperf.evidence.placement.analysis import analyse_sides
from schedperf.evidence.placement.capture import parse_placement
from schedperf.evidence.placement.model import PARTS, PlacedRun, PlacedSide
from schedperf.evidence.placement.placement_records import EVENTS, IDLE_TYPES, Placement
from schedperf.model.schema import (
    COUNT,
    NUMBER_OR_NULL,
    TEXT,
    TEXT_OR_NULL,
    TEXTS,
    array,
    record,
)
from schedperf.runs.captured import (
    RATE_FIELDS,
    CapturedRun,
    CapturedSide,
    load_captured,
    why_nothing,
)
from schedperf.runs.side import Side
from schedperf.stats.counted.schema import bins, pairs

FOLDER = "bpf_placement"
# A machine with 64 nodes has 4096 pairs of them, each of 100 bytes and for each event and cause.
LARGEST_BYTES = 16 << 20

_WHERE = {"side": TEXT, "workload": TEXT, "point": TEXT}
_ROW = record(
    row={**TEXT, "description": "names the row for evidence"},
    **_WHERE,
    name={**TEXT, "description": "of the number, in words"},
    part={"enum": list(PARTS)},
    field=TEXT,
    cause={**TEXT, "description": "of a migration, or of a search for a destination; empty: all"},
    level={**TEXT, "description": "of the scheduling domains; empty: all"},
    idle={"enum": ["", *IDLE_TYPES]},
    nodes={**array(COUNT), "description": "one that it was seen on, or from one to another"},
    groups={**TEXTS, "description": "cgroups, of bandwidth timers"},
    basis={"enum": ["time", "operation", "share"]},
    meaning=TEXT,
    function={**TEXT, "description": "of the kernel, whose doing it is"},
    status={"enum": ["ok", "invalid"], "description": "invalid: shown, and not compared"},
    reason={**TEXT_OR_NULL, "description": "why it is not compared"},
    events_base={**NUMBER_OR_NULL, "description": "behind the number, in a run; mean over runs"},
    events_new=NUMBER_OR_NULL,
    **RATE_FIELDS,
)
_SIDE = record(
    side=TEXT,
    runs=COUNT,
    mechanisms={**TEXTS, "description": "bpf, perf"},
    nodes={**COUNT, "description": "of the machine"},
    seconds={**NUMBER_OR_NULL, "description": "in which events were counted, over all runs"},
)
_PROGRAM = record(
    side=TEXT,
    part={"enum": list(PARTS)},
    mechanism={**TEXT_OR_NULL, "description": "null: not seen"},
    function={**TEXT_OR_NULL, "description": "that could not be watched"},
    reason={**TEXT_OR_NULL, "description": "why it was not seen"},
)
_MEAN = {
    "replication": {"enum": ["runs", "boots"], "description": "what n counts"},
    "n": COUNT,
    "ci_low": {**NUMBER_OR_NULL, "description": "95 % interval of the mean; null with one run"},
    "ci_high": NUMBER_OR_NULL,
}
_SERIES = record(
    **_WHERE,
    event={"enum": list(EVENTS)},
    **_MEAN,
    mean={"type": "number", "description": "moves from one node to another, 1/s"},
    rates={
        **array({"type": "number"}),
        "description": "moves from one node to another, 1/s, in equal parts of the runs",
    },
    rates_low={**array(NUMBER_OR_NULL), "description": "95 % interval of each part's mean"},
    rates_high=array(NUMBER_OR_NULL),
)
_DEPTH = record(
    **_WHERE,
    depth={**COUNT, "description": "of the task group; 0 is the root group"},
    share={"type": "number", "description": "of the times a task of the workload got a CPU"},
    **_MEAN,
)
_TIMERS = record(
    **_WHERE,
    groups={**TEXTS, "description": "two cgroups"},
    period_s={"type": "number"},
    distance_s={"type": "number", "description": "between their expiries; mean over runs"},
    resolution_s={"type": "number", "description": "of the phases"},
    runs=COUNT,
    word={"enum": ["together", "apart", "mixed"], "description": "mixed: runs differ"},
)
SCHEMA = record(
    sides=array(_SIDE),
    rows=array(_ROW),
    zeros={**TEXTS, "description": "what was 0 in all runs, and has no row"},
    programs=array(_PROGRAM),
    not_compared=array(record(side=TEXT, what={"enum": list(PARTS)}, reason=TEXT)),
    series=array(_SERIES),
    depths=array(_DEPTH),
    timers=array(_TIMERS),
    moves=pairs(
        "moves from one node to another, by event and cause",
        event={"enum": list(EVENTS)},
        cause={**TEXT, "description": "of a migration; empty: all"},
        unit=TEXT,
    ),
    waits=bins("waits for a CPU in s, their shares side by side"),
    phases=bins(
        "expiries of bandwidth timers in parts of their period, from the mean of the first cgroup",
        group={**TEXT, "description": "cgroup, by path"},
        period_s={"type": "number"},
    ),
    notes=TEXTS,
)


@dict_section("placement", version=1, schema=SCHEMA)
def placement(sides: Sequence[Side]) -> Dicts:
    """Compare where tasks went in the runs of one workload and point, side by side."""
    loaded = load_captured(sides, FOLDER, _read)
    for found in loaded:
        if not found.runs:
            raise Absent(found.notes[0] if found.notes else why_nothing(found.side, FOLDER))
    return analyse_sides([_placed(found) for found in loaded])


def _read(bundle: Bundle, run: Run) -> Placement:
    name = f"{run.folder}/{FOLDER}/placement.json"
    return parse_placement(bundle.read(name, LARGEST_BYTES), name)


def _placed(found: CapturedSide[Placement]) -> PlacedSide:
    return PlacedSide(
        name=found.side.name, runs=tuple(map(_placed_run, found.runs)), notes=found.notes
    )


def _placed_run(found: CapturedRun[Placement]) -> PlacedRun:
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
