# SPDX-License-Identifier: GPL-2.0-or-later
"""Extract numbers from captured text: one row per run and metric.

A run is one observation: values that a workload prints several times within a run are averaged and
never counted as more runs.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from schedperf.inputs.benchmarks import Metric
from schedperf.inputs.bundle.open import Run
from schedperf.inputs.side import Side
from schedperf.model.caveats import Caveat, caveat
from schedperf.model.frame import Frame
from schedperf.model.rows import Better
from schedperf.model.text import list_some
from schedperf.runs.printed import Value, printed_by
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

# The values of a failed run are unknown.
FAILED = Metric(name="", unit="", better="lower", family="primary")


# Elapsed time of a workload that prints no number. It is informational unless the user asks for it.
ELAPSED = Metric(
    name="elapsed time (wall)",
    unit="s",
    better="lower",
    family="informational",
    definition="From the start of the workload to its end, measured by the recorder.",
)

_NOTHING = Value(value=math.nan, resolution=None, source=None)


class RunValues(Struct, frozen=True, kw_only=True):
    """What the runs of all sides printed.

    :param table: as :func:`read_run_values` describes it
    :param caveats: unreadable lines, output without a number, work that was not done, and failed or
        discarded runs
    """

    table: Frame
    caveats: tuple[Caveat, ...]


def read_run_values(sides: Sequence[Side], better: Mapping[str, Better] | None = None) -> RunValues:
    """Read what every run printed, except warm-ups and discarded runs.

    The table has one row per run and metric, in the order of sides, and within a side of the
    recorded workloads, points, boots and runs: ``side, workload, point, metric, unit, better,
    family`` (text), ``value, resolution`` (float, in ``unit``; NaN is an unknown resolution),
    ``is_maximum`` (True for the maximum of a run), ``kind`` ("clean" or "instrumented"), ``boot,
    run``, ``order`` (position in time over all sides), ``round`` (number of the interleaved pair of
    runs), ``status`` ("ok"), ``definition`` of the metric, ``class_`` of the benchmark ("micro",
    "semi" or "application") and ``source`` (:class:`~schedperf.model.rows.Source`). Unknown values
    are missing: NaN in columns of numbers, else None.

    A failed run has one row, with status "failed", an empty metric, no value and no source. A
    successful run that printed no number has no row. But if no run of a workload on any side
    printed a number, its clean runs have a row with their elapsed time and no source, provided that
    two sides (or the only side) have such runs.

    :param better: direction by metric name, for metrics whose format does not state it; overrides
        the direction in the bundles. A direction that one side states is used for all sides
    :raises BundleError: output does not match its checksum, or is too large to be parsed
    """
    moments = place_in_time(sides)
    rows: list[dict[str, object]] = []
    caveats: list[Caveat] = []
    for side in sides:
        bad: list[str] = []
        unread: list[str] = []
        undone: list[str] = []
        for run in side.bundle.runs_by_point:
            if run.discarded is not None:
                continue
            common = _describe(side, run, moments[side.name, run.folder])
            if not run.succeeded:
                rows.append({**common, **_measured(FAILED, _NOTHING)})
                continue
            printed = printed_by(side, run)
            bad += printed.problems
            undone += [printed.failure] if printed.failure is not None else []
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
            if not values and printed.failure is None:
                unread.append(run.origin)
            if not printed.numbers and printed.failure is None and run.kind == "clean":
                rows += [{**common, **_measured(ELAPSED, each)} for each in _elapsed(run)]
        caveats += _caveats(side, bad, unread, undone)
    rows = _without_partial_elapsed(rows, len(sides))
    _share_directions(rows)
    return RunValues(table=Frame.of_rows(rows, COLUMNS), caveats=tuple(caveats))


def _without_partial_elapsed(
    rows: Sequence[dict[str, object]], sides: int
) -> list[dict[str, object]]:
    """Return the rows without elapsed times of workloads that have other results.

    With two or more sides, elapsed times that only one side has are left out as well.
    """
    elapsed: dict[object, set[object]] = {}
    measured = set()
    for row in rows:
        if row["metric"] == ELAPSED.name:
            elapsed.setdefault(row["workload"], set()).add(row["side"])
        elif row["metric"] != FAILED.name:
            measured.add(row["workload"])
    fewest = min(sides, 2)
    kept = {workload for workload, names in elapsed.items() if len(names) >= fewest} - measured
    return [row for row in rows if row["metric"] != ELAPSED.name or row["workload"] in kept]


def _elapsed(run: Run) -> Iterator[Value]:
    if run.wall_s is not None:
        yield Value(value=run.wall_s, resolution=None, source=None)


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
    """Copy a stated direction and its family to rows of the same metric without one, in place.

    Otherwise the sides would have two different metrics, which are not compared. Nothing is copied
    if stated directions differ.
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


def _caveats(
    side: Side, bad: Sequence[str], unread: Sequence[str], undone: Sequence[str]
) -> Iterator[Caveat]:
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
    if undone:
        yield caveat("work-not-done", count=len(undone), side=side.name, problem=undone[0])
    if bad:
        yield caveat("bad-lines", count=len(bad), label=side.name, problem=bad[0])
    if unread:
        yield caveat(
            "no-number", count=len(unread), side=side.name, first=list_some(unread, MOST_NAMES)
        )
