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
from schedperf.evidence import Absent, Dicts, dict_section
from schedperf.model.schema import COUNT, NUMBER_OR_NULL, TEXT, TEXTS, array, record
from schedperf.runs.side import BASE, Side
from schedperf.runs.values import df_run_values
from schedperf.stats import KEY, compare_runs, records

CLEAN, INSTRUMENTED = "clean", "instrumented"
# What belongs to every run and measures nothing.
NO_COLLECTORS = ("record", "workload")

_METRIC = {"metric": TEXT, "unit": TEXT, "better": {"enum": ["higher", "lower"]}}
_REPLICATION = {"enum": ["runs", "boots", "rounds"], "description": "what the n count"}
_EFFECT = record(
    **_METRIC,
    value=NUMBER_OR_NULL,
    n_clean={**COUNT, "description": "clean runs of the same workload, point and boot"},
    clean={**NUMBER_OR_NULL, "description": "their mean; null without one"},
    ratio={**NUMBER_OR_NULL, "description": "value / clean; null where it has no meaning"},
)
SCHEMA = record(
    rows=array(
        record(
            side=TEXT,
            workload=TEXT,
            point=TEXT,
            **_METRIC,
            n_clean=COUNT,
            n_instrumented=COUNT,
            replication=_REPLICATION,
            clean=NUMBER_OR_NULL,
            instrumented=NUMBER_OR_NULL,
            ratio=NUMBER_OR_NULL,
            ci_low=NUMBER_OR_NULL,
            ci_high=NUMBER_OR_NULL,
        )
    ),
    between={
        **array(
            record(
                side=TEXT,
                workload=TEXT,
                point=TEXT,
                **_METRIC,
                n_base=COUNT,
                n_new=COUNT,
                base=NUMBER_OR_NULL,
                new=NUMBER_OR_NULL,
                ratio=NUMBER_OR_NULL,
                ci_low=NUMBER_OR_NULL,
                ci_high=NUMBER_OR_NULL,
                replication=_REPLICATION,
            )
        ),
        "description": "the instrumented runs of each side against those of base, as rows of the "
        "record compare clean runs",
    },
    runs=array(
        record(
            side=TEXT,
            workload=TEXT,
            point=TEXT,
            boot=COUNT,
            run=COUNT,
            collectors={**TEXTS, "description": "that ran in it and in no clean run of the side"},
            effects=array(_EFFECT),
        )
    ),
)

_OF_RUN = re.compile(r"(boots/[0-9]{1,6}/runs/[0-9]{3,6})/")

BETWEEN = [
    "side", *KEY, "n_base", "n_new", "base", "new", "ratio", "ci_low", "ci_high", "replication",
]  # fmt: skip

Place = tuple[object, ...]


@dict_section("probe_effect", version=3, schema=SCHEMA)
def probe_effect(sides: Sequence[Side]) -> Dicts:
    """Compare the two kinds of runs, side by side, for the primary metrics.

    ``ratio`` in ``rows`` is instrumented / clean with its 95 % interval, and in ``between`` new /
    base; values are in ``unit``. A single run has no interval: it is one value beside a mean.
    """
    table = df_run_values(sides).table
    primary = table[(table["family"] == "primary") & (table["status"] == "ok")]
    rows = [
        _row(str(side), found)
        for side, runs in primary.groupby("side", sort=False)
        for found in records(_df_kinds(runs))
    ]
    if not rows:
        raise Absent("no metric has both clean and instrumented runs")
    runs = [run for side in sides for run in _runs(side, primary[primary["side"] == side.name])]
    return {"rows": rows, "between": _between(sides, primary), "runs": runs}


def _between(sides: Sequence[Side], values: pd.DataFrame) -> list[dict[str, object]]:
    instrumented = values[values["kind"] == INSTRUMENTED]
    found = compare_runs(instrumented, base=BASE, new=[side.name for side in sides[1:]]).rows
    both = found[(found["n_base"] > 0) & (found["n_new"] > 0)]
    return records(both[BETWEEN])


def _df_kinds(runs: pd.DataFrame) -> pd.DataFrame:
    # The two kinds of one side's runs, compared as if they were two sides.
    kinds = runs.assign(side=runs["kind"])
    rows = compare_runs(kinds, base=CLEAN, new=[INSTRUMENTED]).rows
    return rows[(rows["n_base"] > 0) & (rows["n_new"] > 0)]


def _row(side: str, found: Mapping[str, object]) -> dict[str, object]:
    return {
        "side": side,
        **{name: found[name] for name in (*KEY, "ratio", "ci_low", "ci_high", "replication")},
        "n_clean": found["n_base"],
        "n_instrumented": found["n_new"],
        "clean": found["base"],
        "instrumented": found["new"],
    }


def _runs(side: Side, values: pd.DataFrame) -> Iterator[dict[str, object]]:
    clean: dict[Place, list[float]] = {}
    disturbed: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for one in records(values):
        if one["kind"] == CLEAN:
            clean.setdefault(_place(one), []).append(one["value"])
        else:
            disturbed.setdefault((one["boot"], one["run"]), []).append(one)
    instruments = _instruments(side.bundle)
    for run, found in disturbed.items():
        yield {
            **{name: found[0][name] for name in ("side", "workload", "point", "boot", "run")},
            "collectors": instruments.get(run, []),
            "effects": [_effect(one, clean.get(_place(one), [])) for one in found],
        }


def _place(one: Mapping[str, Any]) -> Place:
    # Runs of one boot and point do the same.
    return tuple(one[name] for name in ("boot", *KEY))


def _effect(one: Mapping[str, Any], clean: Sequence[float]) -> dict[str, object]:
    value: float = one["value"]
    # As rows of benchmarks have it: the mean of ratios is geometric.
    is_positive = bool(clean) and min(value, *clean) > 0.0
    mean = None if not clean else geometric_mean(clean) if is_positive else fmean(clean)
    return {
        **{name: one[name] for name in ("metric", "unit", "better")},
        "value": value,
        "n_clean": len(clean),
        "clean": mean,
        "ratio": value / mean if mean is not None and is_positive else None,
    }


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
