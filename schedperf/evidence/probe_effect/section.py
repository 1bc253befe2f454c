# SPDX-License-Identifier: GPL-2.0-or-later
"""What the instruments cost: instrumented runs against clean runs of one side.

Verdicts rest on clean runs. Profiles come from instrumented runs, and this
section says how far these were disturbed by what they were measured with: on average with an
interval, and each of them against the clean runs of its boot. It also compares the instrumented
runs of the sides with each other: what they do not show, nothing that they recorded can explain.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, geometric_mean
from typing import Any

import pandas as pd

from schedperf.bundle.open import Bundle
from schedperf.evidence import Absent, section
from schedperf.evidence.probe_effect.record import (
    ProbeCostRow,
    ProbedChangeRow,
    ProbedRun,
    ProbedValue,
    ProbeEffect,
)
from schedperf.runs.side import BASE, Side
from schedperf.runs.values import df_run_values, records
from schedperf.stats import KEY, compare_runs

CLEAN, INSTRUMENTED = "clean", "instrumented"
# What belongs to every run and measures nothing.
NO_COLLECTORS = ("record", "workload")

_OF_RUN = re.compile(r"(boots/[0-9]{1,6}/runs/[0-9]{3,6})/")

Place = tuple[object, ...]


@section(ProbeEffect)
def probe_effect(sides: Sequence[Side]) -> ProbeEffect:
    """Compare the two kinds of runs, side by side, for the primary metrics.

    ``ratio`` in ``rows`` is instrumented / clean with its 95% CI, and in ``between`` new /
    base; values are in ``unit``. A single run has no interval: it is one value beside a mean.
    """
    table = df_run_values(sides).table
    primary = table[(table["family"] == "primary") & (table["status"] == "ok")]
    rows = tuple(
        row
        for side, runs in primary.groupby("side", sort=False)
        for row in _cost_rows(str(side), runs)
    )
    if not rows:
        raise Absent("no metric has both clean and instrumented runs")
    runs = (run for side in sides for run in _runs(side, primary[primary["side"] == side.name]))
    return ProbeEffect(rows=rows, between=tuple(_between(sides, primary)), runs=tuple(runs))


def _between(sides: Sequence[Side], values: pd.DataFrame) -> Iterator[ProbedChangeRow]:
    instrumented = values[values["kind"] == INSTRUMENTED]
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


def _cost_rows(side: str, runs: pd.DataFrame) -> Iterator[ProbeCostRow]:
    # The two kinds of one side's runs, compared as if they were two sides.
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


def _runs(side: Side, values: pd.DataFrame) -> Iterator[ProbedRun]:
    clean: dict[Place, list[float]] = {}
    disturbed: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for one in records(values):
        if one["kind"] == CLEAN:
            clean.setdefault(_place(one), []).append(one["value"])
        else:
            disturbed.setdefault((one["boot"], one["run"]), []).append(one)
    instruments = _instruments(side.bundle)
    for (boot, run), found in disturbed.items():
        yield ProbedRun(
            side=side.name,
            workload=found[0]["workload"],
            point=found[0]["point"],
            boot=boot,
            run=run,
            collectors=tuple(instruments.get((boot, run), ())),
            effects=tuple(_probed_value(one, clean.get(_place(one), [])) for one in found),
        )


def _place(one: Mapping[str, Any]) -> Place:
    # Runs of one boot and point do the same.
    return tuple(one[name] for name in ("boot", *KEY))


def _probed_value(one: Mapping[str, Any], clean: Sequence[float]) -> ProbedValue:
    value: float = one["value"]
    # As rows of benchmarks have it: the mean of ratios is geometric.
    is_positive = bool(clean) and min(value, *clean) > 0.0
    mean = None if not clean else geometric_mean(clean) if is_positive else fmean(clean)
    return ProbedValue(
        metric=one["metric"],
        unit=one["unit"],
        better=one["better"],
        value=value,
        n_clean=len(clean),
        clean=mean,
        ratio=value / mean if mean is not None and is_positive else None,
    )


def _instruments(bundle: Bundle) -> dict[tuple[int, int], list[str]]:
    # One that failed disturbed the run, too; one that was skipped did nothing.
    ran: dict[str, list[str]] = {}
    for entry in bundle.captures:
        place = _OF_RUN.match(entry.path)
        if place and entry.status != "skipped" and entry.collector not in NO_COLLECTORS:
            found = ran.setdefault(place[1], [])
            if entry.collector not in found:
                found.append(entry.collector)
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
