# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the earlier runs of a machine and workload, which show how much its results vary."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter

from sqlalchemy import Connection, RowMapping, select

from schedperf.compare.machine_class import machine_class
from schedperf.history.questions.history import History
from schedperf.history.questions.noise import WINDOW
from schedperf.history.store.reading import identify
from schedperf.history.store.tables import BOOT, INPUT, RESULT, RUN, VALUE
from schedperf.inputs.bundle.open import Bundle
from schedperf.model.frame import Frame

_DATE = 10
_COLUMNS = (
    "side", "workload", "point", "metric", "unit", "better", "value", "status", "boot", "boot_id",
    "kernel",
)  # fmt: skip


def read_past_runs(history: History, bundles: Sequence[Bundle]) -> tuple[Frame, ...]:
    """Return the runs of the machine and workloads of bundles, of the last 90 days with recordings.

    Boots of one kernel are one sample: those of one day if the bundles are of one day, too, and
    else those of all days, since results also vary from day to day. Recordings that have a run of
    the bundles are left out.

    :param bundles: of one machine
    :return: one table per recording, as ``history`` of :func:`schedperf.stats.compare_runs`
    :raises InputError: the database cannot be read
    """
    machine = machine_class(bundles[0], bundles[0].treatment, ())
    is_one_day = len({(bundle.created or "")[:_DATE] for bundle in bundles}) == 1
    with history.database.transaction() as connection:
        days = _recent(connection, machine)
        inputs = days.keys() - _with_runs_of(connection, bundles)
        if not inputs:
            return ()
        workloads = {run.workload for bundle in bundles for run in bundle.runs}
        query = _VALUES.where(
            RESULT.c.machine_class == machine,
            RESULT.c.workload.in_(sorted(workloads)),
            VALUE.c.input_id >= min(inputs),
        ).order_by(VALUE.c.input_id, VALUE.c.result_id, VALUE.c.boot, VALUE.c.run)
        rows = [*connection.execute(query).mappings()]
    return tuple(
        _to_frame(of_input, days[number] if is_one_day else "")
        for number, of_input in groupby(rows, key=itemgetter("input_id"))
        if number in inputs
    )


_VALUES = (
    select(
        *(RESULT.c[name] for name in ("workload", "point", "metric", "unit", "better")),
        VALUE.c.input_id,
        VALUE.c.boot,
        VALUE.c.value,
        INPUT.c.label,
        *(BOOT.c[name] for name in ("boot_id", "build_id", "kernel")),
    )
    .join(VALUE, VALUE.c.result_id == RESULT.c.id)
    .join(INPUT, INPUT.c.id == VALUE.c.input_id)
    .join(BOOT, (BOOT.c.input_id == VALUE.c.input_id) & (BOOT.c.boot == VALUE.c.boot))
)


def _recent(connection: Connection, machine: str | None) -> Mapping[int, str]:
    """Return the day of each recording of the last 90 days that have one, by its id."""
    query = select(INPUT.c.id, INPUT.c.night, INPUT.c.created).where(
        INPUT.c.machine_class == machine, INPUT.c.superseded_by.is_(None)
    )
    days = {row.id: (row.night or row.created or "")[:_DATE] for row in connection.execute(query)}
    last = {*sorted(set(days.values()))[-WINDOW:]}
    return {number: day for number, day in days.items() if day in last}


def _with_runs_of(connection: Connection, bundles: Sequence[Bundle]) -> set[int]:
    """Return the ids of the recordings that have a run of the bundles."""
    runs = [identify(bundle, run) for bundle in bundles for run in bundle.runs]
    query = select(RUN.c.input_id).where(RUN.c.identity.in_(runs)).distinct()
    return set(connection.execute(query).scalars())


def _to_frame(rows: Iterable[RowMapping], day: str) -> Frame:
    """Return the runs of one recording.

    :param day: of the boots that are compared with each other; "" for all days
    """
    return Frame.of_rows([{**row, **_origin(row, day)} for row in rows], _COLUMNS)


def _origin(row: RowMapping, day: str) -> Mapping[str, object]:
    """Return the columns that the database has under other names."""
    label = row["label"] or ""
    kernel = row["build_id"] or row["kernel"]
    # One build can be booted with several settings, each of which has a label.
    sample = kernel and f"{kernel} {label} {day}"
    return {"side": label, "status": "ok", "kernel": sample}
