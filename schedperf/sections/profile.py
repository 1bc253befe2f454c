"""Hot symbols: which functions took a larger or smaller share of the CPUs in new than in base.

Shares are in per cent and changes in percentage points (pp). ``base`` and ``new``
are shares of all CPUs with idle time, as ``perf report --no-children`` prints
them, averaged over runs. ``base_nodes`` and ``new_nodes`` are shares of what each
NUMA node did while not idle, and the ranges go over the nodes. The compiler's
parts and copies of a function count as the function.

Only equal things are compared: runs of one event, one workload and one point.
Of several points the one with the most samples comes first; in a point the
scheduler's functions that changed, then what is hot or moved most.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from scipy import stats

from schedperf.profile import KERNEL, Place, is_idle_routine, is_scheduler_function, shares
from schedperf.sections import Absent, Data, section
from schedperf.sections._profile_sources import RunProfile, SideProfiles, load_profiles
from schedperf.sections._schema import (
    COUNT,
    FLAG,
    NUMBER_OR_NULL,
    TEXT,
    TEXTS,
    array,
    both,
    record,
)
from schedperf.sides import FIRST_NEW, Side
from schedperf.stats import welch_difference
from schedperf.verdicts import FALSE_DISCOVERY_RATE

# Rows that the data holds of each point, besides the scheduler's functions, which are all there.
MOST_ROWS = 40

# Percentage points of all CPUs: five times the binomial standard error (0.02 pp) of a function
# that has 0.1 % of 25,000 samples, which is one run of 5 s on 5 CPUs at 1 kHz.
SMALLEST_CHANGE_PP = 0.1


_SHARE = {"type": "number", "minimum": 0, "description": "per cent"}
_POINTS = {
    **NUMBER_OR_NULL,
    "description": "percentage points; null without 2 runs a side",
}
_NODES = {
    "type": "object",
    "additionalProperties": _SHARE,
    "description": "by NUMA node: share of what its CPUs did while not idle",
}
_RANGE = {
    "type": ["array", "null"],
    "items": _SHARE,
    "minItems": 2,
    "maxItems": 2,
    "description": "least and largest share of a node; null where the nodes are not known",
}
_ROW = record(
    row={**TEXT, "description": "id of the row, for evidence: profile#ROW"},
    symbol=TEXT,
    dso={**TEXT, "description": "[kernel], a module in brackets, or a file"},
    scheduler={**FLAG, "description": "a function of kernel/sched"},
    idle={**FLAG, "description": "process 0 waits for work in it"},
    base={**_SHARE, "description": "per cent of all CPUs, idle time included"},
    new={**_SHARE, "description": "per cent of all CPUs, idle time included"},
    change_pp={"type": "number", "description": "new - base in percentage points"},
    ci_low={**_POINTS, "description": "lower end of the 95 % interval of change_pp"},
    ci_high={**_POINTS, "description": "upper end of the 95 % interval of change_pp"},
    p=NUMBER_OR_NULL,
    q={
        **NUMBER_OR_NULL,
        "description": "p after Benjamini and Hochberg's correction over the scheduler's functions "
        "of the point; null for other rows",
    },
    changed={
        **FLAG,
        "description": "a function of kernel/sched whose share changed beyond chance",
    },
    base_nodes=_NODES,
    new_nodes=_NODES,
    base_range=_RANGE,
    new_range=_RANGE,
)
_POINT = record(
    workload=TEXT,
    point=TEXT,
    runs=both({**COUNT, "minimum": 1}),
    samples=both({**COUNT, "description": "of all runs together"}),
    lost=both({**COUNT, "description": "records that the kernel could not deliver"}),
    idle=both({**_SHARE, "description": "idle time, per cent of all CPUs"}),
    rows=array(_ROW),
    symbols={**COUNT, "description": "how many symbols were sampled on either side"},
)
_EVENT = record(
    event=TEXT,
    clock=both({"type": ["string", "null"], "description": "what makes a sample due"}),
    blind=both(
        {
            "type": ["boolean", "null"],
            "description": "code that runs with interrupts off cannot be sampled; null: not known",
        }
    ),
    blind_reason=both(TEXT),
    points=array(_POINT),
)
SCHEMA = record(
    comparisons=array(record(side=TEXT, events=array(_EVENT), notes=TEXTS)),
    missing=array(
        record(side=TEXT, reason={**TEXT, "description": "why, with the side's name in front"})
    ),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _RunShares:
    # One run's shares in per cent, by place.
    everywhere: Mapping[Place, float]
    nodes: Mapping[int, Mapping[Place, float]]
    idle: float


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class _Key:
    # What makes two profiles the same question.
    workload: str
    point: str


@section("profile", version=1, schema=SCHEMA)
def profile(sides: Sequence[Side]) -> Data:
    """Compare the profiles of each new side with base's."""
    base = load_profiles(sides[0])
    comparisons, missing = [], []
    for side in sides[1:]:
        # The first new side's rows have plain names.
        path = [] if side.name == FIRST_NEW else [side.name]
        try:
            new = load_profiles(side)
        except Absent as absent:
            missing.append({"side": side.name, "reason": str(absent)})
        else:
            comparisons.append(_compare(side.name, path, base, new))
    if not comparisons:
        raise Absent("; ".join(entry["reason"] for entry in missing) or "there is no new side")
    return {"comparisons": comparisons, "missing": missing}


def _compare(side: str, path: Sequence[str], base: SideProfiles, new: SideProfiles) -> Data:
    of_base, of_new = _by_event(base.runs), _by_event(new.runs)
    notes = [*base.notes, *new.notes]
    events: list[Data] = []
    for event in dict.fromkeys((*of_base, *of_new)):
        if event not in of_base or event not in of_new:
            where = "base" if event in of_base else side
            notes.append(f"{event} was sampled on {where} only, so it is compared with nothing")
            continue
        of_points = _by_point(of_base[event]), _by_point(of_new[event])
        notes += _describe_single_points(side, event, *of_points)
        # So have those of the first event and, of its points, of the heaviest one.
        in_event = [*path, event] if events else path
        points = list(_compare_points(in_event, *of_points))
        if points:
            facts = {"base": of_base[event][0].facts, "new": of_new[event][0].facts}
            events.append(
                {
                    "event": event,
                    "clock": {name: fact.clock for name, fact in facts.items()},
                    "blind": {name: fact.blind for name, fact in facts.items()},
                    "blind_reason": {name: fact.blind_reason for name, fact in facts.items()},
                    "points": points,
                }
            )
    return {"side": side, "events": events, "notes": notes}


def _by_event(runs: Iterable[RunProfile]) -> dict[str, list[RunProfile]]:
    found: dict[str, list[RunProfile]] = {}
    for run in runs:
        found.setdefault(run.facts.event, []).append(run)
    return found


def _by_point(runs: Iterable[RunProfile]) -> dict[_Key, list[RunProfile]]:
    found: dict[_Key, list[RunProfile]] = {}
    for run in runs:
        found.setdefault(_Key(workload=run.workload, point=run.point), []).append(run)
    return found


def _describe_single_points(
    side: str,
    event: str,
    base: Mapping[_Key, Sequence[RunProfile]],
    new: Mapping[_Key, Sequence[RunProfile]],
) -> Iterator[str]:
    for key in sorted(base.keys() ^ new.keys()):
        where = "base" if key in base else side
        point = f"{key.workload} at {key.point}" if key.point else key.workload
        yield f"{point} was profiled with {event} on {where} only"


def _compare_points(
    path: Sequence[str],
    base: Mapping[_Key, Sequence[RunProfile]],
    new: Mapping[_Key, Sequence[RunProfile]],
) -> Iterator[Data]:
    samples = {
        key: sum(run.profile.samples for run in (*base[key], *new[key]))
        for key in base
        if key in new
    }
    for place, key in enumerate(sorted(samples, key=lambda key: (-samples[key], key))):
        names = [*path, *([key.workload, key.point] if place else [])]
        yield _compare_point(key, base[key], new[key], "".join(f"{name}/" for name in names))


def _compare_point(
    key: _Key, base: Sequence[RunProfile], new: Sequence[RunProfile], prefix: str
) -> Data:
    runs = {"base": base, "new": new}
    shown = {name: [_shares_of(run) for run in of_side] for name, of_side in runs.items()}
    means = {name: _mean([run.everywhere for run in shown[name]]) for name in runs}
    return {
        "workload": key.workload,
        "point": key.point,
        "runs": {name: len(of_side) for name, of_side in runs.items()},
        "samples": {
            name: sum(r.profile.samples for r in of_side) for name, of_side in runs.items()
        },
        "lost": {name: sum(run.lost for run in of_side) for name, of_side in runs.items()},
        "idle": {name: fmean(run.idle for run in shown[name]) for name in runs},
        "rows": _decide(
            [
                _row(place, shown["base"], shown["new"], prefix)
                for place in _choose(means["base"], means["new"])
            ],
            can_see=all(run.facts.blind is False for run in (*base, *new)),
        ),
        "symbols": len(means["base"].keys() | means["new"].keys()),
    }


def _shares_of(run: RunProfile) -> _RunShares:
    found = run.profile
    nodes = {node: shares(weights) for node, weights in found.node_weights.items()}
    return _RunShares(
        everywhere=shares(found.weights),
        nodes={node: of_node for node, of_node in nodes.items() if of_node},
        idle=100.0 * found.idle / max(1, sum(found.weights.values())),
    )


def _mean(runs: Sequence[Mapping[Place, float]]) -> dict[Place, float]:
    # A place without a sample in a run has a share of 0 there: that was measured.
    places = {place for run in runs for place in run}
    return {place: fmean(run.get(place, 0.0) for run in runs) for place in places}


def _choose(base: Mapping[Place, float], new: Mapping[Place, float]) -> list[Place]:
    # Hot on either side, or changed a lot; the same sum puts them in order.
    def interest(place: Place) -> tuple[float, Place]:
        before, after = base.get(place, 0.0), new.get(place, 0.0)
        return -(max(before, after) + abs(after - before)), place

    ranked = sorted(base.keys() | new.keys(), key=interest)
    return [
        place
        for rank, place in enumerate(ranked)
        if rank < MOST_ROWS or is_scheduler_function(place)
    ]


def _row(
    place: Place, base: Sequence[_RunShares], new: Sequence[_RunShares], prefix: str
) -> dict[str, Any]:
    values = [[run.everywhere.get(place, 0.0) for run in runs] for runs in (base, new)]
    change = welch_difference(*values)
    nodes = [_node_means(place, runs) for runs in (base, new)]
    is_kernel = place.dso == KERNEL
    return {
        "row": f"{prefix}{place.symbol}" + ("" if is_kernel else f" {place.dso}"),
        "symbol": place.symbol,
        "dso": place.dso,
        "scheduler": is_scheduler_function(place),
        "idle": is_idle_routine(place),
        "base": fmean(values[0]),
        "new": fmean(values[1]),
        "change_pp": change.difference,
        "ci_low": change.ci_low,
        "ci_high": change.ci_high,
        "p": change.p,
        "base_nodes": nodes[0],
        "new_nodes": nodes[1],
        "base_range": _range(nodes[0]),
        "new_range": _range(nodes[1]),
    }


def _decide(rows: Sequence[dict[str, Any]], *, can_see: bool) -> list[dict[str, Any]]:
    # Add q and "changed", and put what changed first. A profile that is blind to most of the
    # scheduler, or may be, says nothing about any of its functions. Only functions that are hot
    # enough to change by the smallest amount are tested; that mean over both sides does not depend
    # on the change, so it may choose (Bourgon, Gentleman and Huber, PNAS 107, 2010).
    tested = [
        row
        for row in rows
        if can_see
        and row["scheduler"]
        and row["p"] is not None
        and row["base"] + row["new"] >= SMALLEST_CHANGE_PP
    ]
    for row in rows:
        row["q"], row["changed"] = None, False
    if tested:
        corrected = stats.false_discovery_control([row["p"] for row in tested])
        for row, q in zip(tested, corrected, strict=True):
            row["q"] = float(q)
            is_large = abs(row["change_pp"]) >= SMALLEST_CHANGE_PP
            row["changed"] = is_large and row["q"] <= FALSE_DISCOVERY_RATE
    return sorted(rows, key=lambda row: -abs(row["change_pp"]) if row["changed"] else 0.0)


def _node_means(place: Place, runs: Sequence[_RunShares]) -> dict[str, float]:
    # A node that was idle all through a run has no share in it.
    nodes = sorted({node for run in runs for node in run.nodes})
    return {
        str(node): fmean(run.nodes[node].get(place, 0.0) for run in runs if node in run.nodes)
        for node in nodes
    }


def _range(nodes: Mapping[str, float]) -> list[float] | None:
    return [min(nodes.values()), max(nodes.values())] if nodes else None
