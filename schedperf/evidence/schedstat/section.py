"""Schedstat: what the scheduler counted during the runs, base against new.

Wakeups, switches and waits of the CPUs, and what the balancer did at each level of the topology:
rates a second and an operation, with intervals over runs. They say what happened more
often, never whether it was worse, so they get no verdict.
"""

from collections.abc import Sequence

from schedperf.evidence import Absent, Dicts, dict_section
from schedperf.evidence.schedstat.analysis import analyse_sides
from schedperf.evidence.schedstat.fields import IDLE_TYPES
from schedperf.evidence.schedstat.sources import FOLDER, load_sides
from schedperf.model.schema import COUNT, NUMBER_OR_NULL, TEXT, TEXTS, Schema, array, record
from schedperf.runs.captured import RATE_FIELDS, why_nothing
from schedperf.runs.side import Side
from schedperf.stats.counted.schema import CPUS

_COUNT_OR_NULL: Schema = {"type": ["integer", "null"]}
_ROW = record(
    row={**TEXT, "description": "names the row for readings and evidence"},
    side=TEXT,
    workload=TEXT,
    point=TEXT,
    level={**TEXT, "description": "of the scheduling domains; empty: the CPU itself"},
    idle={"enum": ["", *IDLE_TYPES]},
    field={**TEXT, "description": "the kernel's name of the counter, or a share of counters"},
    basis={"enum": ["time", "operation", "share"]},
    meaning=TEXT,
    function={**TEXT, "description": "of the kernel, whose doing it counts"},
    total_base={**NUMBER_OR_NULL, "description": "counts in a run, over all CPUs; times in ns"},
    total_new=NUMBER_OR_NULL,
    **RATE_FIELDS,
)
_READING = record(
    rule={**TEXT, "description": "a key of schedperf/evidence/schedstat/rules.toml"},
    row=TEXT,
    side=TEXT,
    workload=TEXT,
    point=TEXT,
    level=TEXT,
    text=TEXT,
    meaning=TEXT,
    look_at={**TEXT, "description": "functions of the kernel"},
)
_LEVEL = record(
    side=TEXT,
    level={**TEXT, "description": "of the scheduling domains, that with the fewest CPUs first"},
    cpus={**_COUNT_OR_NULL, "description": "of its largest domain"},
    domains=_COUNT_OR_NULL,
    flags={"type": ["array", "null"], "items": TEXT, "description": "null: not captured"},
)
_SIDE = record(
    side=TEXT,
    runs=COUNT,
    versions={**array(COUNT), "description": "of /proc/schedstat"},
    seconds={**NUMBER_OR_NULL, "description": "between the snapshots, over all runs"},
)
SCHEMA = record(
    sides=array(_SIDE),
    levels=array(_LEVEL),
    rows=array(_ROW),
    zeros={**TEXTS, "description": "what was 0 in all runs, and has no row"},
    readings=array(_READING),
    not_compared=array(record(side=TEXT, what=TEXT, reason=TEXT)),
    cpus=CPUS,
    notes=TEXTS,
)


@dict_section("schedstat", version=2, schema=SCHEMA)
def schedstat(sides: Sequence[Side]) -> Dicts:
    """Compare each count of the runs of one workload and point, side by side."""
    loaded = load_sides(sides)
    for side, found in zip(sides, loaded, strict=True):
        if not found.runs:
            raise Absent(found.notes[0] if found.notes else why_nothing(side, FOLDER))
    data = analyse_sides(loaded)
    if not data["rows"]:
        raise Absent("nothing that was counted is on both sides")
    return data
