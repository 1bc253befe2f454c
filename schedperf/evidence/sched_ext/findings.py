# SPDX-License-Identifier: GPL-2.0-or-later
"""Warn if runs of a side measured different schedulers, or a scheduler without the fair tasks."""

from collections import Counter
from collections.abc import Iterator

from schedperf.evidence import caveat_rule
from schedperf.evidence.sched_ext.record import FAIR, SchedExt, SchedulerRow
from schedperf.model.caveats import Caveat, caveat
from schedperf.model.text import join_names

# Digits of a shortened SHA-256, as for git commits.
HASH_CHARACTERS = 12


@caveat_rule("sched_ext", SchedExt)
def sched_ext(record: SchedExt) -> Iterator[Caveat]:
    """Yield a caveat for each side with valid runs of several schedulers or builds of one."""
    for side in dict.fromkeys(row.side for row in record.rows):
        rows = [row for row in record.rows if row.side == side and row.runs > row.discarded]
        if len(rows) > 1:
            names = Counter(row.scheduler or FAIR for row in rows)
            counts = join_names(
                f"{row.runs - row.discarded} with {_name(row, names)}" for row in rows
            )
            total = sum(row.runs - row.discarded for row in rows)
            yield caveat("mixed-runs", side=side, what=f"of {total} runs {counts}")


def _name(row: SchedulerRow, names: Counter[str]) -> str:
    name = row.scheduler or FAIR
    if names[name] == 1:
        return name
    build = "unknown program" if row.sha256 is None else f"sha256 {row.sha256[:HASH_CHARACTERS]}"
    return f"{name} ({row.command or 'no service'}, {build})"


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
