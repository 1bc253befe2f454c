# SPDX-License-Identifier: GPL-2.0-or-later
"""Compute the values of one run: counts to divide by time and operations, shares, means, quantiles.

Quantiles of waits are interpolated in bins of powers of two.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from schedperf.evidence.placement.capture import (
    Attempts,
    Balance,
    Latency,
    Move,
    PlacementCapture,
    Timer,
)
from schedperf.evidence.placement.record import Idle, Part
from schedperf.stats.counted.circular import direction_of_bins, distance, mean_direction

NS_PER_S = 1e9
# Timers with a lower mean resultant length have no constant phase. 0.9 is a circular standard
# deviation, sqrt(-2 ln R), of 7% of the period.
CONCENTRATED = 0.9
# The number of pairs grows quadratically, so only the first groups by name are compared.
MOST_GROUPS = 8
_QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
# Fewest events beyond a quantile.
FEWEST_BEYOND = 1.0


class Key(Struct, frozen=True, kw_only=True):
    """Identity of one number of a run.

    :param field: a field of :mod:`schedperf.evidence.placement.fields`
    :param cause: cause of a migration, or "fork" or "other" for a destination; "" for all, or if
        not applicable
    :param level: level of the scheduling domains; "" for all, or if not applicable
    :param idle: "idle", "busy" or "newidle"; "" if not applicable
    :param nodes: the node, or source and destination node; empty for all
    :param groups: cgroups, by path
    :param types: the type of CPU core, or source and destination type; empty for all
    """

    part: Part
    field: str
    cause: str = ""
    level: str = ""
    idle: Literal["", Idle] = ""
    nodes: tuple[int, ...] = ()
    groups: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


class Quotient(NamedTuple):
    """A share, a mean, a quantile or a maximum.

    :param unit: "s", "task", "level", or "" for a fraction
    :param events: number of underlying events
    """

    value: float
    unit: str
    events: float


Amounts = dict[Key, float]
Quotients = dict[Key, Quotient]


def has_nodes(capture: PlacementCapture) -> bool:
    """Return whether the machine has several nodes."""
    return len(set(capture.nodes.values())) > 1 or any(move.is_crossing for move in capture.moves)


def amounts_of(capture: PlacementCapture) -> Amounts:
    """Return the counts of a run; counts that were not measured are left out."""
    amounts: Amounts = {}
    is_numa = has_nodes(capture)
    for move in capture.moves:
        for key in _keys_of_move(move, is_numa=is_numa):
            _add(amounts, key, move.count)
        for key in _crossings_of(move) if is_numa else ():
            _add(amounts, key, move.count if move.is_crossing else 0)
    _add_balance(amounts, capture.answers, is_numa=is_numa)
    for timer in capture.timers:
        _add(amounts, Key(part="timers", field="expiries", groups=(timer.group,)), timer.expiries)
        _add(amounts, Key(part="timers", field="overruns", groups=(timer.group,)), timer.overruns)
    return amounts


def _add(amounts: Amounts, key: Key, count: int) -> None:
    amounts[key] = amounts.get(key, 0.0) + count


def _keys_of_move(move: Move, *, is_numa: bool) -> Iterator[Key]:
    yield Key(part=move.event, field="count")
    yield Key(part=move.event, field="count", level=move.level)
    if is_numa:
        yield Key(part=move.event, field="count", nodes=(move.from_node, move.to_node))
    if move.from_type is not None and move.to_type is not None:
        yield Key(part=move.event, field="count", types=(move.from_type, move.to_type))
        yield Key(part=move.event, field="onto_type", types=(move.to_type,))
    if move.event == "migration" and move.cause is not None:
        yield Key(part="cause", field="count", cause=move.cause)
        yield Key(part="cause", field="count", cause=move.cause, level=move.level)
        if move.from_type is not None and move.to_type is not None:
            types = move.from_type, move.to_type
            yield Key(part="cause", field="count", cause=move.cause, types=types)


def _crossings_of(move: Move) -> Iterator[Key]:
    yield Key(part=move.event, field="crossing")
    if move.event == "migration" and move.cause is not None:
        yield Key(part="cause", field="crossing", cause=move.cause)


def _add_balance(amounts: Amounts, balance: Balance, *, is_numa: bool) -> None:
    for asked in balance.destination or ():
        cause = "fork" if asked.fork else "other"
        for nodes in ((), (asked.from_node,)) if is_numa else ((),):
            key = Key(
                part="destination", field="count", cause=cause, level=asked.level, nodes=nodes
            )
            _add(amounts, key, asked.count)
            if asked.to_node not in (None, asked.from_node):
                _add(amounts, replace(key, field="remote"), asked.count)
            if asked.imbalanced is not None:
                _add(amounts, replace(key, field="imbalanced"), asked.imbalanced)
    for source in balance.source or ():
        key = Key(part="source", field="count", level=source.level, idle=source.idle)
        _add(amounts, key, source.count)
        _add(amounts, replace(key, field="found"), source.count if source.answer == "found" else 0)
    for tried in balance.attempts or ():
        _add_attempts(amounts, tried, knows_pinned=balance.migratable is not None)
    for looked in balance.migratable or ():
        key = Key(part="migratable", field="count", level=looked.level, idle=looked.idle)
        _add(amounts, key, looked.count)
        _add(amounts, replace(key, field="refused"), 0 if looked.answer else looked.count)
        _add(amounts, replace(key, field="some_pinned"), looked.some_pinned)
    for seen in balance.group_imbalance or ():
        for level in (seen.level, ""):
            _add(amounts, Key(part="group_imbalance", field="count", level=level), seen.count)


def _add_attempts(amounts: Amounts, tried: Attempts, *, knows_pinned: bool) -> None:
    # By level and idle type, and in total.
    whole = Key(part="attempts", field="count")
    for key in (replace(whole, level=tried.level, idle=tried.idle), whole):
        _add(amounts, key, tried.count)
        _add(amounts, replace(key, field="pulled"), tried.pulled)
        # Without can_migrate_task(), both would be 0 although they were not measured.
        for field in ("some_pinned", "all_pinned") if knows_pinned else ():
            _add(amounts, replace(key, part="pinned", field=field), getattr(tried, field))


def quotients_of(capture: PlacementCapture, amounts: Amounts) -> Quotients:
    """Return the shares, means, quantiles and maxima of a run, except those without events.

    :param amounts: counts of the run, including measured zeros
    """
    return {
        **_shares(amounts),
        **_waits(capture.latency),
        **_depths(capture),
        **_phases(capture.timers),
    }


def _shares(amounts: Amounts) -> Quotients:
    from_place: dict[Key, float] = {}
    for key, count in amounts.items():
        if _is_pair(key):
            whole = _from_place(key)
            from_place[whole] = from_place.get(whole, 0.0) + count
    quotients: Quotients = {}
    for key, count in amounts.items():
        under = _divisor(key, amounts, from_place)
        if under:
            quotients[key] = Quotient(count / under, "" if key.field != "pulled" else "task", under)
    return quotients


def _is_pair(key: Key) -> bool:
    return len(("from", "to")) in (len(key.nodes), len(key.types))


def _from_place(key: Key) -> Key:
    # All moves from the node, or from the type of core.
    return replace(key, field="count", nodes=key.nodes[:1], types=key.types[:1])


def _divisor(key: Key, amounts: Amounts, from_place: Amounts) -> float | None:
    if key.part == "timers":
        return None
    if key.part == "pinned":
        return amounts.get(replace(key, part="attempts", field="count"))
    if key.field != "count":
        return amounts.get(replace(key, field="count", types=()))
    if len({*key.nodes, *key.types}) == len(("from", "to")):
        return from_place[_from_place(key)]
    if key.part == "group_imbalance":
        return sum(
            count
            for total_key, count in amounts.items()
            if (total_key.part, total_key.field, total_key.level)
            == ("attempts", "count", key.level)
        )
    return None


def _waits(latency: Sequence[Latency]) -> Quotients:
    quotients: Quotients = {}
    for (nodes, types), waits in _by_place(latency).items():
        events = sum(wait.count for wait in waits)
        if not events:
            continue
        largest = float(max(wait.max_ns for wait in waits))
        log2 = [sum(counts) for counts in zip(*(wait.log2_ns for wait in waits), strict=True)]
        values: dict[str, float | None] = {
            "mean": sum(wait.sum_ns for wait in waits) / events,
            **{name: quantile_of(log2, share, largest) for name, share in _QUANTILES.items()},
            "max": largest,
        }
        for field, value in values.items():
            if value is not None:
                key = Key(part="latency", field=field, nodes=nodes, types=types)
                quotients[key] = Quotient(value / NS_PER_S, "s", events)
    return quotients


def _by_place(
    latency: Sequence[Latency],
) -> dict[tuple[tuple[int, ...], tuple[str, ...]], list[Latency]]:
    """Return the waits of the machine, and of each node and type of core if there are several."""
    by_place: dict[tuple[tuple[int, ...], tuple[str, ...]], list[Latency]] = {
        ((), ()): list(latency)
    }
    for wait in latency if len({wait.node for wait in latency}) > 1 else ():
        by_place.setdefault(((wait.node,), ()), []).append(wait)
    for wait in latency:
        if wait.core_type is not None:
            by_place.setdefault(((), (wait.core_type,)), []).append(wait)
    return by_place


def _depths(capture: PlacementCapture) -> Quotients:
    switches = sum(row.switches for row in capture.depth)
    if not switches:
        return {}
    mean = sum(row.depth * row.switches for row in capture.depth) / switches
    return {Key(part="depth", field="mean"): Quotient(mean, "level", switches)}


class Phase(NamedTuple):
    """Phase of a group's timer.

    :param part: mean phase as a fraction of the period
    :param concentration: mean resultant length of its expiries
    """

    group: str
    period_s: float
    expiries: int
    part: float
    concentration: float


def phases_of(timers: Sequence[Timer]) -> list[Phase]:
    """Return the phases of the first ``MOST_GROUPS`` groups' timers, in the order of their names.

    Of several timers with one name, the busiest is used. Timers that never expired are left out.
    """
    busiest: dict[str, Timer] = {}
    for timer in sorted(timers, key=lambda candidate: (candidate.group, sum(candidate.phases))):
        busiest[timer.group] = timer
    phases: list[Phase] = []
    for group, timer in busiest.items():
        direction = direction_of_bins(timer.phases)
        if direction is not None:
            phases.append(
                Phase(
                    group=group,
                    period_s=timer.period_ns / NS_PER_S,
                    expiries=sum(timer.phases),
                    part=direction.part,
                    concentration=direction.length,
                )
            )
    return phases[:MOST_GROUPS]


def _phases(timers: Sequence[Timer]) -> Quotients:
    phases = phases_of(timers)
    quotients: Quotients = {
        Key(part="timers", field="concentration", groups=(phase.group,)): Quotient(
            phase.concentration, "", phase.expiries
        )
        for phase in phases
    }
    for first, second in concurrent_pairs(phases):
        key = Key(part="timers", field="distance", groups=(first.group, second.group))
        apart = distance(first.part, second.part) * first.period_s
        quotients[key] = Quotient(apart, "s", min(first.expiries, second.expiries))
    steady = [phase for phase in phases if phase.concentration >= CONCENTRATED]
    together = mean_direction(phase.part for phase in steady)
    if together and len(steady) > 1 and len({phase.period_s for phase in steady}) == 1:
        events = min(phase.expiries for phase in steady)
        key = Key(part="timers", field="alignment")
        quotients[key] = Quotient(together.length, "", events)
    return quotients


def concurrent_pairs(phases: Sequence[Phase]) -> Iterator[tuple[Phase, Phase]]:
    """Yield the pairs of groups with the same period and constant phases."""
    for first, second in combinations(phases, 2):
        is_steady = min(first.concentration, second.concentration) >= CONCENTRATED
        if is_steady and first.period_s == second.period_s:
            yield first, second


def quantile_of(log2: Sequence[int], share: float, largest: float) -> float | None:
    """Return a quantile of the times; None if there are too few events.

    Events are assumed to be spread evenly over the logarithm of time within a bin. Bin 0, which
    also counts 0 ns, begins at 1; the highest non-empty bin ends at the longest time.

    >>> quantile_of([0, 0, 10, 80, 10], 0.1, largest=20.0)
    8.0

    :param log2: shape (bins,); bin i counts 2^i <= time < 2^(i+1), the last bin also longer times
    :param largest: the longest time
    """
    total = sum(log2)
    if total * (1.0 - share) < FEWEST_BEYOND:
        return None
    rank = share * total
    highest = math.log2(max(largest, 1.0))
    last = max(index for index, count in enumerate(log2) if count)
    for index, (count, end) in enumerate(zip(log2, itertools.accumulate(log2), strict=True)):
        if count and end >= rank:
            top = index + 1.0 if index < last else max(highest, float(index))
            inside = (rank - (end - count)) / count
            return math.exp2(index + inside * (top - index))
    return None
