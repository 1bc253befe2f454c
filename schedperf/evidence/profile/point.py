"""One point of the profile section: what was compared, as plain data."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from schedperf.evidence import Dicts
from schedperf.evidence.profile.alignment import Alignment, align
from schedperf.evidence.profile.blindness import loss_caveat
from schedperf.evidence.profile.compare import PointComparison, compare_point
from schedperf.evidence.profile.explained import explain_change, is_busy_equal
from schedperf.evidence.profile.order import ONE_AFTER_THE_OTHER
from schedperf.evidence.profile.others import caution_of, describe_others
from schedperf.evidence.profile.ranking import choose_places, moving_places
from schedperf.evidence.profile.shares import RunWeights, align_weights
from schedperf.evidence.profile.sources import RunProfile
from schedperf.evidence.profile.spread import Spread, class_spread, one_node_only, spread_of
from schedperf.stats import Columns, Difference
from schedperf.stats.verdicts import MARGIN
from schedperf.symbols.functions import is_scheduler_function
from schedperf.symbols.place import KERNEL, Place

Runs = Sequence[RunProfile]


def describe_point(base: Runs, new: Runs, prefix: str, *, took_turns: bool) -> Dicts:
    """Compare the runs of one event at one point, and say what was found.

    :param prefix: of the ids of its rows
    :param took_turns: false where a drift of the machine may look like a change
    """
    units = {one.operations.unit for one in (*base, *new) if one.operations is not None}
    if len(units) > 1:
        base, new = _without_operations(base), _without_operations(new)
    alignment = align([one.names for one in base], [one.names for one in new])
    base, new = _aligned(base, alignment), _aligned(new, alignment)
    sides = {"base": base, "new": new}
    weights = {name: [one.run.weights for one in runs] for name, runs in sides.items()}
    found = compare_point(
        [one.run for one in base],
        [one.run for one in new],
        sees_kernel=all(one.sight.blind is False for one in (*base, *new)),
    )
    losses = {name: _losses_of(runs) for name, runs in sides.items()}
    others = {name: describe_others([one.others for one in runs]) for name, runs in sides.items()}
    return {
        "workload": base[0].workload,
        "point": base[0].point,
        "runs": {name: len(runs) for name, runs in sides.items()},
        "independent": found.independent,
        "took_turns": took_turns,
        "cautions": [
            *([] if took_turns else [ONE_AFTER_THE_OTHER]),
            *([] if (caution := caution_of(others)) is None else [caution]),
            *alignment.notes,
        ],
        "others": others,
        "samples": {name: sum(one.samples for one in runs) for name, runs in weights.items()},
        **{what: {name: losses[name][what] for name in sides} for what in losses["base"]},
        "busy": _busy(found),
        **_describe_costs(sides, found, units),
        "rows": _rows(found, weights, prefix),
        "classes": _classes(found, weights, prefix),
        "explained": _explained(found, base[0].sight.clock),
        "symbols": len(found.places),
    }


def _losses_of(runs: Runs) -> dict[str, Any]:
    samples, lost, throttled = (
        sum(numbers)
        for numbers in zip(
            *((one.run.weights.samples, one.lost, one.throttled) for one in runs), strict=True
        )
    )
    return {
        "lost": lost,
        "throttled": throttled,
        "losses": loss_caveat(samples, lost, throttled),
    }


def _change(base: float, new: float, found: Difference) -> Dicts:
    return {
        "base": base,
        "new": new,
        "change": found.difference,
        "ci_low": found.ci_low,
        "ci_high": found.ci_high,
    }


def _tested(columns: Columns, place: int) -> dict[str, float | None]:
    numbers = {
        "base": columns.base,
        "new": columns.new,
        "change": columns.difference,
        "ci_low": columns.ci_low,
        "ci_high": columns.ci_high,
        "p": columns.p,
        "q": columns.q,
    }
    values = {name: float(column[place]) for name, column in numbers.items()}
    return {name: None if math.isnan(value) else value for name, value in values.items()}


def _busy(found: PointComparison) -> Dicts:
    base, new = (
        float(means[~found.is_idle].sum()) for means in (found.share.base, found.share.new)
    )
    return _change(base, new, found.busy)


def _aligned(runs: Runs, alignment: Alignment) -> Runs:
    return [
        replace(one, run=replace(one.run, weights=align_weights(one.run.weights, alignment)))
        for one in runs
    ]


def _without_operations(runs: Runs) -> Runs:
    # Different things cannot be divided by each other.
    return [replace(one, operations=None, run=replace(one.run, operations=None)) for one in runs]


def _describe_costs(
    sides: Mapping[str, Runs], found: PointComparison, units: Collection[str]
) -> dict[str, Any]:
    costs = found.costs
    if costs is None:
        reason = "a run printed no number of operations, so there is no cost of one"
        if len(units) > 1:
            reason = f"the runs count different things: {', '.join(sorted(units))}"
        return {
            **dict.fromkeys(("operations", "cost_unit", "busy_cost")),
            "cost_reason": reason,
        }
    (unit,) = units
    counted = {
        name: [one.operations for one in runs if one.operations is not None]
        for name, runs in sides.items()
    }
    busy = [float(side.mean()) for side in costs.busy]
    return {
        "operations": {
            "unit": unit,
            "exact": all(one.exact for runs in counted.values() for one in runs),
            **{name: fmean(one.count for one in runs) for name, runs in counted.items()},
        },
        "cost_unit": f"{sides['base'][0].sight.unit} per {unit}",
        "cost_reason": None,
        "busy_cost": _change(busy[0], busy[1], costs.busy_change),
    }


def _rows(
    found: PointComparison, weights: Mapping[str, Sequence[RunWeights]], prefix: str
) -> list[Dicts]:
    chosen = choose_places(found)
    places = [found.places[place] for place in chosen]
    spreads = {name: spread_of(runs, places) for name, runs in weights.items()}
    only = one_node_only(weights["base"], weights["new"], places)
    return [
        {
            **_row(found, place, prefix),
            **_spread(spreads, column),
            "one_node": only[column] if found.is_changed[place] else None,
        }
        for column, place in enumerate(chosen)
    ]


def _row(found: PointComparison, number: int, prefix: str) -> dict[str, Any]:
    place: Place = found.places[number]
    own_class = int(found.class_of_place[number])
    return {
        "row": f"{prefix}{place.symbol}" + ("" if place.dso == KERNEL else f" {place.dso}"),
        "symbol": place.symbol,
        "dso": place.dso,
        "class": None if own_class < 0 else found.classes[own_class],
        "scheduler": is_scheduler_function(place),
        "idle": bool(found.is_idle[number]),
        "share": _tested(found.share, number),
        "changed": bool(found.is_changed[number]),
        "cost": None if found.costs is None else _tested(found.costs.by_place, number),
    }


def _spread(spreads: Mapping[str, Spread], column: int) -> dict[str, Any]:
    described: dict[str, Any] = {}
    for name, spread in spreads.items():
        nodes = {str(node): float(shares[column]) for node, shares in spread.nodes.items()}
        cpus = spread.cpus[:, column]
        described[f"{name}_nodes"] = nodes
        described[f"{name}_range"] = _range(list(nodes.values()))
        described[f"{name}_cpus"] = (
            {"least": float(cpus.min()), "largest": float(cpus.max()), "cpus": len(cpus)}
            if len(cpus)
            else None
        )
    return described


def _range(shares: Sequence[float]) -> list[float] | None:
    return [min(shares), max(shares)] if shares else None


def _classes(
    found: PointComparison, weights: Mapping[str, Sequence[RunWeights]], prefix: str
) -> list[Dicts]:
    count = len(found.classes)
    nodes = {
        name: class_spread(runs, found.places, found.class_of_place, count)
        for name, runs in weights.items()
    }
    return [
        {
            "row": f"{prefix}class:{name}",
            "class": name,
            "share": _tested(found.class_share, place),
            "changed": bool(found.is_class_changed[place]),
            "cost": None if found.costs is None else _tested(found.costs.by_class, place),
            **{
                f"{side}_range": _range([float(shares[place]) for shares in by_node.values()])
                for side, by_node in nodes.items()
            },
            "functions": [
                {
                    "symbol": found.places[moving].symbol,
                    "change": float(found.share.difference[moving]),
                }
                for moving in moving_places(found, place)
            ],
        }
        for place, name in enumerate(found.classes)
    ]


def _explained(found: PointComparison, clock: str | None) -> Dicts | None:
    explained = explain_change(found)
    if explained is None:
        return None
    is_equal = is_busy_equal(found) if clock == "hrtimer" else None
    return {
        "symbols": [place.symbol for place in explained.places],
        "change": explained.change,
        "part": explained.part.value,
        "ci_low": explained.part.ci_low,
        "ci_high": explained.part.ci_high,
        "reason": explained.part.reason,
        "busy_equal": is_equal,
        "busy_reason": _busy_reason(clock, is_equal=is_equal),
    }


def _busy_reason(clock: str | None, *, is_equal: bool | None) -> str:
    if clock != "hrtimer":
        return (
            "the event does not run while a CPU is halted, so it does not say whether the busy "
            "part of the time stayed"
        )
    if is_equal is None:
        return "it takes two runs a side to say whether the busy part of the time stayed"
    if is_equal:
        return f"the busy part of the time stayed, within {100.0 * MARGIN:g} %"
    return f"the busy part of the time may have changed by more than {100.0 * MARGIN:g} %"
