"""Schedstat of several sides: rates of each count, how sure a change is, what cannot be joined."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import pandas as pd

from schedperf.captures.schedstat_fields import FIELDS, IDLE_TYPES, Field
from schedperf.schedstat.levels import Level, match_levels
from schedperf.schedstat.refusals import describe_refusals, describe_spans
from schedperf.schedstat.rules import read_rows
from schedperf.schedstat.totals import (
    NS_PER_S,
    SHARES,
    Basis,
    Key,
    Share,
    SideRuns,
    StatRun,
    shares_of,
    totals_of,
)
from schedperf.stats import compare_runs, records

# A change of these verdicts is beyond chance and beyond the margin; the direction is in the ratio.
CHANGED = ("regression", "improvement")
SWITCHED_OFF = (
    "kernel.sched_schedstats was 0 in {runs} of {all} runs of {side}, so only the times were "
    "counted; set it to 1 with sysctl and record again"
)

Question = tuple[str, str, Key, Basis]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Value:
    # Of one run.
    run: StatRun
    value: float
    unit: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _SideValues:
    # :param totals: means over the runs, by workload, point and key
    side: SideRuns
    measured: Mapping[Question, list[_Value]]
    totals: Mapping[tuple[str, str, Key], float]
    cpus: Mapping[tuple[str, str, str], Mapping[str, float]]


def analyse_sides(sides: Sequence[SideRuns], cpus: Collection[int] | None = None) -> dict[str, Any]:
    """Compare each side with the first; one side alone gets its rates.

    A count is divided by the time between the snapshots, and by the operations of the run where
    they are known. Intervals are over runs (:func:`schedperf.stats.compare_runs`), the family is
    "diagnostic": more is neither better nor worse.

    :param cpus: look at these only
    :return: ``sides, rows, zeros, readings, not_compared, cpus, notes``, as
        :mod:`schedperf.sections.schedstat` describes them
    """
    labels = _label_levels(sides)
    has_seconds = all(run.seconds for side in sides for run in side.runs)
    measured = [_measure(side, labels, cpus, has_seconds=has_seconds) for side in sides]
    others: list[_SideValues | None] = [*measured[1:]]
    rows = [row for other in others or [None] for row in _rows(measured[0], other)]
    refusals = [one for other in measured[1:] for one in _refusals(measured[0], other)]
    zeros = {_name(row) for row in rows if not row["base"] and not row["new"]}
    shown = [row for row in rows if row["base"] or row["new"]]
    notes = [note for side in sides for note in _notes(side)]
    if not has_seconds:
        notes.append(
            "rates are per tick of the kernel's clock, because the length of a tick is not known "
            "of all sides; they compare only where CONFIG_HZ is equal"
        )
    return {
        "sides": [_describe(side) for side in sides],
        "rows": shown,
        "zeros": sorted(zeros - {_name(row) for row in shown}),
        "readings": read_rows(shown),
        "not_compared": refusals,
        "cpus": [one for side in measured for one in _cpus(side)],
        "notes": [*notes, *describe_spans(sides, labels)],
    }


def _describe(side: SideRuns) -> dict[str, Any]:
    seconds = [run.seconds for run in side.runs if run.seconds is not None]
    return {
        "side": side.name,
        "runs": len(side.runs),
        "versions": sorted({run.change.version for run in side.runs}),
        "seconds": sum(seconds) if len(seconds) == len(side.runs) else None,
    }


def _label_levels(sides: Sequence[SideRuns]) -> dict[Level, str]:
    levels = [run.levels for side in sides for run in side.runs]
    matched = match_levels(levels)
    return {
        level: matched.get((level.label, level.spans), level.label)
        for found in levels
        for level in found
        if not level.is_named
    } | {level: level.label for found in levels for level in found if level.is_named}


def _measure(
    side: SideRuns,
    labels: Mapping[Level, str],
    cpus: Collection[int] | None,
    *,
    has_seconds: bool,
) -> _SideValues:
    measured: dict[Question, list[_Value]] = {}
    counted: dict[tuple[str, str, Key], list[float]] = {}
    by_cpu: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    for run in side.runs:
        totals = totals_of(run, labels, cpus)
        for key, total in totals.items():
            counted.setdefault((run.workload, run.point, key), []).append(total)
        for key, basis, value, unit in _measures(run, totals, has_seconds=has_seconds):
            found = measured.setdefault((run.workload, run.point, key, basis), [])
            found.append(_Value(run=run, value=value, unit=unit))
        for field, cpu, total in _of_cpus(run, cpus):
            one = by_cpu.setdefault((run.workload, run.point, field), {})
            one.setdefault(str(cpu), []).append(total)
    return _SideValues(
        side=side,
        measured=measured,
        totals={key: fmean(found) for key, found in counted.items()},
        cpus={
            key: {cpu: fmean(found) for cpu, found in counts.items()}
            for key, counts in by_cpu.items()
        },
    )


def _measures(
    run: StatRun, totals: Mapping[Key, float], *, has_seconds: bool
) -> Iterator[tuple[Key, Basis, float, str]]:
    time = run.seconds if has_seconds else run.change.jiffies
    tick = "s" if has_seconds else "tick"
    for key, total in totals.items():
        is_time = FIELDS[key.field].unit == "ns"
        amount, what = (total / NS_PER_S, "s") if is_time else (total, "1")
        if time:
            yield key, "time", amount / time, f"{what}/{tick}"
        if run.operations:
            yield key, "operation", amount / run.operations, f"{what}/{run.operation}"
    for key, value in shares_of(totals).items():
        yield key, "share", value, SHARES[key.field].unit


def _of_cpus(run: StatRun, cpus: Collection[int] | None) -> Iterator[tuple[str, int, float]]:
    if run.is_off:
        return
    for place, column in enumerate(run.cpu_columns):
        if not FIELDS[column.field].is_used:
            continue
        for cpu, value in zip(run.change.cpus, run.change.cpu_counts[:, place], strict=True):
            if value == value and (cpus is None or cpu in cpus):  # noqa: PLR0124 # NaN is not itself
                yield column.field, cpu, float(value)


def _rows(base: _SideValues, new: _SideValues | None) -> Iterator[dict[str, Any]]:
    if new is None:
        asked, compared = list(base.measured), {}
    else:
        asked = [one for one in base.measured if _is_comparable(one, base, new)]
        compared = _compare(asked, base, new)
    side = (new or base).side.name
    for number, question in enumerate(sorted(asked, key=_place)):
        workload, point, key, basis = question
        yield {
            "row": f"{side}-{number}",
            "side": side,
            "workload": workload,
            "point": point,
            "level": key.level,
            "idle": key.idle,
            "field": key.field,
            "basis": basis,
            "meaning": _about(key.field).meaning,
            "function": _about(key.field).function,
            "total_base": base.totals.get((workload, point, key)),
            "total_new": None if new is None else new.totals.get((workload, point, key)),
            **_change(base.measured[question], compared.get(question, {})),
        }


def _change(values: Sequence[_Value], found: Mapping[str, Any]) -> dict[str, Any]:
    # One side alone was not compared, and neither ratio nor interval is known.
    numbers = ("ratio", "ci_low", "ci_high", "p", "q")
    # One run a side, or runs that do not differ, cannot say whether it is noise.
    is_known = found.get("p") is not None
    return {
        "unit": values[0].unit,
        "n_base": found.get("n_base", len(values)),
        "n_new": found.get("n_new", 0),
        "base": found.get("base", fmean(one.value for one in values)),
        "new": found.get("new"),
        **{name: found.get(name) for name in numbers},
        "changed": found["verdict"] in CHANGED if is_known else None,
    }


def _is_comparable(question: Question, base: _SideValues, new: _SideValues) -> bool:
    # Messages and transactions have nothing in common to divide by.
    if question not in new.measured:
        return False
    units = {one.unit for side in (base, new) for one in side.measured[question]}
    return len(units) == 1


def _about(field: str) -> Field | Share:
    return FIELDS.get(field) or SHARES[field]


def _compare(
    questions: Sequence[Question], base: _SideValues, new: _SideValues
) -> dict[Question, dict[str, Any]]:
    rows = [
        {
            "side": measured.side.name,
            "workload": str(number),
            "point": "",
            "metric": "count",
            "unit": one.unit,
            "better": "lower",
            "family": "diagnostic",
            "value": one.value,
            "boot": one.run.boot,
            "run": one.run.run,
            "order": one.run.order,
            "round": one.run.round,
            # Rates, rates an operation and shares are three families of tests.
            "comparison": question[3],
        }
        for number, question in enumerate(questions)
        for measured in (base, new)
        for one in measured.measured[question]
    ]
    if not rows:
        return {}
    table = compare_runs(pd.DataFrame(rows), base=base.side.name, new=[new.side.name]).rows
    return {questions[int(row["workload"])]: row for row in records(table)}


def _place(question: Question) -> tuple[object, ...]:
    workload, point, key, basis = question
    order = (*FIELDS, *SHARES)
    idle = ("", *IDLE_TYPES).index(key.idle)
    return workload, point, key.level, idle, order.index(key.field), basis


def _name(row: Mapping[str, Any]) -> str:
    return " ".join(part for part in (row["level"], row["idle"], row["field"]) if part)


def _refusals(base: _SideValues, new: _SideValues) -> Iterator[dict[str, str]]:
    shared = {(workload, point) for workload, point, _ in base.totals}
    shared &= {(workload, point) for workload, point, _ in new.totals}
    keys = [
        {key for workload, point, key in one.totals if (workload, point) in shared}
        for one in (base, new)
    ]
    yield from describe_refusals(base.side.name, new.side.name, keys[0], keys[1])


def _cpus(measured: _SideValues) -> Iterator[dict[str, Any]]:
    for (workload, point, field), counts in measured.cpus.items():
        yield {
            "side": measured.side.name,
            "workload": workload,
            "point": point,
            "field": field,
            "counts": counts,
        }


def _notes(side: SideRuns) -> Iterator[str]:
    yield from side.notes
    off = sum(run.is_off for run in side.runs)
    if off:
        yield SWITCHED_OFF.format(runs=off, all=len(side.runs), side=side.name)
    told = [note for run in side.runs for note in run.change.notes]
    for note in dict.fromkeys(told):
        times = f" ({told.count(note)} runs)" if told.count(note) > 1 else ""
        yield f"{side.name}: {note}{times}"
    lost = sum(
        len(run.change.domains) - sum(len(level.rows) for level in run.levels) for run in side.runs
    )
    if lost:
        yield f"{side.name}: {lost} domains have neither a name nor CPUs and are left out"
