# SPDX-License-Identifier: GPL-2.0-or-later
"""Extract numbers from captured text: one row per run and metric.

A run is one observation: what a workload prints several times within a run is averaged,
never counted as more runs.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from schedperf.benchmarks import Metric
from schedperf.bundle.open import Run
from schedperf.model.caveats import Caveat, caveat
from schedperf.model.comparison import Better
from schedperf.model.frame import Frame
from schedperf.model.text import list_some
from schedperf.runs.printed import Value, printed_by
from schedperf.runs.side import Side
from schedperf.runs.timeline import Moment, place_in_time

COLUMNS = [
    "side", "workload", "point", "metric", "unit", "better", "family", "value", "resolution",
    "is_maximum", "kind", "boot", "run", "order", "round", "status", "definition", "class_",
    "source",
]  # fmt: skip

# stress-ng has 350 stressors with three numbers each; every metric is a row of the comparison.
MOST_METRICS = 2_000
MOST_NAMES = 3
MOST_REASONS = 2

# What a run that failed would have measured is unknown.
FAILED = Metric(name="", unit="", better="lower", family="primary")


_NOTHING = Value(value=math.nan, resolution=None, source=None)


class RunValues(Struct, frozen=True, kw_only=True):
    """What the runs of all sides printed.

    :param table: as :func:`read_run_values` describes it
    :param caveats: what could not be read, and runs that failed
    """

    table: Frame
    caveats: tuple[Caveat, ...]


def read_run_values(sides: Sequence[Side], better: Mapping[str, Better] | None = None) -> RunValues:
    """Read every finished run that is not a warm-up.

    :param better: direction of metrics whose format does not state it, by name; has precedence
        over that in the bundles; one that is known on a side holds on all sides

    The table has one row per run and metric, in the order of the recorded
    workloads, points, boots and runs: ``side, workload, point, metric, unit,
    better, family`` (text), ``value, resolution`` (float, in ``unit``; NaN is an
    unknown resolution), ``is_maximum`` (is it the maximum of a run?), ``kind`` ("clean" or
    "instrumented"), ``boot, run``, ``order`` (place in time over all sides; None where not
    recorded), ``round`` (None where the sides were not interleaved in one session), ``status``
    ("ok"), ``definition`` of the metric (None where not recorded), ``class_`` of the benchmark
    (None if unknown) and ``source`` (:class:`~schedperf.model.comparison.Source`). A run that
    failed has one row, with status "failed", an empty metric, no value and no source. A run that
    the recorder discarded has none.
    """
    moments = place_in_time(sides)
    rows: list[dict[str, object]] = []
    caveats: list[Caveat] = []
    for side in sides:
        bad: list[str] = []
        unread: list[str] = []
        for run in side.bundle.runs_by_point:
            if run.discarded is not None:
                continue
            common = _describe(side, run, moments[side.name, run.folder])
            if not run.succeeded:
                rows.append({**common, **_measured(FAILED, _NOTHING)})
                continue
            printed = printed_by(side, run)
            bad += printed.problems
            values = printed.numbers
            if len(values) > MOST_METRICS:
                bad.append(
                    f"{run.folder}: {len(values)} metrics (expected at most {MOST_METRICS}); "
                    "print fewer"
                )
                values = {}
            directions = {**side.bundle.better, **(better or {})}
            rows += [
                {**common, **_measured(_directed(metric, directions), value)}
                for metric, value in values.items()
            ]
            if not values:
                unread.append(run.origin)
        caveats += _caveats(side, bad, unread)
    _share_directions(rows)
    return RunValues(table=Frame.of_rows(rows, COLUMNS), caveats=tuple(caveats))


def _describe(side: Side, run: Run, moment: Moment) -> dict[str, object]:
    return {
        "side": side.name,
        "workload": run.workload,
        "point": run.point_key,
        "kind": run.kind,
        "boot": run.boot,
        "run": run.run,
        "order": moment.order,
        "round": moment.round,
        "status": "ok" if run.succeeded else "failed",
    }


def _share_directions(rows: Sequence[dict[str, object]]) -> None:
    """Let a direction that is stated on one side hold on all, in place.

    Otherwise the values of the sides would be those of two metrics, and not compared.
    """
    stated: dict[tuple[object, ...], set[tuple[object, object]]] = {}
    for row in rows:
        if row["better"] != "unknown":
            stated.setdefault(_metric_of(row), set()).add((row["better"], row["family"]))
    for row in rows:
        directions = stated.get(_metric_of(row), set()) if row["better"] == "unknown" else set()
        if len(directions) == 1:
            [(row["better"], row["family"])] = directions


def _metric_of(row: Mapping[str, object]) -> tuple[object, ...]:
    return row["workload"], row["metric"], row["unit"]


def _directed(metric: Metric, directions: Mapping[str, Better]) -> Metric:
    # A metric whose direction is stated counts for the verdict.
    direction = directions.get(metric.name)
    if metric.better != "unknown" or direction is None:
        return metric
    return dataclasses.replace(metric, better=direction, family="primary")


def _measured(metric: Metric, value: Value) -> dict[str, object]:
    return {
        "metric": metric.name,
        "unit": metric.unit,
        "better": metric.better,
        "family": metric.family,
        "value": value.value,
        "resolution": value.resolution,
        "definition": metric.definition,
        "class_": metric.class_,
        "is_maximum": metric.is_maximum,
        "source": value.source,
    }


def _caveats(side: Side, bad: Sequence[str], unread: Sequence[str]) -> Iterator[Caveat]:
    runs = [run for run in side.bundle.runs if not run.warmup]
    reasons = [run.discarded for run in runs if run.discarded is not None]
    if reasons:
        yield caveat(
            "discarded-runs",
            discarded=len(reasons),
            total=len(runs),
            side=side.name,
            reason=list_some(list(dict.fromkeys(reasons)), MOST_REASONS),
        )
    failed = sum(run.failed for run in runs)
    if failed:
        yield caveat("failed-runs", failed=failed, total=len(runs), side=side.name)
    if bad:
        yield caveat("bad-lines", count=len(bad), label=side.name, problem=bad[0])
    if unread:
        yield caveat(
            "no-number", count=len(unread), side=side.name, first=list_some(unread, MOST_NAMES)
        )
