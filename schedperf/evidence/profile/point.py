# SPDX-License-Identifier: GPL-2.0-or-later
"""One point of the profile section: its runs compared, and what is shown of them."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

import numpy as np

from schedperf.evidence.profile.alignment import Alignment, align
from schedperf.evidence.profile.blindness import loss_caveat
from schedperf.evidence.profile.compare import (
    PointComparison,
    compare_point,
    explain_change,
    is_busy_equal,
)
from schedperf.evidence.profile.independent import ONE_AFTER_THE_OTHER
from schedperf.evidence.profile.others import caution_of, describe_others
from schedperf.evidence.profile.record import (
    CpuShares,
    ExplainedChange,
    MovedFunction,
    OtherCommands,
    ProfileChange,
    ProfileClassRow,
    ProfileOperations,
    ProfilePoint,
    ProfileRow,
    ProfileTest,
    Shares,
)
from schedperf.evidence.profile.shares import (
    Floats,
    PlaceWeights,
    Spread,
    align_weights,
    class_spread,
    one_node_only,
    spread_of,
)
from schedperf.evidence.profile.sources import EventProfile
from schedperf.model.comparison import BaseNew
from schedperf.model.run import Captured, Operations
from schedperf.stats import Columns, Difference
from schedperf.stats.verdicts import MARGIN
from schedperf.symbols.functions import is_scheduler_function
from schedperf.symbols.place import KERNEL

Runs = Sequence[Captured[EventProfile]]
Weights = BaseNew[list[PlaceWeights]]
# Places that are shown of each point, besides the scheduler's functions, which are all shown.
MOST_PLACES = 40
# Functions that are named for each class.
_MOST_FUNCTIONS = 4


def compare_runs(base: Runs, new: Runs, prefix: str, *, took_turns: bool) -> ProfilePoint:
    """Compare the runs of one event at one point.

    :param prefix: of the ids of its rows
    :param took_turns: false where a drift of the machine may look like a change
    """
    alignment = align([one.content.names for one in base], [one.content.names for one in new])
    sides = BaseNew(base=base, new=new).map(lambda runs: _aligned(runs, alignment))
    units = {one.ops.unit for runs in sides for one in runs if one.ops is not None}
    if len(units) > 1:
        sides = sides.map(_without_operations)
    weights = sides.map(_weights_of)
    found = compare_point(
        [one.having(one.content.weights) for one in sides.base],
        [one.having(one.content.weights) for one in sides.new],
        sees_kernel=all(one.content.sight.blind is False for runs in sides for one in runs),
    )
    others = sides.map(lambda runs: describe_others([one.content.others for one in runs]))
    costs = _costs(sides, found, units)
    return ProfilePoint(
        workload=base[0].key.workload,
        point=base[0].key.point,
        runs=sides.map(len),
        independent=found.independent,
        took_turns=took_turns,
        cautions=_cautions(others, alignment, took_turns=took_turns),
        others=others,
        samples=weights.map(_count_samples),
        lost=sides.map(_count_lost),
        throttled=sides.map(_count_throttled),
        losses=sides.map(_describe_losses),
        busy=_busy(found),
        operations=costs.operations,
        cost_unit=costs.unit,
        cost_reason=costs.reason,
        busy_cost=costs.busy,
        rows=tuple(_rows(found, weights, prefix)),
        classes=tuple(_classes(found, weights, prefix)),
        explained=_explained(found, base[0].content.sight.clock),
        symbols=len(found.places),
    )


def _cautions(
    others: BaseNew[OtherCommands | None], alignment: Alignment, *, took_turns: bool
) -> tuple[str, ...]:
    caution = caution_of(others)
    return (
        *([] if took_turns else [ONE_AFTER_THE_OTHER]),
        *([] if caution is None else [caution]),
        *alignment.notes,
    )


def _weights_of(runs: Runs) -> list[PlaceWeights]:
    return [one.content.weights for one in runs]


def _count_samples(weights: Sequence[PlaceWeights]) -> int:
    return sum(one.samples for one in weights)


def _count_lost(runs: Runs) -> int:
    return sum(one.content.lost for one in runs)


def _count_throttled(runs: Runs) -> int:
    return sum(one.content.throttled for one in runs)


def _describe_losses(runs: Runs) -> str | None:
    samples = _count_samples(_weights_of(runs))
    return loss_caveat(samples, _count_lost(runs), _count_throttled(runs))


def _change(base: float, new: float, found: Difference) -> ProfileChange:
    # A side without runs is not compared.
    assert found.difference is not None
    return ProfileChange(
        base=base,
        new=new,
        change=found.difference,
        ci_low=found.ci_low,
        ci_high=found.ci_high,
    )


def _tested(columns: Columns, index: int) -> ProfileTest:
    return ProfileTest(
        base=float(columns.base[index]),
        new=float(columns.new[index]),
        change=float(columns.difference[index]),
        ci_low=_known(columns.ci_low, index),
        ci_high=_known(columns.ci_high, index),
        p=_known(columns.p, index),
        q=_known(columns.q, index),
    )


def _known(values: Floats, index: int) -> float | None:
    value = float(values[index])
    return None if math.isnan(value) else value


def _busy(found: PointComparison) -> ProfileChange:
    base, new = (
        float(means[~found.is_idle].sum()) for means in (found.share.base, found.share.new)
    )
    return _change(base, new, found.busy)


def _aligned(runs: Runs, alignment: Alignment) -> Runs:
    return [
        one.having(replace(one.content, weights=align_weights(one.content.weights, alignment)))
        for one in runs
    ]


def _without_operations(runs: Runs) -> Runs:
    # Different things cannot be divided by each other.
    return [replace(one, ops=None) for one in runs]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Costs:
    # What a point says of costs per operation, or why nothing.
    operations: ProfileOperations | None = None
    unit: str | None = None
    reason: str | None = None
    busy: ProfileChange | None = None


def _costs(sides: BaseNew[Runs], found: PointComparison, units: set[str]) -> _Costs:
    costs = found.costs
    if len(units) > 1:
        return _Costs(reason=f"the runs have different units: {', '.join(sorted(units))}")
    if costs is None:
        return _Costs(
            reason="a run printed no number of operations, so the cost per operation is unknown"
        )
    (unit,) = units
    counted = sides.map(_operations_of)
    base, new = (float(side.mean()) for side in costs.busy)
    return _Costs(
        operations=ProfileOperations(
            unit=unit,
            exact=all(one.exact for runs in counted for one in runs),
            base=fmean(one.count for one in counted.base),
            new=fmean(one.count for one in counted.new),
        ),
        unit=f"{sides.base[0].content.sight.unit} per {unit}",
        busy=_change(base, new, costs.busy_change),
    )


def _operations_of(runs: Runs) -> list[Operations]:
    return [one.ops for one in runs if one.ops is not None]


def _rows(found: PointComparison, weights: Weights, prefix: str) -> Iterator[ProfileRow]:
    chosen = _choose_places(found)
    places = [found.places[number] for number in chosen]
    spreads = weights.map(lambda runs: spread_of(runs, places))
    only = one_node_only(weights.base, weights.new, places)
    for column, number in enumerate(chosen):
        place = found.places[number]
        nodes = spreads.map(partial(_shares_of_nodes, column=column))
        cpus = spreads.map(partial(_shares_of_cpus, column=column))
        yield ProfileRow(
            row=f"{prefix}{place.symbol}" + ("" if place.dso == KERNEL else f" {place.dso}"),
            symbol=place.symbol,
            dso=place.dso,
            class_=_class_of(found, number),
            scheduler=is_scheduler_function(place),
            idle=bool(found.is_idle[number]),
            share=_tested(found.share, number),
            changed=bool(found.is_changed[number]),
            cost=None if found.costs is None else _tested(found.costs.by_place, number),
            base_nodes=nodes.base,
            new_nodes=nodes.new,
            base_range=_range(list(nodes.base.values())),
            new_range=_range(list(nodes.new.values())),
            one_node=only[column] if found.is_changed[number] else None,
            base_cpus=cpus.base,
            new_cpus=cpus.new,
        )


def _class_of(found: PointComparison, number: int) -> str | None:
    own = int(found.class_of_place[number])
    return None if own < 0 else found.classes[own]


def _shares_of_nodes(spread: Spread, column: int) -> Shares:
    return {node: float(shares[column]) for node, shares in spread.nodes.items()}


def _shares_of_cpus(spread: Spread, column: int) -> CpuShares | None:
    shares = spread.cpus[:, column]
    if not len(shares):
        return None
    return CpuShares(least=float(shares.min()), largest=float(shares.max()), cpus=len(shares))


def _range(shares: Sequence[float]) -> tuple[float, float] | None:
    return (min(shares), max(shares)) if shares else None


def _range_of_column(nodes: Iterable[Floats], column: int) -> tuple[float, float] | None:
    return _range([float(shares[column]) for shares in nodes])


def _classes(found: PointComparison, weights: Weights, prefix: str) -> Iterator[ProfileClassRow]:
    count = len(found.classes)
    nodes = weights.map(
        lambda runs: class_spread(runs, found.places, found.class_of_place, count).values()
    )
    for number, name in enumerate(found.classes):
        ranges = nodes.map(partial(_range_of_column, column=number))
        yield ProfileClassRow(
            row=f"{prefix}class:{name}",
            class_=name,
            share=_tested(found.class_share, number),
            changed=bool(found.is_class_changed[number]),
            cost=None if found.costs is None else _tested(found.costs.by_class, number),
            base_range=ranges.base,
            new_range=ranges.new,
            functions=tuple(
                MovedFunction(
                    symbol=found.places[moving].symbol,
                    change=float(found.share.difference[moving]),
                )
                for moving in _moving_places(found, number)
            ),
        )


def _explained(found: PointComparison, clock: str | None) -> ExplainedChange | None:
    explained = explain_change(found)
    if explained is None:
        return None
    is_equal = is_busy_equal(found) if clock == "hrtimer" else None
    return ExplainedChange(
        symbols=tuple(place.symbol for place in explained.places),
        change=explained.change,
        part=explained.part.value,
        ci_low=explained.part.ci_low,
        ci_high=explained.part.ci_high,
        reason=explained.part.reason,
        busy_equal=is_equal,
        busy_reason=_busy_reason(clock, is_equal=is_equal),
    )


def _busy_reason(clock: str | None, *, is_equal: bool | None) -> str:
    if clock != "hrtimer":
        return (
            "the event stops while a CPU is halted, so a change of the busy share of the time "
            "is unknown"
        )
    if is_equal is None:
        return "needs two runs per side to say whether the busy part of the time stayed"
    if is_equal:
        return f"the busy share of the time is unchanged within {100.0 * MARGIN:g}%"
    return f"the busy share of the time may have changed by more than {100.0 * MARGIN:g}%"


def _choose_places(found: PointComparison) -> list[int]:
    """Return the places to show: what changed, largest first, then what is hot or moved most.

    Everything that changed is among them, and every function of the scheduler.
    """
    base, new = found.share.base, found.share.new
    interest = np.maximum(base, new) + np.abs(new - base)
    ranked = sorted(
        range(len(found.places)), key=lambda place: (-interest[place], found.places[place])
    )
    chosen = [
        place
        for rank, place in enumerate(ranked)
        if rank < MOST_PLACES
        or found.is_changed[place]
        or is_scheduler_function(found.places[place])
    ]
    change = np.where(found.is_changed, -np.abs(found.share.difference), 0.0)
    return sorted(chosen, key=lambda place: float(change[place]))


def _moving_places(found: PointComparison, number: int) -> list[int]:
    """Return the places that moved a class most, not those that moved against it.

    :param number: index into ``found.classes``
    """
    members = np.flatnonzero(found.class_of_place == number)
    along = found.share.difference[members] * np.sign(found.class_share.difference[number])
    order = np.argsort(-along, kind="stable")[:_MOST_FUNCTIONS]
    return [int(members[place]) for place in order if along[place] > 0.0]
