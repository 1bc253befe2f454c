# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the runs of one point of the profile section and build its record."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from schedperf.evidence.profile.alignment import Alignment, align
from schedperf.evidence.profile.attribution import ALL_TASKS
from schedperf.evidence.profile.compare import (
    PointComparison,
    compare_point,
    explain_change,
)
from schedperf.evidence.profile.family import MOST_FUNCTIONS, MOST_PLACES, interest_of
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
from schedperf.inputs.perf_data.losses import NO_LOSSES, EventLosses, loss_caveat
from schedperf.inputs.symbols.functions import SharedNames, is_scheduler_function
from schedperf.model.base_new import BaseNew
from schedperf.model.place import KERNEL, OTHER_LOAD, ShownNames
from schedperf.model.run import Captured, Operations
from schedperf.model.verdict import FALSE_DISCOVERY_RATE
from schedperf.stats import Columns, Difference

Runs = Sequence[Captured[EventProfile]]
Weights = BaseNew[list[PlaceWeights]]


def compare_runs(
    base: Runs, new: Runs, prefix: str, names: SharedNames, *, took_turns: bool
) -> ProfilePoint:
    """Compare the runs of one event at one point.

    :param prefix: prefix of the row ids
    :param names: names under which functions are compared
    :param took_turns: false if drift may confound the comparison
    """
    alignment = align(
        [run.content.names for run in base], [run.content.names for run in new], names
    )
    sides = BaseNew(base=base, new=new).map(lambda runs: _aligned(runs, alignment))
    units = {run.ops.unit for runs in sides for run in runs if run.ops is not None}
    if len(units) > 1:
        sides = sides.map(_without_operations)
    weights = sides.map(_weights_of)
    comparison = compare_point(
        [run.having(run.content.weights) for run in sides.base],
        [run.having(run.content.weights) for run in sides.new],
        sees_kernel=all(run.content.sight.blind is False for runs in sides for run in runs),
    )
    others = sides.map(lambda runs: describe_others([run.content.others for run in runs]))
    is_attributed = all(run.content.is_attributed for runs in sides for run in runs)
    costs = _costs(sides, comparison, units)
    shown = ShownNames(comparison.places[number] for number in _choose_places(comparison))
    return ProfilePoint(
        workload=base[0].key.workload,
        point=base[0].key.point,
        runs=sides.map(len),
        independent=comparison.independent,
        took_turns=took_turns,
        cautions=_cautions(others, alignment, took_turns=took_turns, is_attributed=is_attributed),
        others=others,
        samples=weights.map(_count_samples),
        lost=sides.map(lambda runs: _lost(runs).records),
        lost_samples=sides.map(lambda runs: _lost(runs).samples),
        throttled=sides.map(lambda runs: _lost(runs).throttled),
        losses=sides.map(_describe_losses),
        busy=_busy(comparison),
        operations=costs.operations,
        cost_unit=costs.unit,
        cost_reason=costs.reason,
        busy_cost=costs.busy,
        rows=tuple(_rows(comparison, weights, prefix, names, shown)),
        classes=tuple(_classes(comparison, weights, prefix, shown)),
        explained=_explained(comparison, shown),
        symbols=len(comparison.places),
    )


def _cautions(
    others: BaseNew[OtherCommands | None],
    alignment: Alignment,
    *,
    took_turns: bool,
    is_attributed: bool,
) -> tuple[str, ...]:
    caution = caution_of(others)
    return (
        *([] if took_turns else [ONE_AFTER_THE_OTHER]),
        *([] if is_attributed else [ALL_TASKS]),
        *([] if caution is None else [caution]),
        *alignment.notes,
    )


def _weights_of(runs: Runs) -> list[PlaceWeights]:
    return [run.content.weights for run in runs]


def _count_samples(weights: Sequence[PlaceWeights]) -> int:
    return sum(run.samples for run in weights)


def _lost(runs: Runs) -> EventLosses:
    return sum((run.content.lost for run in runs), NO_LOSSES)


def _describe_losses(runs: Runs) -> str | None:
    return loss_caveat(_count_samples(_weights_of(runs)), _lost(runs))


def _change(base: float, new: float, difference: Difference) -> ProfileChange:
    # A side without runs is not compared.
    assert difference.difference is not None
    return ProfileChange(
        base=base,
        new=new,
        change=difference.difference,
        ci_low=difference.ci_low,
        ci_high=difference.ci_high,
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


def _busy(comparison: PointComparison) -> ProfileChange:
    base, new = (
        float(means[~comparison.is_idle].sum())
        for means in (comparison.share.base, comparison.share.new)
    )
    return _change(base, new, comparison.busy)


def _aligned(runs: Runs, alignment: Alignment) -> Runs:
    return [
        run.having(replace(run.content, weights=align_weights(run.content.weights, alignment)))
        for run in runs
    ]


def _without_operations(runs: Runs) -> Runs:
    # Operations with different units are not comparable.
    return [replace(run, ops=None) for run in runs]


class _Costs(Struct, frozen=True, kw_only=True):
    # The costs per operation of a point, or the reason why there are none.
    operations: ProfileOperations | None = None
    unit: str | None = None
    reason: str | None = None
    busy: ProfileChange | None = None


def _costs(sides: BaseNew[Runs], comparison: PointComparison, units: set[str]) -> _Costs:
    costs = comparison.costs
    if len(units) > 1:
        return _Costs(
            reason=f"the runs report operations in different units: {', '.join(sorted(units))}"
        )
    if costs is None:
        return _Costs(
            reason="a run printed no operation count, so the cost per operation is unknown"
        )
    (unit,) = units
    counted = sides.map(_operations_of)
    base, new = (float(side.mean()) for side in costs.busy)
    return _Costs(
        operations=ProfileOperations(
            unit=unit,
            exact=all(ops.exact for runs in counted for ops in runs),
            base=fmean(ops.count for ops in counted.base),
            new=fmean(ops.count for ops in counted.new),
        ),
        unit=f"{sides.base[0].content.sight.unit} per {unit}",
        busy=_change(base, new, costs.busy_change),
    )


def _operations_of(runs: Runs) -> list[Operations]:
    return [run.ops for run in runs if run.ops is not None]


def _rows(
    comparison: PointComparison,
    weights: Weights,
    prefix: str,
    names: SharedNames,
    shown: ShownNames,
) -> Iterator[ProfileRow]:
    chosen = _choose_places(comparison)
    places = [comparison.places[number] for number in chosen]
    spreads = weights.map(lambda runs: spread_of(runs, places))
    by_node = spreads.map(lambda spread: spread.nodes)
    only = one_node_only(weights.base, weights.new, places)
    for column, number in enumerate(chosen):
        location = comparison.places[number]
        nodes = by_node.map(partial(_shares_of_nodes, column=column))
        cpus = spreads.map(partial(_shares_of_cpus, column=column))
        yield ProfileRow(
            row=f"{prefix}{location.symbol}"
            + ("" if location in (OTHER_LOAD, (location.symbol, KERNEL)) else f" {location.dso}"),
            symbol=location.symbol,
            name=shown.of(location),
            base_symbol=names.base_name(location),
            dso=location.dso,
            class_=_class_of(comparison, number),
            scheduler=is_scheduler_function(location),
            idle=bool(comparison.is_idle[number]),
            share=_tested(comparison.share, number),
            changed=bool(comparison.is_changed[number]),
            cost=None if comparison.costs is None else _tested(comparison.costs.by_place, number),
            base_nodes=nodes.base,
            new_nodes=nodes.new,
            base_range=_range(list(nodes.base.values())),
            new_range=_range(list(nodes.new.values())),
            one_node=only[column] if comparison.is_changed[number] else None,
            base_cpus=cpus.base,
            new_cpus=cpus.new,
        )


def _class_of(comparison: PointComparison, number: int) -> str | None:
    own = int(comparison.class_of_place[number])
    return None if own < 0 else comparison.classes[own]


def _shares_of_nodes(nodes: Mapping[int, Floats], column: int) -> Shares:
    return {node: float(shares[column]) for node, shares in nodes.items()}


def _shares_of_cpus(spread: Spread, column: int) -> CpuShares | None:
    shares = spread.cpus[:, column]
    if not len(shares):
        return None
    return CpuShares(least=float(shares.min()), largest=float(shares.max()), cpus=len(shares))


def _range(shares: Sequence[float]) -> tuple[float, float] | None:
    return (min(shares), max(shares)) if shares else None


def _classes(
    comparison: PointComparison, weights: Weights, prefix: str, shown: ShownNames
) -> Iterator[ProfileClassRow]:
    count = len(comparison.classes)
    spreads = weights.map(
        lambda runs: class_spread(runs, comparison.places, comparison.class_of_place, count)
    )
    for number, name in enumerate(comparison.classes):
        nodes = spreads.map(partial(_shares_of_nodes, column=number))
        yield ProfileClassRow(
            row=f"{prefix}class:{name}",
            class_=name,
            share=_tested(comparison.class_share, number),
            changed=bool(comparison.is_class_changed[number]),
            cost=None if comparison.costs is None else _tested(comparison.costs.by_class, number),
            base_nodes=nodes.base,
            new_nodes=nodes.new,
            base_range=_range(list(nodes.base.values())),
            new_range=_range(list(nodes.new.values())),
            functions=tuple(
                MovedFunction(
                    symbol=comparison.places[moving].symbol,
                    name=shown.of(comparison.places[moving]),
                    change=float(comparison.share.difference[moving]),
                )
                for moving in _moving_places(comparison, number)
            ),
        )


def _explained(comparison: PointComparison, shown: ShownNames) -> ExplainedChange | None:
    explained = explain_change(comparison)
    if explained is None:
        return None
    return ExplainedChange(
        symbols=tuple(location.symbol for location in explained.places),
        names=tuple(map(shown.of, explained.places)),
        change=explained.change,
        part=explained.part.value,
        ci_low=explained.part.ci_low,
        ci_high=explained.part.ci_high,
        reason=explained.part.reason,
    )


def _choose_places(comparison: PointComparison) -> list[int]:
    """Return the indices of the places to show, into ``comparison.places``.

    Changed places come first, largest change first, then hot or most-moved ones. All changed places
    are included, all functions of the scheduler, and all places that class rows and findings name.
    """
    named = set(_named_places(comparison))
    base, new = comparison.share.base, comparison.share.new
    interest = interest_of(base, new)
    ranked = sorted(
        range(len(comparison.places)),
        key=lambda index: (-interest[index], comparison.places[index]),
    )
    chosen = [
        index
        for rank, index in enumerate(ranked)
        if rank < MOST_PLACES
        or comparison.is_changed[index]
        or is_scheduler_function(comparison.places[index])
        or index in named
    ]
    change = np.where(comparison.is_changed, -np.abs(comparison.share.difference), 0.0)
    return sorted(chosen, key=lambda index: float(change[index]))


def _named_places(comparison: PointComparison) -> Iterator[int]:
    for number in range(len(comparison.classes)):
        yield from _moving_places(comparison, number)
    if comparison.costs is not None:
        yield from np.flatnonzero(comparison.costs.by_place.q < FALSE_DISCOVERY_RATE).tolist()


def _moving_places(comparison: PointComparison, number: int) -> list[int]:
    """Return the indices of the places that contributed most to the change of a class.

    These are at most ``MOST_FUNCTIONS`` places whose share changed in the direction of the class,
    largest change first.

    :param number: index into ``comparison.classes``
    """
    members = np.flatnonzero(comparison.class_of_place == number)
    along = comparison.share.difference[members] * np.sign(
        comparison.class_share.difference[number]
    )
    order = np.argsort(-along, kind="stable")[:MOST_FUNCTIONS]
    return [int(members[index]) for index in order if along[index] > 0.0]
