# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare instrumented runs with clean runs of the same side.

Verdicts are based on clean runs, profiles on instrumented runs. This section reports the overhead
of the instrumentation: the mean with its interval, and each run against the clean runs of its boot.
It also compares the instrumented runs of the sides with each other: a change that they do not show
cannot be explained by their captures.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, geometric_mean
from typing import Any

from schedperf.evidence import Absent, section
from schedperf.evidence.probe_effect.record import (
    ProbeCostRow,
    ProbedChangeRow,
    ProbedRun,
    ProbedValue,
    ProbeEffect,
)
from schedperf.inputs.bundle.open import Bundle
from schedperf.inputs.side import Side
from schedperf.model.base_new import BASE
from schedperf.model.frame import Frame
from schedperf.runs.values import read_run_values
from schedperf.stats import KEY, compare_runs

CLEAN, INSTRUMENTED = "clean", "instrumented"
# Captures of every run, which are not collectors.
NO_COLLECTORS = ("record", "workload")

_OF_RUN = re.compile(r"(boots/[0-9]{1,6}/runs/[0-9]{3,6})/")

Place = tuple[object, ...]


def is_instrumented(side: Side) -> bool:
    """Return whether a side has runs that collectors may have slowed down."""
    return any(run.kind == INSTRUMENTED for run in side.bundle.runs)


@section(ProbeEffect, applies=is_instrumented)
def probe_effect(sides: Sequence[Side]) -> ProbeEffect:
    """Compare clean and instrumented runs of each side, for the primary metrics.

    ``ratio`` in ``rows`` is instrumented / clean with its 95% CI, and in ``between`` new /
    base; values are in ``unit``. A single run has no interval.

    :raises Absent: no metric was measured in both clean and instrumented runs of one side
    :raises BundleError: the output of a run cannot be read
    """
    table = read_run_values(sides).table
    primary = table.take((table["family"] == "primary") & (table["status"] == "ok"))
    runs_of = {side.name: primary.take(primary["side"] == side.name) for side in sides}
    rows = tuple(row for side, runs in runs_of.items() for row in _cost_rows(side, runs))
    if not rows:
        raise Absent("no metric was measured in both clean and instrumented runs")
    runs = (run for side in sides for run in _runs(side, runs_of[side.name]))
    return ProbeEffect(rows=rows, between=tuple(_between(sides, primary)), runs=tuple(runs))


def _between(sides: Sequence[Side], values: Frame) -> Iterator[ProbedChangeRow]:
    instrumented = values.take(values["kind"] == INSTRUMENTED)
    rows = compare_runs(instrumented, base=BASE, new=[side.name for side in sides[1:]]).rows
    for row in rows:
        if row.n_base and row.n_new:
            yield ProbedChangeRow(
                side=row.side,
                workload=row.workload,
                point=row.point,
                metric=row.metric,
                unit=row.unit,
                better=row.better,
                n_base=row.n_base,
                n_new=row.n_new,
                base=row.base,
                new=row.new,
                ratio=row.ratio,
                ci_low=row.ci_low,
                ci_high=row.ci_high,
                replication=row.replication,
            )


def _cost_rows(side: str, runs: Frame) -> Iterator[ProbeCostRow]:
    # Compare the two kinds of runs of one side as if they were two sides.
    kinds = runs.assign(side=runs["kind"])
    for row in compare_runs(kinds, base=CLEAN, new=[INSTRUMENTED]).rows:
        if row.n_base and row.n_new:
            yield ProbeCostRow(
                side=side,
                workload=row.workload,
                point=row.point,
                metric=row.metric,
                unit=row.unit,
                better=row.better,
                ratio=row.ratio,
                ci_low=row.ci_low,
                ci_high=row.ci_high,
                replication=row.replication,
                n_clean=row.n_base,
                n_instrumented=row.n_new,
                clean=row.base,
                instrumented=row.new,
            )


def _runs(side: Side, values: Frame) -> Iterator[ProbedRun]:
    clean: dict[Place, list[float]] = {}
    disturbed: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for row in values.records():
        if row["kind"] == CLEAN:
            clean.setdefault(_place(row), []).append(row["value"])
        else:
            disturbed.setdefault((row["boot"], row["run"]), []).append(row)
    instruments = _instruments(side.bundle)
    for (boot, run), rows in disturbed.items():
        yield ProbedRun(
            side=side.name,
            workload=rows[0]["workload"],
            point=rows[0]["point"],
            boot=boot,
            run=run,
            collectors=tuple(instruments.get((boot, run), ())),
            effects=tuple(_probed_value(row, clean.get(_place(row), [])) for row in rows),
        )


def _place(row: Mapping[str, Any]) -> Place:
    # Runs with the same boot, workload and point are comparable.
    return tuple(row[name] for name in ("boot", *KEY))


def _probed_value(row: Mapping[str, Any], clean: Sequence[float]) -> ProbedValue:
    value: float = row["value"]
    # Geometric mean, as in the rows of benchmarks.
    is_positive = bool(clean) and min(value, *clean) > 0.0
    mean = None if not clean else geometric_mean(clean) if is_positive else fmean(clean)
    return ProbedValue(
        metric=row["metric"],
        unit=row["unit"],
        better=row["better"],
        value=value,
        n_clean=len(clean),
        clean=mean,
        ratio=value / mean if mean is not None and is_positive else None,
    )


def _instruments(bundle: Bundle) -> dict[tuple[int, int], list[str]]:
    # A collector that failed may have disturbed the run; a skipped collector did not run.
    ran: dict[str, list[str]] = {}
    for entry in bundle.captures:
        match = _OF_RUN.match(entry.path)
        if match and entry.status != "skipped" and entry.collector not in NO_COLLECTORS:
            collectors = ran.setdefault(match[1], [])
            if entry.collector not in collectors:
                collectors.append(entry.collector)
    clean = {
        name
        for run in bundle.runs
        if run.kind == CLEAN and not run.warmup
        for name in ran.get(run.folder, ())
    }
    return {
        (run.boot, run.run): [name for name in ran.get(run.folder, ()) if name not in clean]
        for run in bundle.runs
        if run.kind == INSTRUMENTED
    }
