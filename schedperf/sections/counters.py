"""Counters: what the whole machine counted in instrumented runs, base against new.

Counts of ``perf stat``: software events, tracepoints of the scheduler, hardware
events. They say what happened more often, never whether it was worse, so they
get no verdict. Runs of one workload and point are compared with each other.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from schedperf._json import parse_object
from schedperf.bundle import Bundle, Run
from schedperf.captures.perf_stat import Counter, parse_perf_stat
from schedperf.errors import BadLine, BundleError
from schedperf.sections import Absent, Data, section
from schedperf.sections._schema import COUNT, FLAG, NUMBER_OR_NULL, TEXT, TEXTS, array, record
from schedperf.sides import Side
from schedperf.stats import welch_difference

FOLDER = "perf_stat"
# perf stat writes a hundred bytes an event and node; 64 nodes and 100 events make 0.6 MB.
LARGEST_CSV_BYTES = 4 << 20
LARGEST_JSON_BYTES = 1 << 20

_CHANGE = {
    **record(
        base=NUMBER_OR_NULL,
        new=NUMBER_OR_NULL,
        difference=NUMBER_OR_NULL,
        ci_low=NUMBER_OR_NULL,
        ci_high=NUMBER_OR_NULL,
        p=NUMBER_OR_NULL,
        ratio=NUMBER_OR_NULL,
    ),
    "description": "arithmetic means over runs, new - base with its 95 % interval and p (Welch), "
    "new / base",
}
_ROW = record(
    side=TEXT,
    workload=TEXT,
    point=TEXT,
    event=TEXT,
    node={"type": ["integer", "null"], "description": "null: all nodes together"},
    unit=TEXT,
    n_base=COUNT,
    n_new=COUNT,
    scaled={**FLAG, "description": "perf extrapolated some of the counts"},
    total={**_CHANGE, "description": "in unit, a run"},
    per_second={**_CHANGE, "description": "in unit, a second of the workload's wall time"},
)
SCHEMA = record(
    rows=array(_ROW),
    not_counted=array(record(side=TEXT, event=TEXT, reason=TEXT)),
    notes=TEXTS,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Key:
    # What makes two counts the same question. Node -1 is all nodes together.
    workload: str
    point: str
    event: str
    unit: str
    node: int


ALL_NODES = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class _Counts:
    # One value a run: shape (runs,). Rates are fewer where a run's wall time is not known.
    totals: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    scaled: list[bool] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class _SideCounts:
    # :param not_counted: reason by event
    counts: Mapping[_Key, _Counts]
    not_counted: Mapping[str, str]
    notes: tuple[str, ...]


@section("counters", version=1, schema=SCHEMA)
def counters(sides: Sequence[Side]) -> Data:
    """Compare each event's count in a run, and a second, side by side."""
    read = {side.name: _read_side(side) for side in sides}
    if not any(found.counts for found in read.values()):
        raise Absent(_why_nothing(sides))
    base, *others = sides
    rows = [
        _row(other.name, key, read[base.name].counts.get(key), read[other.name].counts.get(key))
        for other in others
        for key in _keys(read[base.name].counts, read[other.name].counts)
    ]
    not_counted = [
        {"side": name, "event": event, "reason": reason}
        for name, found in read.items()
        for event, reason in found.not_counted.items()
    ]
    notes = [note for found in read.values() for note in found.notes]
    return {"rows": rows, "not_counted": not_counted, "notes": notes}


def _keys(base: Mapping[_Key, _Counts], new: Mapping[_Key, _Counts]) -> list[_Key]:
    # In the order in which perf wrote them. One node alone says the same as the sum.
    keys = dict.fromkeys((*base, *new))
    nodes = {key.node for key in keys if key.node != ALL_NODES}
    return [
        key
        for key in keys
        if key.node == ALL_NODES or len(nodes) > 1 or replace(key, node=ALL_NODES) not in keys
    ]


def _why_nothing(sides: Sequence[Side]) -> str:
    for side in sides:
        for entry in side.bundle.captures:
            if entry.collector == FOLDER and entry.reason:
                return f"perf_stat of {side.name}: {entry.reason}"
    return "no instrumented run was recorded with perf_stat"


def _read_side(side: Side) -> _SideCounts:
    counts: defaultdict[_Key, _Counts] = defaultdict(_Counts)
    not_counted: dict[str, str] = {}
    notes: list[str] = []
    for run in side.bundle.runs:
        if run.kind != "instrumented" or run.warmup or not run.succeeded:
            continue
        try:
            read = list(_read_run(side, run))
            not_counted.update(_not_counted(side.bundle, run))
        except BundleError as error:
            notes.append(f"{side.name}: {error}")
            continue
        notes += _describe_bad([found.problem for found in read if isinstance(found, BadLine)])
        _add(counts, run, [found for found in read if isinstance(found, Counter)])
    return _SideCounts(counts=dict(counts), not_counted=not_counted, notes=tuple(notes))


def _describe_bad(problems: Sequence[str]) -> Iterator[str]:
    # The first one tells what is wrong; a damaged file has as many as it has lines.
    if problems:
        more = f" (and {len(problems) - 1} more lines)" if len(problems) > 1 else ""
        yield f"{problems[0]}{more}"


def _read_run(side: Side, run: Run) -> Iterator[Counter | BadLine]:
    name = f"{run.folder}/{FOLDER}/perf_stat.csv"
    if side.bundle.size(name) is not None:
        text = side.bundle.read_text(name, LARGEST_CSV_BYTES)
        yield from parse_perf_stat(text.splitlines(), f"{side.name}: {name}")


def _not_counted(bundle: Bundle, run: Run) -> dict[str, str]:
    name = f"{run.folder}/{FOLDER}/perf_stat.json"
    if bundle.size(name) is None:
        return {}
    reasons = parse_object(bundle.read(name, LARGEST_JSON_BYTES), name).child("not_counted")
    return {event: reasons.text(event) for event in reasons.values}


def _add(counts: Mapping[_Key, _Counts], run: Run, counters: Sequence[Counter]) -> None:
    # The whole machine is the sum over its nodes, where all of them were counted.
    by_event: defaultdict[tuple[str, str], list[Counter]] = defaultdict(list)
    for counter in counters:
        by_event[counter.event, counter.unit].append(counter)
    for (event, unit), found in by_event.items():
        parts = {ALL_NODES: found}
        parts |= {counter.node: [counter] for counter in found if counter.node is not None}
        for node, counted in parts.items():
            values = [counter.value for counter in counted if counter.value is not None]
            if len(values) < len(counted):
                continue
            key = _Key(
                workload=run.workload, point=run.point_key, event=event, unit=unit, node=node
            )
            total = sum(values)
            counts[key].totals.append(total)
            counts[key].scaled.append(any(counter.scaled for counter in counted))
            if run.wall_s:
                counts[key].rates.append(total / run.wall_s)


def _row(side: str, key: _Key, base: _Counts | None, new: _Counts | None) -> dict[str, object]:
    base, new = base or _Counts(), new or _Counts()
    return {
        "side": side,
        "workload": key.workload,
        "point": key.point,
        "event": key.event,
        "node": None if key.node == ALL_NODES else key.node,
        "unit": key.unit,
        "n_base": len(base.totals),
        "n_new": len(new.totals),
        "scaled": any(base.scaled + new.scaled),
        "total": _change(base.totals, new.totals),
        "per_second": _change(base.rates, new.rates),
    }


def _change(base: Sequence[float], new: Sequence[float]) -> dict[str, float | None]:
    found = welch_difference(base, new)
    before, after = fmean(base) if base else None, fmean(new) if new else None
    return {
        "base": before,
        "new": after,
        "difference": found.difference,
        "ci_low": found.ci_low,
        "ci_high": found.ci_high,
        "p": found.p,
        "ratio": after / before if before and after is not None else None,
    }
