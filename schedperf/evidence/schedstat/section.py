"""Schedstat: what the scheduler counted during the runs, base against new.

Wakeups, switches and waits of the CPUs, and what the balancer did at each level of the topology:
rates a second and an operation, with intervals over runs. They say what happened more
often, never whether it was worse, so they get no verdict.
"""

from collections.abc import Sequence

from schedperf.evidence import Absent, section
from schedperf.evidence.schedstat.analysis import analyse_sides
from schedperf.evidence.schedstat.record import Schedstat
from schedperf.evidence.schedstat.sources import FOLDER, load_sides
from schedperf.runs.captured import why_nothing
from schedperf.runs.side import Side


@section(Schedstat)
def schedstat(sides: Sequence[Side]) -> Schedstat:
    """Compare each count of the runs of one workload and point, side by side."""
    loaded = load_sides(sides)
    for side, found in zip(sides, loaded, strict=True):
        if not found.runs:
            raise Absent(found.notes[0] if found.notes else why_nothing(side, FOLDER))
    data = analyse_sides(loaded)
    if not data.rows:
        raise Absent("nothing that was counted is on both sides")
    return data
