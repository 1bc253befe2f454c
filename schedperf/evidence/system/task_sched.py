# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse /proc/PID/sched of the workload's tasks: scheduler statistics of each task.

::

    hackbench (42, #threads: 1)
    -------------------------------------------------------------------
    se.sum_exec_runtime                          :            36.896425
    se.nr_migrations                             :                    0
    se.statistics.wait_sum                       :             0.216732
    nr_switches                                  :                   38

Since v5.16 ("sched: Make struct sched_statistics independent of fair sched class") the prefix
``se.statistics.`` is missing; this parser always removes it, and also ``se.``. A number with six
decimals is in milliseconds, any other is a count or a state.

    >>> parse_sched("se.statistics.wait_max : 1.500000", "sched")
    {'wait_max': TaskField(value=0.0015, unit='s')}
"""

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from schedperf.evidence.system._counters import SHOWN
from schedperf.inputs.bundle.json import Count, decode
from schedperf.model.errors import InputError

MOST_TASKS = 4096
# Limit on fields: about 60, and one line per NUMA node.
MOST_FIELDS = 2048

_FIELD = re.compile(r"([A-Za-z][A-Za-z0-9_.>-]{0,79})\s*:\s*(-?[0-9]{1,20})(\.[0-9]{6})?", re.ASCII)
_COMM = re.compile(r"(.{0,64}) \([0-9]{1,10}, #threads: [0-9]{1,10}\)")
_PREFIXES = ("se.statistics.", "se.")


class TaskField(Struct, frozen=True, kw_only=True):
    """One number of a task, in "1" or "s"."""

    value: float
    unit: str


class TaskSched(Struct, frozen=True, kw_only=True):
    """The statistics of one task in its last snapshot.

    :param seen_ns: time of the snapshot, CLOCK_MONOTONIC
    :param comm: its name; None if the text does not contain it
    :param fields: by name: "nr_switches", "wait_sum", "avg.util_avg"
    """

    pid: int
    tid: int
    seen_ns: int
    comm: str | None
    fields: Mapping[str, TaskField]


class WorkloadTasks(Struct, frozen=True, kw_only=True):
    """The tasks of one run.

    :param looks: number of snapshots
    :param left_out: number of tasks beyond the limit
    """

    looks: int
    left_out: int
    tasks: tuple[TaskSched, ...]


class _Look(Struct, frozen=True, kw_only=True):
    """The last snapshot of one task, as text."""

    pid: Count
    tid: Count
    seen_ns: Count
    sched: str


class _Looks(Struct, frozen=True, kw_only=True):
    """The contents of tasks.json."""

    schema: Literal["schedperf/task_sched/1"]
    looks: Count
    left_out: Count
    tasks: Annotated[tuple[_Look, ...], Meta(max_length=MOST_TASKS)]


def parse_task_sched(content: bytes, label: str) -> WorkloadTasks:
    """Read tasks.json.

    :raises InputError: the file is damaged or has another format
    """
    recorded = decode(content, _Looks, label)
    return WorkloadTasks(
        looks=recorded.looks,
        left_out=recorded.left_out,
        tasks=tuple(
            _task(look, f"{label}: $.tasks[{index}]") for index, look in enumerate(recorded.tasks)
        ),
    )


def _task(look: _Look, label: str) -> TaskSched:
    comm = _COMM.match(look.sched)
    return TaskSched(
        pid=look.pid,
        tid=look.tid,
        seen_ns=look.seen_ns,
        comm=comm[1] if comm else None,
        fields=parse_sched(look.sched, label),
    )


def parse_sched(text: str, label: str) -> dict[str, TaskField]:
    """Parse the text of one task; skip lines that are not a name with a number.

    :raises InputError: the text has no fields, or more lines than a kernel writes
    """
    lines = text.split("\n")
    fields: dict[str, TaskField] = {}
    if len(lines) > MOST_FIELDS:
        raise InputError(
            f"{label}: {len(lines)} lines (expected at most {MOST_FIELDS}); record again"
        )
    for line in lines:
        if match := _FIELD.fullmatch(line.strip()):
            name = match[1]
            for prefix in _PREFIXES:
                name = name.removeprefix(prefix)
            fields[name] = _field(match[2], match[3])
    if not fields:
        raise InputError(
            f"{label}: no fields of /proc/PID/sched in {text[:SHOWN]!r} (expected lines such as "
            "`se.nr_migrations : 12`); record again"
        )
    return fields


def _field(whole: str, decimals: str | None) -> TaskField:
    if decimals is None:
        return TaskField(value=float(whole), unit="1")
    return TaskField(value=float(whole + decimals) / 1e3, unit="s")
