# SPDX-License-Identifier: GPL-2.0-or-later
"""Estimate from past nights how long a machine needs for a boot, and for the runs in it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from msgspec import Struct
from sqlalchemy import or_, select

from schedperf.history.questions.history import History
from schedperf.history.store.tables import INPUT, RUN

# Nights that are used, the newest ones.
_NIGHTS = 5
# Longer gaps are pauses, e.g. until the next night.
_LONGEST_S = 6 * 3600.0


class Durations(Struct, frozen=True, kw_only=True):
    """How long a machine needs.

    :param boot_s: median time from the end of the runs in a boot to the first run of the next one,
        s; None if unknown
    :param runs_s: median time for the runs of each workload in a boot, s
    """

    boot_s: float | None
    runs_s: Mapping[str, float]

    def of_boots(self, boots: int, workloads: Iterable[str]) -> float | None:
        """Return how long some boots take with the runs of workloads, s; None if unknown."""
        each = [self.runs_s.get(workload) for workload in workloads]
        if self.boot_s is None or None in each:
            return None
        return boots * (self.boot_s + sum(filter(None, each)))


class _Run(NamedTuple):
    started_s: float
    boot: tuple[int, int]
    workload: str


def read_durations(history: History, machine: str) -> Durations:
    """Return how long a machine needed in its last five nights.

    :param machine: the name that its recordings have
    :raises InputError: the database cannot be read
    """
    of_machine = or_(INPUT.c.machine == machine, INPUT.c.machine_class == machine)
    chosen = (
        select(INPUT.c.night)
        .where(of_machine, INPUT.c.purpose == "night")
        .group_by(INPUT.c.night)
        .order_by(INPUT.c.night.desc())
        .limit(_NIGHTS)
    )
    query = (
        select(INPUT.c.night, INPUT.c.id, RUN.c.boot, RUN.c.workload, RUN.c.started)
        .join(RUN, RUN.c.input_id == INPUT.c.id)
        .where(of_machine, INPUT.c.purpose == "night", INPUT.c.night.in_(chosen))
    )
    nights: dict[str, list[_Run]] = defaultdict(list)
    with history.database.transaction() as connection:
        for row in connection.execute(query):
            started_s = _seconds(row.started)
            if started_s is not None:
                nights[row.night].append(_Run(started_s, (row.id, row.boot), row.workload))
    return _estimate([sorted(runs) for runs in nights.values()])


def _estimate(nights: Iterable[list[_Run]]) -> Durations:
    """Return the medians over the boots of nights, whose runs are in order.

    The last run of a boot took as long as the median of its workload.
    """
    single: dict[str, list[float]] = defaultdict(list)
    in_boot: dict[tuple[tuple[int, int], str], int] = defaultdict(int)
    between: list[tuple[str, float]] = []
    for runs in nights:
        for run in runs:
            in_boot[run.boot, run.workload] += 1
        for run, following in pairwise(runs):
            took_s = following.started_s - run.started_s
            if took_s > _LONGEST_S:
                continue
            if run.boot == following.boot:
                single[run.workload].append(took_s)
            else:
                between.append((run.workload, took_s))
    run_s = {workload: median(found) for workload, found in single.items()}
    counts: dict[str, list[int]] = defaultdict(list)
    for (_, workload), count in in_boot.items():
        counts[workload].append(count)
    gaps = [max(0.0, took_s - run_s.get(workload, 0.0)) for workload, took_s in between]
    return Durations(
        boot_s=median(gaps) if gaps else None,
        runs_s={
            workload: median(counts[workload]) * run_s.get(workload, 0.0) for workload in counts
        },
    )


def _seconds(started: str | None) -> float | None:
    """Return a time as seconds since 1970; None if it is missing or invalid."""
    try:
        return None if started is None else datetime.fromisoformat(started).timestamp()
    except (ValueError, OverflowError):
        return None
