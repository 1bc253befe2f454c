# SPDX-License-Identifier: GPL-2.0-or-later
"""Warn of a side whose runs measured different schedulers, or perhaps none of them."""

from collections import Counter
from collections.abc import Iterator

from schedperf.evidence import caveat_rule
from schedperf.evidence.sched_ext.record import FAIR, SchedExt
from schedperf.model.caveats import Caveat, caveat
from schedperf.model.text import join_names


@caveat_rule("sched_ext", SchedExt)
def sched_ext(record: SchedExt) -> Iterator[Caveat]:
    """Yield a caveat for each side with valid runs of more than one scheduler."""
    for side in dict.fromkeys(row.side for row in record.rows):
        runs = Counter[str]()
        for row in record.rows:
            if row.side == side and row.runs > row.discarded:
                runs[row.scheduler or FAIR] += row.runs - row.discarded
        if len(runs) > 1:
            total = runs.total()
            counts = join_names(f"{count} with {name}" for name, count in runs.items())
            yield caveat("mixed-runs", side=side, what=f"of {total} runs {counts}")


@caveat_rule("partial_scheduler", SchedExt)
def partial_scheduler(record: SchedExt) -> Iterator[Caveat]:
    """Yield a caveat for each scheduler to which the tasks of the fair class were not switched."""
    partial = {
        (row.side, row.scheduler): None
        for row in record.rows
        if row.scheduler is not None and row.switch_all is False and row.runs > row.discarded
    }
    for side, scheduler in partial:
        yield caveat("partial-scheduler", side=side, scheduler=scheduler)
