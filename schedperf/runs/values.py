"""From captured text to numbers: one row a run and metric.

Every benchmark parser that claims a run's stdout or stderr reads it, and so do
the user's ``--metric`` rules. A run is one observation: what a workload prints
several times within a run is averaged, never counted as more runs.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import pandas as pd

from schedperf.benchmarks import BadLine, Measurement, Metric, all_parsers
from schedperf.bundle.open import Bundle, Run
from schedperf.model.caveats import Caveat, caveat
from schedperf.model.comparison import Source
from schedperf.model.text import cut_line
from schedperf.runs.metric_rules import Allowance, parse_rules
from schedperf.runs.side import Side
from schedperf.runs.timeline import Moment, place_in_time

COLUMNS = [
    "side", "workload", "point", "metric", "unit", "better", "family", "value", "resolution",
    "kind", "boot", "run", "order", "round", "status", "definition", "source",
]  # fmt: skip

STREAMS = ("stdout", "stderr")
# A benchmark prints kilobytes; all of it is held in memory while it is read.
LARGEST_TEXT_BYTES = 16 << 20
# stress-ng has 350 stressors with three numbers each; every metric is a row of the comparison.
MOST_METRICS = 2_000

# What a run that failed would have measured is unknown.
FAILED = Metric(name="", unit="", better="lower", family="primary")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Value:
    # What a run says of one metric, in its unit.
    value: float
    resolution: float | None
    source: Source | None


_NOTHING = _Value(value=math.nan, resolution=None, source=None)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunValues:
    """What the runs of all sides printed.

    :param table: as :func:`df_run_values` describes it
    :param caveats: what could not be read, and runs that failed
    """

    table: pd.DataFrame
    caveats: tuple[Caveat, ...]


def df_run_values(sides: Sequence[Side]) -> RunValues:
    """Read every finished run that is no warm-up.

    The table has one row a run and metric, in the order of the recorded
    workloads, points, boots and runs: ``side, workload, point, metric, unit,
    better, family`` (text), ``value, resolution`` (float, in ``unit``; NaN is an
    unknown resolution), ``kind`` ("clean" or "instrumented"), ``boot, run``,
    ``order`` (place in time over all sides), ``round`` (None where the sides did not
    take turns in one session), ``status`` ("ok"), ``definition`` of the metric (None where nobody
    says) and ``source`` (:class:`~schedperf.model.comparison.Source`). A run that failed has one
    row, with status "failed", an empty metric, no value and no source.
    """
    moments = place_in_time(sides)
    rows: list[dict[str, object]] = []
    caveats: list[Caveat] = []
    for side in sides:
        bad: list[str] = []
        unread: list[str] = []
        allowance = Allowance()
        for run in _runs_in_order(side.bundle):
            common = _describe(side, run, moments[side.name, run.folder])
            if not run.succeeded:
                rows.append({**common, **_measured(FAILED, _NOTHING)})
                continue
            found = list(read_run(side.bundle, run, allowance))
            bad += [item.problem for _, item in found if isinstance(item, BadLine)]
            values = _values_of_run(found)
            if len(values) > MOST_METRICS:
                bad.append(f"{run.folder}: {len(values)} metrics, more than {MOST_METRICS}")
                values = {}
            rows += [{**common, **_measured(metric, value)} for metric, value in values.items()]
            if not values:
                unread.append(run.folder)
        caveats += _caveats(side, bad, unread)
    return RunValues(table=pd.DataFrame(rows, columns=COLUMNS), caveats=tuple(caveats))


def _runs_in_order(bundle: Bundle) -> list[Run]:
    workloads = {workload: place for place, workload in enumerate(bundle.workload)}
    points = {point: place for place, point in enumerate(bundle.points)}

    def place(run: Run) -> tuple[int, int, int, int]:
        workload = workloads.get(run.workload, len(workloads))
        return workload, points.get(run.point_key, len(points)), run.boot, run.run

    return sorted((run for run in bundle.runs if not run.warmup), key=place)


def read_run(
    bundle: Bundle, run: Run, allowance: Allowance
) -> Iterator[tuple[str, Measurement | BadLine]]:
    """Yield what one run printed: each number of each benchmark, and the lines that have none.

    Each comes with the member of the bundle that it was printed to.

    :param allowance: what the rules of this bundle may still take, together
    """
    # Programs differ in where they print: stress-ng's table is on stderr in some versions.
    # A rule has precedence over a parser's metric of the same name.
    ruled = {rule.name for rule in run.metric_rules}
    found_by_rules: set[str] = set()
    for stream in STREAMS:
        name = f"{run.folder}/{stream}"
        size = bundle.size(name)
        if size is None:
            continue
        if size > LARGEST_TEXT_BYTES:
            yield name, BadLine(problem=f"{name}: has {size} bytes, which no benchmark prints")
            continue
        text = bundle.read_text(name)
        for parser in all_parsers().values():
            if parser.claims(text):
                for item in parser.parse(text.splitlines(), name):
                    if isinstance(item, BadLine) or item.metric.name not in ruled:
                        yield name, item
        rules = [rule for rule in run.metric_rules if rule.name not in found_by_rules]
        for item in parse_rules(rules, text, name, allowance):
            if isinstance(item, Measurement):
                found_by_rules.add(item.metric.name)
            yield name, item


def _values_of_run(found: Iterable[tuple[str, Measurement | BadLine]]) -> dict[Metric, _Value]:
    # Mean and resolution of each metric, in the order in which they were printed.
    by_metric: dict[Metric, list[Measurement]] = {}
    sources: dict[Metric, Source] = {}
    for member, item in found:
        if isinstance(item, Measurement):
            by_metric.setdefault(item.metric, []).append(item)
            text = cut_line(item.line)
            sources[item.metric] = Source(member=member, line=item.line_number, text=text)
    return {
        metric: _Value(
            value=fmean(item.value for item in items),
            resolution=max(
                (item.resolution for item in items if item.resolution is not None), default=None
            ),
            source=sources[metric],
        )
        for metric, items in by_metric.items()
    }


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


def _measured(metric: Metric, found: _Value) -> dict[str, object]:
    return {
        "metric": metric.name,
        "unit": metric.unit,
        "better": metric.better,
        "family": metric.family,
        "value": found.value,
        "resolution": found.resolution,
        "definition": metric.definition,
        "source": found.source,
    }


def _caveats(side: Side, bad: Sequence[str], unread: Sequence[str]) -> Iterator[Caveat]:
    runs = [run for run in side.bundle.runs if not run.warmup]
    failed = sum(not run.succeeded for run in runs)
    if failed:
        yield caveat("failed-runs", failed=failed, total=len(runs), side=side.name)
    if bad:
        yield caveat("bad-lines", count=len(bad), label=side.name, problem=bad[0])
    if unread:
        yield caveat("no-number", count=len(unread), side=side.name, first=unread[0])


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the runs of a table as dicts, with None for what is missing."""
    return [
        {
            str(name): None if isinstance(value, float) and math.isnan(value) else value
            for name, value in record.items()
        }
        for record in table.to_dict("records")
    ]
